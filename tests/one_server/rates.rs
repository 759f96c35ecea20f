//! Starts under a rate: never more of them in any time of its length, in turn, whatever becomes of the
//! callers; on `memory://`, on a server and in a Cluster alike.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    Job, LIMIT, Proxy, Quorum, RedisServer, SECOND, Worker, connect, eventually, runtime, say, unique,
};
use redlocked::{LockError, LockManager, LockRequest, LostReason, OnLost, ReleaseOutcome, distributed_lock};
use tokio::sync::oneshot;

use crate::sharing::{on_each, on_each_with_a_queue};

/// So much later may a test read its clock than the body has started.
const READ_LATE: Duration = Duration::from_millis(150);

/// The first that starts too soon behind the one that is `starts` before it.
fn too_soon(mut begins: Vec<Instant>, starts: usize, per: Duration) -> Option<Duration> {
    begins.sort();
    let behind = begins.iter().zip(begins.iter().skip(starts)).map(|(first, next)| *next - *first);
    behind.min().filter(|after| *after + READ_LATE < per)
}

async fn polled<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}

#[test]
fn no_more_bodies_start_in_any_time_than_the_rate_allows() {
    const PER: Duration = Duration::from_millis(600);
    on_each(|store| {
        for starts in [1, 3] {
            let managers = [store.manager(), store.manager()];
            let key = format!("rate{starts}");
            let begins = Arc::new(Mutex::new(Vec::new()));
            runtime().block_on(async {
                let calls: Vec<_> = (0..=3 * starts)
                    .map(|number| {
                        let request = managers[number % 2].lock(&key).rate(starts as u32, PER).wait(LIMIT);
                        let begins = Arc::clone(&begins);
                        tokio::spawn(request.run_fn(async move |_| {
                            begins.lock().unwrap().push(Instant::now());
                            Ok::<_, LockError>(())
                        }))
                    })
                    .collect();
                for call in calls {
                    call.await.unwrap().unwrap();
                }
            });
            let begins = begins.lock().unwrap().clone();
            assert_eq!(begins.len(), 3 * starts + 1);
            assert_eq!(too_soon(begins, starts, PER), None, "{starts}");
        }
    });
}

