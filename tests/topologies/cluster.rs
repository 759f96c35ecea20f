//! Locks in a Redis Cluster: across its slots, while slots move, and while a node is lost.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    LIMIT, Proxy, RedisCluster, RedisServer, SECOND, connect_to, eventually, owns, runtime, skipped, unique,
};
use redlocked::{LockError, LockGuard, LockKey, LockManager, ReleaseOutcome};

/// A manager that gives a node of a busy machine time to answer, a second also behind the end of a `wait`.
fn connect(cluster: &RedisCluster) -> LockManager {
    LockManager::builder(cluster.url()).io_timeout(4 * SECOND).connect_blocking().unwrap()
}

/// A manager with a prefix that no other test uses.
fn connect_as(cluster: &RedisCluster, prefix: &str) -> LockManager {
    LockManager::builder(cluster.url()).prefix(prefix).io_timeout(LIMIT).connect_blocking().unwrap()
}

#[test]
fn many_locks_over_many_slots() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("many:");
    let (a, b) = (connect_as(cluster, &prefix), connect_as(cluster, &prefix));
    assert!(a.capabilities_blocking().unwrap().hands_over());
    runtime().block_on(async {
        let guards: Vec<_> =
            (0..500).map(|number| tokio::spawn(a.lock(number.to_string()).wait(LIMIT).acquire())).collect();
        let mut held = Vec::new();
        for guard in guards {
            held.push(guard.await.unwrap().unwrap());
        }
        let counts = cluster
            .primaries()
            .iter()
            .map(|node| node.keys().iter().filter(|key| key.starts_with(&prefix)).count())
            .collect::<Vec<_>>();
        assert_eq!(counts.iter().sum::<usize>(), 500);
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
        for number in [0, 17, 499] {
            assert!(b.lock(number.to_string()).acquire().await.unwrap_err().is_busy());
        }
        for guard in held {
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    });
    assert!(cluster.keys_of(&prefix).is_empty());
}

#[test]
fn keys_with_braces_of_their_own() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("braces:");
    let (a, b) = (connect_as(cluster, &prefix), connect_as(cluster, &prefix));
    for key in ["a{b}c", "a{}b", "}{", "{x", "x}", "{}", "{{y}}", "}{z}", "grün:日本", "{日本}", "%"] {
        let name = format!("{prefix}{key}");
        let guard = a.lock(key).acquire_blocking().unwrap();
        assert!(cluster.owner_of(&name).keys().contains(&name), "{name}");
        assert!(b.lock(key).acquire_blocking().unwrap_err().is_busy(), "{key}");
        let waiter = queued(&b, key);
        for name in cluster.keys_of(&prefix) {
            assert_eq!(cluster.slot_of(&name), cluster.slot_of(&format!("{prefix}{key}")), "{name}");
        }
        drop(guard);
        drop(waiter.join().unwrap());
        eventually("no key is left", || cluster.keys_of(&prefix).is_empty());
    }
}

#[test]
fn several_keys_lie_on_several_nodes() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("several:");
    let (a, b) = (connect_as(cluster, &prefix), connect_as(cluster, &prefix));
    let keys: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let of_kind = |(number, key): (usize, &String)| match number % 4 {
        0 => LockKey::shared(key),
        1 => LockKey::permits(key, 3),
        _ => LockKey::exclusive(key),
    };
    let guard = a.lock_all(keys.iter().enumerate().map(of_kind)).acquire_blocking().unwrap();
    assert_eq!(cluster.keys_of(&prefix).iter().filter(|name| !name.contains('%')).count(), 20);
    for key in &keys {
        assert!(b.lock(key).acquire_blocking().unwrap_err().is_busy(), "{key}");
    }
    drop(guard);
    drop(b.lock_all(&keys).wait(LIMIT).acquire_blocking().unwrap());
    eventually("no key is left", || cluster.keys_of(&prefix).is_empty());
}

