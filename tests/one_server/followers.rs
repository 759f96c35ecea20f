//! Waiters of one process that come one behind the other pass their lock on without a request for each, and pass no waiter of
//! another process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{RedisServer, connect, eventually, runtime};
use redlocked::{LockError, LockManager, distributed_lock};
use tokio::task::JoinHandle;

use crate::direct::calls;

type Log = Arc<Mutex<Vec<&'static str>>>;

#[distributed_lock(key = "k", global, ttl = "60s", wait = "20s", manager = locks)]
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

/// These callers come one after the other, while another one has the lock. The first letter is the process. Returns the order
/// in which they get it, and how many scripts that took; `stays`: they stay inside for so long.
fn serves(callers: &[&'static str], stays: Duration) -> (Vec<&'static str>, u64) {
    let (server, runtime, log) = (RedisServer::start(), runtime(), Log::default());
    let (one, two) = (connect(&server), connect(&server));
    runtime.block_on(async {
        let holder = connect(&server).lock("k").acquire().await.unwrap();
        let mut tasks: Vec<JoinHandle<Result<(), LockError>>> = Vec::new();
        for (caller, places) in callers.iter().copied().zip(1..) {
            let (locks, log) = (if caller.starts_with('a') { &one } else { &two }.clone(), Arc::clone(&log));
            tasks.push(tokio::spawn(async move { notes(&locks, caller, &log, stays).await }));
            while waiters(&server) < places {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
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
    // Of the holder, and of each that cannot pass it on: a grant names 31 others at most. On a busy machine they may take longer
    // than a lock is passed on for.
    eventually("it takes no more", || {
        let (order, scripts) = serves(&NAMES, Duration::ZERO);
        assert_eq!(order.len(), NAMES.len());
        scripts <= 3
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
