//! Connecting: what it finds out, from how far away.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[allow(unreachable_pub, reason = "shared with the benches")]
#[path = "../benches/support/delay.rs"]
mod delay;
mod support;

use std::thread;
use std::time::Duration;

use delay::DelayProxy;
use redlocked::{LockManager, ReleaseOutcome};
use support::{LIMIT, RedisServer, eventually};

/// A round trip is twice this. Longer than around the world, because the proxy accepts a connection without one.
const ONE_WAY: Duration = Duration::from_millis(125);

/// What a lock does all day, with a second waiter behind the first.
#[track_caller]
fn works(locks: &LockManager) {
    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert!(locks.lock("k").acquire_blocking().is_err());
    let waiter = {
        let request = locks.lock("k").wait(LIMIT);
        thread::spawn(move || request.acquire_blocking().unwrap().release_blocking().unwrap())
    };
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waiter.join().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_server_on_another_continent_can_be_connected_to() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), ONE_WAY);
    let locks = LockManager::connect_blocking(&far.url()).unwrap();
    let nearby = LockManager::connect_blocking(&server.url()).unwrap();
    let abilities = nearby.capabilities_blocking().unwrap();
    assert!(abilities.hands_off() && abilities.watches());
    assert_eq!(locks.capabilities_blocking().unwrap(), abilities, "all that it has nearby");
    works(&locks);
    eventually("nothing is left", || server.keys().is_empty());
}
