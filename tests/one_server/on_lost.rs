//! What the caller of a body gets when the lock was lost: in the middle, when the holder has
//! noticed, or just before the end, when only the release notices.

use std::thread;
use std::time::Duration;

use kit::{LIMIT, RedisServer, SECOND, connect, eventually};
use redlocked::{LockError, LockManager, LockRequest, LostReason, OnLost, distributed_lock};

/// A body and its thief: another client overwrites the key. `noticed`: the holder learns of it
/// before its body ends.
struct Theft<'a> {
    server: &'a RedisServer,
    locks: &'a LockManager,
    noticed: bool,
}

impl Theft<'_> {
    fn happens(&self, is_held: impl Fn() -> bool) {
        assert!(is_held());
        let _: String = self.server.run("SET lock:k thief PX 60000");
        if self.noticed {
            eventually("the holder has noticed", || !is_held());
        }
    }

    fn assert_thief_keeps_it(&self) {
        assert_eq!(self.server.run::<String>("GET lock:k"), "thief", "the thief keeps its lock");
        let _: u32 = self.server.run("DEL lock:k");
    }
}

/// Runs a body that returns a `Result` under a lock that is stolen.
type Way = fn(&Theft, LockRequest) -> Result<u32, LockError>;

fn is_lost<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(LockError::Lost { key, reason: LostReason::KeyChanged, .. }) if &**key == "k")
}

fn each_theft(check: impl Fn(&Theft)) {
    let server = RedisServer::start();
    let locks = connect(&server);
    for noticed in [true, false] {
        let theft = Theft { server: &server, locks: &locks, noticed };
        check(&theft);
        theft.assert_thief_keeps_it();
    }
}

#[distributed_lock(key = "k", constant_key, ttl = "20s", on_lost = "error", guard = lock, manager = theft.locks)]
fn sync(theft: &Theft<'_>, result: Result<u32, LockError>) -> Result<u32, LockError> {
    theft.happens(|| lock.is_held());
    result
}

#[distributed_lock(key = "k", constant_key, ttl = "20s", guard = lock, manager = theft.locks)]
fn sync_by_default(theft: &Theft<'_>) -> Result<u32, LockError> {
    theft.happens(|| lock.is_held());
    Ok(7)
}

#[distributed_lock(key = "k", constant_key, ttl = "20s", on_lost = "error", guard = lock, manager = theft.locks)]
async fn asynchronous(theft: &Theft<'_>) -> Result<u32, LockError> {
    theft.happens(|| lock.is_held());
    Ok(7)
}

#[test]
fn a_sync_body_whose_lock_was_lost_is_an_error() {
    each_theft(|theft| assert!(is_lost(&sync(theft, Ok(7)))));
    each_theft(|theft| assert!(is_lost(&sync(theft, Err(LockError::NotConfigured)))));
}

#[test]
fn by_default_a_sync_body_hears_of_no_loss() {
    each_theft(|theft| assert_eq!(sync_by_default(theft), Ok(7)));
}

#[test]
fn an_async_body_that_runs_to_its_end_without_its_lock_is_an_error() {
    each_theft(|theft| assert!(is_lost(&kit::runtime().block_on(asynchronous(theft)))));
}

#[test]
fn requests_by_hand_say_the_same() {
    each_theft(|theft| {
        let request = theft.locks.lock("k").ttl(20 * SECOND).on_lost(OnLost::Error);
        assert!(is_lost(&request.run_value_blocking(|guard| theft.happens(|| guard.is_held()))));
    });
    each_theft(|theft| {
        let request = theft.locks.lock("k").ttl(20 * SECOND).on_lost(OnLost::Error);
        let outcome =
            kit::runtime().block_on(request.run_value(async |guard| theft.happens(|| guard.is_held())));
        assert!(is_lost(&outcome));
    });
    let ways: [Way; 3] = [
        |theft, request| {
            request.run_blocking(|guard| {
                theft.happens(|| guard.is_held());
                Ok(7)
            })
        },
        |theft, request| {
            kit::runtime().block_on(request.run(async |guard| {
                theft.happens(|| guard.is_held());
                Ok(7)
            }))
        },
        |theft, request| {
            kit::runtime().block_on(request.run_fn(async |guard| {
                theft.happens(|| guard.is_held());
                Ok(7)
            }))
        },
    ];
    for way in ways {
        each_theft(|theft| {
            let request = theft.locks.lock("k").ttl(20 * SECOND).on_lost(OnLost::Error);
            assert!(is_lost(&way(theft, request)));
        });
    }
}

#[test]
fn a_lock_that_is_held_to_the_end_is_no_error() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for _ in 0..3 {
        let request = || locks.lock_all(["a", "b"]).on_lost(OnLost::Error);
        assert_eq!(request().run_value_blocking(|_| 7), Ok(7));
        assert_eq!(kit::runtime().block_on(request().run_value(async |_| 7)), Ok(7));
    }
    let waits = locks.lock("a").on_lost(OnLost::Error).wait(LIMIT);
    let handed_over: Vec<_> = (0..8)
        .map(|_| {
            let waits = waits.clone();
            thread::spawn(move || waits.run_value_blocking(|_| thread::sleep(Duration::from_millis(1))))
        })
        .collect();
    assert!(handed_over.into_iter().all(|call| call.join().unwrap() == Ok(())));
}