#[test]
fn any_key_goes_straight_to_its_node() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster);
    let letters = ['{', '}', '{', '}', 'a', 'b', '%', ':', 'ü'];
    let mut dice = 1_u64;
    for length in (1..=8).cycle().take(400) {
        let mut key = String::new();
        for _ in 0..length {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            key.push(letters[usize::try_from(dice >> 33).unwrap() % letters.len()]);
        }
        locks.lock(&key).run_value_blocking(|_| ()).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    for node in cluster.primaries() {
        let errors: String = node.run("INFO errorstats");
        assert!(!errors.contains("MOVED") && !errors.contains("CROSSSLOT"), "{errors}");
    }
}

/// A waiter that is in the queue on the server when this returns.
fn queued(locks: &LockManager, key: &str) -> thread::JoinHandle<LockGuard> {
    let waiters = || locks.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters());
    let before = waiters();
    let waiter = thread::spawn({
        let request = locks.lock(key).wait(LIMIT);
        move || request.acquire_blocking().unwrap()
    });
    eventually("the waiter is queued", || waiters() == before + 1);
    waiter
}

#[test]
fn a_lock_is_handed_over_as_on_one_server() {
    let cluster = RedisCluster::start();
    let managers = [connect(&cluster), connect(&cluster)];
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let guard = managers[0].lock("k").acquire().await.unwrap();
        let mut waiters = Vec::new();
        for number in 0..20_u32 {
            let (locks, order) = (managers[number as usize % 2].clone(), Arc::clone(&order));
            let mut call = Box::pin(async move {
                let guard = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
                order.lock().unwrap().push((number, guard.fencing_token()));
                guard.release().await.unwrap();
            });
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
            eventually("the waiter is queued", || {
                managers[0].inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == number + 1)
            });
            waiters.push(tokio::spawn(call));
        }
        guard.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
    });
    let order = order.lock().unwrap();
    assert!(order.iter().map(|(number, _)| *number).eq(0..20), "{order:?}");
    assert!(order.is_sorted_by_key(|(_, fence)| *fence), "{order:?}");
    assert!(cluster.keys().is_empty());

    let commands = || cluster.nodes.iter().map(RedisServer::client_commands).sum::<u64>();
    let before = commands();
    thread::scope(|scope| {
        for number in 0..20 {
            let locks = &managers[number % 2];
            scope.spawn(move || {
                for _ in 0..10 {
                    locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
                }
            });
        }
    });
    let each = (commands() - before) / 100;
    assert!((4..5).contains(&each), "{each} commands for two acquisitions");
}

#[test]
fn fencing_tokens_grow_while_the_slot_moves() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster);
    let slot = cluster.slot_of("lock:k");
    let mut last = 0;
    for round in 0..6 {
        for _ in 0..5 {
            let fence = locks.lock("k").wait(LIMIT).run_value_blocking(LockGuard::fencing_token).unwrap();
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        let to = cluster.primaries().into_iter().filter(|node| !owns(node, slot)).nth(round % 2);
        cluster.migrate(slot, to.unwrap(), || ());
    }
}

#[test]
fn numbers_grow_when_the_slot_gets_older_data() {
    let cluster = RedisCluster::of_this_process();
    let prefix = format!("{}:", unique("older"));
    let (locks, other, key) = (connect_as(cluster, &prefix), &connect_as(cluster, &prefix), "k");
    let node = cluster.owner_of(&format!("{prefix}{key}"));
    let mut last = locks.lock(key).run_value_blocking(LockGuard::fencing_token).unwrap();
    let clock = node.run::<Vec<String>>(&format!("KEYS {prefix}*%clock")).remove(0);
    for round in 0..40 {
        // The clock is three seconds old, or the server's time was ahead by an hour.
        if round % 2 == 0 {
            let _: String = node.run(&format!("SET {clock} {}", last - 3_000_000));
        } else {
            let _: String = node.run(&format!("SET {clock} {}", last + 3_600_000_000));
            last = locks.lock(key).run_value_blocking(LockGuard::fencing_token).unwrap();
            let _: u32 = node.run(&format!("DEL {clock}"));
        }
        let next = if round % 3 == 0 {
            let guard = other.lock(key).acquire_blocking().unwrap();
            let request = locks.lock(key).wait(LIMIT);
            thread::scope(|scope| {
                let waiter =
                    scope.spawn(move || request.run_value_blocking(LockGuard::fencing_token).unwrap());
                thread::sleep(SECOND / 20);
                drop(guard);
                waiter.join().unwrap()
            })
        } else {
            locks.lock(key).run_value_blocking(LockGuard::fencing_token).unwrap()
        };
        assert!(next > last, "{next} after {last} in round {round}");
        last = next;
    }
}

