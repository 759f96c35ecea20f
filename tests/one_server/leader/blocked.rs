//! A leader whose body blocks its thread is replaced, and one whose body only waits, or asks whether
//! it leads, is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisServer, SECOND, connect, runtime};
use redlocked::election::{Election, LeadError, Term};
use redlocked::{LockError, LockEvent, LockManager, LostReason};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{candidates_wait, endless, in_time, leads, waiting_candidates};

/// A manager, and the reasons for which it loses locks.
fn told(server: &RedisServer) -> (LockManager, UnboundedReceiver<LostReason>) {
    let (told, reasons) = unbounded_channel();
    let builder = LockManager::builder(server.url()).on_event(move |event| {
        if let LockEvent::Lost { reason, .. } = event {
            let _ = told.send(*reason);
        }
    });
    (builder.connect_blocking().unwrap(), reasons)
}

/// Completes when somebody leads here, and returns when that was.
async fn next(server: &RedisServer, ttl: Duration) -> Instant {
    let others = LockManager::connect(server.url()).await.unwrap();
    let value = others.election("k").ttl(ttl).lead(async |_| Ok::<_, LockError>(Instant::now()));
    value.await.unwrap()
}

/// Leads until it is dropped, which is when its body has begun.
async fn leads_and_is_dropped(election: &Election) {
    let (told, mut began) = unbounded_channel();
    let lead = election.lead(async move |term| {
        let _ = told.send(());
        endless(term).await
    });
    tokio::select! {
        outcome = lead => panic!("it leads until it is dropped: {outcome:?}"),
        _ = began.recv() => {}
    }
}

/// A leader whose body blocks its thread until `stop`.
struct Blocked {
    thread: std::thread::JoinHandle<bool>,
    stop: Arc<AtomicBool>,
    /// When its body begins.
    began: Receiver<Instant>,
}

impl Blocked {
    /// Returns when its body has begun. The lock of this term may be lost already.
    fn begins(&self) -> Instant {
        self.began.recv_timeout(LIMIT).unwrap()
    }

    fn stops(self) {
        self.stop.store(true, Ordering::SeqCst);
        assert!(self.thread.join().unwrap());
    }
}

fn blocks(election: Election, own_runtime: bool) -> Blocked {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (told, began) = channel();
    let body = async move |term: Term| {
        let _ = told.send(Instant::now());
        // Tasks and threads that wait for its end, or ask, are no sign of life of the body.
        let (ended, asks) = (term.clone(), term);
        tokio::spawn(async move { ended.ended().await });
        std::thread::spawn(move || while asks.is_leading() {});
        tokio::task::yield_now().await;
        while !stopped.load(Ordering::SeqCst) {
            std::thread::sleep(SECOND / 100);
        }
        tokio::task::yield_now().await;
        Ok::<_, LockError>(())
    };
    let thread = std::thread::spawn(move || {
        let lead = election.lead(body);
        if own_runtime {
            return runtime().block_on(lead).is_ok();
        }
        let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        workers.unwrap().block_on(async { tokio::spawn(lead).await.unwrap().is_ok() })
    });
    Blocked { thread, stop, began }
}

#[test]
fn a_leader_that_blocks_its_thread_is_replaced_within_two_ttl() {
    for own_runtime in [true, false] {
        let server = RedisServer::start();
        let (locks, mut reasons) = told(&server);
        let blocked = blocks(locks.election("k").ttl(SECOND), own_runtime);
        let began = blocked.begins();
        in_time(async {
            let after = next(&server, SECOND).await - began;
            assert!(after > SECOND && after < LIMIT, "{after:?}");
            let reason = tokio::time::timeout(LIMIT, reasons.recv()).await;
            assert_eq!(reason, Ok(Some(LostReason::Blocked)));
        });
        // It is dropped before it is polled again, leads again, and returns.
        blocked.stops();
    }
}

#[test]
fn max_blocked_is_for_how_long() {
    let server = RedisServer::start();
    let (locks, mut reasons) = told(&server);
    let blocked = blocks(locks.election("k").ttl(2 * SECOND).max_blocked(Duration::MAX), true);
    blocked.begins();
    in_time(async {
        let late = tokio::time::timeout(6 * SECOND, next(&server, SECOND)).await;
        assert!(late.is_err(), "it is renewed, as it was told: {late:?}, {:?}", reasons.try_recv());
    });
    blocked.stops();

    let blocked = blocks(locks.election("k").ttl(2 * SECOND).max_blocked(SECOND / 10), true);
    blocked.begins();
    in_time(async {
        next(&server, SECOND).await;
        let reason = tokio::time::timeout(LIMIT, reasons.recv()).await;
        assert_eq!(reason, Ok(Some(LostReason::Blocked)));
    });
    blocked.stops();

    let election = locks.election("k").max_blocked(SECOND / 1000);
    let outcome = in_time(election.lead(endless)).unwrap_err();
    assert!(matches!(outcome, LeadError::Lock(LockError::InvalidRequest { .. })), "{outcome:?}");
    let outcome = election.lead_blocking(|_| Ok::<_, LockError>(())).unwrap_err();
    assert!(format!("{outcome:#}").contains("max_blocked"), "{outcome:#}");
}

