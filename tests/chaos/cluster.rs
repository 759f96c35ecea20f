//! The same in a Redis Cluster, while its primaries are lost and its slots move. And the mistakes of scripts, there.

use std::time::{Duration, Instant};

use super::checker::Verdict;
use super::driver::Chaos;
use super::shards::{Shards, Unrest, Way};
use super::support::{RedisCluster, RedisServer, Rewriter};
use super::{
    COUNTS_FROM_RECEIPT, DOES_NOT_COMPARE, IS_NOT_RAISED, nothing_is_wrong, report, run, seed, setting,
    summary,
};

#[test]
fn at_most_one_is_inside_but_for_locks_that_a_failover_has_forgotten() {
    let (lasts, seed) = (Duration::from_secs(setting("CHAOS_SECONDS", || 8)), seed());
    report(&format!("chaos in a cluster for {lasts:?}; again with CHAOS_SEED={seed}"));
    let mut chaos = Chaos::new(Shards::everything(), seed);
    run(&mut chaos, lasts);
    nothing_is_wrong(&mut chaos, seed);
}

/// With this in a script replaced by that on all nodes, the checker finds `what` it looks for.
fn is_found(
    cluster: RedisCluster,
    unrest: Unrest,
    (pattern, replacement): (&'static str, &'static str),
    what: impl Fn(&Verdict) -> bool,
) -> RedisCluster {
    const LIMIT: Duration = Duration::from_mins(1);
    let (seed, start) = (seed(), Instant::now());
    let way = |server: &RedisServer| Way::Rewritten(Rewriter::to(server.port(), pattern, replacement));
    let mut chaos = Chaos::new(Shards::new(cluster, unrest, way), seed);
    chaos.run(LIMIT, |chaos| what(&chaos.history.check()));
    summary(&chaos);
    assert!(chaos.ground.rewritten() > 0, "no script contains {pattern:?} any more");
    let verdict = chaos.history.verdict();
    report(&format!("{replacement:?} in a cluster: after {:.1?}", start.elapsed()));
    assert!(what(verdict), "CHAOS_SEED={seed}: not found within {LIMIT:?}: {verdict:?}");
    chaos.ground.into_cluster()
}

/// One after the other, because a Cluster takes its time to start.
#[test]
fn mistakes_in_the_scripts_are_found_in_a_cluster_too() {
    let (overlaps, fences) =
        (|verdict: &Verdict| verdict.overlaps() > 0, |verdict: &Verdict| verdict.fences() > 0);
    let cluster = is_found(RedisCluster::start(), Unrest::Nothing, DOES_NOT_COMPARE, overlaps);
    let cluster = is_found(cluster, Unrest::Nothing, IS_NOT_RAISED, fences);
    is_found(cluster, Unrest::Nothing, COUNTS_FROM_RECEIPT, overlaps);
}

/// What a failover has forgotten is below the time, and has to be for that: a counter alone gives a token twice.
#[test]
fn fencing_tokens_that_a_failover_gives_twice_are_found() {
    let counts =
        ("if fence < (tonumber(ARGV[6]) or 1e15) then", "if fence < 1e15                        then");
    is_found(RedisCluster::start(), Unrest::Failovers, counts, |verdict| verdict.fences() > 0);
}
