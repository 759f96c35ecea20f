//! Who is inside at once: readers, writers, and the holders of permits; on `memory://`, on a server
//! and in a Cluster alike, with managers of each mode of `behaviour`.

mod downgrade;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisCluster, RedisServer, SECOND, connect, connect_to, eventually, runtime, unique};
use redlocked::{Holder, LockError, LockGuard, LockManager, LockRequest, LostReason, ReleaseOutcome};

use crate::behaviour::{Mode, url_of};

/// Where the locks of one test are.
pub(crate) struct Store {
    url: String,
    server: Option<RedisServer>,
    /// All tests share one Cluster; each has its own prefix.
    cluster: Option<(&'static RedisCluster, String)>,
}

impl Store {
    /// A new manager, as another process would have.
    pub(crate) fn manager(&self) -> LockManager {
        let builder = LockManager::builder(&self.url).own_thread(Mode::of_this_run() == Mode::OwnThread);
        match &self.cluster {
            Some((_, prefix)) => builder.prefix(prefix).connect_blocking().unwrap(),
            None => builder.connect_blocking().unwrap(),
        }
    }

    pub(crate) fn assert_nothing_left(&self) {
        self.server.iter().for_each(RedisServer::assert_nothing_left);
        if let Some((cluster, prefix)) = &self.cluster {
            eventually("no key is left", || cluster.keys_of(prefix).is_empty());
        }
    }
}

pub(crate) fn on_each(test: impl Fn(&Store)) {
    test(&Store { url: format!("memory://{}", unique("sharing")), server: None, cluster: None });
    let server = RedisServer::start();
    test(&Store { url: url_of(&server), server: Some(server), cluster: None });
    let cluster = RedisCluster::of_this_process();
    test(&Store { url: cluster.url(), server: None, cluster: Some((cluster, unique("sharing:"))) });
}

/// Where waiters have a queue: without the right to publish, they ask by themselves.
pub(crate) fn on_each_with_a_queue(test: impl Fn(&Store)) {
    if Mode::of_this_run() != Mode::NoPublish {
        on_each(test);
    }
}

/// How many are inside now, and were at most.
#[derive(Default)]
struct Inside {
    now: AtomicU32,
    most: AtomicU32,
}

impl Inside {
    /// Holds the lock until `until` is true of those that are inside.
    async fn stays(&self, until: impl Fn(u32) -> bool) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let start = Instant::now();
        while !until(self.most.load(Ordering::SeqCst)) && start.elapsed() < LIMIT {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }
}

/// Waits until the queue on the server has so many.
fn queued(locks: &LockManager, waiters: u32) {
    eventually("all are queued", || {
        locks.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == waiters)
    });
}

fn is_busy(request: LockRequest) -> bool {
    request.acquire_blocking().is_err_and(|error| error.is_busy())
}

#[test]
fn readers_exclude_a_writer_and_a_writer_excludes_readers() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let readers =
            [&here, &here, &there].map(|locks| locks.lock("k").shared().acquire_blocking().unwrap());
        assert!(is_busy(here.lock("k")) && is_busy(there.lock("k")));
        for reader in readers {
            assert_eq!(reader.release_blocking().unwrap(), ReleaseOutcome::Released);
        }
        let writer = here.lock("k").acquire_blocking().unwrap();
        assert!(is_busy(there.lock("k").shared()) && is_busy(there.lock("k").permits(3)));
        assert_eq!(writer.release_blocking().unwrap(), ReleaseOutcome::Released);
        drop(there.lock("k").shared().acquire_blocking().unwrap());
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn a_plain_lock_without_a_fencing_token_and_readers_exclude_each_other() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let reader = here.lock("k").shared().acquire_blocking().unwrap();
        let plain = || there.lock("k").run_value_blocking(|_guard| ());
        assert!(plain().is_err_and(|error| error.is_busy()));
        drop(reader);
        eventually("the reader has left", || plain().is_ok());
        let _: Result<(), LockError> = there.lock("k").run_value_blocking(|_guard| {
            assert!(is_busy(here.lock("k").shared()));
        });
    });
}

#[test]
fn one_release_lets_in_all_readers_of_all_processes() {
    const READERS: u32 = 60;
    on_each_with_a_queue(|store| {
        let managers = [store.manager(), store.manager(), store.manager()];
        runtime().block_on(async {
            let writer = managers[0].lock("k").acquire().await.unwrap();
            let inside = Arc::new(Inside::default());
            let mut readers = tokio::task::JoinSet::new();
            for locks in managers.iter().cycle().take(READERS as usize) {
                let (request, inside) = (locks.lock("k").shared().wait(LIMIT), Arc::clone(&inside));
                readers.spawn(async move {
                    request
                        .run_value(async move |_| inside.stays(|most| most == READERS).await)
                        .await
                        .unwrap();
                });
            }
            while managers[0].inspect("k").await.unwrap().is_none_or(|info| info.waiters() < READERS) {
                tokio::task::yield_now().await;
            }
            let start = Instant::now();
            drop(writer);
            readers.join_all().await;
            assert_eq!(inside.most(), READERS, "they were inside together");
            assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
        });
        drop(managers);
        store.assert_nothing_left();
    });
}

/// First come, first served over all kinds: what comes behind a writer waits for it.
#[test]
fn a_reader_does_not_pass_a_writer_that_waits() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        runtime().block_on(async {
            let reader = here.lock("k").shared().acquire().await.unwrap();
            let writer = tokio::spawn(there.lock("k").wait(LIMIT).acquire());
            let queued = async |waiters| {
                while here.inspect("k").await.unwrap().is_none_or(|info| info.waiters() < waiters) {
                    tokio::task::yield_now().await;
                }
            };
            queued(1).await;
            assert!(here.lock("k").shared().try_acquire().await.is_err(), "nor by one try");
            let late = tokio::spawn(here.lock("k").shared().wait(LIMIT).acquire());
            queued(2).await;
            assert!(!late.is_finished());
            reader.release().await.unwrap();
            let writer = writer.await.unwrap().unwrap();
            assert!(!late.is_finished());
            assert!(writer.fencing_token() > 0);
            let before = writer.fencing_token();
            writer.release().await.unwrap();
            let late = late.await.unwrap().unwrap();
            assert!(late.fencing_token() > before, "a writer is ordered before the readers behind it");
        });
    });
}

