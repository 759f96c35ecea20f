//! What becomes of a body that runs once, and of its record, where the primary is lost, or the slot moves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use kit::{
    LIMIT, LateProxy, RedisCluster, RedisServer, SECOND, SentinelGroup, connect_to, eventually, owns, skipped,
};
use redlocked::once::{OnInterrupted, Once, OnceRequest};
use redlocked::{LockError, LockManager};

use crate::DAY;

/// No lease of these tests ends by its time.
fn once(locks: &LockManager, key: &str) -> OnceRequest {
    locks.lock(key).ttl(1000 * SECOND).wait(2 * LIMIT).once(DAY).on_interrupted(OnInterrupted::Error)
}

fn run(locks: &LockManager, key: &str, value: u32) -> Result<Once<u32>, LockError> {
    once(locks, key).run_blocking(|_guard| Ok(value))
}

/// Runs a body with value 1, which begins at the first barrier and ends behind the second.
fn run_between(locks: &LockManager, key: &str, barriers: &[Barrier; 2]) -> Result<Once<u32>, LockError> {
    let body = |_guard: &_| {
        for barrier in barriers {
            barrier.wait();
        }
        Ok(1)
    };
    once(locks, key).run_blocking(body)
}

fn waiters(locks: &LockManager, key: &str) -> u32 {
    locks.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters())
}

#[test]
fn a_failover_keeps_the_records_that_the_replica_has_and_the_others_run_again() {
    let mut group = SentinelGroup::start();
    let url = group.url();
    let connect = || LockManager::builder(&url).io_timeout(SECOND / 2).connect_blocking().unwrap();
    let [locks, others] = [connect(), connect()];
    let barriers = [Barrier::new(3), Barrier::new(3)];
    thread::scope(|scope| {
        let runs = scope.spawn(|| run_between(&locks, "runs", &barriers));
        let is_cut_off = scope.spawn(|| run_between(&locks, "cut_off", &barriers));
        barriers[0].wait();
        let waits = scope.spawn(|| run(&others, "runs", 2));
        eventually("it waits", || waiters(&others, "runs") == 1);
        for key in ["kept", "lost"] {
            assert_eq!(run(&locks, key, 1), Ok(Once::Ran(1)));
        }
        eventually("the replicas have all of it", || {
            let has =
                |server: &RedisServer, key| server.run::<u32>(&format!("EXISTS lock:{key}%queue%once")) == 1;
            group.servers.iter().all(|server| ["kept", "runs"].into_iter().all(|key| has(server, key)))
        });
        for key in ["lost%queue%once", "cut_off", "cut_off%queue%once"] {
            group.forget_on_replicas(key);
        }
        let before = group.primary().port();
        group.servers.iter_mut().find(|server| server.port() == before).unwrap().kill();
        group.wait_for_another_primary_than(before);
        for locks in [&locks, &others] {
            assert_eq!(run(locks, "kept", 2), Ok(Once::Replayed(1)), "it has found the new primary");
        }
        barriers[1].wait();

        assert_eq!(runs.join().unwrap(), Ok(Once::Ran(1)), "its lock and its record have moved");
        assert_eq!(waits.join().unwrap(), Ok(Once::Replayed(1)));
        let cut_off = is_cut_off.join().unwrap();
        let Err(LockError::NotStored { result: Some(result), .. }) = &cut_off else { panic!("{cut_off:?}") };
        assert_eq!(&**result, b"1");
    });
    let later = connect();
    for (key, expected) in [
        ("runs", Once::Replayed(1)),
        // What the new primary does not know of has not been done.
        ("lost", Once::Ran(2)),
        ("cut_off", Once::Ran(2)),
    ] {
        assert_eq!(run(&others, key, 2), Ok(expected), "{key}");
        assert_eq!(run(&later, key, 3), Ok(Once::Replayed(expected.into_inner())), "{key}");
    }
}

