//! Several keys of different kinds as one lock: exclusive, shared, and with permits; on `memory://`
//! and on a real Redis server.

use std::future::pending;
use std::thread;

use kit::{LIMIT, Quorum, RedisServer, SECOND, connect, eventually, polled, runtime};
use redlocked::{LockError, LockKey, LockManager, ReleaseOutcome, distributed_lock};

use crate::many_keys::{Backend, on_both_backends};

on_both_backends! {
    each_key_is_held_in_its_own_kind
    one_key_of_a_list_may_be_shared
    a_key_that_is_named_twice_is_held_in_its_stricter_kind
    what_nobody_could_hold_is_refused
    a_busy_key_of_any_kind_leaves_nothing_held
    a_waiter_enters_when_the_last_reader_leaves
    a_caller_dropped_at_any_poll_leaves_nothing
    the_loss_of_any_key_stops_the_body_and_releases_the_others
    a_shared_key_that_is_lost_while_another_is_waited_for_is_asked_for_again
    a_nested_call_joins_a_key_of_the_same_kind_alone
    readers_have_one_fencing_token_and_writers_have_their_own
    the_attribute_says_the_kind_of_each_key
}

/// A key of each kind, in an order that is not that of their bytes.
fn all_kinds() -> [LockKey; 4] {
    [
        LockKey::shared("shared"),
        LockKey::permits("permits", 4).take(2),
        LockKey::exclusive("exclusive"),
        LockKey::from("a"),
    ]
}

const KEYS: [&str; 4] = ["a", "exclusive", "permits", "shared"];

#[track_caller]
fn is_busy_at<T: std::fmt::Debug>(outcome: Result<T, LockError>, key: &str) {
    let error = outcome.unwrap_err();
    assert!(error.is_busy() && error.key() == Some(key), "{error:?}");
}

fn each_key_is_held_in_its_own_kind(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let guard = locks.lock_all(all_kinds()).acquire_blocking().unwrap();
    assert!(guard.keys().eq(KEYS), "{guard:?}");
    is_busy_at(other.lock("a").shared().acquire_blocking(), "a");
    is_busy_at(other.lock("exclusive").permits(9).acquire_blocking(), "exclusive");
    is_busy_at(other.lock("shared").acquire_blocking(), "shared");
    is_busy_at(other.lock("permits").permits(4).take(3).acquire_blocking(), "permits");
    let reader = other.lock("shared").shared().acquire_blocking().unwrap();
    let rest = other.lock("permits").permits(4).take(2).acquire_blocking().unwrap();
    is_busy_at(other.lock("permits").permits(4).acquire_blocking(), "permits");
    assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    drop((reader, rest));
    backend.assert_free(&KEYS);
}

fn one_key_of_a_list_may_be_shared(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let guard = locks.lock_all([LockKey::shared("a")]).acquire_blocking().unwrap();
    drop(other.lock_all([LockKey::shared("a")]).acquire_blocking().unwrap());
    is_busy_at(other.lock_all(["a"]).acquire_blocking(), "a");
    assert_eq!(guard.key(), "a");
    drop(guard);
    backend.assert_free(&["a"]);
}

fn a_key_that_is_named_twice_is_held_in_its_stricter_kind(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let (exclusive, shared) = (LockKey::exclusive("k"), LockKey::shared("k"));
    let permits = LockKey::permits("k", 3);
    for (keys, is_alone, takes_room) in [
        ([&shared, &shared], false, false),
        ([&shared, &exclusive], true, true),
        ([&exclusive, &shared], true, true),
        ([&permits, &exclusive], true, true),
        ([&permits, &shared], false, true),
        ([&shared, &permits], false, true),
        ([&permits, &permits], false, true),
    ] {
        let guard = locks.lock_all(keys.map(Clone::clone)).acquire_blocking().unwrap();
        assert!(guard.keys().eq(["k"]), "{guard:?}");
        assert_eq!(other.lock("k").shared().acquire_blocking().is_err(), is_alone, "{keys:?}");
        let three = other.lock("k").permits(3).take(3).acquire_blocking();
        assert!(three.is_err(), "each holder counts: {keys:?}");
        let readers: Vec<_> = (0..3).map(|_| other.lock("k").shared().acquire_blocking()).collect();
        assert_eq!(readers.iter().any(Result::is_err), takes_room, "{keys:?}");
    }
    backend.assert_free(&["k"]);
}

