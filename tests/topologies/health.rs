//! What `ping` says of several servers, some of which are down or silent.

use std::time::Duration;

use kit::{Quorum, RedisCluster, eventually};
use redlocked::{LockErrorKind, LockManager};

const IO_TIMEOUT: Duration = Duration::from_secs(1);

fn trouble(locks: &LockManager) -> Option<LockErrorKind> {
    kit::trouble(locks, IO_TIMEOUT)
}

#[test]
fn a_quorum_is_well_while_a_majority_answers() {
    let mut quorum = Quorum::durable(3);
    let locks = quorum.builder().io_timeout(IO_TIMEOUT).connect_blocking().unwrap();
    assert_eq!(trouble(&locks), None);
    quorum.servers[0].pause();
    assert_eq!(trouble(&locks), None, "one of three is silent");
    quorum.servers[1].kill();
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable), "two of three are gone");
    quorum.servers[0].resume();
    eventually("two of three are well", || trouble(&locks).is_none());
}

#[test]
fn a_cluster_is_well_while_each_primary_answers() {
    let mut cluster = RedisCluster::that_fails_over();
    for node in &cluster.nodes {
        // No replica takes over.
        let _: String = node.run("CONFIG SET cluster-node-timeout 60000");
    }
    let locks = LockManager::builder(cluster.url()).io_timeout(IO_TIMEOUT).connect_blocking().unwrap();
    let in_one_slot = LockManager::builder(cluster.url()).io_timeout(IO_TIMEOUT).prefix("{a}:");
    let in_one_slot = in_one_slot.connect_blocking().unwrap();
    assert_eq!((trouble(&locks), trouble(&in_one_slot)), (None, None));

    // The slot of `a` is 15,495: of the third primary.
    cluster.nodes[1].pause();
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable), "one of three is silent");
    assert_eq!(trouble(&in_one_slot), None, "it has none of these locks");
    cluster.nodes[1].resume();
    eventually("all are well", || trouble(&locks).is_none());

    cluster.nodes[2].kill();
    assert_eq!(trouble(&locks), Some(LockErrorKind::Unavailable), "one of three is down");
    assert_eq!(trouble(&in_one_slot), Some(LockErrorKind::Unavailable));
    cluster.nodes[2].restart();
    eventually("all are well again", || trouble(&locks).is_none() && trouble(&in_one_slot).is_none());
}
