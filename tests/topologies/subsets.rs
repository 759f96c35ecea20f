//! A quorum of three or five nodes in every state: each node is well, slow or dead.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use kit::{DelayProxy, LIMIT, Proxy, Quorum, SECOND};
use redlocked::{LockError, LockManager, ReleaseOutcome};

/// A node as one manager sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Well,
    Slow,
    Dead,
}

/// Each node is well, slow or dead, in every combination. Where a majority lives, a lock is taken,
/// held against others and given back; where it does not, the caller gets an error, and no node
/// keeps anything.
fn every_subset_of_slow_and_dead_nodes(nodes: usize) {
    const ROUND_TRIP: Duration = Duration::from_millis(40);
    let quorum = Quorum::durable(nodes);
    let slow: Vec<_> =
        quorum.servers.iter().map(|server| DelayProxy::to(server.port(), ROUND_TRIP / 2)).collect();
    let dead: Vec<_> = quorum.servers.iter().map(|server| Proxy::to(server.port())).collect();
    for node in &dead {
        node.refuse(true);
    }
    let states = [Node::Well, Node::Slow, Node::Dead];
    let mut subsets: Vec<Vec<Node>> = vec![Vec::new()];
    for _ in 0..nodes {
        let longer = |subset: &Vec<Node>| states.map(|state| [subset.as_slice(), &[state]].concat());
        subsets = subsets.iter().flat_map(longer).collect();
    }
    assert_eq!(subsets.len(), 3_usize.pow(u32::try_from(nodes).unwrap()));
    let left = Mutex::new(subsets.into_iter().enumerate());
    let next = || left.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((number, subset)) = next() {
                    let port = |node: usize| match subset[node] {
                        Node::Well => quorum.servers[node].port(),
                        Node::Slow => slow[node].port(),
                        Node::Dead => dead[node].port(),
                    };
                    let urls: Vec<_> =
                        (0..nodes).map(|node| format!("redis://127.0.0.1:{}/", port(node))).collect();
                    let alive = subset.iter().filter(|node| **node != Node::Dead).count();
                    check(&urls.join(","), &format!("k{number}"), alive > nodes / 2, &subset);
                }
            });
        }
    });
    quorum.assert_nothing_left();
}

fn check(urls: &str, key: &str, has_majority: bool, subset: &[Node]) {
    // Nodes that are well may be slow on a busy machine. A dead one says so at once.
    let limit = if has_majority { LIMIT } else { SECOND };
    let lazy = || LockManager::builder(urls).io_timeout(limit).node_timeout(limit).connect_lazy().unwrap();
    let (locks, other) = (lazy(), lazy());
    let request = || locks.lock(key).ttl(10 * SECOND);
    if !has_majority {
        for request in [request(), request().wait(SECOND / 4)] {
            let error = request.acquire_blocking().unwrap_err();
            assert!(matches!(error, LockError::Unavailable { .. }), "{subset:?}: {error:?}");
        }
        return;
    }
    let guard = request().wait(LIMIT).acquire_blocking().unwrap();
    let error = other.lock(key).acquire_blocking().unwrap_err();
    assert!(error.is_busy(), "{subset:?}: {error:?}");
    let waiter = thread::spawn({
        let request = other.lock(key).ttl(10 * SECOND).wait(LIMIT);
        move || request.acquire_blocking().and_then(redlocked::LockGuard::release_blocking)
    });
    let lost = guard.lost_reason();
    let released = guard.release_blocking().unwrap();
    assert_eq!(released, ReleaseOutcome::Released, "{subset:?}: {lost:?} before");
    assert_eq!(waiter.join().unwrap().unwrap(), ReleaseOutcome::Released, "{subset:?}");
    drop(request().wait(LIMIT).acquire_blocking().unwrap());
}

#[test]
fn every_subset_of_slow_and_dead_nodes_of_three() {
    every_subset_of_slow_and_dead_nodes(3);
}

#[test]
fn every_subset_of_slow_and_dead_nodes_of_five() {
    every_subset_of_slow_and_dead_nodes(5);
}