fn what_nobody_could_hold_is_refused(backend: &Backend) {
    let locks = backend.manager();
    let refused = |request: redlocked::LockRequest, key: &str, text: &str| {
        let error = request.acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
        assert!(error.key() == Some(key) && error.to_string().contains(text), "{error}");
    };
    refused(locks.lock_all([LockKey::permits("k", 0), "a".into()]), "k", "at least 1 and at most 10,000");
    refused(locks.lock_all([LockKey::permits("k", 3).take(4)]), "k", "it would `take` 4 of 3 permits");
    refused(locks.lock_all([LockKey::shared("k").take(2)]), "k", "`take` with `permits`");
    refused(locks.lock_all([LockKey::exclusive("k").take(2)]), "k", "give `permits`, too");
    let twice = [LockKey::permits("k", 3), LockKey::permits("k", 4)];
    refused(locks.lock_all(twice), "k", "in the list twice, with different `permits`");
    let twice = [LockKey::permits("k", 3).take(2), LockKey::permits("k", 3), LockKey::exclusive("k")];
    refused(locks.lock_all(twice), "k", "name it once");
    for all in [locks.lock_all(["a", "b"]).shared(), locks.lock_all(["a", "b"]).permits(2)] {
        refused(all, "[]", "`LockKey::shared(key)`");
    }
    refused(locks.lock_all(["a", "b"]).take(2), "[]", "`LockKey::permits(key, n)`");
    backend.assert_free(&["a", "b", "k"]);
}

fn a_busy_key_of_any_kind_leaves_nothing_held(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    for busy in KEYS {
        let holder = other.lock(busy).acquire_blocking().unwrap();
        for wait in [0, 1] {
            is_busy_at(locks.lock_all(all_kinds()).wait(wait * SECOND / 10).acquire_blocking(), busy);
            // The keys that were taken are released before the manager's next request.
            let rest = KEYS.into_iter().filter(|key| *key != busy);
            drop(locks.lock_all(rest).acquire_blocking().unwrap());
        }
        drop(holder);
    }
    backend.assert_free(&KEYS);
}

fn a_waiter_enters_when_the_last_reader_leaves(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let both = || [LockKey::shared("a"), LockKey::exclusive("b")];
    let reader = other.lock("b").shared().acquire_blocking().unwrap();
    let request = locks.lock_all(both()).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking());
    let waits = || other.inspect_blocking("b").unwrap().is_some_and(|info| info.waiters() == 1);
    eventually("the caller waits for its second key", waits);
    // It holds the first key beside other readers meanwhile.
    drop(other.lock("a").shared().acquire_blocking().unwrap());
    is_busy_at(other.lock("a").acquire_blocking(), "a");
    drop(reader);
    let guard = waiter.join().unwrap().unwrap();
    is_busy_at(other.lock_all(both()).acquire_blocking(), "b");
    drop(guard);
    backend.assert_free(&["a", "b"]);
}

/// Drops the future of a locked call after 0, 1, 2 … 20 polls, again and again.
fn a_caller_dropped_at_any_poll_leaves_nothing(backend: &Backend) {
    let locks = backend.manager();
    let finished = runtime().block_on(async {
        let mut finished = 0;
        for round in 0..500 {
            let call = locks.lock_all(all_kinds()).wait(LIMIT).run_value(async |_| {
                for _ in 0..12 {
                    tokio::task::yield_now().await;
                }
            });
            let outcome = polled(call, round % 21, round % 2 == 0).await;
            finished += u32::from(outcome.is_some_and(|outcome| outcome.is_ok()));
        }
        finished
    });
    assert!(finished > 0, "some calls finish");
    // Every dropped call has released: the next caller does not wait for a ttl.
    drop(locks.lock_all(KEYS).wait(LIMIT).acquire_blocking().unwrap());
    backend.assert_free(&KEYS);
}

