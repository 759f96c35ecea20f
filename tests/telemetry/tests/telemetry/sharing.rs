//! Locks that several hold together: the kind in their spans, and a warning where their callers
//! differ.

use std::time::Duration;

use kit::{RedisServer, unique};
use redlocked::{LockManager, LockRequest};
use tracing::Level;

use crate::seen::{SeenEvent, events, spans, subscribe};

fn on_both(test: impl Fn(&LockManager)) {
    subscribe();
    test(&LockManager::connect_blocking(format!("memory://{}", unique("sharing"))).unwrap());
    let server = RedisServer::start();
    test(&LockManager::connect_blocking(server.url()).unwrap());
}

fn warnings(key: &str) -> Vec<SeenEvent> {
    events("key", key).into_iter().filter(|event| event.level == Level::WARN).collect()
}

#[test]
fn both_spans_of_a_call_have_the_kind_of_its_lock() {
    on_both(|locks| {
        let spans_have = |kind: &str, with: fn(LockRequest) -> LockRequest| {
            let key = unique(kind);
            with(locks.lock(&*key)).run_value_blocking(|_guard| ()).unwrap();
            let seen: Vec<_> =
                spans(&key).iter().map(|span| (span.name, span.fields["kind"].clone())).collect();
            assert_eq!(seen, [("lock_wait", kind.to_owned()), ("lock_hold", kind.to_owned())]);
        };
        spans_have("exclusive", |request| request);
        spans_have("exclusive", |request| request.permits(1));
        spans_have("shared", LockRequest::shared);
        spans_have("permits", |request| request.permits(5));
    });
}

#[test]
fn callers_that_ask_for_different_numbers_of_permits_are_reported_once_for_each_key() {
    on_both(|locks| {
        let other_key = unique("same");
        let request = |key: &str, permits| locks.lock(key).permits(permits);
        for _ in 0..3 {
            let _both = [request(&other_key, 5), request(&other_key, 5)].map(LockRequest::acquire_blocking);
            // A writer differs, as it should.
            assert!(locks.lock(&*other_key).acquire_blocking().is_err());
        }
        assert!(warnings(&other_key).is_empty());

        let key = unique("differ");
        let _three = request(&key, 3).acquire_blocking().unwrap();
        for _ in 0..3 {
            drop(request(&key, 5).wait(Duration::from_secs(5)).acquire_blocking().unwrap());
        }
        let warnings = warnings(&key);
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!((&*warning.fields["permits"], &*warning.fields["others_permits"]), ("5", "3"));
    });
}

/// What another process asks for is known once the server has answered that the lock is busy.
#[test]
fn callers_of_two_processes_that_differ_are_reported_where_one_is_refused() {
    subscribe();
    let (server, key) = (RedisServer::start(), unique("processes"));
    let [here, there] = [(); 2].map(|()| LockManager::connect_blocking(server.url()).unwrap());
    let _two = [(); 2].map(|()| there.lock(&*key).permits(2).acquire_blocking().unwrap());
    assert!(warnings(&key).is_empty());
    assert!(here.lock(&*key).shared().acquire_blocking().is_err_and(|error| error.is_busy()));
    let warnings = warnings(&key);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((&*warning.fields["permits"], &*warning.fields["others_permits"]), ("0", "2"));
}
