//! Waiters of one process that come one behind the other pass their lock on without a request for
//! each, and pass no waiter of another process.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisServer, connect, connect_to, eventually, runtime};
use redlocked::{LockError, LockManager, distributed_lock};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::direct::calls;

type Log = Arc<Mutex<Vec<&'static str>>>;

#[distributed_lock(key = "k", constant_key, ttl = "60s", wait = "20s", manager = locks)]
async fn notes(locks: &LockManager, who: &'static str, log: &Log, stays: Duration) -> Result<(), LockError> {
    log.lock().unwrap().push(who);
    // The shortest sleep of tokio is a millisecond.
    if stays.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(stays).await;
    }
    Ok(())
}

fn waiters(server: &RedisServer) -> u32 {
    server.run("ZCARD lock:k%queue")
}

/// Lets the tasks go on meanwhile.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// These callers come one after the other, while another one has the lock. The first letter is the
/// process. Returns the order in which they get it, and how many scripts that took; `stays`: they
/// stay inside for so long.
fn serves(callers: &[&'static str], stays: Duration) -> (Vec<&'static str>, u64) {
    let (server, runtime, log) = (RedisServer::start(), runtime(), Log::default());
    let (one, two) = (connect(&server), connect(&server));
    runtime.block_on(async {
        let holder = connect(&server).lock("k").acquire().await.unwrap();
        let mut tasks: Vec<JoinHandle<Result<(), LockError>>> = Vec::new();
        for (caller, places) in callers.iter().copied().zip(1..) {
            let (locks, log) = (if caller.starts_with('a') { &one } else { &two }.clone(), Arc::clone(&log));
            tasks.push(tokio::spawn(async move { notes(&locks, caller, &log, stays).await }));
            until("it has a place", || waiters(&server) == places).await;
        }
        let _: String = server.run("CONFIG RESETSTAT");
        drop(holder);
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    eventually("no key is left", || server.keys().is_empty());
    let order = log.lock().unwrap().clone();
    (order, calls(&server, "evalsha") + calls(&server, "eval"))
}

#[test]
fn many_waiters_of_one_process_take_one_release_for_many_of_them() {
    const NAMES: [&str; 40] = ["a"; 40];
    // Two of the holder, which does not know that others wait, and of each that cannot pass it on: a
    // grant names 31 others at most. On a busy machine they may take longer than a lock is passed on
    // for.
    eventually("it takes no more", || {
        let (order, scripts) = serves(&NAMES, Duration::ZERO);
        assert_eq!(order.len(), NAMES.len());
        scripts <= 4
    });
}

#[test]
fn a_waiter_of_another_process_is_not_passed() {
    let callers = ["a1", "a2", "a3", "b1", "a4", "b2", "b3", "b4", "a5", "a6"];
    let (order, scripts) = serves(&callers, Duration::ZERO);
    assert_eq!(order, callers);
    // The releases of the holder, a3, b1, a4, b4 and a6 at least.
    assert!(scripts >= 6, "{scripts}");
}

#[test]
fn bodies_that_take_their_time_get_the_lock_from_the_server_each() {
    let callers = ["a1", "a2", "a3"];
    let (order, scripts) = serves(&callers, Duration::from_millis(20));
    assert_eq!(order, callers);
    assert!(scripts >= 4, "{scripts}");
}

#[distributed_lock(key = "k", constant_key, ttl = "60s", wait = "20s", manager = locks)]
async fn stays(locks: &LockManager, ends: &Notify) -> Result<(), LockError> {
    ends.notified().await;
    Ok(())
}

/// A manager whose loop has a thread. In a runtime that stands still for a moment, it would move, and
/// one try fail meanwhile.
fn stays_connected(server: &RedisServer) -> LockManager {
    LockManager::builder(server.url()).own_thread(true).connect_blocking().unwrap()
}

#[test]
fn what_the_server_shows_of_a_lock_that_was_passed_on_is_true() {
    const FOLLOWERS: u32 = 12;
    let (server, runtime, ends) = (RedisServer::start(), runtime(), Arc::new(Notify::new()));
    let (one, two) = (connect(&server), stays_connected(&server));
    runtime.block_on(async {
        let holder = two.lock("k").acquire().await.unwrap();
        let mut tasks = Vec::new();
        let queued = async |places| until("it has a place", || waiters(&server) == places).await;
        for place in 1..=FOLLOWERS {
            let (locks, log) = (one.clone(), Log::default());
            tasks.push(tokio::spawn(async move { notes(&locks, "a", &log, Duration::ZERO).await }));
            queued(place).await;
        }
        let (locks, end) = (one.clone(), Arc::clone(&ends));
        let staying = tokio::spawn(async move { stays(&locks, &end).await });
        queued(FOLLOWERS + 1).await;
        let waiting = two.lock("k").wait(Duration::from_secs(20)).label("next").acquire();
        let waiting = tokio::spawn(waiting);
        queued(FOLLOWERS + 2).await;
        holder.release().await.unwrap();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let start = Instant::now();
        loop {
            // None while it is left free for a moment, for foreign clients.
            let info = two.inspect("k").await.unwrap();
            if let Some(info) = &info
                && info.holder().function().is_some_and(|holder| holder.ends_with("stays"))
                && info.waiters() == 1
            {
                assert_eq!(info.queue()[0].function(), Some("next"));
                break;
            }
            assert!(start.elapsed() < LIMIT, "{info:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let busy = two.lock("k").try_acquire().await.unwrap_err();
        assert!(busy.to_string().contains("stays"), "{busy}");
        // No place of a caller that has ended gets the lock.
        two.force_release("k").await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(matches!(staying.await.unwrap(), Err(LockError::Lost { .. })));
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn the_holder_of_a_lock_that_was_passed_on_keeps_it_over_a_lost_answer_and_the_next_connection() {
    let (server, runtime, ends) = (RedisServer::start(), runtime(), Arc::new(Notify::new()));
    let proxy = Proxy::to(server.port());
    let (one, two) = (connect_to(&proxy.url()), stays_connected(&server));
    let holder = || server.run::<Option<String>>("GET lock:k").unwrap_or_default();
    runtime.block_on(async {
        let first = two.lock("k").acquire().await.unwrap();
        let (locks, log) = (one.clone(), Log::default());
        let quick = tokio::spawn(async move { notes(&locks, "a", &log, Duration::ZERO).await });
        until("it has a place", || waiters(&server) == 1).await;
        let (locks, end) = (one.clone(), Arc::clone(&ends));
        let staying = tokio::spawn(async move { stays(&locks, &end).await });
        until("it has a place", || waiters(&server) == 2).await;
        first.release().await.unwrap();
        quick.await.unwrap().unwrap();
        // The answer gets lost.
        proxy.hold_replies(true);
        until("the server is told", || holder().contains("stays") && waiters(&server) == 0).await;
        proxy.cut();
        proxy.hold_replies(false);
        one.lock("other").wait(LIMIT).acquire().await.unwrap().release().await.unwrap();
        assert!(two.lock("k").try_acquire().await.unwrap_err().is_busy());
        ends.notify_one();
        staying.await.unwrap().unwrap();
        two.lock("k").try_acquire().await.unwrap().release().await.unwrap();
    });
    eventually("no key is left", || server.keys().is_empty());
}
