//! What `ping` says of a server that is well, and of one that is not.

use std::thread;
use std::time::Duration;

use kit::{LIMIT, LateProxy, Proxy, RedisServer, SECOND, eventually};
use redlocked::{LockError, LockErrorKind, LockManager};

const IO_TIMEOUT: Duration = Duration::from_millis(400);

fn connect(url: &str) -> LockManager {
    LockManager::builder(url).io_timeout(IO_TIMEOUT).connect_blocking().unwrap()
}

fn trouble(locks: &LockManager) -> Option<LockErrorKind> {
    kit::trouble(locks, IO_TIMEOUT)
}

#[test]
fn a_server_is_well_while_it_takes_locks_and_not_while_it_is_down() {
    let mut server = RedisServer::start();
    let locks = connect(&server.url());
    assert_eq!(trouble(&locks), None);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert_eq!(trouble(&locks), None);
    drop(guard);
    eventually("no key is left, of the ping neither", || server.keys().is_empty());

    server.kill();
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable));
    server.restart();
    eventually("it is well again", || trouble(&locks).is_none());

    locks.shutdown_blocking(SECOND).unwrap();
    assert_eq!(trouble(&locks), Some(LockErrorKind::ManagerClosed));
    for outcome in [
        locks.inspect_blocking("k").map(drop),
        locks.list_blocking("*").map(drop),
        locks.force_release_blocking("k").map(drop),
    ] {
        assert!(matches!(outcome, Err(LockError::ManagerClosed { .. })), "{outcome:?}");
    }
}

#[test]
fn a_server_that_is_frozen_is_not_well_and_holds_no_call_for_longer_than_the_limit() {
    let server = RedisServer::start();
    let locks = connect(&server.url());
    server.pause();
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let locks = locks.clone();
            thread::spawn(move || trouble(&locks))
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.join().unwrap(), Some(LockErrorKind::Unavailable));
    }
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable), "nor is it a moment later");
    server.resume();
    eventually("it is well again", || trouble(&locks).is_none());
}

#[test]
fn a_connection_that_breaks_is_replaced_before_a_ping_answers() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    for _ in 0..10 {
        let _: String = server.run("CONFIG RESETSTAT");
        proxy.hold_replies(true);
        let ping = {
            let locks = locks.clone();
            thread::spawn(move || locks.ping_blocking())
        };
        eventually("the ping is on its way", || {
            server.run::<String>("INFO commandstats").contains("cmdstat_set")
        });
        proxy.cut();
        proxy.hold_replies(false);
        assert_eq!(ping.join().unwrap(), Ok(()));
    }
    proxy.refuse(true);
    assert_eq!(locks.ping_blocking().map_err(|error| error.kind()), Err(LockErrorKind::Unavailable));
}

#[test]
fn a_connection_that_a_firewall_forgot_is_replaced_before_a_ping_answers() {
    let server = RedisServer::start();
    let proxy = LateProxy::to(server.port());
    let io_timeout = 2 * SECOND;
    let locks = LockManager::builder(proxy.url()).io_timeout(io_timeout).connect_blocking().unwrap();
    assert_eq!(locks.ping_blocking(), Ok(()));
    // From now on the proxy drops the data of both ends, and closes no connection.
    proxy.keep();
    // A connection over which nothing came for so long is doubted.
    thread::sleep(io_timeout);
    assert_eq!(locks.ping_blocking(), Ok(()));
}

#[test]
fn a_server_that_takes_no_writes_is_not_well() {
    let server = RedisServer::start();
    let locks = connect(&server.url());
    let _: String = server.run("CONFIG SET maxmemory 1");
    let full = locks.ping_blocking().unwrap_err();
    assert!(
        matches!(&full, LockError::Misconfigured { key: None, reason, .. } if reason.contains("OOM")),
        "{full:?}"
    );
    let _: String = server.run("CONFIG SET maxmemory 0");
    assert_eq!(trouble(&locks), None);

    let primary = RedisServer::start();
    let _: String = server.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable), "it is a replica");
    let _: String = server.run("REPLICAOF NO ONE");
    eventually("it is well again", || trouble(&locks).is_none());
}