#[test]
fn no_more_are_inside_than_there_are_permits() {
    const PERMITS: u32 = 5;
    on_each(|store| {
        let managers = [store.manager(), store.manager(), store.manager()];
        let inside = Arc::new(Inside::default());
        runtime().block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            for locks in managers.iter().cycle().take(30) {
                let (locks, inside) = (locks.clone(), Arc::clone(&inside));
                calls.spawn(async move {
                    for _ in 0..5 {
                        let (request, inside) =
                            (locks.lock("k").permits(PERMITS).wait(LIMIT), Arc::clone(&inside));
                        request
                            .run_value(async move |_| inside.stays(|most| most >= PERMITS).await)
                            .await
                            .unwrap();
                    }
                });
            }
            calls.join_all().await;
        });
        assert_eq!(inside.most(), PERMITS);
        drop(managers);
        store.assert_nothing_left();
    });
}

#[test]
fn a_caller_that_is_refused_hears_how_many_are_inside() {
    on_each(|store| {
        let locks = store.manager();
        let _readers: [_; 3] = std::array::from_fn(|_| locks.lock("k").shared().acquire_blocking().unwrap());
        let busy = locks.lock("k").acquire_blocking().unwrap_err();
        assert_eq!(busy.holder().and_then(Holder::inside), Some(3));
        assert!(busy.to_string().starts_with("`k` is held by 3 holders (lease expires in "), "{busy}");
        let late = locks.lock("k").wait(SECOND / 5).acquire_blocking().unwrap_err();
        assert!(matches!(late, LockError::TimedOut { .. }), "{late}");
        assert_eq!(late.holder().and_then(Holder::inside), Some(3), "{late}");
    });
}

