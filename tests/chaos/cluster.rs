//! The same in a Redis Cluster, while its primaries are lost and its slots move. And the mistakes of scripts, there.

use super::{COUNTS_FROM_RECEIPT, DOES_NOT_COMPARE, IS_NOT_RAISED, is_clean};
use kit::chaos::ground::Ground;
use kit::chaos::history::History;
use kit::chaos::shards::{Shards, Unrest, Way};
use kit::{RedisCluster, RedisServer, Rewriter};

#[test]
fn at_most_one_is_inside_but_for_locks_that_a_failover_has_forgotten() {
    is_clean(|_| Shards::start(Unrest::Everything), 6);
}

#[test]
fn a_lock_that_is_waited_for_is_handed_over_while_its_slot_moves() {
    is_clean(|_| Shards::start(Unrest::Crowds), 5);
}

#[test]
fn bursts_are_served_at_once_in_a_cluster() {
    is_clean(|_| Shards::start(Unrest::Bursts), 4);
}

/// With this in a script replaced by that on all nodes, the checker finds `what` it looks for.
fn is_found(
    cluster: RedisCluster,
    unrest: Unrest,
    (pattern, replacement): (&'static str, &'static str),
    what: impl Fn(&History) -> bool,
) -> RedisCluster {
    let way = |server: &RedisServer| Way::Rewritten(Rewriter::to(server.port(), pattern, replacement));
    let chaos = super::is_found(Shards::new(cluster, unrest, way), what);
    assert!(chaos.ground.rewrites() > 0, "no script contains {pattern:?} any more");
    chaos.ground.into_cluster()
}

/// One after the other, because a Cluster takes its time to start.
#[test]
fn mistakes_in_the_scripts_are_found_in_a_cluster_too() {
    let (overlaps, fences) = (
        |history: &History| history.check().overlaps() > 0,
        |history: &History| history.check().fences() > 0,
    );
    let cluster = is_found(RedisCluster::start(), Unrest::Nothing, DOES_NOT_COMPARE, overlaps);
    let cluster = is_found(cluster, Unrest::Nothing, IS_NOT_RAISED, fences);
    is_found(cluster, Unrest::Nothing, COUNTS_FROM_RECEIPT, overlaps);
}

/// What a failover has forgotten is below the time, and has to be for that: a counter alone gives a token twice.
#[test]
fn fencing_tokens_that_a_failover_gives_twice_are_found() {
    let counts =
        ("if fence < (tonumber(ARGV[6]) or 1e15) then", "if fence < 1e15                        then");
    is_found(RedisCluster::start(), Unrest::Failovers, counts, |history| history.check().fences() > 0);
}

#[test]
fn waiters_that_are_not_told_are_found_in_a_cluster() {
    // The lock is deleted instead of granted to the next waiter; then it is granted, and the waiter is not told.
    let deleted = ("local next_holder = grant()", "local next_holder = nil    ");
    let cluster =
        is_found(RedisCluster::start(), Unrest::Crowds, deleted, |history| history.liveness.free() > 0);
    let untold = ("'granted|' .. next_token", "'grunted|' .. next_token");
    is_found(cluster, Unrest::Bursts, untold, |history| history.check().idle() > 0);
}
