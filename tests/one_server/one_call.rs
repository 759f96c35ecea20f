//! Several keys taken in one call: how many commands the server counts, and which keys are left
//! when the caller is dropped, the answer is lost, or a key is busy.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    LIMIT, Proxy, RedisCluster, RedisServer, Requests, SECOND, connect, connect_to, dropped_before_its_reply,
    eventually, owns, unique,
};
use redlocked::{LockError, LockGuard, LockKey, LockManager, ReleaseOutcome};

/// Loads every script into the server.
fn warm(locks: &LockManager) {
    locks.lock("w").run_value_blocking(|_| ()).unwrap();
    locks.lock_all(["w", "x"]).run_value_blocking(|_| ()).unwrap();
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key:{number:03}")).collect()
}

fn waiters(locks: &LockManager, key: &str) -> u32 {
    locks.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters())
}

/// A call that waits in the queue of `key` when this returns.
fn queued(
    locks: &LockManager,
    keys: impl IntoIterator<Item = impl Into<String>>,
    key: &str,
) -> thread::JoinHandle<LockGuard> {
    let request = locks.lock_all(keys).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
    eventually("the waiter is queued", || waiters(locks, key) == 1);
    waiter
}

#[test]
fn free_keys_cost_one_call() {
    let server = RedisServer::start();
    server.tell_of_no_changes();
    let (locks, probe) = (connect(&server), connect(&server));
    warm(&locks);
    let requests = server.requests();
    for (count, calls) in [(1, 1), (2, 1), (8, 1), (64, 1), (65, 2), (150, 3)] {
        let before = requests.count();
        let guard = locks.lock_all(keys(count)).wait(LIMIT).acquire_blocking().unwrap();
        assert_eq!(requests.count() - before, calls, "{count} keys");
        assert!(guard.is_held());
        assert_eq!(server.keys().len(), count);
        for key in keys(count) {
            assert!(probe.lock(key).acquire_blocking().unwrap_err().is_busy());
        }
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[test]
fn fencing_tokens_grow_in_the_order_of_the_keys() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let mut last = 0;
    for _ in 0..3 {
        let guard = locks.lock_all(["c", "a", "b"]).acquire_blocking().unwrap();
        for key in ["a", "b", "c"] {
            let fence = guard.fencing_token_of(key).unwrap();
            assert!(fence > last, "{key}");
            last = fence;
        }
        guard.release_blocking().unwrap();
    }
}

#[test]
fn a_busy_key_costs_one_call_and_nothing_behind_it_is_touched() {
    let server = RedisServer::start();
    server.tell_of_no_changes();
    let (locks, other) = (connect(&server), connect(&server));
    warm(&locks);
    let requests = server.requests();
    let busy = other.lock("c").acquire_blocking().unwrap();
    let _: i32 = server.run("SADD lock:d no-lock");
    let before = requests.count();
    let error = locks.lock_all(["a", "b", "c", "d"]).acquire_blocking().map(drop).unwrap_err();
    assert!(matches!(&error, LockError::Busy { key, .. } if &**key == "c"), "{error:?}");
    eventually("the taken keys are released", || server.keys().len() == 2);
    // Only the first two keys are released: the call skipped the later ones and did not queue for
    // the busy one.
    assert_eq!(requests.count() - before, 1 + 2);
    drop(busy);
}

#[test]
fn what_is_in_the_way_is_handed_over_and_the_rest_costs_one_more_call() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    warm(&locks);
    warm(&other);
    let requests = server.requests();
    for blocked in ["a", "c", "e"] {
        // On a busy machine the holder may need one more command to renew its claim.
        eventually("the calls are as few as possible", || {
            let busy = other.lock(blocked).acquire_blocking().unwrap();
            let before = server.run::<String>("INFO commandstats");
            let request = locks.lock_all(["a", "b", "c", "d", "e"]).wait(LIMIT);
            let start = requests.count();
            let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
            eventually("the waiter is queued", || server.keys().contains(&format!("lock:{blocked}%queue")));
            drop(busy);
            let guard = waiter.join().unwrap();
            // The holder's release is two of the commands: it does not know that others wait.
            let calls = requests.count() - start - 2;
            let rest = u64::from(blocked != "e");
            assert!(calls > rest, "{calls} {before}");
            guard.release_blocking().unwrap();
            assert_eq!(server.keys(), [""; 0]);
            calls == 1 + rest
        });
    }
}