/// It could be inside beside the reader: what keeps it out is the writer in front.
#[test]
fn a_reader_behind_a_writer_hears_of_the_reader_that_is_inside_and_of_the_writer() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let reader = here.lock("k").shared().label("read").acquire_blocking().unwrap();
        std::thread::scope(|scope| {
            let write = || there.lock("k").label("write").wait(LIMIT).run_value_blocking(|_guard| ());
            let writer = scope.spawn(write);
            queued(&here, 1);
            let own = format!(":{}", std::process::id());
            let shared = || there.lock("k").shared();
            let brief = || shared().wait(SECOND / 5).acquire_blocking().unwrap_err();
            for error in [shared().acquire_blocking().unwrap_err(), brief()] {
                let holder = error.holder().unwrap();
                assert_eq!((holder.function(), holder.inside()), (Some("read"), Some(1)), "{error}");
                assert!(holder.name().is_some_and(|name| name.ends_with(&own)), "{error}");
                assert_eq!(holder.waiter_function(), Some("write"), "{error}");
                assert!(holder.waiter_name().is_some_and(|name| name.ends_with(&own)), "{error}");
                let text = error.to_string();
                for words in
                    ["in read, a reader (lease expires in ", "in write, which waits for an exclusive lock"]
                {
                    assert!(text.contains(words), "{text}");
                }
            }
            // An exclusive caller gets the reader as the holder.
            let other = there.lock("k").acquire_blocking().unwrap_err();
            assert_eq!(other.holder().and_then(Holder::function), Some("read"), "{other}");
            assert_eq!(other.holder().and_then(Holder::waiter_name), None, "{other}");
            reader.release_blocking().unwrap();
            writer.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_caller_that_finds_no_permit_hears_of_one_that_has_one_and_of_their_number() {
    on_each(|store| {
        let locks = store.manager();
        let request = |permits| locks.lock("k").permits(permits).label("send");
        let held = [2, 2].map(|permits| request(permits).acquire_blocking().unwrap());
        for permits in [2, 5] {
            let error = request(permits).acquire_blocking().unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("`k` is held by 2 holders (lease expires in "), "{text}");
            assert!(text.contains("): 2 of 2 permits, among them ") && text.ends_with(" in send"), "{text}");
        }
        let [first, _second] = held;
        first.release_blocking().unwrap();
        let text = locks.lock("k").acquire_blocking().unwrap_err().to_string();
        assert!(text.contains(" in send, 1 of 2 permits (lease expires in "), "{text}");
    });
}

/// As after a failover to a replica that knew of the phase, and not of the last one that entered it.
#[test]
fn a_permit_that_is_not_renewed_hears_that_the_server_has_lost_it() {
    let server = RedisServer::start();
    let cases = [("its next look", 3 * SECOND, false), ("the next connection", 60 * SECOND, true)];
    for (what, ttl, is_cut) in cases {
        let [here, there] = [connect(&server), connect(&server)];
        let request = |locks: &LockManager, label| {
            locks.lock("k").permits(2).ttl(ttl).renew(false).label(label).acquire_blocking().unwrap()
        };
        let (stays, lost) = (request(&there, "stays"), request(&here, "lost"));
        let members: Vec<String> = server.run("ZRANGE lock:k%queue%holders 0 -1");
        let member = members.iter().find(|member| member.contains("/lost|")).unwrap();
        let _: u32 = server.run(&format!("ZREM lock:k%queue%holders {member}"));
        let start = Instant::now();
        if is_cut {
            let _: u32 = server.run("CLIENT KILL TYPE pubsub");
        }
        eventually(what, || !lost.is_held());
        assert_eq!(lost.lost_reason(), Some(LostReason::KeyChanged), "{what}");
        assert!(start.elapsed() < 5 * SECOND / 2, "{what}: {:?}", start.elapsed());
        assert!(stays.is_held(), "{what}");
        assert_eq!(stays.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    // And no lease is longer for it, nor shorter.
    let [locks, other] = [connect(&server), connect(&server)];
    let start = Instant::now();
    let guard = locks.lock("k").permits(2).ttl(SECOND).renew(false).acquire_blocking().unwrap();
    let next = other.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    let waited = start.elapsed();
    assert!(waited >= SECOND * 97 / 100 && waited < 2 * SECOND, "{waited:?}");
    assert_eq!(guard.lost_reason(), Some(LostReason::Expired));
    drop(next);
}

/// The manager of a process that is killed does not take its places back.
#[test]
fn dead_waiters_do_not_count_as_a_full_queue() {
    const MOST: u32 = 10;
    let server = RedisServer::start();
    let kinds: [fn(LockRequest) -> LockRequest; 3] =
        [|request| request, LockRequest::shared, |request| request.permits(2)];
    for (round, kind) in kinds.into_iter().enumerate() {
        for is_free in [true, false] {
            let locks = LockManager::builder(url_of(&server)).max_waiters(MOST).connect_blocking().unwrap();
            let holder = (!is_free).then(|| locks.lock("k").acquire_blocking().unwrap());
            for number in 0..MOST {
                let member = format!("{number:022}@host:1/1790000000/f|10000|lock:%inbox:dead{}", number % 3);
                let _: u32 = server.run(&format!("ZADD lock:k%queue {number} {member}|n{round}"));
            }
            let next = kind(locks.lock("k")).wait(SECOND).ttl(SECOND).acquire_blocking();
            assert_eq!(
                next.as_ref().err().map(LockError::is_busy),
                holder.as_ref().map(|_| true),
                "{next:?}"
            );
            drop((next, holder));
            let _: u32 = server.run("DEL lock:k%queue");
            drop(locks);
            eventually("it is free", || server.keys().iter().all(|key| key == "lock:%clock"));
        }
    }
}

/// Each of its calls makes the key last for longer, and then for less long again: the server
/// notifies the others.
#[test]
fn brief_calls_with_a_longer_ttl_cost_the_other_holders_little() {
    const CALLS: u64 = 500;
    let server = RedisServer::start();
    let others: [_; 4] = std::array::from_fn(|_| connect(&server));
    let request = |locks: &LockManager| locks.lock("k").shared().ttl(3 * SECOND).acquire_blocking().unwrap();
    let _holders = others.each_ref().map(request);
    let locks = connect(&server);
    // Time itself is tested: they begin to watch when they have held it for a moment.
    std::thread::sleep(SECOND / 5);
    let (before, start) = (server.client_commands(), Instant::now());
    for _ in 0..CALLS {
        locks.lock("k").shared().ttl(30 * SECOND).run_value_blocking(|_guard| ()).unwrap();
    }
    // Each of the others looks twenty times a second, at most, and renews.
    let by_others = 4.0 * 50.0 * (start.elapsed().as_secs_f64() + 0.5);
    let commands = f64::from(u32::try_from(server.client_commands() - before).unwrap());
    let calls = f64::from(u32::try_from(CALLS).unwrap());
    assert!(commands <= 2.0 * calls + by_others, "{commands} after {:?}", start.elapsed());
    assert!(commands < 6.0 * calls, "{commands}");
}

#[test]
fn an_operator_sees_each_holder_and_takes_the_lock_from_all() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let request = |locks: &LockManager, label| locks.lock("k").permits(5).label(label).acquire_blocking();
        let holders = [request(&here, "one").unwrap(), request(&there, "two").unwrap()];
        let info = here.inspect_blocking("k").unwrap().unwrap();
        assert_eq!((info.inside(), info.limit(), info.waiters()), (2, Some(5), 0));
        let mut functions: Vec<_> = info.holders().iter().map(|holder| holder.function().unwrap()).collect();
        functions.sort_unstable();
        assert_eq!(functions, ["one", "two"]);
        let listed = here.list_blocking("*").unwrap();
        assert_eq!(listed.iter().map(|info| (info.key(), info.inside())).collect::<Vec<_>>(), [("k", 2)]);
        // A watch begins once they have held it for a moment; a renewal finds it in any case.
        let taken = there.force_release_blocking("k").unwrap();
        assert_eq!(taken.and_then(|taken| taken.inside()), Some(2));
        assert_eq!(holders[1].lost_reason(), Some(LostReason::ForceReleased));
        let _writer = there.lock("k").acquire_blocking().unwrap();
    });
}

/// How long a holder renews, where it must not be its renewal that detects the loss.
fn ttl_of_the_revoked() -> Duration {
    if Mode::of_this_run() == Mode::NoPublish { 3 * SECOND } else { 600 * SECOND }
}

/// What a holder of another manager receives: without pushes, its renewal finds that it is not inside.
fn reason_of_the_revoked(store: &Store) -> LostReason {
    match (Mode::of_this_run(), &store.server) {
        (Mode::NoPublish, Some(_)) => LostReason::KeyChanged,
        _ => LostReason::Revoked,
    }
}

/// Those of `key` that have this label lose their places. True when each of them had one.
fn revoke(operator: &LockManager, label: &str) -> bool {
    let seen = operator.inspect_blocking("k").unwrap().unwrap();
    let holders: Vec<_> = seen.holders().iter().filter(|holder| holder.function() == Some(label)).collect();
    assert!(!holders.is_empty(), "{label}: {seen:?}");
    holders.iter().all(|holder| operator.force_release_from_blocking("k", holder).unwrap())
}