#[test]
fn callers_of_several_processes_start_in_the_order_in_which_they_came() {
    const PER: Duration = Duration::from_millis(300);
    on_each_with_a_queue(|store| {
        for starts in [1_u32, 2] {
            let managers = [store.manager(), store.manager()];
            let key = format!("order{starts}");
            let request = |locks: &LockManager| locks.lock(&key).rate(starts, PER).wait(LIMIT);
            runtime().block_on(async {
                for _ in 0..starts {
                    request(&managers[0]).run_value(async |_| ()).await.unwrap();
                }
                let order = Arc::new(Mutex::new(Vec::new()));
                let mut calls = Vec::new();
                for number in 0..6_u32 {
                    let (request, told) = (request(&managers[number as usize % 2]), Arc::clone(&order));
                    calls.push(tokio::spawn(
                        request.run_value(async move |_| told.lock().unwrap().push(number)),
                    ));
                    // Each has its place before the next one asks.
                    let has_come = async || {
                        let waits = managers[0].inspect(&key).await.unwrap().map_or(0, |info| info.waiters());
                        waits + order.lock().unwrap().len() as u32 > number
                    };
                    while !has_come().await {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                for call in calls {
                    call.await.unwrap().unwrap();
                }
                let order = order.lock().unwrap().clone();
                if starts == 1 {
                    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
                }
                // Two that are let in together say so in any order.
                let pairs: Vec<BTreeSet<u32>> =
                    order.chunks(starts as usize).map(|pair| pair.iter().copied().collect()).collect();
                let expected: Vec<BTreeSet<u32>> =
                    (0..6 / starts).map(|pair| (pair * starts..(pair + 1) * starts).collect()).collect();
                assert_eq!(pairs, expected, "{order:?}");
            });
        }
    });
}

#[test]
fn a_refused_call_says_when_the_next_start_is_free() {
    const MINUTE: Duration = Duration::from_secs(60);
    on_each(|store| {
        let locks = store.manager();
        for starts in [1, 2] {
            let key = format!("mail{starts}");
            let request = || locks.lock(&key).rate(starts, MINUTE);
            for _ in 0..starts {
                request().run_value_blocking(|_| ()).unwrap();
            }
            // The server may not know yet when the start was.
            eventually("the next one is free after a minute", || {
                let busy = request().acquire_blocking().unwrap_err();
                assert!(matches!(busy, LockError::Busy { .. }), "{busy}");
                let after = busy.retry_after().unwrap();
                assert!(after > 55 * SECOND, "{after:?}");
                after <= MINUTE
            });
            let had = if starts == 1 { "its start" } else { "its 2 starts" };
            let text = request().acquire_blocking().unwrap_err().to_string();
            assert!(
                text.starts_with(&format!("`{key}` has had {had} in 1 min 0 s: the next one is free in ")),
                "{text}"
            );
            let late = request().wait(SECOND / 10).acquire_blocking().unwrap_err();
            assert!(matches!(late, LockError::TimedOut { .. }), "{late}");
            let text = late.to_string();
            assert!(
                text.contains(&format!("waiting for `{key}`, which has had {had} in 1 min 0 s")),
                "{text}"
            );
            assert!(late.retry_after().unwrap() > 55 * SECOND);
        }
    });
}

#[test]
fn a_body_that_fails_panics_or_is_dropped_gives_no_start_back() {
    const MINUTE: Duration = Duration::from_secs(60);
    on_each(|store| {
        let locks = store.manager();
        let request = || locks.lock("k").rate(3, MINUTE);
        runtime().block_on(async {
            let failed = request().run(async |_| Err::<(), _>(LockError::NotLocked)).await;
            assert_eq!(failed, Err(LockError::NotLocked));
            let (begins, has_begun) = oneshot::channel();
            let mut pending = Box::pin(request().run_value(async move |_| {
                begins.send(()).unwrap();
                std::future::pending::<()>().await;
            }));
            tokio::select! {
                _ = &mut pending => panic!("its body does not end"),
                begun = has_begun => begun.unwrap(),
            }
            drop(pending);
            let panics =
                tokio::spawn(request().run_fn(async |_| -> Result<(), LockError> { panic!("as it should") }));
            assert!(panics.await.unwrap_err().is_panic());
            assert!(request().acquire().await.unwrap_err().is_busy());
        });
    });
}

#[test]
fn nothing_is_held_while_the_body_runs() {
    const PER: Duration = Duration::from_millis(200);
    on_each(|store| {
        let locks = store.manager();
        let request = || locks.lock("k").rate(1, PER).wait(LIMIT);
        let begin = Instant::now();
        runtime().block_on(async {
            locks
                .lock("outer")
                .run(async |outer| {
                    request()
                        .run(async |first| {
                            assert!(!first.is_held());
                            assert_eq!((first.key(), first.lost_reason()), ("k", Some(LostReason::Started)));
                            // It waits for no other start than its own, and is under the outer lock alone.
                            assert_eq!(redlocked::current()?.key(), outer.key());
                            request().run_value(async |_| ()).await?;
                            request().run_value(async |_| ()).await
                        })
                        .await?;
                    Ok::<_, LockError>(())
                })
                .await
                .unwrap();
        });
        assert!(begin.elapsed() >= 2 * PER, "{:?}", begin.elapsed());
        let guard = request().acquire_blocking().unwrap();
        assert!(guard.ensure_held().is_err_and(|error| error.to_string().contains("nothing is held")));
        assert!(guard.extend_blocking(SECOND).is_err() && guard.remaining().is_zero());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        drop(request().acquire_blocking().unwrap());
        let ticket = request().acquire_blocking().unwrap().into_ticket_blocking(SECOND);
        assert!(matches!(ticket, Err(LockError::Lost { .. })), "{ticket:?}");
    });
}

/// The task of its caller goes on later than the server has counted the start.
#[test]
fn a_start_counts_from_the_begin_of_the_body_however_late_that_is() {
    const PER: Duration = Duration::from_millis(600);
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        runtime().block_on(async {
            for starts in [1, 2] {
                let key = format!("late{starts}");
                for _ in 1..starts {
                    there.lock(&key).rate(starts, 60 * SECOND).run_value(async |_| ()).await.unwrap();
                }
                let request = |locks: &LockManager| locks.lock(&key).rate(starts, PER).wait(LIMIT);
                let mut first = Box::pin(request(&here).acquire());
                let at_once = polled(&mut first).await;
                tokio::time::sleep(PER / 2).await;
                let is_late = at_once.is_pending();
                let begins = Instant::now();
                match at_once {
                    Poll::Ready(guard) => drop(guard.unwrap()),
                    Poll::Pending => drop(first.await.unwrap()),
                }
                drop(request(&there).acquire().await.unwrap());
                let after = begins.elapsed();
                assert!(!is_late || after >= PER, "{starts}: {after:?}");

                // Nothing of its process runs for longer than an answer may take.
                let key = format!("frozen{starts}");
                let request = |locks: &LockManager| locks.lock(&key).rate(1, PER);
                let mut frozen = Box::pin(request(&here).acquire());
                let at_once = polled(&mut frozen).await;
                let is_late = at_once.is_pending();
                thread::sleep(2 * SECOND);
                let outcome = match at_once {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => frozen.await,
                };
                let begins = Instant::now();
                match outcome {
                    Ok(_) => {
                        drop(request(&there).wait(LIMIT).acquire().await.unwrap());
                        assert!(!is_late || begins.elapsed() + READ_LATE >= PER, "{:?}", begins.elapsed());
                    }
                    Err(error) => assert!(matches!(error, LockError::Unavailable { .. }), "{error}"),
                }
            }
        });
    });
}

