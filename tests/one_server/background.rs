//! A call that does not wait for its release returns after one round trip, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use kit::{DelayProxy, LIMIT, Proxy, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{
    LockError, LockGuard, LockManager, LostReason, OnLost, TickMissed, Ticket, distributed_lock,
};

#[distributed_lock(key = "k", ttl = "60s", release_in_background, manager = locks)]
async fn later(locks: &LockManager) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k", ttl = "60s", manager = locks)]
async fn as_the_manager_says(locks: &LockManager) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k", ttl = "60s", release_in_background, manager = locks)]
fn later_blocking(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "async", ticket = lock, release_in_background, manager = locks)]
async fn gives_away(locks: &LockManager) -> Result<Ticket, LockError> {
    lock.into_ticket(60 * SECOND).await
}

#[distributed_lock(key = "sync", ticket = lock, release_in_background, manager = locks)]
fn gives_away_blocking(locks: &LockManager) -> Result<Ticket, LockError> {
    lock.into_ticket_blocking(60 * SECOND)
}

fn behind(proxy: &Proxy) -> LockManager {
    LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap()
}

/// Each kind of caller, on locks that are held when the server does not answer any more.
#[test]
fn a_call_returns_before_the_server_has_answered_its_release() {
    type Call = fn(&LockManager, &Proxy);
    let calls: [Call; 3] = [
        |locks, proxy| {
            let body = async |_: &_| proxy.hold_replies(true);
            let request = locks.lock("k").ttl(60 * SECOND).release_in_background(true);
            runtime().block_on(request.run_value(body)).unwrap();
        },
        |locks, proxy| {
            let request = locks.lock("k").ttl(60 * SECOND).release_in_background(true);
            request.run_value_blocking(|_| proxy.hold_replies(true)).unwrap();
        },
        |locks, proxy| {
            let request = locks.lock_all(["a", "k", "z"]).ttl(60 * SECOND).release_in_background(true);
            request.run_value_blocking(|_| proxy.hold_replies(true)).unwrap();
        },
    ];
    for call in calls {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        let locks = behind(&proxy);
        call(&locks, &proxy);
        eventually("the release has arrived", || server.keys().is_empty());
        proxy.hold_replies(false);
        assert_eq!(locks.lock("k").run_value_blocking(|_| 7), Ok(7));
    }
}

#[test]
fn calls_take_one_round_trip_each() {
    const CALLS: u32 = 5;
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), SECOND / 20);
    let round_trip = SECOND / 10;
    let url = proxy.url();
    let locks = LockManager::builder(&url).io_timeout(LIMIT).connect_blocking().unwrap();
    let by_default = LockManager::builder(&url).io_timeout(LIMIT).default_release_in_background(true);
    let by_default = by_default.connect_blocking().unwrap();
    let took = |call: &dyn Fn()| {
        // The engine may move to the caller's runtime first, over a new connection.
        call();
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        begun.elapsed()
    };
    let runtime = runtime();
    let is_one_each = |call: &dyn Fn()| took(call) < (2 * CALLS - 1) * round_trip;
    // A busy machine may need several series.
    eventually("one round trip each", || is_one_each(&|| runtime.block_on(later(&locks)).unwrap()));
    eventually("one round trip each by default", || {
        is_one_each(&|| runtime.block_on(as_the_manager_says(&by_default)).unwrap())
    });
    let awaited = took(&|| runtime.block_on(as_the_manager_says(&locks)).unwrap());
    assert!(awaited >= 2 * CALLS * round_trip, "{awaited:?}");
    eventually("one round trip each in sync code", || is_one_each(&|| later_blocking(&locks).unwrap()));
}

/// One try each: a call that came before the release of the one before it would be refused.
#[test]
fn the_next_call_of_the_process_comes_behind_the_release() {
    let server = RedisServer::start();
    let locks = connect(&server);
    runtime().block_on(async {
        for _ in 0..500 {
            later(&locks).await.unwrap();
        }
    });
    for _ in 0..500 {
        later_blocking(&locks).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| later_blocking(&locks).unwrap()).join().unwrap();
        scope.spawn(|| later_blocking(&locks).unwrap()).join().unwrap();
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_shutdown_waits_for_releases_that_are_under_way() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = behind(&proxy);
    let request = locks.lock("k").ttl(60 * SECOND).release_in_background(true);
    request.run_value_blocking(|_| proxy.hold_replies(true)).unwrap();
    thread::scope(|scope| {
        let shutdown = scope.spawn(|| locks.shutdown_blocking(LIMIT));
        eventually("the release has arrived", || server.keys().is_empty());
        assert!(!shutdown.is_finished());
        proxy.hold_replies(false);
        shutdown.join().unwrap().unwrap();
    });
}

#[test]
fn a_runtime_that_ends_writes_what_its_calls_have_released() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for _ in 0..10 {
        let runtime = runtime();
        runtime.block_on(later(&locks)).unwrap();
        drop(runtime);
        eventually("no key is left", || server.keys().is_empty());
    }
}

#[test]
fn a_release_that_is_refused_is_tried_again() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let rules = server.known_rules("-del -delifeq -delex");
    let forbid = || drop(server.run::<String>(&format!("ACL SETUSER default {rules}")));
    let request = || locks.lock("k").ttl(60 * SECOND).release_in_background(true);
    assert_eq!(request().run_value_blocking(|_| forbid()), Ok(()));
    let busy = request().run_value_blocking(|_| ());
    assert!(busy.as_ref().is_err_and(LockError::is_busy), "{busy:?}");
    let _: String = server.run("ACL SETUSER default +@all");
    eventually("it is released", || server.keys().is_empty());
}