#[test]
fn a_key_that_is_held_outside_costs_nothing_and_breaks_no_call() {
    let server = RedisServer::start();
    let locks = connect(&server);
    warm(&locks);
    let requests = server.requests();
    locks
        .lock_all(["b", "d"])
        .run_value_blocking(|outer| {
            let before = requests.count();
            let inner = locks.lock_all(["a", "b", "c", "d", "e"]).reentrant(true).acquire_blocking().unwrap();
            assert_eq!(requests.count() - before, 1);
            assert!(inner.keys().eq(["a", "b", "c", "d", "e"]));
            assert_eq!(inner.fencing_token_of("d"), outer.fencing_token_of("d"));
            inner.release_blocking().unwrap();
            assert!(outer.is_held());
            assert_eq!(server.keys().len(), 2);
        })
        .unwrap();
}

#[test]
fn a_script_that_the_server_has_forgotten_is_sent_again() {
    let server = RedisServer::start();
    let locks = connect(&server);
    warm(&locks);
    let requests = server.requests();
    // On a busy machine the locks may be watched before their requests are counted.
    eventually("it takes one call without the script, and one with its source", || {
        let _: String = server.run("SCRIPT FLUSH");
        let before = requests.count();
        let guard = locks.lock_all(keys(8)).acquire_blocking().unwrap();
        let sent = requests.count() - before;
        guard.release_blocking().unwrap();
        sent == 2
    });
    // That was a request in two parts, whose release looks for waiters. This one deletes.
    drop(locks.lock_all(keys(8)).acquire_blocking().unwrap());
    eventually("no key is left", || server.keys().is_empty());
    let before = requests.count();
    drop(locks.lock_all(keys(8)).acquire_blocking().unwrap());
    eventually("no key is left", || server.keys().is_empty());
    assert_eq!(requests.count() - before, 1 + 8);
}

#[test]
fn an_error_in_the_middle_names_its_key_and_leaves_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for wrong in ["lock:a", "lock:c", "lock:e", "lock:c%queue"] {
        let _: i32 = server.run(&format!("SADD {wrong} no-lock"));
        let busy = wrong.ends_with("%queue").then(|| server.run::<String>("SET lock:c somebody PX 60000"));
        for wait in [Duration::ZERO, LIMIT] {
            let request = locks.lock_all(["a", "b", "c", "d", "e"]).wait(wait);
            let outcome = request.acquire_blocking().map(drop);
            if busy.is_some() && wait.is_zero() {
                assert!(outcome.unwrap_err().is_busy());
                continue;
            }
            let error = outcome.unwrap_err();
            assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
            let (text, key) = (error.to_string(), &wrong[5..6]);
            assert!(text.contains("WRONGTYPE") && text.contains(&format!("`{key}`")), "{wrong}: {text}");
        }
        let left = if busy.is_some() { 2 } else { 1 };
        eventually("the taken keys are released", || server.keys().len() == left);
        let _: String = server.run("FLUSHALL");
    }
    locks.lock_all(["a", "b", "c", "d", "e"]).run_value_blocking(|_| ()).unwrap();
}

#[test]
fn a_key_that_the_access_rules_forbid_is_named() {
    let server = RedisServer::start();
    let rules = "on >secret resetchannels ~lock:%* ~lock:a* ~lock:b* ~lock:d* &lock:* +@all";
    let _: String = server.run(&format!("ACL SETUSER shop {rules}"));
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
    let locks = connect_to(&url);
    let error = locks.lock_all(["a", "b", "c", "d"]).wait(LIMIT).acquire_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains("`c`") && error.to_string().contains("NOPERM"), "{error}");
    eventually("the taken keys are released", || server.keys().is_empty());

    // The error names the forbidden command, as it does for one key.
    let _: String = server.run("ACL SETUSER shop -incr");
    let error = locks.lock_all(["a", "b"]).acquire_blocking().map(drop).unwrap_err();
    assert!(error.to_string().to_uppercase().contains("INCR"), "{error}");
    let _: String = server.run("ACL SETUSER shop +incr");
    locks.lock_all(["a", "b"]).run_value_blocking(|_| ()).unwrap();
}