/// It starts, and dies.
#[test]
#[ignore = "runs in a worker process"]
fn dies_at_its_start() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let locks = LockManager::connect_blocking(&job.url).unwrap();
    let [starts, per] = [0, 1].map(|at| job.numbers[at]);
    let request = locks.lock("k").rate(u32::try_from(starts).unwrap(), Duration::from_millis(per));
    let _guard = request.wait(LIMIT).acquire_blocking().unwrap();
    say("begins", &[]);
    std::process::abort();
}

#[test]
fn no_more_start_than_the_rate_allows_although_their_processes_die() {
    const PER: Duration = Duration::from_secs(2);
    for starts in [1, 2] {
        let server = RedisServer::start();
        let numbers = [starts, u64::try_from(PER.as_millis()).unwrap()];
        let begins: Vec<_> = (0..=starts)
            .map(|_| {
                let dies = Worker::start("rates::dies_at_its_start", "dies", &server.url(), &numbers);
                thread::spawn(move || {
                    dies.says("begins");
                    Instant::now()
                })
            })
            .collect();
        let mut begins: Vec<_> = begins.into_iter().map(|begins| begins.join().unwrap()).collect();
        begins.sort();
        let after = begins[begins.len() - 1] - begins[0];
        assert_eq!(too_soon(begins, starts as usize, PER), None);
        assert!(after < PER + 8 * SECOND, "{after:?}");
    }
}

#[test]
fn a_start_that_is_sent_twice_counts_once() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    let other = connect(&server);
    for starts in [1, 2] {
        let key = format!("twice{starts}");
        for _ in 1..starts {
            other.lock(&key).rate(starts, 60 * SECOND).run_value_blocking(|_| ()).unwrap();
        }
        proxy.hold_replies(true);
        thread::scope(|scope| {
            // One that was counted twice would wait for a minute.
            let call = scope
                .spawn(|| locks.lock(&key).rate(starts, 60 * SECOND).wait(LIMIT).run_value_blocking(|_| ()));
            eventually("the server has counted it", || match starts {
                1 => server.run::<u32>(&format!("EXISTS lock:{key}")) == 1,
                _ => server.run::<u32>(&format!("ZCARD lock:{key}%queue%holders")) == starts,
            });
            proxy.hold_replies(false);
            proxy.cut();
            call.join().unwrap().unwrap();
        });
        assert!(other.lock(&key).rate(starts, 60 * SECOND).acquire_blocking().unwrap_err().is_busy());
    }
}