#[test]
fn who_is_to_hear_what_the_release_finds_waits_for_it() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let both = locks.lock("k").on_lost(OnLost::Error).release_in_background(true).run_value_blocking(|_| ());
    assert!(matches!(both, Err(LockError::InvalidRequest { .. })), "{both:?}");
    let builder = LockManager::builder(server.url()).default_release_in_background(true);
    let locks = builder.connect_blocking().unwrap();
    let delete = || server.run::<u32>("DEL lock:k");
    let lost = locks.lock("k").on_lost(OnLost::Error).run_value_blocking(|_| delete());
    assert!(matches!(lost, Err(LockError::Lost { reason: LostReason::KeyChanged, .. })), "{lost:?}");
    assert_eq!(locks.lock("k").run_value_blocking(|_| delete()), Ok(1));
}

#[test]
fn a_nested_call_releases_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = || locks.lock("k").reentrant(true).release_in_background(true);
    let held = request().run_value_blocking(|guard| {
        request().run_value_blocking(|_| ()).unwrap();
        let other = connect(&server).lock("k").acquire_blocking();
        guard.is_held() && other.is_err_and(|error| error.is_busy())
    });
    assert_eq!(held, Ok(true));
}

#[test]
fn a_tick_that_was_run_is_over() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let day = 86_400 * SECOND;
    let request =
        || locks.lock("k").tick(366 * day).tick_missed(TickMissed::Retry).release_in_background(true);
    assert_eq!(request().run_value_blocking(|_| ()), Ok(()));
    let again = request().run_value_blocking(|_| ());
    assert!(matches!(again, Err(LockError::TickTaken { .. })), "{again:?}");
}

/// One manager does not wait for its releases, two do, and each kind meets each.
#[test]
fn callers_of_all_kinds_keep_the_rule() {
    let server = RedisServer::start();
    let builder = LockManager::builder(server.url()).default_release_in_background(true);
    let managers = [builder.connect_blocking().unwrap(), connect(&server), connect(&server)];
    // Each is inside with so many others at most; no other where that is 0.
    let inside: Arc<[AtomicU32; 3]> = Arc::default();
    let check = |inside: &[AtomicU32; 3]| {
        let [alone, permits, readers] = inside.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert!(alone == 0 || alone + permits + readers == 1, "{alone} {permits} {readers}");
        assert!(permits == 0 || permits + readers <= 3, "{permits} {readers}");
    };
    runtime().block_on(async {
        let calls = (0..45).map(|number: usize| {
            let (locks, inside) = (managers[number % 3].clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for round in 0..10 {
                    let (kind, request) = match (number + round) % 5 {
                        0 => (0, locks.lock("k")),
                        1 => (0, locks.lock_all(["a", "k"])),
                        2 => (1, locks.lock("k").permits(3)),
                        _ => (2, locks.lock("k").shared()),
                    };
                    let body = async |_: &_| {
                        inside[kind].fetch_add(1, Ordering::SeqCst);
                        check(&inside);
                        tokio::task::yield_now().await;
                        check(&inside);
                        inside[kind].fetch_sub(1, Ordering::SeqCst);
                    };
                    request.wait(LIMIT).run_value(body).await.unwrap();
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_lock_is_kept_until_min_hold_is_over() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = || locks.lock("k").ttl(60 * SECOND).min_hold(30 * SECOND).release_in_background(true);
    assert_eq!(request().run_value_blocking(|_| ()), Ok(()));
    let busy = request().run_value_blocking(|_| ());
    assert!(busy.as_ref().is_err_and(LockError::is_busy), "{busy:?}");
    eventually("it ends with `min_hold`", || (1..=30_001).contains(&server.run::<i64>("PTTL lock:k")));
}

#[test]
fn a_lock_that_was_handed_over_is_not_released() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let given = [gives_away_blocking(&locks).unwrap(), runtime().block_on(gives_away(&locks)).unwrap()];
    // Behind whatever the calls have sent.
    locks.lock("other").run_value_blocking(|_| ()).unwrap();
    for ticket in given {
        assert_eq!(other.redeem(ticket).run_value_blocking(|_| 7), Ok(7));
    }
    eventually("no key is left", || server.keys().is_empty());
}

/// A caller that learns of its end finds it done, whatever the manager says of releases.
#[test]
fn a_tick_that_was_missed_is_run_again_and_one_that_was_run_is_not() {
    let server = RedisServer::start();
    let builder = LockManager::builder(server.url()).default_release_in_background(true);
    let (locks, other) = (builder.connect_blocking().unwrap(), connect(&server));
    let year = 366 * 86_400 * SECOND;
    let request = |locks: &LockManager| locks.lock("k").tick(year).tick_missed(TickMissed::Retry);
    // Its body has failed.
    request(&locks).run_value_blocking(LockGuard::fail_tick).unwrap();
    eventually("it is open again", || match request(&other).wait(LIMIT).acquire_blocking() {
        Ok(guard) => {
            guard.fail_tick();
            true
        }
        Err(error) => unreachable!("{error}"),
    });
    eventually("it has the lock", || request(&locks).run_value_blocking(|_| ()).is_ok());
    eventually("it is over", || {
        matches!(request(&other).acquire_blocking().map(drop), Err(LockError::TickTaken { .. }))
    });
}