#[test]
fn a_body_that_only_waits_leads_on() {
    let server = RedisServer::start();
    let (locks, mut reasons) = told(&server);
    in_time(async {
        let election = locks.election("k").ttl(2 * SECOND).max_blocked(2 * SECOND);
        let leader = tokio::spawn(election.lead(endless));
        while !leads(&server) {
            tokio::time::sleep(SECOND / 100).await;
        }
        let candidate = tokio::spawn(connect(&server).election("k").lead(endless));
        candidates_wait(&server, 1).await;
        tokio::time::sleep(6 * SECOND).await;
        assert!(waiting_candidates(&server) == 1 && reasons.try_recv().is_err());
        leader.abort();
        candidate.abort();
    });
}

#[test]
fn an_async_body_that_computes_and_asks_leads_on() {
    let server = RedisServer::start();
    let (locks, _reasons) = told(&server);
    let mut terms = 0;
    in_time(async {
        let election = locks.election("k").ttl(2 * SECOND).max_blocked(2 * SECOND);
        let led = election.lead(async |term| {
            terms += 1;
            let start = Instant::now();
            while terms == 1 && start.elapsed() < 6 * SECOND {
                std::thread::sleep(SECOND / 50);
                assert!(term.is_leading());
            }
            Ok::<_, LockError>(())
        });
        led.await.unwrap();
    });
    assert_eq!(terms, 1);
}

#[test]
fn a_body_that_panics_gives_its_lock_to_the_next_one_and_says_so() {
    let server = RedisServer::start();
    let (told, mut ends) = unbounded_channel();
    let builder = LockManager::builder(server.url()).on_event(move |event| {
        if let LockEvent::TermEnded { end, .. } = event {
            let _ = told.send(end.as_str());
        }
    });
    in_time(async {
        let locks = builder.connect().await.unwrap();
        let body = async |_: Term| -> Result<(), LockError> { panic!("no such table") };
        let panicked = tokio::spawn(locks.election("k").lead(body)).await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        assert_eq!(ends.recv().await, Some("panicked"));
        next(&server, SECOND).await;
        leads_and_is_dropped(&locks.election("k")).await;
        assert_eq!(ends.recv().await, Some("dropped"));
    });
}

/// The body of a sync leader, with 2 s of work in each step, between which it does `between`.
fn works_in_steps(between: impl Fn(&Term) + Send + 'static) -> bool {
    let server = RedisServer::start();
    let locks = connect(&server);
    let leader = std::thread::spawn(move || {
        let mut terms = 0;
        let election = locks.election("k").ttl(2 * SECOND).max_blocked(2 * SECOND);
        let outcome = election.lead_blocking(|term| {
            terms += 1;
            let start = Instant::now();
            while terms == 1 && start.elapsed() < 6 * SECOND {
                std::thread::sleep(SECOND / 10);
                between(term);
            }
            Ok::<_, LockError>(())
        });
        outcome.unwrap();
        terms == 1
    });
    leader.join().unwrap()
}

#[test]
fn a_sync_body_that_asks_leads_on_and_one_that_does_not_is_replaced() {
    let leads_on = [
        std::thread::spawn(|| works_in_steps(|term| assert!(term.is_leading()))),
        std::thread::spawn(|| works_in_steps(|term| assert!(!term.remaining().is_zero()))),
        std::thread::spawn(|| works_in_steps(|term| assert!(term.fencing_token() > 0))),
        std::thread::spawn(|| {
            // The body runs a runtime, and waits for its end beside its work.
            works_in_steps(|term| {
                runtime().block_on(async {
                    let work = tokio::time::sleep(3 * SECOND);
                    tokio::select! { () = work => {}, () = term.ended() => {} }
                });
            })
        }),
    ];
    for leads_on in leads_on {
        assert!(leads_on.join().unwrap());
    }
    assert!(!works_in_steps(|_| {}), "it gives no sign of life");
}

#[test]
fn a_sync_body_may_take_a_minute_by_default() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let mut terms = 0;
    let election = locks.election("k").ttl(SECOND * 3 / 2);
    let outcome = election.lead_blocking(|term| {
        terms += 1;
        std::thread::sleep(5 * SECOND);
        assert!(term.is_leading());
        Ok::<_, LockError>(())
    });
    assert!(outcome.is_ok() && terms == 1);
}