/// A steady load of all kinds of locks: no error within `wait`, and never two holders.
struct Load {
    stop: AtomicBool,
    rounds: AtomicU32,
}

impl Load {
    fn on(managers: &[LockManager], keys: &[&str], meanwhile: impl FnOnce(&Self)) {
        let load = Self { stop: AtomicBool::new(false), rounds: AtomicU32::new(0) };
        let inside: Vec<_> = keys.iter().map(|_| AtomicU32::new(0)).collect();
        let (load, inside) = (&load, &inside);
        thread::scope(|scope| {
            for locks in managers {
                for (key, inside) in keys.iter().zip(inside) {
                    for one_try in [false, false, true] {
                        scope.spawn(move || {
                            while !load.stop.load(Ordering::SeqCst) {
                                load.work(locks, key, inside, one_try);
                            }
                        });
                    }
                }
            }
            let stop = Stop(&load.stop);
            meanwhile(load);
            drop(stop);
        });
    }

    fn work(&self, locks: &LockManager, key: &str, inside: &AtomicU32, one_try: bool) {
        let wait = if one_try { Duration::ZERO } else { LIMIT };
        match locks.lock(key).wait(wait).acquire_blocking() {
            Ok(guard) => {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{key}: two callers are inside");
                thread::sleep(Duration::from_micros(200));
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
                self.rounds.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) if one_try && error.is_busy() => thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("{key}, {}: {error}", if one_try { "one try" } else { "waits" }),
        }
    }

    fn goes_on(&self, rounds: u32) {
        let before = self.rounds.load(Ordering::SeqCst);
        eventually("locks are taken", || {
            assert!(!self.stop.load(Ordering::SeqCst));
            self.rounds.load(Ordering::SeqCst) >= before + rounds
        });
    }
}

/// Stops the load, also when the test fails: its threads would run forever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn slots_move_under_load_and_nobody_gets_an_error() {
    let cluster = RedisCluster::start();
    // A longer time for one try, too: a busy machine may need it to move a slot.
    let builder = || LockManager::builder(cluster.url()).io_timeout(LIMIT / 2);
    let managers = [builder().connect_blocking().unwrap(), builder().connect_blocking().unwrap()];
    let slot = cluster.slot_of("lock:{moves}a");
    let long = managers[0].lock("{moves}long").ttl(3 * SECOND).acquire_blocking().unwrap();
    Load::on(&managers, &["{moves}a", "{moves}b", "stays", "{0}", "{shop}"], |load| {
        load.goes_on(100);
        for round in 0..9 {
            let to = cluster.primaries()[round % 3];
            if to.port() == cluster.owner_of("lock:{moves}a").port() {
                continue;
            }
            cluster.migrate(slot, to, || {
                // For this moment no lock of the slot can be taken.
                thread::sleep(Duration::from_millis(if round % 2 == 0 { 0 } else { 200 }));
            });
            load.goes_on(100);
        }
        // The slots of the inboxes.
        for slot in [5460, 10_921, 5459, 10_920, 5458, 10_919, 5457, 10_918, 16_383] {
            let from = cluster.primaries().into_iter().position(|node| owns(node, slot));
            let from =
                from.unwrap_or_else(|| panic!("no node has slot {slot}; promoted: {:?}", cluster.promoted()));
            cluster.migrate(slot, cluster.primaries()[(from + 1) % 3], || ());
            load.goes_on(100);
        }
    });
    let promoted = cluster.promoted();
    assert!(
        long.is_held(),
        "the lock is renewed all the time: {:?}; promoted: {promoted:?}",
        long.lost_reason()
    );
    assert_eq!(long.release_blocking().unwrap(), ReleaseOutcome::Released);
    eventually("no key is left", || cluster.keys().is_empty());
}