/// A waiter whose process is frozen delays those behind it by no more than the second in which a place
/// must be taken.
#[test]
#[cfg(unix)]
fn a_waiter_that_is_frozen_delays_the_others_by_a_second() {
    const PER: u64 = 1_000;
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = || locks.lock("k").rate(2, Duration::from_millis(PER)).wait(LIMIT);
    for _ in 0..2 {
        request().run_value_blocking(|_| ()).unwrap();
    }
    let frozen = Worker::start("rates::dies_at_its_start", "dies", &server.url(), &[2, PER]);
    eventually("it waits", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    frozen.freeze();
    let begin = Instant::now();
    request().run_value_blocking(|_| ()).unwrap();
    let after = begin.elapsed();
    assert!(after < Duration::from_millis(PER) + 3 * SECOND, "{after:?}");
}

#[test]
fn a_start_costs_two_commands_and_three_after_a_wait() {
    const PER: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let locks = connect(&server);
    let start = |key: &str| locks.lock(key).rate(2, PER).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    start("warm up");
    thread::sleep(Duration::from_millis(50));
    let before = server.client_commands();
    start("k");
    start("k");
    // What is sent behind a start is in the background.
    eventually("both are told", || server.client_commands() - before >= 4);
    start("k");
    eventually("that, too", || server.client_commands() - before >= 7);
    // A waiter asks once more where its place is free before the server has told it.
    let commands = server.client_commands() - before;
    assert!(commands <= 9, "{commands}");
    let keys = || server.keys().into_iter().filter(|key| key.starts_with("lock:k")).count();
    eventually("what it leaves expires with the time", || keys() == 0);
}

/// The size is that of real names of hosts and functions.
#[test]
fn a_thousand_starts_take_a_bounded_memory() {
    const STARTS: u32 = 1_000;
    const MINUTE: Duration = Duration::from_secs(60);
    let server = RedisServer::start();
    let locks = connect(&server);
    let start = || locks.lock("k").rate(STARTS, MINUTE).label("shop::mail::send").run_value_blocking(|_| ());
    for _ in 0..STARTS {
        start().unwrap();
    }
    assert!(start().unwrap_err().is_busy());
    assert_eq!(server.run::<u32>("ZCARD lock:k%queue%holders"), STARTS);
    let bytes = server.run::<u64>("MEMORY USAGE lock:k%queue%holders SAMPLES 0");
    let value = server.run::<u64>("MEMORY USAGE lock:k");
    assert!(bytes < 300 * u64::from(STARTS) && value < 200, "{bytes} {value}");
}

#[test]
fn a_full_server_refuses_a_first_start_and_forgets_none() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let start = |key: &str| locks.lock(key).rate(2, 60 * SECOND).run_value_blocking(|_| ());
    start("k").unwrap();
    let _: String = server.run("CONFIG SET maxmemory 1");
    let refused = start("other").unwrap_err();
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused}");
    // It counts a second start, or refuses it.
    let second = start("k");
    let _: String = server.run("CONFIG SET maxmemory 0");
    if second.is_err() {
        start("k").unwrap();
    }
    assert!(start("k").unwrap_err().is_busy());
    start("other").unwrap();
}

