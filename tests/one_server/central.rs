//! A limit that is set centrally: how many permits a key has, whatever its callers say; on `memory://`,
//! on a server and in a Cluster alike.

use std::time::Instant;

use kit::{LIMIT, Quorum, RedisServer, SECOND, connect, eventually, polled, runtime};
use redlocked::{LockError, LockGuard, LockManager, LockRequest};

use crate::sharing::{on_each, on_each_with_a_queue};

/// A caller that has 1,000 permits by its own number.
fn request(locks: &LockManager) -> LockRequest {
    locks.lock("k").permits(1_000)
}

fn is_busy(request: LockRequest) -> bool {
    request.acquire_blocking().is_err_and(|error| error.is_busy())
}

fn waits_until_queued(locks: &LockManager, waiters: u32) {
    eventually("all are queued", || {
        locks.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == waiters)
    });
}

fn clear(locks: &LockManager) {
    locks.clear_permits_blocking("k").unwrap();
}

#[test]
fn a_number_that_is_set_wins_over_those_of_the_callers_until_it_is_cleared() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        assert_eq!(here.permits_blocking("k").unwrap(), None);
        assert_eq!(here.set_permits_blocking("k", 3).unwrap(), None);
        assert_eq!(there.permits_blocking("k").unwrap(), Some(3));
        // Larger than the number of a caller, and smaller.
        let numbers = [2, 1_000, 2].map(|permits| there.lock("k").permits(permits));
        let held = numbers.map(|request| request.acquire_blocking().unwrap());
        assert!(is_busy(request(&there)) && is_busy(here.lock("k").permits(2)));
        drop(held);
        eventually("all have left", || there.inspect_blocking("k").unwrap().is_none());
        assert_eq!(there.set_permits_blocking("k", 4).unwrap(), Some(3));
        assert_eq!(here.clear_permits_blocking("k").unwrap(), Some(4));
        assert_eq!(here.clear_permits_blocking("k").unwrap(), None);
        let held = [0; 5].map(|_| request(&here).acquire_blocking().unwrap());
        assert!(is_busy(there.lock("k").permits(5)));
        drop((held, here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn a_number_that_is_raised_lets_waiters_in_at_once() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        here.set_permits_blocking("k", 3).unwrap();
        let held = [0; 3].map(|_| request(&here).acquire_blocking().unwrap());
        runtime().block_on(async {
            let wait = |locks: &LockManager| tokio::spawn(request(locks).wait(LIMIT).acquire());
            let (first, second) = (wait(&there), wait(&here));
            tokio::task::spawn_blocking({
                let here = here.clone();
                move || waits_until_queued(&here, 2)
            })
            .await
            .unwrap();
            let start = Instant::now();
            assert_eq!(here.set_permits("k", 5).await.unwrap(), Some(3));
            let _entered = [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()];
            assert!(start.elapsed() < SECOND / 2, "nobody had to ask: {:?}", start.elapsed());
            assert!(request(&there).acquire().await.is_err_and(|error| error.is_busy()));
        });
        drop(held);
        clear(&there);
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn a_number_that_is_cleared_lets_in_those_that_it_kept_out() {
    on_each_with_a_queue(|store| {
        let locks = store.manager();
        locks.set_permits_blocking("k", 1).unwrap();
        let held = request(&locks).acquire_blocking().unwrap();
        runtime().block_on(async {
            let next = tokio::spawn(request(&locks).wait(LIMIT).acquire());
            while locks.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {}
            let start = Instant::now();
            locks.clear_permits("k").await.unwrap();
            let _next = next.await.unwrap().unwrap();
            assert!(start.elapsed() < SECOND / 2, "{:?}", start.elapsed());
        });
        drop((held, locks));
        store.assert_nothing_left();
    });
}

/// Nobody loses a place, and nobody enters until there is room.
#[test]
fn a_number_that_is_lowered_takes_nobodys_place_away() {
    on_each(|store| {
        let locks = store.manager();
        locks.set_permits_blocking("k", 4).unwrap();
        let mut held: Vec<LockGuard> =
            (0..4).map(|_| request(&locks).ttl(2 * SECOND).acquire_blocking().unwrap()).collect();
        locks.set_permits_blocking("k", 2).unwrap();
        let info = locks.inspect_blocking("k").unwrap().unwrap();
        assert_eq!((info.inside(), info.limit(), info.has_central_limit()), (4, Some(2), true));
        for inside in [4, 3, 2] {
            assert!(held.iter().all(LockGuard::is_held) && held.len() == inside);
            assert!(is_busy(request(&locks)), "{inside} are inside");
            held.pop().unwrap().release_blocking().unwrap();
        }
        let entered = request(&locks).acquire_blocking().unwrap();
        assert!(is_busy(request(&locks)));
        drop((entered, held));
        clear(&locks);
        drop(locks);
        store.assert_nothing_left();
    });
}

/// An exclusive caller still allows nobody beside itself, and a reader any number.
#[test]
fn readers_and_exclusive_callers_are_as_ever() {
    on_each(|store| {
        let locks = store.manager();
        locks.set_permits_blocking("k", 2).unwrap();
        let readers = [0; 3].map(|_| locks.lock("k").shared().acquire_blocking().unwrap());
        assert!(is_busy(request(&locks)) && is_busy(locks.lock("k")));
        drop(readers);
        let writer = eventually_acquired(&locks);
        assert!(is_busy(request(&locks)) && is_busy(locks.lock("k").shared()));
        drop(writer);
        let one = || locks.lock("k").permits(1);
        let alone = one().wait(LIMIT).acquire_blocking().unwrap();
        assert!(is_busy(one()) && is_busy(request(&locks)));
        drop(alone);
        // A permit beside a reader, and another reader up to the number.
        let permit = request(&locks).wait(LIMIT).acquire_blocking().unwrap();
        let reader = locks.lock("k").shared().acquire_blocking().unwrap();
        assert!(is_busy(locks.lock("k").shared()) && is_busy(request(&locks)) && is_busy(locks.lock("k")));
        drop((permit, reader));
        clear(&locks);
        drop(locks);
        store.assert_nothing_left();
    });
}

fn eventually_acquired(locks: &LockManager) -> LockGuard {
    locks.lock("k").wait(LIMIT).acquire_blocking().unwrap()
}

#[test]
fn weights_count_against_the_number_that_is_set() {
    on_each(|store| {
        let locks = store.manager();
        let take = |take| request(&locks).take(take);
        locks.set_permits_blocking("k", 10).unwrap();
        let (seven, two) = (take(7).acquire_blocking().unwrap(), take(2).acquire_blocking().unwrap());
        assert!(is_busy(take(2)));
        let one = take(1).acquire_blocking().unwrap();
        let error = request(&locks).acquire_blocking().unwrap_err().to_string();
        assert!(error.contains("10 of 10 permits (set centrally), 3 holders"), "{error}");
        locks.set_permits_blocking("k", 12).unwrap();
        let again = take(2).acquire_blocking().unwrap();
        let info = locks.inspect_blocking("k").unwrap().unwrap();
        assert_eq!((info.taken(), info.limit(), info.inside()), (12, Some(12), 4));
        drop((seven, two, one, again));
        clear(&locks);
        drop(locks);
        store.assert_nothing_left();
    });
}

/// It would never get them, and keep out all behind it. Also where the lock is free.
#[test]
fn a_caller_that_takes_more_than_there_are_is_refused_with_both_numbers() {
    on_each(|store| {
        let locks = store.manager();
        locks.set_permits_blocking("k", 4).unwrap();
        let is_refused = |request: LockRequest| {
            let error = request.acquire_blocking().unwrap_err();
            assert!(matches!(&error, LockError::Misconfigured { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains("`k`") && text.contains("takes 5 permits, and `set_permits` allows 4"),
                "{text}"
            );
        };
        let five = || request(&locks).take(5);
        is_refused(five());
        is_refused(five().wait(LIMIT));
        let four = request(&locks).take(4).acquire_blocking().unwrap();
        is_refused(five());
        is_refused(five().wait(LIMIT));
        locks.set_permits_blocking("k", 9).unwrap();
        let entered = five().acquire_blocking().unwrap();
        drop((four, entered));
        clear(&locks);
        drop(locks);
        store.assert_nothing_left();
    });
}

/// One that waits for more permits than there are after the number was lowered does not keep out
/// those behind it.
#[test]
fn a_waiter_that_takes_more_than_there_are_now_leaves_the_queue_and_learns_why() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        here.set_permits_blocking("k", 10).unwrap();
        let held = request(&here).take(6).acquire_blocking().unwrap();
        runtime().block_on(async {
            let queued = async |waiters| {
                while here.inspect("k").await.unwrap().is_none_or(|info| info.waiters() < waiters) {}
            };
            let heavy = tokio::spawn(request(&there).take(8).wait(LIMIT).acquire());
            queued(1).await;
            let light = tokio::spawn(request(&here).take(2).wait(LIMIT).acquire());
            queued(2).await;
            let start = Instant::now();
            here.set_permits("k", 7).await.unwrap();
            let error = heavy.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("takes 8 permits, and `set_permits` allows 7"), "{error}");
            drop(held);
            let _light = light.await.unwrap().unwrap();
            assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
        });
        clear(&here);
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn a_rate_is_a_number_of_permits_too() {
    on_each(|store| {
        let locks = store.manager();
        let start = || locks.lock("k").rate(1_000, 60 * SECOND).run_value_blocking(|_guard| ());
        locks.set_permits_blocking("k", 2).unwrap();
        assert!(start().is_ok() && start().is_ok());
        assert!(start().is_err_and(|error| error.retry_after() > Some(30 * SECOND)));
        locks.set_permits_blocking("k", 3).unwrap();
        assert!(start().is_ok() && start().is_err());
        assert!(locks.force_release_blocking("k").unwrap().is_some());
        // It stays.
        assert_eq!(locks.clear_permits_blocking("k").unwrap(), Some(3));
    });
}

#[test]
fn it_stays_when_the_lock_is_free_or_taken_away() {
    on_each(|store| {
        let locks = store.manager();
        locks.set_permits_blocking("k", 2).unwrap();
        let held = [0; 2].map(|_| request(&locks).acquire_blocking().unwrap());
        assert!(locks.force_release_blocking("k").unwrap().is_some());
        drop(held);
        let again = [0; 2].map(|_| request(&locks).wait(LIMIT).acquire_blocking().unwrap());
        assert!(is_busy(request(&locks)));
        drop(again);
        eventually("all have left", || locks.inspect_blocking("k").unwrap().is_none());
        assert_eq!(locks.permits_blocking("k").unwrap(), Some(2));
        let keys = locks.keys_blocking().unwrap();
        assert!(keys.iter().any(|key| key.key() == "k" && key.has_central_limit()), "{keys:?}");
        clear(&locks);
    });
}

#[test]
fn a_number_out_of_range_and_a_quorum_are_refused_with_a_reason() {
    on_each(|store| {
        let locks = store.manager();
        for permits in [0, 10_001, u32::MAX] {
            let error = locks.set_permits_blocking("k", permits).unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, LockError::InvalidRequest { .. }) && text.contains("at most 10,000"),
                "{text}"
            );
        }
        assert!(matches!(locks.set_permits_blocking("", 3), Err(LockError::InvalidKey { .. })));
        assert_eq!(locks.set_permits_blocking("k", 10_000).unwrap(), None);
        clear(&locks);
    });
    let quorum = Quorum::forgetful(3);
    let locks = quorum.manager();
    for error in [
        locks.set_permits_blocking("k", 3).unwrap_err(),
        locks.clear_permits_blocking("k").unwrap_err(),
        locks.permits_blocking("k").unwrap_err(),
    ] {
        assert!(error.to_string().contains("over a quorum of independent servers nobody counts"), "{error}");
    }
}

/// Its key has no expiry, and the lock costs two commands as ever.
#[test]
fn a_lock_with_a_number_that_is_set_costs_two_commands() {
    const CALLS: u64 = 50;
    let server = RedisServer::start();
    // The other holder would watch.
    server.tell_of_no_changes();
    let locks = connect(&server);
    locks.set_permits_blocking("k", 20).unwrap();
    assert_eq!(server.run::<i64>("PTTL lock:k%queue%permits"), -1);
    assert_eq!(server.run::<String>("GET lock:k%queue%permits"), "20");
    for take in [1, 3] {
        let call = || request(&locks).take(take).run_value_blocking(|_guard| ()).unwrap();
        // The scripts are there.
        call();
        let before = server.client_commands();
        (0..CALLS).for_each(|_| call());
        assert_eq!(server.client_commands() - before, 2 * CALLS);
        let stays = request(&locks).acquire_blocking().unwrap();
        call();
        let before = server.client_commands();
        (0..CALLS).for_each(|_| call());
        assert_eq!(server.client_commands() - before, 2 * CALLS, "beside another one");
        drop(stays);
    }
}

/// A client of another kind has written it.
#[test]
fn a_value_that_is_no_number_counts_as_none_and_is_named() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _: String = server.run("SET lock:k%queue%permits many");
    let held = [0; 3].map(|_| locks.lock("k").permits(3).acquire_blocking().unwrap());
    assert!(is_busy(locks.lock("k").permits(3)));
    let error = locks.permits_blocking("k").unwrap_err().to_string();
    assert!(error.contains("`k`") && error.contains("no number"), "{error}");
    assert_eq!(locks.set_permits_blocking("k", 4).unwrap(), None);
    assert!(locks.lock("k").permits(3).acquire_blocking().is_ok());
    drop(held);
}

