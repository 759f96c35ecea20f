//! Other libraries on the same key, as in a fleet that migrates service by service: redis-py,
//! node-redlock, and a hand-written lock. They exclude us and we exclude them, and neither releases
//! a lock of the other.
//!
//! And a second client of our own protocol, with processes of both in one queue: `second.rs`, and `once.rs` with the feature
//! `once`.
//!
//! The libraries are fetched below `target/interop/`. Where python3, node or their registries are
//! missing, their tests say so and pass; with `CI` in the environment they fail.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod by_hand;
mod counted;
#[cfg(feature = "once")]
mod once;
mod order;
mod peer;
mod second;

use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use kit::{LIMIT, RedisServer, eventually};
use peer::Start;
use redlocked::{LockError, LockManager, ReleaseOutcome};

const SECOND: Duration = Duration::from_secs(1);

macro_rules! with {
    ($($peer:ident)*: $tests:tt) => { $(with! { @ $peer $tests })* };
    (@ $peer:ident { $($test:ident)* }) => {
        mod $peer {
            $(#[test] fn $test() { super::$test(super::peer::$peer); })*
        }
    };
}

with! { redis_py redis_py_asyncio node_redlock hand_written: {
    while_they_hold_we_are_refused_and_see_another_kind_of_client
    we_wait_without_asking_and_have_it_when_they_release
    while_they_extend_we_go_on_waiting
    while_we_hold_they_are_refused_and_have_it_when_we_release
    a_body_that_outlives_its_ttl_keeps_them_out
    when_they_vanish_we_have_it_at_their_expiry
    when_ours_expires_they_have_it_and_keep_it
    their_late_release_and_extension_leave_ours_alone
    our_release_leaves_theirs_alone_when_ours_was_deleted
    who_takes_it_away_from_them_is_told_by_them
    both_in_turns_lose_no_update
} }

fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect_blocking(server.url()).unwrap()
}

fn waiter(locks: &LockManager) -> JoinHandle<Result<ReleaseOutcome, LockError>> {
    let request = locks.lock("k").wait(LIMIT);
    thread::spawn(move || request.acquire_blocking()?.release_blocking())
}

/// Reads, pauses, writes: two concurrent calls lose an update.
fn count_once(client: &mut redis::Connection, counter: &str) {
    let seen: Option<u32> = redis::cmd("GET").arg(counter).query(client).unwrap();
    sleep(Duration::from_millis(1));
    redis::cmd("SET").arg(counter).arg(seen.unwrap_or_default() + 1).exec(client).unwrap();
}

fn while_they_hold_we_are_refused_and_see_another_kind_of_client(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    peer.does("try lock:k 60000", "held");
    let secret: String = server.run("GET lock:k");

    let refused = locks.lock("k").acquire_blocking().unwrap_err();
    assert!(matches!(refused, LockError::Busy { .. }), "{refused:?}");
    let gave_up = locks.lock("k").wait(SECOND).acquire_blocking().unwrap_err();
    assert!(matches!(gave_up, LockError::TimedOut { .. }), "{gave_up:?}");
    let info = locks.inspect_blocking("k").unwrap().unwrap();
    assert_eq!((info.holder().name(), info.waiters()), (None, 0));
    let expires_in = info.holder().expires_in().unwrap();
    assert!(expires_in > 30 * SECOND && expires_in <= 60 * SECOND, "{expires_in:?}");
    assert_eq!(kit::listed(&locks, "*").unwrap(), ["k"]);
    for text in [refused.to_string(), gave_up.to_string()] {
        assert!(text.contains("a client of another kind"), "{text}");
    }
    for text in [format!("{refused:?}"), format!("{gave_up:?}"), format!("{info:?}")] {
        assert!(!text.contains(&secret), "their token is not shown, either: {text}");
    }

    assert_eq!(server.run::<String>("GET lock:k"), secret, "left alone");
    peer.does("release", "released");
    assert_eq!(locks.inspect_blocking("k").unwrap(), None);
}

fn we_wait_without_asking_and_have_it_when_they_release(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    for _ in 0..3 {
        peer.does("try lock:k 60000", "held");
        let waiter = waiter(&locks);
        eventually("we watch", || server.run::<String>("INFO stats").contains("tracking_total_keys:1"));
        let asked = server.client_commands();
        sleep(SECOND / 2);
        let asked = server.client_commands() - asked;
        assert!(asked <= 4, "{asked} requests in half a second");
        peer.does("release", "released");
        assert_eq!(waiter.join().unwrap().unwrap(), ReleaseOutcome::Released);
    }
}