#[test]
fn one_of_several_loses_its_place_to_an_operator_and_the_others_keep_theirs() {
    let kinds: [fn(LockRequest) -> LockRequest; 4] = [
        LockRequest::shared,
        |request| request.permits(3),
        |request| request.permits(3).take(1),
        |request| request.permits(6).take(2),
    ];
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        for kind in kinds {
            let enters = |locks: &LockManager, label: &str| {
                kind(locks.lock("k").ttl(ttl_of_the_revoked()).label(label)).acquire_blocking().unwrap()
            };
            let guards = [enters(&here, "hung"), enters(&there, "stays"), enters(&here, "beside")];
            assert!(revoke(&there, "hung"));
            eventually("it learns it", || !guards[0].is_held());
            assert_eq!(guards[0].lost_reason(), Some(reason_of_the_revoked(store)));
            let left = there.inspect_blocking("k").unwrap().unwrap();
            assert!(left.inside() == 2 && guards[1].is_held() && guards[2].is_held(), "{left:?}");
            // Another one has the room that it has left. A manager notifies a holder of its own.
            let next = enters(&there, "next");
            assert_eq!(guards[1].fencing_token(), next.fencing_token());
            assert!(revoke(&there, "stays"));
            assert_eq!(guards[1].lost_reason(), Some(LostReason::Revoked));
            let [hung, stays, beside] = guards;
            for (guard, outcome) in [
                (hung, ReleaseOutcome::AlreadyLost),
                (stays, ReleaseOutcome::AlreadyLost),
                (beside, ReleaseOutcome::Released),
                (next, ReleaseOutcome::Released),
            ] {
                assert_eq!(guard.release_blocking().unwrap(), outcome);
            }
            eventually("it is free", || here.inspect_blocking("k").unwrap().is_none());
        }
        drop((here, there));
        store.assert_nothing_left();
    });
}

/// The leases last for ten minutes: a waiter that were not let in would wait for that.
#[test]
fn a_waiter_that_fits_enters_where_an_operator_has_ended_another_one() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let jobs = |locks: &LockManager, size, label: &str| {
            locks.lock("k").permits(10).take(size).ttl(600 * SECOND).label(label).acquire_blocking().unwrap()
        };
        let (large, small) = (jobs(&here, 6, "large"), jobs(&here, 3, "small"));
        std::thread::scope(|scope| {
            let waits = |size: u32| {
                let request = there.lock("k").permits(10).take(size).ttl(600 * SECOND).wait(LIMIT);
                scope.spawn(move || request.acquire_blocking().unwrap())
            };
            let first = waits(4);
            queued(&there, 1);
            let second = waits(7);
            queued(&there, 2);
            // Three more permits do for the first, whose four fit beside six, and not for the second.
            assert!(revoke(&there, "small"));
            let first = first.join().unwrap();
            queued(&there, 1);
            assert!(large.is_held() && first.is_held());
            eventually("it learns it", || !small.is_held());
            // The second caller needs seven of ten permits: it waits for both.
            assert!(revoke(&there, "large"));
            queued(&there, 1);
            drop(first);
            drop(second.join().unwrap());
        });
        eventually("the other one learns it", || !large.is_held());
        assert_eq!(
            (large.lost_reason(), small.lost_reason()),
            (Some(LostReason::Revoked), Some(LostReason::Revoked))
        );
    });
}

/// The last reader that an operator ends lets the writer in, alone.
#[test]
fn a_writer_enters_behind_the_last_reader_that_an_operator_ends() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let reads =
            |label: &str| here.lock("k").shared().ttl(600 * SECOND).label(label).acquire_blocking().unwrap();
        let readers = [reads("one"), reads("two")];
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| there.lock("k").ttl(600 * SECOND).wait(LIMIT).acquire_blocking().unwrap());
            queued(&there, 1);
            assert!(revoke(&there, "one"));
            queued(&there, 1);
            assert!(revoke(&there, "two"));
            let writer = writer.join().unwrap();
            assert!(writer.fencing_token() > readers[0].fencing_token());
            assert!(is_busy(here.lock("k").shared()) && there.inspect_blocking("k").unwrap().is_some());
        });
    });
}