#[test]
fn a_body_and_its_waiters_go_on_while_their_slot_moves() {
    let cluster = RedisCluster::start();
    let connect = || connect_to(&cluster.url());
    let [locks, others] = [connect(), connect()];
    let slot = cluster.slot_of("lock:k");
    let moves = || {
        let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
        cluster.migrate(slot, to, || ());
    };
    let barriers = [Barrier::new(2), Barrier::new(2)];
    thread::scope(|scope| {
        let runs = scope.spawn(|| run_between(&locks, "k", &barriers));
        barriers[0].wait();
        let waiting = [&locks, &others, &others].map(|locks| scope.spawn(|| run(locks, "k", 2)));
        eventually("they wait", || waiters(&locks, "k") == 3);
        moves();
        barriers[1].wait();
        assert_eq!(runs.join().unwrap(), Ok(Once::Ran(1)));
        for waits in waiting {
            assert_eq!(waits.join().unwrap(), Ok(Once::Replayed(1)));
        }
    });
    moves();
    for locks in [&locks, &others, &connect()] {
        assert_eq!(run(locks, "k", 2), Ok(Once::Replayed(1)));
    }
    assert!(others.clear_once_blocking("k").unwrap());
    assert_eq!(run(&locks, "k", 2), Ok(Once::Ran(2)));
}

/// As behind a failover: the node has not received the result, its connection breaks, and the lock is gone.
#[test]
fn a_result_that_no_node_of_a_cluster_has_is_not_said_to_be_stored() {
    /// The script that stores a result is longer.
    const ARRIVED: usize = 2_000;
    let cluster = RedisCluster::start();
    if cluster.nodes[0].is_before_7() && skipped("a node of this version does not name its own proxy") {
        return;
    }
    let owner = cluster.owner_of("lock:k");
    let proxy = LateProxy::to(owner.port());
    let _: String = owner.run(&format!("CONFIG SET cluster-announce-port {}", proxy.port()));
    eventually("all nodes name the proxy", || {
        let names =
            |node: &RedisServer| node.run::<String>("CLUSTER NODES").contains(&format!(":{}@", proxy.port()));
        cluster.nodes.iter().all(names)
    });
    let connect = || LockManager::builder(cluster.url()).io_timeout(LIMIT / 4).connect_blocking().unwrap();
    let [locks, others] = [connect(), connect()];
    let barriers = [Barrier::new(2), Barrier::new(2)];
    let first = thread::scope(|scope| {
        let runs = scope.spawn(|| run_between(&locks, "k", &barriers));
        barriers[0].wait();
        proxy.keep();
        barriers[1].wait();
        eventually("its result is on the way", || proxy.kept() > ARRIVED);
        let _: u32 = owner.run("DEL lock:k");
        proxy.cut();
        runs.join().unwrap()
    });
    assert!(matches!(first, Err(LockError::NotStored { .. })), "{first:?}");
    let next = run(&others, "k", 2);
    assert!(matches!(next, Err(LockError::Interrupted { .. })), "{next:?}");
}

#[test]
fn while_their_slot_moves_each_of_many_bodies_runs_once() {
    let cluster = RedisCluster::start();
    let connect = || LockManager::builder(cluster.url()).io_timeout(LIMIT / 4).connect_blocking().unwrap();
    let managers = [connect(), connect()];
    let (slot, over, runs) = (cluster.slot_of("lock:{k}"), AtomicBool::new(false), AtomicU32::new(0));
    let results = Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for worker in 0..6 {
            let (locks, over, runs, results) = (&managers[worker % 2], &over, &runs, &results);
            scope.spawn(move || {
                for number in 0.. {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    let body = |_guard: &_| {
                        thread::sleep(SECOND / 500);
                        Ok::<_, LockError>(runs.fetch_add(1, Ordering::SeqCst))
                    };
                    let got = once(locks, &format!("{{k}}{number}")).run_blocking(body);
                    let got = got.unwrap_or_else(|error| panic!("{number}: {error:?}")).into_inner();
                    let first = *results.lock().unwrap().entry(number).or_insert(got);
                    assert_eq!(got, first, "{number}");
                }
            });
        }
        let stop = Stop(&over);
        for _ in 0..6 {
            let before = runs.load(Ordering::SeqCst);
            eventually("there is load", || runs.load(Ordering::SeqCst) > before + 20);
            let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
            cluster.migrate(slot, to, || ());
        }
        drop(stop);
    });
    let ran = usize::try_from(runs.into_inner()).unwrap();
    assert_eq!(ran, results.into_inner().unwrap().len(), "each has run once");
}

/// Stops the load, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