fn the_loss_of_any_key_stops_the_body_and_releases_the_others(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    for stolen in KEYS {
        let request = locks.lock_all(all_kinds()).ttl(3 * SECOND);
        let outcome = runtime().block_on(request.run_value(async |guard| {
            operator.force_release(stolen).await.unwrap();
            guard.lost().await;
            assert!(!guard.is_held());
            pending::<()>().await;
        }));
        assert!(matches!(&outcome, Err(LockError::Lost { key, .. }) if &**key == stolen), "{outcome:?}");
        // The other keys are released before the manager's next request.
        drop(locks.lock_all(KEYS).acquire_blocking().unwrap());
    }
    backend.assert_free(&KEYS);
}

fn a_shared_key_that_is_lost_while_another_is_waited_for_is_asked_for_again(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    let keys = [LockKey::shared("a"), LockKey::permits("b", 2)];
    let request = locks.lock_all(keys).ttl(3 * SECOND).wait(LIMIT);
    let call = thread::spawn(move || request.acquire_blocking());
    let waiters = |key| other.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters());
    eventually("the caller reads the first key and waits for the second", || waiters("b") == 1);
    let thief = other.lock("a").wait(LIMIT);
    let thief = thread::spawn(move || thief.acquire_blocking().unwrap());
    eventually("the thief waits for the first key", || waiters("a") == 1);
    other.force_release_blocking("a").unwrap().unwrap();
    let thief = thief.join().unwrap();
    eventually("the caller waits for the first key again", || waiters("a") == 1);
    eventually("and for no other key", || waiters("b") == 0);
    let fence = thief.fencing_token();
    drop((thief, busy));
    let guard = call.join().unwrap().unwrap();
    assert!(guard.is_held());
    assert!(guard.fencing_token_of("a").unwrap() > fence, "the first key was taken again");
    drop(guard);
    backend.assert_free(&["a", "b"]);
}

fn a_nested_call_joins_a_key_of_the_same_kind_alone(backend: &Backend) {
    let (locks, probe) = (backend.manager(), backend.manager());
    let outer = locks.lock_all([LockKey::shared("a"), LockKey::exclusive("b")]);
    let outcome = outer.run_value_blocking(|outer| {
        let inner = |keys: [LockKey; 2]| locks.lock_all(keys).reentrant(true).acquire_blocking();
        let joined = inner([LockKey::shared("a"), LockKey::exclusive("c")]).unwrap();
        assert_eq!(joined.fencing_token_of("a"), outer.fencing_token_of("a"));
        is_busy_at(probe.lock("c").acquire_blocking(), "c");
        drop(joined);
        drop(inner([LockKey::exclusive("b"), LockKey::shared("c")]).unwrap());
        // A reader would wait for itself.
        for (keys, at) in [
            ([LockKey::exclusive("a"), LockKey::exclusive("c")], "a"),
            ([LockKey::permits("a", 2), LockKey::exclusive("c")], "a"),
        ] {
            let error = inner(keys).unwrap_err();
            assert!(matches!(&error, LockError::Deadlock { key, .. } if &**key == at), "{error:?}");
        }
        drop(probe.lock("c").acquire_blocking().unwrap());
        assert!(outer.is_held());
    });
    outcome.unwrap();
    backend.assert_free(&["a", "b", "c"]);
}

fn readers_have_one_fencing_token_and_writers_have_their_own(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let order = |locks: &LockManager, own: &str| {
        locks.lock_all([LockKey::shared("catalogue"), own.into()]).acquire_blocking().unwrap()
    };
    let (one, two) = (order(&locks, "order:1"), order(&other, "order:2"));
    let of = |guard: &redlocked::LockGuard, key: &str| guard.fencing_token_of(key).unwrap();
    assert_eq!(of(&one, "catalogue"), of(&two, "catalogue"));
    assert!(of(&two, "order:2") > of(&one, "order:1"));
    assert!(one.fencing_token() >= of(&one, "order:1") && one.fencing_token() >= of(&one, "catalogue"));
    let before = of(&two, "catalogue");
    drop((one, two));
    let writer = other.lock("catalogue").wait(LIMIT).acquire_blocking().unwrap();
    assert!(writer.fencing_token() > before);
    drop(writer);
    backend.assert_free(&["catalogue", "order:1", "order:2"]);
}