/// Readers, writers and holders of permits of one key, and of another one with a hash tag, while the slots of both move.
#[test]
fn counted_locks_keep_their_rule_while_slots_move() {
    const TTL: Duration = Duration::from_secs(5);
    let cluster = RedisCluster::start();
    let builder = || LockManager::builder(cluster.url()).io_timeout(LIMIT / 2);
    let managers = [builder().connect_blocking().unwrap(), builder().connect_blocking().unwrap()];
    let keys = ["moves", "{moves}a"];
    let long = managers[0].lock("{moves}a").permits(3).ttl(TTL).acquire_blocking().unwrap();
    let start = Instant::now();
    // Readers and writers that are inside, and rounds. Beside the permits, two more may be inside.
    let inside = keys.map(|_| [0, 1, 2].map(|_| AtomicU32::new(0)));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (locks, number) in managers.iter().flat_map(|locks| (0..6).map(move |number| (locks, number))) {
            let (key, inside, stop) = (keys[number % 2], &inside[number % 2], &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let request = locks.lock(key).wait(LIMIT);
                    let is_writer = key == "moves" && number < 2;
                    let request = if is_writer { request } else { request.shared() };
                    let guard = request.acquire_blocking().unwrap();
                    let [readers, writers, rounds] = inside;
                    let count = if is_writer { writers } else { readers };
                    count.fetch_add(1, Ordering::SeqCst);
                    let now = [readers, writers].map(|count| count.load(Ordering::SeqCst));
                    assert!(now[1] == 0 || now == [0, 1], "{key}: {now:?}");
                    assert!(key == "moves" || now[0] <= 2, "{key}: {now:?}");
                    thread::sleep(Duration::from_micros(200));
                    count.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let stopping = Stop(&stop);
        let goes_on = || {
            let before = inside.each_ref().map(|[_, _, rounds]| rounds.load(Ordering::SeqCst));
            eventually("locks are taken", || {
                inside
                    .iter()
                    .zip(before)
                    .all(|([_, _, rounds], before)| rounds.load(Ordering::SeqCst) > before + 20)
            });
        };
        goes_on();
        // Until the lock of the permits would have expired without a renewal.
        for round in (0..).take_while(|round| *round < 6 || start.elapsed() < TTL) {
            let slot = cluster.slot_of(&format!("lock:{}", keys[round % 2]));
            let to = cluster.primaries()[round / 2 % 3];
            if !owns(to, slot) {
                cluster.migrate(slot, to, || thread::sleep(Duration::from_millis(50)));
            }
            goes_on();
        }
        drop(stopping);
    });
    assert!(long.is_held(), "it is renewed all the time: {:?}", long.lost_reason());
    assert_eq!(long.release_blocking().unwrap(), ReleaseOutcome::Released);
    eventually("no key is left", || cluster.keys().is_empty());
}

#[test]
fn a_lock_on_its_way_to_another_node_is_renewed_there() {
    let cluster = RedisCluster::start();
    let (locks, other) = (connect(&cluster), connect(&cluster));
    let guard = locks.lock("k").ttl(10 * SECOND).acquire_blocking().unwrap();
    let slot = cluster.slot_of("lock:k");
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    cluster.migrate(slot, to, || {
        guard.extend_blocking(60 * SECOND).unwrap();
        assert!(guard.remaining() > 50 * SECOND);
        // A request for more than one key waits until the slot has moved.
        let waiting = other.lock("k").wait(SECOND / 2).acquire_blocking().unwrap_err();
        assert!(matches!(waiting, LockError::Unavailable { .. }), "{waiting:?}");
    });
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    eventually("no key is left", || cluster.keys().is_empty());
}

