//! The value of a lock is marked while other callers wait for it: the mark changes nothing for its
//! holder, and newcomers do not pass the waiters when its lease is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{LockGuard, LockManager, ReleaseOutcome};
use tokio::sync::oneshot;

/// The value of a lock of this kind, of a holder that does not renew.
const TOKEN: &str = "AAAAAAAAAAAAAAAAAAAAAA@gone:1";

fn value(server: &RedisServer) -> String {
    server.run("GET lock:k")
}

/// A waiter that is in the queue when this returns, and has marked the lock unless it is a foreign
/// client's.
fn queued(server: &RedisServer, locks: &LockManager) -> thread::JoinHandle<LockGuard> {
    let before: u32 = server.run("ZCARD lock:k%queue");
    let locks = locks.clone();
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == before + 1);
    waiter
}

/// A waiter that is in the queue when this returns, and has left it when what this returns has run.
fn queued_until_told(server: &RedisServer, locks: &LockManager) -> impl FnOnce() {
    let before: u32 = server.run("ZCARD lock:k%queue");
    let (leave, told) = oneshot::channel::<()>();
    let locks = locks.clone();
    let waiter = thread::spawn(move || {
        runtime().block_on(async {
            tokio::select! {
                outcome = locks.lock("k").wait(LIMIT).acquire() => panic!("it has left: {outcome:?}"),
                _ = told => {}
            }
            locks.shutdown(LIMIT).await.unwrap();
        });
    });
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == before + 1);
    move || {
        leave.send(()).unwrap();
        waiter.join().unwrap();
    }
}

fn wait_until_watched(server: &RedisServer) {
    eventually("the server tracks the key", || {
        server.run::<String>("INFO stats").contains("tracking_total_keys:1")
    });
}

#[test]
fn newcomers_do_not_pass_a_waiter_when_a_lease_is_over() {
    let server = RedisServer::start();
    let (locks, newcomers) = (connect(&server), [connect(&server), connect(&server)]);
    for _ in 0..5 {
        let _: String = server.run(&format!("SET lock:k {TOKEN} PX 300"));
        let waiter = queued(&server, &locks);
        let (entered, passed) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            for locks in &newcomers {
                scope.spawn(|| {
                    while !entered.load(Ordering::SeqCst) {
                        if let Ok(guard) = locks.lock("k").acquire_blocking() {
                            passed.fetch_or(!entered.load(Ordering::SeqCst), Ordering::SeqCst);
                            drop(guard);
                        }
                    }
                });
            }
            let guard = waiter.join().unwrap();
            entered.store(true, Ordering::SeqCst);
            drop(guard);
        });
        assert!(!passed.load(Ordering::SeqCst));
    }
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn an_uncontended_lock_has_no_mark_and_no_queue() {
    let server = RedisServer::start();
    let guard = connect(&server).lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let before = server.client_commands();
    eventually("the lock is renewed and watched", || server.client_commands() > before + 3);
    assert!(!value(&server).ends_with('!'));
    assert_eq!(server.keys(), ["lock:k"]);
    drop(guard);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_marked_lock_is_renewed_extended_shortened_and_inspected() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let waiter = queued(&server, &other);
    assert!(value(&server).ends_with('!'));
    // For longer than the ttl.
    let start = Instant::now();
    eventually("the lock is renewed", || {
        assert!(guard.is_held());
        start.elapsed() > SECOND * 3 / 2
    });
    guard.extend_blocking(60 * SECOND).unwrap();
    let left = Duration::from_millis(server.run("PTTL lock:k"));
    assert!(left > 60 * SECOND, "the key outlives its lease: {left:?}");
    let seen = other.inspect_blocking("k").unwrap().unwrap();
    assert_eq!(seen.waiters(), 1);
    assert_eq!(seen.holder().name().unwrap().split(':').next_back(), Some(&*std::process::id().to_string()));
    assert!(seen.holder().expires_in().unwrap() <= 60 * SECOND);
    assert_eq!(kit::listed(&other, "*").unwrap(), ["k"]);
    let busy = other.lock("k").acquire_blocking().unwrap_err();
    assert!(!busy.to_string().contains('!'), "{busy}");
    guard.extend_blocking(30 * SECOND).unwrap();
    let left = Duration::from_millis(server.run("PTTL lock:k"));
    assert!(left <= 30 * SECOND + SECOND / 10, "{left:?}");
    assert!(value(&server).ends_with('!'));
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(waiter.join().unwrap());
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_marked_lock_is_taken_away_from_its_holder() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let waiter = queued(&server, &other);
    wait_until_watched(&server);
    let holder = other.force_release_blocking("k").unwrap().unwrap();
    assert!(!holder.name().unwrap().contains('!'));
    let next = waiter.join().unwrap();
    eventually("the holder is told", || !guard.is_held());
    assert!(next.is_held());
}

