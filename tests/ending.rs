//! How holding ends: why a lock is no longer held, and what is left of it when its holder or its process ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::time::Duration;

use redlocked::{LockError, LockGuard, LockManager, LostReason};
use support::{LIMIT, RedisServer, eventually};

const SECOND: Duration = Duration::from_secs(1);

fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect_blocking(&server.url()).unwrap()
}

/// Every way to ask says the same.
#[track_caller]
fn assert_lost(guard: &LockGuard, expected: LostReason) {
    eventually("it is lost", || !guard.is_held());
    assert_eq!(guard.lost_reason(), Some(expected));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(guard.lost()), expected);
    let error = guard.extend_blocking(SECOND).unwrap_err();
    assert!(matches!(error, LockError::Lost { reason, .. } if reason == expected), "{error:?}");
    assert!(error.to_string().ends_with(&format!("was lost: {expected}")), "{error}");
}

#[test]
fn a_lost_lock_says_why() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = locks.lock("k").ttl(SECOND / 10);
    let take = |request: &redlocked::LockRequest| request.clone().wait(LIMIT).acquire_blocking().unwrap();

    let guard = take(&request.clone().renew(false));
    assert_eq!(guard.lost_reason(), None);
    assert_lost(&guard, LostReason::Expired);

    assert_lost(&take(&request.clone().max_hold(SECOND / 5)), LostReason::MaxHold);

    let guard = take(&locks.lock("k"));
    eventually("it is watched", || {
        let _: String = server.run("SET lock:k thief PX 60000");
        !guard.is_held()
    });
    assert_lost(&guard, LostReason::KeyChanged);
    let _: i32 = server.run("DEL lock:k");

    let guard = take(&request);
    server.pause();
    assert_lost(&guard, LostReason::Expired);
    server.resume();
}

#[test]
fn the_reason_reaches_the_caller_of_a_body_that_is_stopped() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pending = async |_: &LockGuard| std::future::pending::<()>().await;
        let stuck = locks.lock("k").max_hold(SECOND / 10).run(pending).await.unwrap_err();
        assert!(matches!(stuck, LockError::Lost { reason: LostReason::MaxHold, .. }), "{stuck:?}");
        let several =
            locks.lock_all(["a", "b"]).ttl(SECOND / 10).renew(false).run(pending).await.unwrap_err();
        assert!(matches!(several, LockError::Lost { reason: LostReason::Expired, .. }), "{several:?}");
    });
}