struct Shop {
    locks: LockManager,
    probe: LockManager,
}

impl Shop {
    #[distributed_lock(
        keys = [shared "catalogue", permits(limit, take = 2) "gpu", "order:{id}", shared name],
        manager = self.locks,
        guard = lock
    )]
    async fn order(&self, id: u32, limit: u32, name: &str) -> Result<Vec<String>, LockError> {
        drop(self.probe.lock("catalogue").shared().acquire().await?);
        drop(self.probe.lock(name).shared().acquire().await?);
        drop(self.probe.lock("gpu").permits(3).acquire().await?);
        is_busy_at(self.probe.lock("gpu").permits(3).take(2).acquire().await, "gpu");
        is_busy_at(self.probe.lock("order:7").shared().acquire().await, "order:7");
        Ok(lock.keys().map(str::to_owned).collect())
    }

    #[distributed_lock(keys = [shared "catalogue", "order:{id}"], manager = self.locks)]
    fn cancel(&self, id: u32) -> Result<u32, LockError> {
        is_busy_at(self.probe.lock("catalogue").acquire_blocking(), "catalogue");
        Ok(id)
    }
}

fn the_attribute_says_the_kind_of_each_key(backend: &Backend) {
    let shop = Shop { locks: backend.manager(), probe: backend.manager() };
    let order = |limit| runtime().block_on(shop.order(7, limit, "user:1"));
    assert_eq!(order(3).unwrap(), ["catalogue", "gpu", "order:7", "user:1"]);
    let error = order(1).unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    assert_eq!(shop.cancel(7), Ok(7));
    let writer = shop.probe.lock("catalogue").acquire_blocking().unwrap();
    is_busy_at(shop.cancel(7), "catalogue");
    is_busy_at(order(3), "catalogue");
    drop(writer);
    backend.assert_free(&["catalogue", "gpu", "order:7", "user:1"]);
}

/// Keys next to each other that are exclusive share a call, and each other one has its own.
#[test]
fn a_key_that_is_not_exclusive_costs_a_call_of_its_own() {
    let server = RedisServer::start();
    server.tell_of_no_changes();
    let locks = connect(&server);
    locks.lock("w").shared().run_value_blocking(|_| ()).unwrap();
    locks.lock("w").run_value_blocking(|_| ()).unwrap();
    locks.lock_all(["w", "x"]).run_value_blocking(|_| ()).unwrap();
    let requests = server.requests();
    let (alone, shared) = (LockKey::exclusive, LockKey::shared);
    for (keys, calls) in [
        (vec![shared("a")], 1),
        (vec![alone("a"), alone("b"), alone("c")], 1),
        (vec![alone("a"), shared("b")], 2),
        (vec![shared("a"), alone("b"), alone("c")], 2),
        (vec![alone("a"), alone("b"), shared("c"), alone("d"), alone("e")], 3),
        (vec![shared("a"), LockKey::permits("b", 5), shared("c")], 3),
        (vec![LockKey::permits("a", 1), alone("b")], 1),
    ] {
        let before = requests.count();
        let guard = locks.lock_all(keys.clone()).wait(LIMIT).acquire_blocking().unwrap();
        assert_eq!(requests.count() - before, calls, "{keys:?}");
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[test]
fn a_manager_that_shares_no_locks_says_why() {
    let (server, quorum) = (RedisServer::start(), Quorum::durable(3));
    let cohort = LockManager::builder(server.url()).cohort(4).connect_blocking().unwrap();
    for locks in [&cohort, &quorum.manager()] {
        for other in [LockKey::shared("b"), LockKey::permits("b", 3)] {
            let error = locks.lock_all([LockKey::from("a"), other]).acquire_blocking().unwrap_err();
            assert!(matches!(&error, LockError::InvalidRequest { key, .. } if &**key == "b"), "{error:?}");
        }
        drop(locks.lock_all([LockKey::from("a"), LockKey::permits("b", 1)]).acquire_blocking().unwrap());
    }
}