#[test]
fn a_future_that_is_dropped_before_its_first_poll_sets_nothing() {
    on_each(|store| {
        let locks = store.manager();
        drop(locks.set_permits("k", 3));
        assert_eq!(locks.permits_blocking("k").unwrap(), None);
        // Polled once, it may be set or not, and what is set is whole.
        runtime().block_on(polled(locks.set_permits("k", 3), 1, true));
        assert!(matches!(locks.permits_blocking("k").unwrap(), None | Some(3)));
        clear(&locks);
    });
}

/// A full server refuses the write: the number is as before, and the error names key and cause.
#[test]
fn a_full_server_keeps_the_number_that_it_has() {
    let server = RedisServer::start();
    let locks = connect(&server);
    locks.set_permits_blocking("k", 2).unwrap();
    let held = [0; 2].map(|_| request(&locks).acquire_blocking().unwrap());
    let _: String = server.run("CONFIG SET maxmemory 1");
    let error = locks.set_permits_blocking("k", 3).unwrap_err().to_string();
    assert!(error.contains("`k`") && error.contains("maxmemory"), "{error}");
    assert_eq!(locks.permits_blocking("k").unwrap(), Some(2));
    // It gives back, and does not take.
    assert_eq!(locks.clear_permits_blocking("k").unwrap(), Some(2));
    let _: String = server.run("CONFIG SET maxmemory 0");
    drop(held);
}