#[test]
fn what_contradicts_a_rate_is_refused_before_anything_is_sent() {
    let unreachable = "redis://127.0.0.1:1";
    let locks = LockManager::builder(unreachable).connect_lazy().unwrap();
    let cohort = LockManager::builder(unreachable).cohort(8).connect_lazy().unwrap();
    let quorum = LockManager::builder(unreachable)
        .node("redis://127.0.0.1:2")
        .node("redis://127.0.0.1:3")
        .connect_lazy()
        .unwrap();
    let rate = || locks.lock("k").rate(5, SECOND);
    let refused: [(LockRequest, &str); 20] = [
        (locks.lock("k").rate(0, SECOND), "at least 1 and at most 10,000"),
        (locks.lock("k").rate(10_001, SECOND), "at least 1 and at most 10,000"),
        (locks.lock("k").rate(5, Duration::from_millis(9)), "at least 10 ms"),
        (locks.lock("k").rate(5, Duration::MAX), "below 2^53 ms"),
        (rate().permits(5), "`permits`"),
        (locks.lock("k").permits(5).rate(5, SECOND), "`permits`"),
        (rate().shared(), "`shared`"),
        (rate().take(2), "`take`"),
        (rate().min_hold(SECOND), "`min_hold`"),
        (locks.lock("k").min_hold(SECOND).rate(5, SECOND), "`min_hold`"),
        (rate().max_hold(SECOND), "`max_hold`"),
        (rate().ttl(SECOND), "`ttl`"),
        (rate().renew(false), "`renew`"),
        (rate().on_lost(OnLost::Finish), "`on_lost`"),
        (rate().release_in_background(true), "`release_in_background`"),
        (rate().reentrant(true), "`reentrant`"),
        (rate().tick(60 * SECOND), "one body runs for a tick"),
        (locks.lock_all(["a", "b"]).rate(5, SECOND), "one key"),
        (cohort.lock("k").rate(1, SECOND), "`cohort`"),
        (quorum.lock("k").rate(1, SECOND), "quorum"),
    ];
    for (request, reason) in refused {
        let error = request.acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidRequest { .. }), "{reason}: {error}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
}

#[test]
fn a_rate_is_refused_on_a_quorum_that_answers() {
    let quorum = Quorum::forgetful(3);
    let error = quorum.manager().lock("k").rate(2, SECOND).acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error}");
    quorum.assert_nothing_left();
}

struct Mailer {
    locks: LockManager,
    limit: u32,
}

impl Mailer {
    #[distributed_lock(key = "mail:{tenant}", rate = "2/1m", manager = self.locks)]
    async fn send(&self, tenant: &str) -> Result<usize, LockError> {
        Ok(tenant.len())
    }

    #[distributed_lock(key = "sms:{tenant}", rate = (self.limit, Duration::from_secs(60)), manager = self.locks, on_busy = Ok(0))]
    fn text(&self, tenant: &str) -> Result<usize, LockError> {
        Ok(tenant.len())
    }
}

#[test]
fn functions_and_methods_have_a_rate() {
    on_each(|store| {
        let mailer = Mailer { locks: store.manager(), limit: 1 };
        runtime().block_on(async {
            assert_eq!((mailer.send("acme").await, mailer.send("acme").await), (Ok(4), Ok(4)));
            assert!(mailer.send("acme").await.unwrap_err().is_busy());
            assert_eq!(mailer.send("other").await, Ok(5));
        });
        assert_eq!((mailer.text("acme"), mailer.text("acme"), mailer.text("other")), (Ok(4), Ok(0), Ok(5)));
    });
}

/// All callers of a key should give the same rate; a lock of another kind excludes them.
#[test]
fn a_start_and_a_lock_of_another_kind_exclude_each_other() {
    on_each(|store| {
        let locks = store.manager();
        let key = unique("k");
        let rate = |starts| locks.lock(&key).rate(starts, 60 * SECOND);
        rate(3).run_value_blocking(|_| ()).unwrap();
        rate(2).run_value_blocking(|_| ()).unwrap();
        assert!(rate(3).acquire_blocking().unwrap_err().is_busy(), "the smallest number counts");
        assert!(locks.lock(&key).acquire_blocking().unwrap_err().is_busy(), "until the starts are over");
        let held = locks.lock("other").acquire_blocking().unwrap();
        let busy = locks.lock("other").rate(2, SECOND).acquire_blocking().unwrap_err();
        assert!(busy.is_busy());
        drop(held);
        locks.lock("other").rate(2, SECOND).acquire_blocking().map(drop).unwrap();
    });
}
