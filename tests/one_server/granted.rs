//! When a lock was granted to its holder is in its value, however the holder got it.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kit::{LIMIT, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{LockGuard, LockManager, ReleaseOutcome};

fn value(server: &RedisServer) -> String {
    server.run("GET lock:k")
}

/// The time behind the token, in seconds; `None` without one.
fn granted(value: &str) -> Option<u64> {
    value.trim_end_matches('!').split_once('=')?.1.parse().ok()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A caller that waits, until it has a place in the queue.
fn waits(server: &RedisServer, locks: &LockManager) -> thread::JoinHandle<LockGuard> {
    let before: u32 = server.run("ZCARD lock:k%queue");
    let request = locks.lock("k").ttl(SECOND).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
    eventually("it is queued", || server.run::<u32>("ZCARD lock:k%queue") == before + 1);
    waiter
}

/// The time is to the second.
fn passes(time: Duration) {
    let start = Instant::now();
    eventually("the time passes", || start.elapsed() > time);
}

/// This caller was granted the lock between these two.
#[track_caller]
fn check_shown(server: &RedisServer, guard: LockGuard, from: SystemTime, is_marked: bool) {
    let (to, value) = (SystemTime::now(), value(server));
    let granted = granted(&value).unwrap();
    assert!((seconds(from)..=seconds(to)).contains(&granted), "{granted} instead of {from:?}");
    assert_eq!(value.ends_with('!'), is_marked, "{value}");
    let holder = connect(server).inspect_blocking("k").unwrap().unwrap().holder().clone();
    assert_eq!(holder.granted().map(seconds), Some(granted));
    assert!(holder.asked().map(seconds) < Some(granted));
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_lock_that_nobody_waited_for_has_its_token_alone() {
    let server = RedisServer::start();
    for _ in 0..2 {
        let guard = connect(&server).lock("k").acquire_blocking().unwrap();
        assert_eq!(granted(&value(&server)), None);
        assert!(!value(&server).contains('!'));
        drop(guard);
    }
}

#[test]
fn one_that_is_handed_over_has_the_time_with_the_mark_and_without() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let (first, second) = (waits(&server, &locks), waits(&server, &other));
    passes(2 * SECOND);
    let from = SystemTime::now();
    drop(guard);
    check_shown(&server, first.join().unwrap(), from, true);
    let from = SystemTime::now();
    check_shown(&server, second.join().unwrap(), from, false);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn one_that_a_waiter_takes_behind_a_client_of_another_kind_has_the_time() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for ends in ["DEL lock:k", "PEXPIRE lock:k 1"] {
        let _: String = server.run("SET lock:k of-another-kind");
        let waiter = waits(&server, &locks);
        passes(2 * SECOND);
        let from = SystemTime::now();
        let _: u32 = server.run(ends);
        check_shown(&server, waiter.join().unwrap(), from, false);
    }
}

#[test]
fn one_whose_holder_has_died_has_the_time() {
    let server = RedisServer::start();
    let _: String = server.run("SET lock:k AAAAAAAAAAAAAAAAAAAAAA@gone:1 PX 2500");
    let locks = connect(&server);
    let (first, second) = (waits(&server, &locks), waits(&server, &connect(&server)));
    passes(2 * SECOND);
    let from = SystemTime::now();
    check_shown(&server, first.join().unwrap(), from, true);
    check_shown(&server, second.join().unwrap(), from, false);
}

#[test]
fn one_that_is_forced_from_its_holder_has_the_time() {
    let server = RedisServer::start();
    let (locks, operator) = (connect(&server), connect(&server));
    let hung = locks.lock("k").acquire_blocking().unwrap();
    let waiter = waits(&server, &operator);
    passes(2 * SECOND);
    let from = SystemTime::now();
    operator.force_release_blocking("k").unwrap();
    check_shown(&server, waiter.join().unwrap(), from, false);
    assert_eq!(hung.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
}

/// A renewal names the new holder to the server 50 ms later.
#[test]
fn one_that_its_process_passes_on_has_the_time_of_that() {
    for cohort in [0, 8] {
        let server = RedisServer::start();
        let locks = LockManager::builder(server.url()).cohort(cohort).connect_blocking().unwrap();
        let guard = locks.lock("k").ttl(SECOND).wait(LIMIT).acquire_blocking().unwrap();
        let (runtime, before) = (runtime(), value(&server));
        let from = runtime.block_on(async {
            // One that has it for a moment, and one that keeps it. The first is a follower of none.
            let first = tokio::spawn(locks.lock("k").ttl(SECOND).wait(LIMIT).acquire());
            tokio::time::sleep(Duration::from_millis(100)).await;
            let second = tokio::spawn(locks.lock("k").ttl(SECOND).wait(LIMIT).acquire());
            tokio::time::sleep(2 * SECOND).await;
            let from = SystemTime::now();
            drop(guard);
            drop(first.await.unwrap().unwrap());
            (from, second.await.unwrap().unwrap())
        });
        let (from, guard) = from;
        eventually("the server has heard of it", || {
            let now = value(&server);
            now != before
                && connect(&server).inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == 0)
        });
        passes(SECOND / 5);
        check_shown(&server, guard, from, value(&server).ends_with('!'));
    }
}

#[test]
fn a_repeated_request_of_its_holder_does_not_move_it() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let waiter = waits(&server, &other);
    passes(2 * SECOND);
    let from = SystemTime::now();
    drop(guard);
    let guard = waiter.join().unwrap();
    let before = value(&server);
    passes(3 * SECOND / 2);
    // Its next connection renews and watches it.
    let _: u32 = server.run("CLIENT KILL TYPE pubsub SKIPME yes");
    let behind = waits(&server, &locks);
    assert!(value(&server).ends_with('!'));
    passes(SECOND / 2);
    assert_eq!(granted(&value(&server)), granted(&before));
    guard.extend_blocking(60 * SECOND).unwrap();
    assert_eq!(granted(&value(&server)), granted(&before));
    check_shown(&server, guard, from, true);
    drop(behind.join().unwrap());
}