/// One that came later keeps its permit, and so does one of the next phase.
#[test]
fn an_operator_takes_the_lock_from_those_that_it_has_seen() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let request = |locks: &LockManager, label| {
            locks.lock("k").permits(3).ttl(ttl_of_the_revoked()).label(label).acquire_blocking().unwrap()
        };
        let (mine, other) = (request(&there, "seen"), request(&here, "seen"));
        let seen = there.inspect_blocking("k").unwrap().unwrap();
        let late = request(&here, "late");
        assert!(is_busy(here.lock("k").permits(3)));
        let now = there.inspect_blocking("k").unwrap().unwrap();
        assert!(seen.has_same_holder(&now), "it was not free in between");
        for holder in now.holders() {
            let same = seen.holders().iter().filter(|seen| seen.is_same_call(holder)).count();
            assert_eq!(same, usize::from(holder.function() == Some("seen")), "{holder}");
        }
        for had_it in [true, false] {
            for holder in seen.holders() {
                assert_eq!(there.force_release_from_blocking("k", holder).unwrap(), had_it, "{holder}");
            }
        }
        assert_eq!(mine.lost_reason(), Some(LostReason::Revoked));
        eventually("the other learns it", || !other.is_held());
        assert_eq!(other.lost_reason(), Some(reason_of_the_revoked(store)));
        assert!(late.is_held() && here.inspect_blocking("k").unwrap().unwrap().inside() == 1);
        assert_eq!(late.release_blocking().unwrap(), ReleaseOutcome::Released);
        drop((mine, other, here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn an_operator_names_one_call_that_it_has_seen() {
    on_each(|store| {
        let locks = store.manager();
        let reader = locks.lock("k").shared().acquire_blocking().unwrap();
        let seen = locks.inspect_blocking("k").unwrap().unwrap();
        let busy = locks.lock("k").acquire_blocking().unwrap_err();
        for (holder, word) in [(seen.holder(), "holders()"), (busy.holder().unwrap(), "inspect")] {
            let refused = locks.force_release_from_blocking("k", holder).unwrap_err();
            assert!(matches!(refused, LockError::InvalidRequest { .. }), "{refused}");
            assert!(refused.to_string().contains(word), "{refused}");
        }
        // Another key has another holder.
        assert!(!locks.force_release_from_blocking("other", &seen.holders()[0]).unwrap());
        assert!(reader.is_held());
    });
}

/// A caller that allows fewer changes what the key says, and not who holds the lock.
#[test]
fn a_lock_has_the_same_holders_until_it_was_free() {
    on_each(|store| {
        let locks = store.manager();
        let look = || locks.inspect_blocking("k").unwrap().unwrap();
        let five = locks.lock("k").permits(5).acquire_blocking().unwrap();
        let before = look();
        let three = locks.lock("k").permits(3).acquire_blocking().unwrap();
        let between = look();
        assert!(before.has_same_holder(&between) && between.limit() == Some(3));
        drop((five, three));
        eventually("both have left", || locks.inspect_blocking("k").unwrap().is_none());
        let _next = locks.lock("k").permits(5).acquire_blocking().unwrap();
        assert!(!before.has_same_holder(&look()));
    });
}

#[test]
fn a_reader_whose_lease_ends_leaves_the_others_theirs() {
    on_each(|store| {
        let locks = store.manager();
        let brief = locks.lock("k").shared().max_hold(SECOND / 5).acquire_blocking().unwrap();
        let other = locks.lock("k").shared().acquire_blocking().unwrap();
        eventually("the first is lost", || !brief.is_held());
        assert_eq!(brief.lost_reason(), Some(LostReason::MaxHold));
        assert!(other.is_held() && is_busy(locks.lock("k")));
        assert_eq!(other.release_blocking().unwrap(), ReleaseOutcome::Released);
        drop(locks.lock("k").acquire_blocking().unwrap());
    });
}

/// Many short leases of permits: each is renewed by itself, and none costs another one its own.
#[test]
fn holders_of_permits_are_renewed_one_by_one() {
    on_each(|store| {
        let locks = store.manager();
        let ttl = 2 * SECOND;
        let guards: Vec<_> =
            (0..4).map(|_| locks.lock("k").permits(4).ttl(ttl).acquire_blocking().unwrap()).collect();
        // Time itself is tested: longer than a lease that nobody renews.
        std::thread::sleep(ttl * 3 / 2);
        assert!(guards.iter().all(LockGuard::is_held));
        assert!(is_busy(locks.lock("k").permits(4)));
    });
}

#[test]
fn one_of_several_changes_its_own_ttl_and_one_that_is_not_renewed_frees_its_place() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let request = |locks: &LockManager| locks.lock("k").permits(2).renew(false).ttl(SECOND);
        let [ends, stays] =
            [request(&there), request(&here)].map(|request| request.acquire_blocking().unwrap());
        stays.extend_blocking(10 * LIMIT).unwrap();
        let start = Instant::now();
        let next = here.lock("k").permits(2).wait(LIMIT).acquire_blocking().unwrap();
        assert!(start.elapsed() < 3 * SECOND, "its ttl: {:?}", start.elapsed());
        assert!(!ends.is_held() && stays.is_held());
        assert_eq!(ends.lost_reason(), Some(LostReason::Expired));
        stays.extend_blocking(SECOND / 5).unwrap();
        let last = there.lock("k").permits(2).wait(LIMIT).acquire_blocking().unwrap();
        assert!(start.elapsed() < 5 * SECOND && !stays.is_held(), "{:?}", start.elapsed());
        for guard in [next, last] {
            assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        }
        drop((ends, stays, here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn a_permit_is_kept_for_its_min_hold() {
    on_each(|store| {
        let locks = store.manager();
        let start = Instant::now();
        let request = || locks.lock("k").permits(2).min_hold(SECOND / 2);
        for _ in 0..2 {
            request().run_value_blocking(|_guard| ()).unwrap();
        }
        assert!(is_busy(request()), "two starts in half a second");
        request().wait(LIMIT).run_value_blocking(|_guard| ()).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(480), "{:?}", start.elapsed());
    });
}

/// The task of its caller goes on later than the server has granted it.
#[test]
fn a_permit_is_kept_for_its_min_hold_from_the_begin_of_the_body() {
    const MIN_HOLD: Duration = Duration::from_millis(600);
    on_each(|store| {
        for permits in [1, 2] {
            let [here, there] = [store.manager(), store.manager()];
            let key = format!("rate{permits}");
            let request =
                |locks: &LockManager| locks.lock(&key).permits(permits).min_hold(MIN_HOLD).wait(LIMIT);
            runtime().block_on(async {
                for _ in 1..permits {
                    let other = here.lock(&key).permits(permits).acquire().await.unwrap();
                    std::mem::forget(other);
                }
                let mut first = Box::pin(request(&here).acquire());
                let at_once = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await;
                tokio::time::sleep(MIN_HOLD / 2).await;
                let is_late = at_once.is_pending();
                let guard = match at_once {
                    Poll::Ready(guard) => guard.unwrap(),
                    Poll::Pending => first.await.unwrap(),
                };
                let begins = Instant::now();
                guard.release().await.unwrap();
                let next = request(&there).acquire().await.unwrap();
                let after = begins.elapsed();
                assert!(!is_late || after >= MIN_HOLD, "{permits}: {after:?}");
                drop(next);
            });
        }
    });
}

#[test]
fn different_numbers_on_one_key_are_limited_by_the_smallest_inside() {
    on_each(|store| {
        let locks = store.manager();
        let request = |permits| locks.lock("k").permits(permits);
        let [five, three] = [5, 3].map(|permits| request(permits).acquire_blocking().unwrap());
        let third = request(5).acquire_blocking().unwrap();
        assert!(is_busy(request(5)) && is_busy(locks.lock("k").shared()), "three are inside");
        three.release_blocking().unwrap();
        let more = [(); 3].map(|()| request(5).acquire_blocking().unwrap());
        assert!(is_busy(request(5)), "five are inside");
        drop((five, third, more));
    });
}

/// Callers whose requests have different numbers, too.
#[test]
fn no_more_permits_are_taken_than_there_are() {
    on_each(|store| {
        let managers = [store.manager(), store.manager(), store.manager()];
        let (taken, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        runtime().block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            for (number, locks) in (0_u32..24).zip(managers.iter().cycle()) {
                let (locks, taken, most) = (locks.clone(), Arc::clone(&taken), Arc::clone(&most));
                calls.spawn(async move {
                    for round in 0..6 {
                        let permits = if (number + round) % 7 == 0 { 8 } else { 10 };
                        let take = 1 + (number * 5 + round * 3) % 8;
                        let request = locks.lock("k").permits(permits).take(take).wait(LIMIT);
                        let (taken, most) = (Arc::clone(&taken), Arc::clone(&most));
                        let body = async move |_: &LockGuard| {
                            let now = taken.fetch_add(take, Ordering::SeqCst) + take;
                            assert!(now <= permits, "{now} of {permits}");
                            most.fetch_max(now, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            taken.fetch_sub(take, Ordering::SeqCst);
                        };
                        request.run_value(body).await.unwrap();
                    }
                });
            }
            calls.join_all().await;
        });
        assert!(most.load(Ordering::SeqCst) > 8, "they are inside together");
        drop(managers);
        store.assert_nothing_left();
    });
}

#[test]
fn a_heavy_caller_that_waits_is_not_passed_and_enters_when_enough_permits_are_free() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let take = |locks: &LockManager, take| locks.lock("k").permits(10).take(take).wait(LIMIT);
        runtime().block_on(async {
            let three = take(&here, 3).acquire().await.unwrap();
            let four = take(&there, 4).acquire().await.unwrap();
            let heavy = tokio::spawn(take(&there, 8).acquire());
            let queued = async |waiters| {
                let start = Instant::now();
                while here.inspect("k").await.unwrap().is_none_or(|info| info.waiters() < waiters) {
                    assert!(start.elapsed() < LIMIT, "{waiters} wait");
                    tokio::task::yield_now().await;
                }
            };
            queued(1).await;
            assert!(take(&here, 1).try_acquire().await.is_err(), "nor by one try");
            let first = tokio::spawn(take(&here, 1).acquire());
            queued(2).await;
            let second = tokio::spawn(take(&there, 2).acquire());
            queued(3).await;
            three.release().await.unwrap();
            let start = Instant::now();
            tokio::time::sleep(SECOND / 10).await;
            assert!([&heavy, &first, &second].iter().all(|waiter| !waiter.is_finished()), "4 are taken");
            four.release().await.unwrap();
            let heavy = heavy.await.unwrap().unwrap();
            let first = first.await.unwrap().unwrap();
            assert!(start.elapsed() < SECOND, "nobody had to ask: {:?}", start.elapsed());
            tokio::time::sleep(SECOND / 20).await;
            assert!(!second.is_finished(), "8 and 1 leave no room for 2");
            heavy.release().await.unwrap();
            drop((first, second.await.unwrap().unwrap()));
        });
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn those_that_look_see_how_many_permits_are_taken() {
    on_each(|store| {
        let locks = store.manager();
        let request = |take| locks.lock("k").permits(10).take(take).label("job");
        let held = [4, 2, 1].map(|take| request(take).acquire_blocking().unwrap());
        let info = locks.inspect_blocking("k").unwrap().unwrap();
        assert_eq!((info.taken(), info.limit(), info.inside()), (7, Some(10), 3));
        let mut each: Vec<_> = info.holders().iter().map(Holder::taken).collect();
        each.sort_unstable();
        assert_eq!(each, [1, 2, 4]);
        let listed = locks.list_blocking("*").unwrap();
        assert_eq!(listed.iter().map(|info| (info.taken(), info.inside())).collect::<Vec<_>>(), [(7, 3)]);
        let error = request(4).acquire_blocking().unwrap_err();
        assert!(error.to_string().contains("): 7 of 10 permits, 3 holders, among them "), "{error}");
        assert_eq!(error.holder().map(Holder::taken), Some(7));
        let writer = locks.lock("k").acquire_blocking().unwrap_err();
        assert!(writer.to_string().contains("): 7 of 10 permits, 3 holders, among them "), "{writer}");
        let now = {
            let _three = request(3).acquire_blocking().unwrap();
            locks.inspect_blocking("k").unwrap().unwrap()
        };
        assert!(now.has_same_holder(&info), "it was not free in between");
        drop(held);
    });
}

/// The lease of the first that must leave, and not of the first that leaves.
#[test]
fn a_heavy_caller_is_told_when_enough_permits_are_free() {
    on_each(|store| {
        let locks = store.manager();
        let request = |take, ttl| locks.lock("k").permits(10).take(take).renew(false).ttl(ttl * SECOND);
        let held =
            [(1, 10), (3, 20), (5, 40)].map(|(take, ttl)| request(take, ttl).acquire_blocking().unwrap());
        for (take, least) in [(2, 9), (4, 19), (5, 19), (6, 39), (10, 39)] {
            let error = request(take, 10).acquire_blocking().unwrap_err();
            let left = error.holder().and_then(Holder::expires_in).unwrap();
            assert!(left > least * SECOND && left < (least + 2) * SECOND, "{take}: {left:?}");
        }
        drop(held);
    });
}

#[test]
fn one_that_takes_several_permits_and_is_not_renewed_frees_them() {
    on_each_with_a_queue(|store| {
        let locks = store.manager();
        let request = |take| locks.lock("k").permits(10).take(take);
        let stays = request(2).acquire_blocking().unwrap();
        let ends = request(8).renew(false).ttl(SECOND / 2).acquire_blocking().unwrap();
        let start = Instant::now();
        let next = request(8).wait(LIMIT).acquire_blocking().unwrap();
        assert!(start.elapsed() > SECOND / 4 && start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
        assert!(stays.is_held() && is_busy(request(1)));
        drop((stays, ends, next, locks));
        store.assert_nothing_left();
    });
}

/// So that clients of before weights came see what they know, and leave alone what they do not.
#[test]
fn only_callers_that_take_several_permits_are_written_in_another_way() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = || locks.lock("k").permits(10);
    let (value, members) = ("GET lock:k", "ZRANGE lock:k%queue%holders 0 -1");
    let plain = [request(), request().take(1)].map(|request| request.acquire_blocking().unwrap());
    assert!(server.run::<String>(value).starts_with("%holders|10|"));
    assert!(server.run::<Vec<String>>(members).iter().all(|member| member.contains("|10|")));
    let heavy = request().take(3).acquire_blocking().unwrap();
    assert!(server.run::<String>(value).starts_with("%holders|1|"));
    let written = server.run::<Vec<String>>(members);
    assert_eq!(written.iter().filter(|member| member.contains("|10x3|")).count(), 1, "{written:?}");
    heavy.release_blocking().unwrap();
    let again = request().acquire_blocking().unwrap();
    drop((plain, again));
    let alone = request().take(3).acquire_blocking().unwrap();
    assert!(server.run::<String>(value).starts_with("%holders|1|"));
    drop(alone);
    let _plain = request().acquire_blocking().unwrap();
    assert!(server.run::<String>(value).starts_with("%holders|10|"));
}

#[test]
fn a_caller_that_gives_up_lets_those_behind_it_in() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        runtime().block_on(async {
            let _reader = here.lock("k").shared().acquire().await.unwrap();
            let writer = tokio::spawn(there.lock("k").wait(LIMIT).acquire());
            let waits = async |waiters| {
                while here.inspect("k").await.unwrap().is_none_or(|info| info.waiters() < waiters) {
                    tokio::task::yield_now().await;
                }
            };
            waits(1).await;
            let late = tokio::spawn(here.lock("k").shared().wait(LIMIT).acquire());
            waits(2).await;
            let start = Instant::now();
            writer.abort();
            let _late = late.await.unwrap().unwrap();
            assert!(start.elapsed() < SECOND / 2, "nobody had to ask: {:?}", start.elapsed());
        });
    });
}