/// While the slot has no owner, what asks for a lock of it with more than one key is refused, and
/// waits.
#[test]
fn a_lock_is_renewed_while_its_slot_moves_and_others_ask_for_locks_of_that() {
    const TTL: Duration = Duration::from_secs(3);
    let cluster = RedisCluster::start();
    let builder = || LockManager::builder(cluster.url()).io_timeout(LIMIT);
    let managers = [builder().connect_blocking().unwrap(), builder().connect_blocking().unwrap()];
    let held = managers[0].lock("{k}held").ttl(TTL).acquire_blocking().unwrap();
    let slot = cluster.slot_of("lock:{k}held");
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    Load::on(&managers, &["{k}a", "{k}b", "{k}c", "{k}d"], |load| {
        load.goes_on(100);
        cluster.migrate(slot, to, || thread::sleep(2 * TTL));
    });
    assert!(held.is_held(), "{:?}", held.lost_reason());
    assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_waiter_is_served_after_its_slot_has_moved() {
    let cluster = RedisCluster::start();
    let (a, b) = (connect(&cluster), connect(&cluster));
    let guard = a.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let waiters = [queued(&b, "k"), queued(&a, "k"), queued(&b, "k")];
    let slot = cluster.slot_of("lock:k");
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    cluster.migrate(slot, to, || ());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    let start = Instant::now();
    let waiters = waiters.map(|waiter| thread::spawn(move || drop(waiter.join().unwrap())));
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
    eventually("no key is left", || cluster.keys().is_empty());
}

/// A downgrade names several keys, so the server executes it when the slot has moved. Until then the lock is renewed as an
/// exclusive one.
#[test]
fn a_downgrade_waits_for_longer_than_the_ttl_until_its_slot_has_moved() {
    const TTL: Duration = Duration::from_secs(3);
    let cluster = RedisCluster::start();
    let builder = || LockManager::builder(cluster.url()).io_timeout(LIMIT);
    let [locks, others] = [(); 2].map(|()| builder().connect_blocking().unwrap());
    let guard = Arc::new(locks.lock("k").ttl(TTL).acquire_blocking().unwrap());
    let reader = thread::spawn({
        let request = others.lock("k").shared().wait(LIMIT);
        move || request.acquire_blocking().unwrap()
    });
    eventually("it waits", || others.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    let slot = cluster.slot_of("lock:k");
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    let mut caller = None;
    cluster.migrate(slot, to, || {
        let guard = Arc::clone(&guard);
        caller = Some(thread::spawn(move || guard.downgrade_blocking()));
        // For longer than the lease.
        thread::sleep(2 * TTL);
    });
    assert_eq!(caller.unwrap().join().unwrap(), Ok(()));
    assert!(guard.is_held(), "{:?}", guard.lost_reason());
    let reader = reader.join().unwrap();
    assert_eq!(reader.fencing_token(), guard.fencing_token());
    assert!(others.lock("k").acquire_blocking().is_err_and(|error| error.is_busy()));
    let number = guard.fencing_token();
    assert_eq!(Arc::into_inner(guard).unwrap().release_blocking(), Ok(ReleaseOutcome::Released));
    assert_eq!(reader.release_blocking(), Ok(ReleaseOutcome::Released));
    assert!(others.lock("k").wait(LIMIT).acquire_blocking().unwrap().fencing_token() > number);
    eventually("no key is left", || cluster.keys().is_empty());
}

/// The old node has executed it, and its answer is lost: the holder repeats it on the new node, when the slot has moved.
#[test]
fn a_downgrade_whose_answer_is_lost_is_repeated_where_the_slot_has_moved() {
    let cluster = RedisCluster::start();
    let node = &cluster.nodes[0];
    // Before Redis 7.0, a node does not name its own proxy. Since Valkey 8.0, a slot moves only if the replica of its
    // node confirms it, which the proxy cuts off.
    let is_left_out = node.is_before_7() || node.version().starts_with("Valkey");
    if is_left_out && skipped("no slot of this version moves behind a proxy that holds answers") {
        return;
    }
    let proxies: Vec<_> = cluster.nodes.iter().map(|node| Proxy::to(node.port())).collect();
    for (node, proxy) in cluster.nodes.iter().zip(&proxies) {
        let _: String = node.run(&format!("CONFIG SET cluster-announce-port {}", proxy.port()));
    }
    eventually("all nodes name the proxies", || {
        let nodes = cluster.nodes.iter().map(|node| node.run::<String>("CLUSTER NODES"));
        nodes.into_iter().all(|nodes| proxies.iter().all(|it| nodes.contains(&format!(":{}@", it.port()))))
    });
    let builder = || LockManager::builder(cluster.url()).io_timeout(LIMIT);
    let [locks, others] = [(); 2].map(|()| builder().connect_blocking().unwrap());
    let guard = Arc::new(locks.lock("k").ttl(LIMIT).acquire_blocking().unwrap());
    let slot = cluster.slot_of("lock:k");
    let owner = cluster.owner_of("lock:k");
    let at = cluster.nodes.iter().position(|node| node.port() == owner.port()).unwrap();
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    proxies[at].hold_replies(true);
    let caller = thread::spawn({
        let guard = Arc::clone(&guard);
        move || guard.downgrade_blocking()
    });
    eventually("the old node has executed it", || owner.run::<String>("GET lock:k").starts_with('%'));
    cluster.migrate(slot, to, || {
        proxies[at].cut();
        proxies[at].hold_replies(false);
        // Neither node takes a request for several keys now.
        thread::sleep(Duration::from_millis(500));
        assert!(!caller.is_finished(), "nobody has told it");
    });
    assert_eq!(caller.join().unwrap(), Ok(()));
    assert!(guard.is_held(), "{:?}", guard.lost_reason());
    let reader = others.lock("k").shared().wait(LIMIT).acquire_blocking().unwrap();
    assert_eq!(reader.fencing_token(), guard.fencing_token());
    assert!(others.lock("k").acquire_blocking().is_err_and(|error| error.is_busy()));
    drop(reader);
    assert_eq!(Arc::into_inner(guard).unwrap().release_blocking(), Ok(ReleaseOutcome::Released));
    drop(others.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("no key is left", || cluster.keys().is_empty());
}

#[test]
fn a_primary_is_lost_and_its_replica_takes_over() {
    let mut cluster = RedisCluster::that_fails_over();
    let locks = connect_to(&cluster.url());
    let lost =
        cluster.nodes.iter().position(|node| node.port() == cluster.owner_of("lock:k").port()).unwrap();
    let guard = locks.lock("k").ttl(30 * SECOND).acquire_blocking().unwrap();
    let waiter = queued(&locks, "k");
    let others: Vec<_> = (0..30).map(|number| locks.lock(number.to_string()).wait(LIMIT)).collect();
    let mut client = cluster.nodes[lost].client();
    // After `WAIT`, the replica has all earlier writes.
    let _: String = redis::cmd("SET").arg("{lock:k}test").arg("").query(&mut client).unwrap();
    let replicas: u32 = redis::cmd("WAIT").arg(1).arg(5000).query(&mut client).unwrap();
    assert_eq!(replicas, 1);
    // Until the first call has ended: it finds no node, however slow the machine is.
    let _: String = cluster.nodes[lost + 3].run("CONFIG SET cluster-replica-no-failover yes");
    cluster.nodes[lost].kill();
    let start = Instant::now();
    let tried = locks.lock("k").acquire_blocking().unwrap_err();
    assert!(!tried.is_busy() && start.elapsed() < 5 * SECOND, "{tried} after {:?}", start.elapsed());
    assert!(matches!(tried, LockError::Unavailable { .. }), "{tried:?}");
    let _: String = cluster.nodes[lost + 3].run("CONFIG SET cluster-replica-no-failover no");
    for request in others {
        request.run_value_blocking(|_| ()).unwrap();
    }
    eventually("the lock is there again", || {
        locks.inspect_blocking("k").is_ok_and(|found| found.is_some_and(|info| info.waiters() == 1))
    });
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(waiter.join().unwrap());
    // The lost node returns as a replica.
    cluster.nodes[lost].restart();
    locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
}

#[test]
fn a_lock_that_its_replica_has_not_seen_is_known_to_be_lost() {
    let mut cluster = RedisCluster::that_fails_over();
    let locks = connect(&cluster);
    let port = cluster.owner_of("lock:k").port();
    let primary = cluster.nodes.iter().position(|node| node.port() == port).unwrap();
    // The replica is stopped, and its connection closed, so it never gets the grant.
    cluster.nodes[primary + 3].pause();
    let _: u32 = cluster.nodes[primary].run("CLIENT KILL TYPE replica");
    let guard = locks.lock("k").ttl(600 * SECOND).acquire_blocking().unwrap();
    let waiter = queued(&locks, "k");
    cluster.nodes[primary].kill();
    cluster.nodes[primary + 3].resume();
    // Without a push, and long before the renewal.
    eventually("the holder has compared the lock", || !guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    drop(waiter.join().unwrap());
}

#[test]
fn a_loss_is_noticed_at_once() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("loss:");
    let locks = connect_as(cluster, &prefix);
    for key in ["a", "{b}", "c"] {
        let guard = locks.lock(key).ttl(60 * SECOND).acquire_blocking().unwrap();
        let owner = cluster.owner_of(&format!("{prefix}{key}"));
        eventually("the server tracks the key", || {
            !owner.run::<String>("INFO stats").contains("tracking_total_keys:0")
        });
        let _: i32 = owner.run(&format!("DEL {prefix}{key}"));
        eventually("the lock is lost", || !guard.is_held());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    }
}

#[test]
fn locks_of_all_nodes_are_listed_and_can_be_taken_away() {
    let cluster = RedisCluster::of_this_process();
    let locks = connect_as(cluster, &unique("list:"));
    let mut guards: Vec<_> =
        (0..50).map(|number| locks.lock(format!("stock:{number:02}")).acquire_blocking().unwrap()).collect();
    let keys: Vec<_> = (0..50).map(|number| format!("stock:{number:02}")).collect();
    assert_eq!(kit::listed(&locks, "stock:*").unwrap(), keys);
    assert_eq!(kit::listed(&locks, "other:*").unwrap(), [""; 0]);
    let other = guards.pop().unwrap();
    let waiter = queued(&locks, "stock:49");
    assert!(locks.force_release_blocking("stock:49").unwrap().is_some());
    drop(waiter.join().unwrap());
    assert_eq!(other.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    assert!(locks.inspect_blocking("stock:49").unwrap().is_none());
}

#[test]
fn a_waiter_that_is_dropped_leaves_nothing() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("dropped:");
    let (a, b) = (connect_as(cluster, &prefix), connect_as(cluster, &prefix));
    runtime().block_on(async {
        let guard = a.lock("k").acquire().await.unwrap();
        for _ in 0..20 {
            let mut call = Box::pin(b.lock("k").wait(LIMIT).acquire());
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        }
        let error = b.lock("k").wait(SECOND).acquire().await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        eventually("the lock alone is left", || cluster.keys_of(&prefix) == [format!("{prefix}k")]);
        drop(guard);
        eventually("no key is left", || cluster.keys_of(&prefix).is_empty());
    });
}

#[test]
fn without_sharded_channels_a_lock_is_handed_over_all_the_same() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("plain:");
    for node in &cluster.nodes {
        let rules = format!("on >pass resetchannels ~{prefix}* &{prefix}* +@all -ssubscribe -spublish");
        let _: String = node.run(&format!("ACL SETUSER shop {}", node.known_rules(&rules)));
    }
    let url = cluster.url().replace("://", "://shop:pass@");
    let connect_to = |url: &str| LockManager::builder(url).prefix(&prefix).connect_blocking().unwrap();
    let (a, b, sharded) = (connect_to(&url), connect_to(&url), connect_to(&cluster.url()));
    for locks in [&a, &b, &sharded] {
        assert!(locks.capabilities_blocking().unwrap().hands_over());
    }
    let guard = a.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    // Managers with and without sharded channels: pushes reach both kinds, and the order holds.
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let waiters = [&b, &sharded, &a, &sharded, &b];
        for (number, locks) in waiters.into_iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                locks
                    .lock("k")
                    .wait(LIMIT)
                    .run_value_blocking(|_| order.lock().unwrap().push(number))
                    .unwrap();
            });
            eventually("the waiter is queued", || {
                a.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() as usize == number + 1)
            });
        }
        drop(guard);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    eventually("no key is left", || cluster.keys_of(&prefix).is_empty());
}