fn while_they_extend_we_go_on_waiting(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    peer.does("try lock:k 2000", "held");
    let waiter = waiter(&locks);
    // Three seconds with a lock of two, which its holder extends.
    for _ in 0..6 {
        sleep(SECOND / 2);
        peer.does("extend 2000", "extended");
        assert!(!waiter.is_finished());
    }
    peer.does("release", "released");
    assert_eq!(waiter.join().unwrap().unwrap(), ReleaseOutcome::Released);
}

fn while_we_hold_they_are_refused_and_have_it_when_we_release(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let value: String = server.run("GET lock:k");
    peer.does("try lock:k 60000", "refused");
    peer.does("wait lock:k 60000", "waiting");
    assert_eq!(server.run::<String>("GET lock:k"), value);
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    peer.expect("held");
    assert!(locks.lock("k").acquire_blocking().unwrap_err().is_busy());
    peer.does("release", "released");
    eventually("no key is left", || server.keys().is_empty());
}

fn a_body_that_outlives_its_ttl_keeps_them_out(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    let outcome = locks.lock("k").ttl(2 * SECOND).run_value_blocking(|_| {
        // Three seconds with a ttl of two.
        for _ in 0..12 {
            peer.does("try lock:k 60000", "refused");
            sleep(SECOND / 4);
        }
    });
    outcome.unwrap();
    peer.does("try lock:k 60000", "held");
}

fn when_they_vanish_we_have_it_at_their_expiry(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    peer.does("try lock:k 1500", "held");
    let waiter = waiter(&locks);
    drop(peer);
    assert_eq!(waiter.join().unwrap().unwrap(), ReleaseOutcome::Released);
}

fn when_ours_expires_they_have_it_and_keep_it(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let guard = connect(&server).lock("k").ttl(2 * SECOND).renew(false).acquire_blocking().unwrap();
    peer.say("wait lock:k 60000");
    peer.expect("waiting");
    peer.expect("held");
    assert!(!guard.is_held(), "we stopped before they began");
    assert!(matches!(guard.extend_blocking(SECOND), Err(LockError::Lost { .. })));
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    peer.does("release", "released");
}

fn their_late_release_and_extension_leave_ours_alone(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    peer.does("try lock:k 200", "held");
    let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    let value: String = server.run("GET lock:k");
    peer.does("extend 60000", "lost");
    peer.does("release", "lost");
    assert_eq!(server.run::<String>("GET lock:k"), value);
    assert!(server.run::<u64>("PTTL lock:k") <= 30_000, "the ttl is ours");
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn our_release_leaves_theirs_alone_when_ours_was_deleted(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    // The first try warms up the client. Later it must be quick: a holder that knows of the loss
    // sends no release.
    peer.does("try lock:other 60000", "held");
    peer.does("release", "released");
    let guard = connect(&server).lock("k").acquire_blocking().unwrap();
    let _: i32 = server.run("DEL lock:k");
    peer.does("try lock:k 60000", "held");
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    assert_eq!(server.keys(), ["lock:k"]);
    peer.does("release", "released");
}

fn who_takes_it_away_from_them_is_told_by_them(start: Start) {
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let locks = connect(&server);
    peer.does("try lock:k 60000", "held");
    let taken = locks.force_release_blocking("k").unwrap().unwrap();
    assert_eq!(taken.name(), None);
    peer.does("release", "lost");
}

fn both_in_turns_lose_no_update(start: Start) {
    const ROUNDS: u32 = 50;
    let server = RedisServer::start();
    let Some(mut peer) = start(&server) else { return };
    let Some(mut other) = start(&server) else { return };
    for peer in [&mut peer, &mut other] {
        peer.say(&format!("count lock:k counter {ROUNDS}"));
    }
    let ours: Vec<_> = (0..2)
        .map(|_| {
            let (locks, mut client) = (connect(&server), server.client());
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let request = locks.lock("k").wait(LIMIT);
                    request.run_value_blocking(|_| count_once(&mut client, "counter")).unwrap();
                }
            })
        })
        .collect();
    for thread in ours {
        thread.join().unwrap();
    }
    peer.expect("counted");
    other.expect("counted");
    assert_eq!(server.run::<u32>("GET counter"), 4 * ROUNDS);
}