#[test]
fn a_nested_call_joins_only_where_both_may_be_the_same_hold() {
    const EXCLUSIVE: u32 = 1;
    const SHARED: u32 = 0;
    on_each(|store| {
        let locks = store.manager();
        let request = |kind| match kind {
            SHARED => locks.lock("k").shared(),
            permits => locks.lock("k").permits(permits),
        };
        for outer in [EXCLUSIVE, SHARED, 5] {
            for inner in [EXCLUSIVE, SHARED, 5] {
                let start = Instant::now();
                let nested = |reentrant| {
                    request(outer).run_value_blocking(|_guard| {
                        request(inner).wait(LIMIT).reentrant(reentrant).run_value_blocking(|_guard| ())
                    })
                };
                let joined = nested(true).unwrap();
                assert_eq!(joined.is_ok(), outer == inner && outer != 5, "{outer} {inner}: {joined:?}");
                let error = nested(false).unwrap().unwrap_err();
                assert!(matches!(error, LockError::Deadlock { .. }), "{outer} {inner}: {error}");
                assert_eq!(error.to_string().contains("`reentrant`, or use"), joined.is_ok(), "{error}");
                assert!(start.elapsed() < 5 * SECOND, "nobody waits");
            }
        }
    });
}

/// It would wait for the writer, which waits for it.
#[test]
fn a_nested_reader_behind_a_queued_writer_does_not_wait_for_itself() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        std::thread::scope(|scope| {
            let outer = here.lock("k").shared().run_value_blocking(|_guard| {
                let writer = scope.spawn(|| there.lock("k").wait(LIMIT).run_value_blocking(|_guard| ()));
                queued(&here, 1);
                let nested = |reentrant| {
                    here.lock("k").shared().wait(LIMIT).reentrant(reentrant).run_value_blocking(|_| ())
                };
                assert!(nested(true).is_ok());
                assert!(matches!(nested(false), Err(LockError::Deadlock { .. })));
                writer
            });
            outer.unwrap().join().unwrap().unwrap();
        });
    });
}