#[test]
fn the_wrong_kind_of_address_is_told_apart() {
    let cluster = RedisCluster::of_this_process();
    let locks = connect_to(&cluster.nodes[0].url());
    let error = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap_err();
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    let server = RedisServer::start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = LockManager::connect_blocking(&url).unwrap_err();
    assert!(error.to_string().contains("redis://"), "{error}");
    let error = LockManager::builder(cluster.url()).prefix("a{b").connect_blocking().unwrap_err();
    assert!(error.to_string().contains("hash tag"), "{error}");
}

#[test]
fn a_caller_hears_why_no_node_serves_its_slot() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster);
    drop(locks.lock("k").acquire_blocking().unwrap());
    let slot = cluster.slot_of("lock:k");
    for node in cluster.primaries() {
        let _: redis::RedisResult<String> = node.try_run(&format!("CLUSTER DELSLOTS {slot}"));
    }
    eventually("no node serves it", || {
        let error = locks.lock("k").wait(Duration::from_millis(30)).acquire_blocking().unwrap_err();
        error.to_string().contains("CLUSTERDOWN")
    });
    // Once the nodes have told each other, none claims the slot.
    for wait in [0, 1, 30, 700] {
        let error = locks.lock("k").wait(Duration::from_millis(wait)).acquire_blocking().unwrap_err();
        assert!(
            matches!(&error, LockError::Unavailable { reason, .. }
                if reason.contains("CLUSTERDOWN") || reason.contains("no node of the Cluster has slot")),
            "{wait} ms: {error}"
        );
    }
}

