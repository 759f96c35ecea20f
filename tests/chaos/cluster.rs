//! A Redis Cluster whose primaries fail and whose slots move, and the mistakes that the checker
//! finds there.

use super::{DOES_NOT_COMPARE, IS_NOT_RAISED, is_clean, is_clean_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::Environment;
use kit::chaos::environment::cluster::{ClusterFaults, ClusterNodes, NodeProxy};
use kit::chaos::random::Random;
use kit::{RedisCluster, RedisServer, Rewriter};

#[test]
fn at_most_one_is_inside_but_for_locks_that_a_failover_has_forgotten() {
    is_clean(|_| ClusterNodes::start(ClusterFaults::Everything), 6);
}

#[test]
fn a_lock_that_is_waited_for_is_handed_over_while_its_slot_moves() {
    is_clean(|_| ClusterNodes::start(ClusterFaults::Crowds), 5);
}

#[test]
fn bursts_are_served_at_once_in_a_cluster() {
    is_clean(|_| ClusterNodes::start(ClusterFaults::Bursts), 4);
}

#[test]
fn a_reply_that_nothing_has_asked_for_grants_nothing_in_a_cluster() {
    let chaos = is_clean(|_| ClusterNodes::start(ClusterFaults::StrayReplies), 8);
    assert!(chaos.log.count("stray replies") > 0);
}

#[test]
fn a_manager_whose_calls_were_refused_owes_nothing_in_a_cluster() {
    let refusals = |_: &mut Random| ClusterNodes::start(ClusterFaults::Refusals);
    is_clean_with(refusals, 8, |chaos| chaos.history.calls.ends > 0);
}

/// With this text of a script replaced by that on all nodes, the checker finds `what`.
fn is_found(
    cluster: RedisCluster,
    faults: ClusterFaults,
    (pattern, replacement): (&'static str, &'static str),
    what: impl Fn(&History) -> bool,
) -> RedisCluster {
    let proxy =
        |server: &RedisServer| NodeProxy::Rewriting(Rewriter::to(server.port(), pattern, replacement));
    let chaos = super::is_found(ClusterNodes::new(cluster, faults, proxy), what);
    assert!(chaos.environment.rewrites() > 0, "no script contains {pattern:?} any more");
    chaos.environment.into_cluster()
}

/// Both in one Cluster, one after the other, because it takes long to start.
#[test]
fn mistakes_in_the_scripts_are_found_in_a_cluster_too() {
    let (overlaps, fences) = (
        |history: &History| history.check().overlaps() > 0,
        |history: &History| history.check().fences() > 0,
    );
    let cluster = is_found(RedisCluster::start(), ClusterFaults::Nothing, DOES_NOT_COMPARE, overlaps);
    is_found(cluster, ClusterFaults::Nothing, IS_NOT_RAISED, fences);
}

/// Tokens that a failover has forgotten are below the time, so the next is higher: a mere counter
/// gives a token twice.
#[test]
fn fencing_tokens_that_a_failover_gives_twice_are_found() {
    let counts = ("if fence < least then", "if fence < LEAST then");
    is_found(RedisCluster::that_fails_over(), ClusterFaults::Failovers, counts, |history| {
        history.check().fences() > 0
    });
}
