//! Ticks in a Cluster, whose keys lie in the slot of their lock, and behind Sentinel; a quorum has none.

use std::time::Duration;

use kit::{Quorum, RedisCluster, SentinelGroup, unique};
use redlocked::{LockErrorKind, LockManager, TickMissed};

/// No test comes near its end.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

fn runs_each_tick_once(locks: &LockManager, others: &LockManager) {
    for missed in [TickMissed::Skip, TickMissed::Retry] {
        for key in ["k", "{tag}k", "a{b}:c"] {
            let key = format!("{key}:{missed:?}");
            let tick = |locks: &LockManager| locks.lock(&key).tick(YEAR).tick_missed(missed);
            assert_eq!(others.last_tick_blocking(&key).unwrap(), None);
            tick(locks).run_value_blocking(|_| ()).unwrap();
            for locks in [others, locks] {
                let error = tick(locks).acquire_blocking().map(drop).unwrap_err();
                assert_eq!(error.kind(), LockErrorKind::TickTaken, "{key}");
            }
            assert!(others.last_tick_blocking(&key).unwrap().is_some_and(|last| last.by().name().is_some()));
        }
    }
}

#[test]
fn in_a_cluster_the_record_is_beside_its_lock() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("tick:");
    let connect = || LockManager::builder(cluster.url()).prefix(&prefix).connect_blocking().unwrap();
    runs_each_tick_once(&connect(), &connect());
    let left = cluster.keys_of(&prefix);
    let records = left.iter().filter(|key| key.contains("%queue%tick")).count();
    assert_eq!(records, 6, "{left:?}");
}

#[test]
fn behind_sentinel_each_tick_is_run_once() {
    let group = SentinelGroup::start();
    let connect = || LockManager::connect_blocking(group.url()).unwrap();
    runs_each_tick_once(&connect(), &connect());
}

#[test]
fn a_quorum_keeps_no_record_and_says_so() {
    let quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let tick = locks.lock("k").tick(YEAR).acquire_blocking().map(drop).unwrap_err();
    let last = locks.last_tick_blocking("k").unwrap_err();
    for error in [tick, last] {
        assert!(
            error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("quorum"),
            "{error}"
        );
    }
}
