//! A waiter is never forgotten.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redlocked::LockManager;
use support::{LIMIT, RedisServer};

const SECOND: Duration = Duration::from_secs(1);

fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect_blocking(&server.url()).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// So many calls for the key that begin at once, in the order of their numbers.
fn calls(
    locks: &LockManager,
    count: u64,
    body: impl Fn(u64) + Clone + Send + 'static,
) -> tokio::task::JoinSet<()> {
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..count {
        let (request, body) = (locks.lock("k").ttl(30 * SECOND).wait(LIMIT), body.clone());
        calls.spawn(async move { request.run(async move |_| body(number)).await.unwrap() });
    }
    calls
}

/// Ends a loop of another thread, however the test goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Each grant takes one fencing token: a grant that is not entered shows as one that nobody had.
#[test]
fn every_grant_in_a_burst_is_entered() {
    let server = RedisServer::start();
    let (burst, other) = (connect(&server), connect(&server));
    let (entered, done) = (AtomicU64::new(0), AtomicBool::new(false));
    other.lock("k").run_blocking(|_| ()).unwrap();
    let clock = || server.run::<u64>("GET lock:%clock");
    let before = clock();
    thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                other.lock("k").wait(LIMIT).run_blocking(|_| entered.fetch_add(1, Ordering::SeqCst)).unwrap();
            }
        });
        for _ in 0..6 {
            runtime().block_on(async { calls(&burst, 1000, |_| ()).join_all().await });
        }
    });
    let entered = entered.load(Ordering::SeqCst) + 6_000;
    assert_eq!(clock() - before, entered, "fencing tokens of {entered} calls");
}