#[test]
fn a_full_server_gives_none() {
    let server = RedisServer::start();
    let locks = connect(&server);
    warm(&locks);
    let _: String = server.run("CONFIG SET maxmemory 1");
    let error = locks.lock_all(["a", "b", "c"]).acquire_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains("OOM") && error.to_string().contains("`a`"), "{error}");
    eventually("no key is left", || server.keys().is_empty());
    let _: String = server.run("CONFIG SET maxmemory 0");
    locks.lock_all(["a", "b", "c"]).run_value_blocking(|_| ()).unwrap();
}

#[test]
fn a_lost_reply_is_answered_by_asking_again() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    for wait in [LIMIT, Duration::ZERO] {
        proxy.hold_replies(true);
        let request = locks.lock_all(["a", "b", "c"]).wait(wait);
        let call = thread::spawn(move || request.acquire_blocking().unwrap());
        eventually("the server has executed the request", || server.keys().len() == 3);
        proxy.cut();
        proxy.hold_replies(false);
        // The keys are not busy for their own caller: the server grants the same tokens again.
        let guard = call.join().unwrap();
        assert!(guard.is_held());
        assert_eq!(server.keys().len(), 3);
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[test]
fn a_lost_reply_of_a_call_that_had_to_wait_in_the_middle() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let other = connect(&server);
    let busy = other.lock("b").acquire_blocking().unwrap();
    proxy.hold_replies(true);
    let request = locks.lock_all(["a", "b", "c"]).wait(LIMIT);
    let call = thread::spawn(move || request.acquire_blocking().unwrap());
    eventually("the server has executed the request", || waiters(&other, "b") == 1);
    proxy.cut();
    // Another caller holds the first key when the call asks for it again.
    assert!(other.force_release_blocking("a").unwrap().is_some());
    let thief = other.lock("a").acquire_blocking().unwrap();
    proxy.hold_replies(false);
    eventually("the call waits for the first key only", || {
        waiters(&other, "a") == 1 && waiters(&other, "b") == 0
    });
    drop(busy);
    let second = other.lock_all(["b", "c"]).acquire_blocking().unwrap();
    drop(second);
    drop(thief);
    drop(call.join().unwrap());
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn answers_that_come_too_late_are_no_locks() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    proxy.hold_replies(true);
    let request = locks.lock_all(["a", "b", "c"]).ttl(SECOND / 2).wait(LIMIT);
    let call = thread::spawn(move || {
        let guard = request.acquire_blocking().unwrap();
        (guard.remaining(), guard)
    });
    eventually("the server has executed the request", || server.keys().len() == 3);
    eventually("and the keys have expired", || server.keys().is_empty());
    proxy.hold_replies(false);
    let (remaining, guard) = call.join().unwrap();
    assert!(!remaining.is_zero(), "the lease starts at the second request");
    drop(guard);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_call_dropped_while_its_reply_is_on_the_way_leaves_no_key() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks =
        LockManager::builder(proxy.url()).own_thread(true).io_timeout(LIMIT).connect_blocking().unwrap();
    for _ in 0..10 {
        dropped_before_its_reply(&proxy, &server, 3, locks.lock_all(["a", "b", "c"]).wait(LIMIT).acquire());
        locks.lock("other").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    }
}

#[test]
fn a_holder_that_vanishes_in_the_middle_holds_nothing_for_longer_than_the_ttl() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let other = connect(&server);
    let busy = other.lock("c").acquire_blocking().unwrap();
    let request = locks.lock_all(["a", "b", "c", "d"]).ttl(SECOND).wait(LIMIT);
    let call = thread::spawn(move || request.acquire_blocking().map(drop));
    eventually("the call waits for the third key", || waiters(&other, "c") == 1);
    // To the server this looks like a killed process.
    proxy.refuse(true);
    drop(busy);
    other.lock_all(["a", "b", "c", "d"]).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    proxy.refuse(false);
    call.join().unwrap().unwrap();
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn min_hold_keeps_each_of_them() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let busy = other.lock("c").acquire_blocking().unwrap();
    let error = locks.lock_all(["a", "b", "c"]).min_hold(60 * SECOND).acquire_blocking().map(drop);
    assert!(error.unwrap_err().is_busy());
    eventually("no body has run: `min_hold` keeps no key", || server.keys() == ["lock:c"]);
    busy.release_blocking().unwrap();
    locks.lock_all(["a", "b", "c"]).min_hold(60 * SECOND).run_value_blocking(|_| ()).unwrap();
    assert_eq!(server.keys().len(), 3);
    for key in ["a", "b", "c"] {
        assert!(server.run::<i64>(&format!("PTTL lock:{key}")) > 50_000);
    }
}