/// Where nothing is handed over, each asks by itself, and nobody keeps an order; but no more are inside
/// than may be, and all get in.
#[test]
fn a_server_that_cannot_hand_over_lets_no_more_in() {
    const PERMITS: u32 = 3;
    let server = RedisServer::start();
    let rules = if server.is_before_7() { "-publish" } else { "-publish -spublish" };
    let _: String = server.run(&format!("ACL SETUSER silent on >pass ~* &* +@all {rules}"));
    let url = format!("redis://silent:pass@127.0.0.1:{}/", server.port());
    let managers = [(); 3].map(|()| connect_to(&url));
    assert!(!managers[0].capabilities_blocking().unwrap().hands_over());
    let (permits, readers, writers) =
        (Arc::new(Inside::default()), Arc::new(Inside::default()), Arc::new(Inside::default()));
    runtime().block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for (number, locks) in managers.iter().cycle().take(30).enumerate() {
            let (locks, permits) = (locks.clone(), Arc::clone(&permits));
            let (readers, writers) = (Arc::clone(&readers), Arc::clone(&writers));
            calls.spawn(async move {
                let request = locks.lock("permits").permits(PERMITS).wait(LIMIT);
                request.run_value(async move |_| permits.stays(|most| most >= PERMITS).await).await.unwrap();
                let request = locks.lock("k").wait(LIMIT);
                if number % 5 == 0 {
                    let book = Arc::clone(&writers);
                    request
                        .run_value(async move |_| {
                            assert_eq!(readers.now.load(Ordering::SeqCst), 0);
                            book.stays(|_| true).await;
                        })
                        .await
                        .unwrap();
                } else {
                    request
                        .shared()
                        .run_value(async move |_| {
                            assert_eq!(writers.now.load(Ordering::SeqCst), 0);
                            readers.stays(|_| true).await;
                        })
                        .await
                        .unwrap();
                }
            });
        }
        calls.join_all().await;
    });
    assert_eq!((permits.most(), writers.most()), (PERMITS, 1));
    drop(managers);
    server.assert_nothing_left();
}