#[test]
fn a_mark_is_not_taken_for_a_loss_and_does_not_end_the_watch() {
    for by_another in [true, false] {
        let server = RedisServer::start();
        let locks = connect(&server);
        let waits = if by_another { connect(&server) } else { locks.clone() };
        let guard = locks.lock("k").ttl(600 * SECOND).acquire_blocking().unwrap();
        wait_until_watched(&server);
        let before = server.client_commands();
        let waiter = queued(&server, &waits);
        eventually("the holder has compared, and watches again", || server.client_commands() >= before + 3);
        wait_until_watched(&server);
        assert!(guard.is_held());
        let _: i32 = server.run("DEL lock:k");
        eventually("the lock is lost", || !guard.is_held());
        drop(waiter.join().unwrap());
    }
}

#[test]
fn the_value_of_a_foreign_client_is_never_marked() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    for foreign in ["x", "c0ffee@host:1", &format!("{TOKEN}#2"), &format!("{TOKEN}!!")] {
        let _: String = server.run(&format!("SET lock:k {foreign} PX 60000"));
        let waiters = [queued(&server, &locks), queued(&server, &other)];
        let before = server.client_commands();
        eventually("the waiters have asked again", || server.client_commands() >= before + 3);
        drop(other.lock("k").acquire_blocking().unwrap_err());
        assert_eq!(value(&server), foreign);
        let _: i32 = server.run("DEL lock:k");
        for waiter in waiters {
            drop(waiter.join().unwrap());
        }
    }
}

/// The waiter was told that the lock lasts for a minute.
#[test]
fn a_waiter_is_told_when_a_lock_is_to_expire_sooner() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let after = || {
        let held = locks.lock("k").ttl(60 * SECOND).min_hold(SECOND / 5);
        let guard = held.acquire_blocking().unwrap();
        let start = Instant::now();
        let waiter = queued(&server, &other);
        drop(guard);
        drop(waiter.join().unwrap());
        start.elapsed()
    };
    // Without the push, it asks again after 300 ms at the earliest. The machine may be busy: one of
    // thirty is quicker.
    assert!((0..30).any(|_| after() < Duration::from_millis(290)));
}

/// The head of the queue leaves it, and the next waiter was told that the lock lasts for a minute
/// when it asked.
#[test]
fn a_waiter_is_told_when_the_one_in_front_leaves() {
    let server = RedisServer::start();
    let _: String = server.run(&format!("SET lock:k {TOKEN} PX 600000"));
    let [first, second] = [connect(&server), connect(&server)];
    let leaves = queued_until_told(&server, &first);
    let waiter = queued(&server, &second);
    let _: String = server.run("CONFIG RESETSTAT");
    leaves();
    eventually("the waiter is told", || {
        server.run::<String>("INFO commandstats").contains("cmdstat_publish:calls=1,")
    });
    let _: i32 = server.run("DEL lock:k");
    drop(waiter.join().unwrap());
}

/// The second of two waiters that were told leaves: if the first one dies, the third has to know
/// when to ask.
#[test]
fn a_waiter_is_told_when_the_second_in_front_leaves() {
    let server = RedisServer::start();
    let _: String = server.run(&format!("SET lock:k {TOKEN} PX 600000"));
    let [first, second, third] = [connect(&server), connect(&server), connect(&server)];
    let first = queued(&server, &first);
    let leaves = queued_until_told(&server, &second);
    let third = queued(&server, &third);
    let _: String = server.run("CONFIG RESETSTAT");
    leaves();
    eventually("both are told", || {
        server.run::<String>("INFO commandstats").contains("cmdstat_publish:calls=2,")
    });
    let _: i32 = server.run("DEL lock:k");
    drop(first.join().unwrap());
    drop(third.join().unwrap());
}

/// The process knows from the grant how long the lock lasts in front of its other waiters.
#[test]
fn a_grant_to_a_process_costs_no_hint_to_its_other_waiters() {
    let server = RedisServer::start();
    let [locks, other] = [connect(&server), connect(&server)];
    let told_meanwhile = |waiters: [&LockManager; 3]| {
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let waiters = waiters.map(|waiter| queued(&server, waiter));
        let _: String = server.run("CONFIG RESETSTAT");
        drop(guard);
        for waiter in waiters {
            drop(waiter.join().unwrap());
        }
        eventually("no key is left", || server.keys().is_empty());
        let stats: String = server.run("INFO commandstats");
        let calls = stats.split_once("cmdstat_publish:calls=").unwrap().1;
        calls.split_once(',').unwrap().0.parse::<u32>().unwrap()
    };
    // About one release in a hundred leaves the lock free instead.
    let fewest = |waiters: [&LockManager; 3]| (0..5).map(|_| told_meanwhile(waiters)).min().unwrap();
    assert_eq!(fewest([&other, &other, &other]), 3, "a grant for each");
    assert_eq!(fewest([&other, &locks, &other]), 3 + 2, "and a hint to the first of another process");
}