/// A pseudo-random sequence, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// How many may hold a key together, 0 for any number, and for how many the caller counts.
    fn kind(&mut self) -> (u32, u32) {
        [(1, 1), (1, 1), (1, 1), (0, 1), (0, 1), (2, 1), (3, 2)][usize::try_from(self.below(7)).unwrap()]
    }

    /// Some of the keys, in any order.
    fn pick(&mut self, keys: &[String]) -> Vec<usize> {
        let mut picked: Vec<usize> = (0..keys.len()).filter(|_| self.below(2) == 0).collect();
        for at in (1..picked.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).unwrap();
            picked.swap(at, other);
        }
        if picked.is_empty() { vec![0] } else { picked }
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// What those allow that are inside one key, and for how many each counts.
type Inside = Mutex<Vec<(u32, u32)>>;

/// No more are inside than each of them allows.
fn is_allowed(inside: &[(u32, u32)]) -> bool {
    let count: u32 = inside.iter().map(|(_, takes)| takes).sum();
    inside.iter().all(|(allows, _)| *allows == 0 || count <= *allows)
}

/// For some seconds, many callers take random keys of random kinds in random order while `meanwhile`
/// runs in a loop. No more callers hold a key than each of them allows, and no caller waits forever,
/// nor for a ttl, as it would for a lock that was never released.
fn storm(managers: &[LockManager], keys: &[String], mut meanwhile: impl FnMut()) {
    let inside: Arc<Vec<Inside>> = Arc::new(keys.iter().map(|_| Mutex::default()).collect());
    let (over, done) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..12_usize {
            let locks = &managers[number % managers.len()];
            let (inside, over, done) = (&inside, &over, &done);
            scope.spawn(move || {
                let mut dice = Dice(number as u64);
                while !over.load(Ordering::SeqCst) {
                    let picked = dice.pick(keys);
                    let wait = if dice.below(4) == 0 { Duration::from_millis(dice.below(30)) } else { LIMIT };
                    let picked: Vec<_> = picked.into_iter().map(|key| (key, dice.kind())).collect();
                    let named = |(key, (allows, takes)): &(usize, (u32, u32))| match *allows {
                        0 => LockKey::shared(&keys[*key]),
                        1 => LockKey::exclusive(&keys[*key]),
                        permits => LockKey::permits(&keys[*key], permits).take(*takes),
                    };
                    let request = locks.lock_all(picked.iter().map(named)).wait(wait);
                    let outcome = request.acquire_blocking();
                    let guard = match outcome {
                        Ok(guard) => guard,
                        Err(error) => {
                            // With a long `wait` the library asks again for lost locks: only short
                            // waits fail.
                            assert!(wait < SECOND, "{error}");
                            continue;
                        }
                    };
                    for (key, kind) in &picked {
                        let mut inside = inside[*key].lock().unwrap();
                        inside.push(*kind);
                        assert!(is_allowed(&inside), "too many are inside: {inside:?}");
                    }
                    thread::yield_now();
                    for (key, kind) in &picked {
                        let mut inside = inside[*key].lock().unwrap();
                        let at = inside.iter().position(|other| other == kind).unwrap();
                        inside.swap_remove(at);
                    }
                    drop(guard);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // The callers stop even when the test fails.
        let _over = OnDrop(|| over.store(true, Ordering::SeqCst));
        let start = Instant::now();
        let is_enough = || done.load(Ordering::SeqCst) > 50;
        while start.elapsed() < 3 * SECOND || !is_enough() && start.elapsed() < LIMIT {
            meanwhile();
            thread::sleep(Duration::from_millis(60));
        }
    });
    assert!(done.load(Ordering::SeqCst) > 50, "{done:?}");
}

#[test]
fn nobody_waits_for_ever_on_one_server() {
    let server = RedisServer::start();
    storm(&[connect(&server), connect(&server), connect(&server)], &keys(7), || ());
    server.assert_nothing_left();
}

#[test]
fn nobody_waits_for_ever_in_memory() {
    let url = format!("memory://{}", unique("storm"));
    let managers = [(); 3].map(|()| connect_to(&url));
    storm(&managers, &keys(7), || ());
    managers[0].lock_all(keys(7)).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
}

#[test]
fn nobody_waits_for_ever_when_connections_break() {
    let server = RedisServer::start();
    let proxies = [Proxy::to(server.port()), Proxy::to(server.port())];
    let through = |proxy: &Proxy| connect_to(&proxy.url());
    let managers = [through(&proxies[0]), through(&proxies[1]), connect(&server)];
    let mut turn = 0;
    storm(&managers, &keys(7), || {
        turn += 1;
        let proxy = &proxies[turn % 2];
        // Sometimes the server executes a request whose reply is lost.
        proxy.hold_replies(true);
        thread::sleep(Duration::from_millis(3));
        proxy.cut();
        proxy.hold_replies(false);
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn in_a_cluster_a_call_goes_as_far_as_the_slot() {
    let cluster = RedisCluster::start();
    let locks = connect_to(&cluster.url());
    let requests: Vec<_> = cluster.primaries().into_iter().map(RedisServer::requests).collect();
    let calls = || requests.iter().map(Requests::count).sum::<u64>();
    // Each node has its own connection, and each connection sends its scripts once.
    let tags = ["{1}", "{2}", "{3}", "{4}", "{5}", "{6}"];
    for tag in tags {
        locks.lock_all(["a", "b"].map(|key| format!("{tag}{key}"))).run_value_blocking(|_| ()).unwrap();
    }
    let count = |keys: &[&str], expected| {
        // On a busy machine a lock is held for so long that it is watched.
        eventually("the calls are as few as possible", || {
            let before = calls();
            let guard = locks.lock_all(keys.iter().copied()).wait(LIMIT).acquire_blocking().unwrap();
            let asked = calls() - before;
            assert_eq!(cluster.keys().len(), keys.len());
            guard.release_blocking().unwrap();
            assert_eq!(cluster.keys(), [""; 0]);
            assert!(asked >= expected, "{keys:?}: {asked}");
            asked == expected
        });
    };
    count(&["{1}a", "{1}b", "{1}c", "{1}d"], 1);
    count(&["{1}a", "{1}b", "{2}a", "{2}b", "{2}c", "{3}a"], 3);
    // Keys are taken in the order of their names, not of their slots.
    count(&["a{1}", "b{2}", "c{1}", "d{2}"], 4);
    count(&["a{1}", "b{1}", "c{2}", "d{1}", "e{1}"], 3);
    for node in cluster.primaries() {
        let errors: String = node.run("INFO errorstats");
        assert!(!errors.contains("MOVED") && !errors.contains("CROSSSLOT"), "{errors}");
    }

    // The busy key is handed over; one more call takes the rest.
    let other = connect_to(&cluster.url());
    let busy = other.lock("{1}b").acquire_blocking().unwrap();
    let waiter = queued(&locks, ["{1}a", "{1}b", "{1}c", "{1}d"], "{1}b");
    assert!(locks.lock("{1}a").acquire_blocking().unwrap_err().is_busy());
    drop(locks.lock_all(["{1}c", "{1}d"]).acquire_blocking().unwrap());
    drop(busy);
    drop(waiter.join().unwrap());
    eventually("no key is left", || cluster.keys().is_empty());
}

#[test]
fn nobody_waits_for_ever_in_a_cluster_whose_slots_move() {
    let cluster = RedisCluster::start();
    let managers = [(); 3].map(|()| connect_to(&cluster.url()));
    let keys: Vec<String> = ["{1}a", "{1}b", "{1}c", "{2}a", "{2}b", "{3}a", "x{1}"].map(String::from).into();
    let slot = cluster.slot_of("{1}");
    let mut turn = 0;
    storm(&managers, &keys, || {
        turn += 1;
        let to = &cluster.nodes[turn % 3];
        if turn % 2 == 0 {
            // Every second turn breaks all connections that listen to an inbox.
            let _: redis::RedisResult<i32> = redis::cmd("CLIENT")
                .arg("KILL")
                .arg("TYPE")
                .arg("pubsub")
                .query(&mut cluster.nodes[turn / 2 % 3].client());
        } else if !owns(to, slot) {
            cluster.migrate(slot, to, || ());
        }
    });
    // A request without an answer in time may leave a place in a queue, which expires, but no lock.
    eventually("no lock is left", || cluster.keys().iter().all(|key| key.ends_with("%queue")));
    managers[0].lock_all(&keys).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
}