/// Those of other processes pass it: nobody keeps an order over all of them.
#[test]
fn without_hand_off_a_starved_writer_does_not_keep_out_the_readers_of_its_process() {
    let server = RedisServer::start();
    let rules = if server.is_before_7() { "-publish" } else { "-publish -spublish" };
    let _: String = server.run(&format!("ACL SETUSER silent on >pass ~* &* +@all {rules}"));
    let url = format!("redis://silent:pass@127.0.0.1:{}/", server.port());
    let [here, there] = [(); 2].map(|()| connect_to(&url));
    runtime().block_on(async {
        let reader = there.lock("k").shared().acquire().await.unwrap();
        let writer = tokio::spawn(here.lock("k").wait(LIMIT).acquire());
        let start = Instant::now();
        while here.lock("k").shared().wait(SECOND / 100).acquire().await.is_ok() {
            tokio::task::yield_now().await;
        }
        let few: Vec<_> =
            (0..3).map(|_| tokio::spawn(here.lock("k").shared().wait(LIMIT).acquire())).collect();
        let mut guards = Vec::new();
        for one in few {
            guards.push(one.await.unwrap().unwrap());
        }
        assert!(start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
        assert!(!writer.is_finished() && reader.is_held());
        drop((reader, guards));
        drop(writer.await.unwrap().unwrap());
    });
    drop((here, there));
    server.assert_nothing_left();
}

#[test]
fn what_no_lock_can_be_is_refused_before_anything_is_sent() {
    let unreachable = "redis://127.0.0.1:1";
    let start = |url: &str, cohort| LockManager::builder(url).cohort(cohort).connect_lazy().unwrap();
    let (one, cohort) = (start(unreachable, 0), start(unreachable, 8));
    let quorum = start("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3", 0);
    let reason = |request: LockRequest| match request.wait_forever().acquire_blocking() {
        Err(LockError::InvalidRequest { reason, .. }) => reason.to_string(),
        other => panic!("{other:?}"),
    };
    for (request, words) in [
        (one.lock("k").shared().permits(3), "leave out one"),
        (one.lock("k").permits(3).shared(), "leave out one"),
        (one.lock("k").permits(1).shared(), "leave out one"),
        (one.lock("k").permits(0), "at least 1"),
        (one.lock("k").permits(10_001), "at most 10,000"),
        (one.lock("k").permits(65_541), "at most 10,000"),
        (one.lock_all(["a", "b"]).shared(), "several keys"),
        (one.lock_all(["a", "b"]).permits(2), "several keys"),
        (cohort.lock("k").shared(), "`cohort`"),
        (cohort.lock("k").permits(2), "`cohort`"),
        (quorum.lock("k").shared(), "quorum"),
        (quorum.lock("k").permits(2), "quorum"),
        (one.lock("k").take(2), "give `permits`, too"),
        (one.lock("k").permits(10).take(0), "at least 1"),
        (one.lock("k").permits(10).take(11), "would `take` 11 of 10 permits"),
        (one.lock("k").take(70_000).permits(10), "at least 1"),
        (one.lock("k").permits(1).take(2), "would `take` 2 of 1 permits"),
        (one.lock("k").shared().take(2), "leave out one"),
        (one.lock("k").take(2).shared(), "leave out one"),
        (one.lock_all(["a", "b"]).permits(2).take(2), "several keys"),
        (cohort.lock("k").permits(2).take(2), "`cohort`"),
        (quorum.lock("k").permits(2).take(2), "quorum"),
    ] {
        let reason = reason(request);
        assert!(reason.contains(words), "{words}: {reason}");
    }
}

/// One permit is an exclusive lock, wherever that is possible.
#[test]
fn one_permit_is_an_exclusive_lock() {
    let locks =
        LockManager::builder(format!("memory://{}", unique("one-permit"))).cohort(8).connect_blocking();
    let locks = locks.unwrap();
    let guard = locks.lock("k").permits(1).acquire_blocking().unwrap();
    let info = locks.inspect_blocking("k").unwrap().unwrap();
    assert_eq!((info.limit(), info.inside(), info.holder().name().is_some()), (Some(1), 1, true));
    drop(guard);
    locks.lock_all(["a", "b"]).permits(1).run_value_blocking(|_guard| ()).unwrap();
}

#[test]
fn an_undisturbed_lock_costs_two_commands_whatever_its_kind() {
    const CALLS: u64 = 50;
    let server = RedisServer::start();
    // The other holder would watch.
    server.tell_of_no_changes();
    let locks = connect(&server);
    let kinds: [fn(LockRequest) -> LockRequest; 3] =
        [LockRequest::shared, |request| request.permits(3), |request| request.permits(9).take(4)];
    for kind in kinds {
        let _other = kind(locks.lock("k")).ttl(600 * SECOND).acquire_blocking().unwrap();
        let before = server.client_commands();
        for _ in 0..CALLS {
            kind(locks.lock("k")).ttl(600 * SECOND).run_value_blocking(|_guard| ()).unwrap();
        }
        assert_eq!(server.client_commands() - before, 2 * CALLS);
    }
}

#[test]
fn the_commands_per_acquisition_do_not_grow_with_the_waiters() {
    for (waiters, processes, permits) in
        [(2, 1, 0), (50, 1, 5), (50, 10, 5), (50, 10, 0), (300, 10, 5), (1000, 10, 5)]
    {
        let rounds = if waiters < 1000 { 5 } else { 2 };
        let server = RedisServer::start();
        let managers: Vec<_> = (0..processes).map(|_| connect(&server)).collect();
        let start = Instant::now();
        runtime().block_on(async {
            for locks in &managers {
                locks.lock("warm up").shared().wait(LIMIT).run_value(async |_| ()).await.unwrap();
            }
            let _: String = server.run("CONFIG RESETSTAT");
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..waiters {
                let locks = managers[number % processes].clone();
                calls.spawn(async move {
                    for round in 0..rounds {
                        // Each fifth call of the readers is a writer's.
                        let request = match permits {
                            0 if (number + round) % 5 == 0 => locks.lock("k"),
                            0 => locks.lock("k").shared(),
                            permits => locks.lock("k").permits(permits),
                        };
                        request
                            .wait(LIMIT)
                            .run_value(async |_| tokio::task::yield_now().await)
                            .await
                            .unwrap();
                    }
                });
            }
            calls.join_all().await;
        });
        let over_time = 10.0 * f64::from(u32::try_from(processes).unwrap()) * start.elapsed().as_secs_f64();
        let commands = f64::from(u32::try_from(server.client_commands()).unwrap()) - over_time;
        let each = commands / f64::from(u32::try_from(waiters * rounds).unwrap());
        assert!(each <= 3.1, "{each} with {waiters} waiters in {processes} processes, permits {permits}");
        drop(managers);
        server.assert_nothing_left();
    }
}