/// A call that no node has served has nothing to release, however long its slot has no node.
#[test]
fn calls_that_no_node_served_owe_no_releases() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster);
    // A release on its way would be owed.
    locks.lock("k").acquire_blocking().unwrap().release_blocking().unwrap();
    let slot = cluster.slot_of("lock:k");
    let _: redis::RedisResult<String> =
        cluster.owner_of("lock:k").try_run(&format!("CLUSTER DELSLOTS {slot}"));
    eventually("no node serves it", || {
        locks
            .lock("k")
            .wait(Duration::from_millis(30))
            .acquire_blocking()
            .is_err_and(|error| !error.is_busy())
    });
    for wait in [0, 1, 30, 90, 300] {
        let wait = Duration::from_millis(wait);
        let error = locks.lock("k").wait(wait).acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        let error = locks.lock_all(["a", "k"]).wait(wait).acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    }
    locks.shutdown_blocking(Duration::from_secs(5)).unwrap();
}

/// A command that names a key that does not exist is refused then, in the middle of a script, too.
#[test]
fn a_lock_is_free_after_a_release_whose_slot_is_moving_and_whose_waiters_are_dead() {
    const NAME: &str = "lock:{moves}";
    let cluster = RedisCluster::start();
    let managers = [(); 2]
        .map(|()| LockManager::builder(cluster.url()).foreign_clients(false).connect_blocking().unwrap());
    let slot = cluster.slot_of(NAME);
    let from = cluster.owner_of(NAME);
    let to = cluster.primaries().into_iter().find(|node| node.port() != from.port()).unwrap();
    let held = managers[0].lock("{moves}").ttl(LIMIT).acquire_blocking().unwrap();
    let waits = thread::spawn({
        let locks = managers[1].clone();
        move || locks.lock("{moves}").ttl(LIMIT).wait(LIMIT).acquire_blocking().unwrap()
    });
    eventually("it waits", || from.run::<i32>(&format!("ZCARD {NAME}%queue")) == 1);
    let dead = format!("{:0>22}@host:1/1790000000/m::f|10000|inbox", 1);
    from.run::<i32>(&format!("ZADD {NAME}%queue 9000000000000000 {dead}"));
    held.release_blocking().unwrap();
    let granted = waits.join().unwrap();
    eventually("all keys of the release are there", || {
        from.run::<i32>(&format!("EXISTS {NAME} {NAME}%queue {NAME}%queue%claim")) == 3
    });
    let ids = [from, to].map(|node| node.run::<String>("CLUSTER MYID"));
    let _: String = to.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]));
    let _: String = from.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1]));
    assert_eq!(granted.release_blocking(), Ok(ReleaseOutcome::Released));
    let value: redis::RedisResult<Option<String>> = from.try_run(&format!("GET {NAME}"));
    assert!(!matches!(&value, Ok(Some(_))), "it has moved, or is not there: {value:?}");
    let _: String = from.run(&format!("CLUSTER SETSLOT {slot} STABLE"));
    let _: String = to.run(&format!("CLUSTER SETSLOT {slot} STABLE"));
    assert_eq!(from.run::<i32>(&format!("EXISTS {NAME}")), 0, "nobody has it");
    managers[0].lock("{moves}").acquire_blocking().unwrap().release_blocking().unwrap();
}
