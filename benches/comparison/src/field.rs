//! All contenders, in the order of the tables, and the locks that do not take part.

use crate::contender::Contender;
use crate::{articles, by_hand, direct, ours, peers};

pub const LEFT_OUT: [(&str, &str); 3] = [
    (
        "distributed-lock 0.2.0 in workloads with waiters",
        "its `acquire(timeout)` does not wait, and fails at once with \"timed out\"",
    ),
    (
        "redlock 2.0.0 with many tasks, except for 50 that wait",
        "it blocks a thread and opens a connection for each try",
    ),
    (
        "MultiResourceLock of redis-lock 0.5.1",
        "it takes seconds for milliseconds, so `lock_across` is measured",
    ),
];

/// All contenders, each with `clients` clients.
pub async fn all(url: &str, clients: usize) -> Vec<Contender> {
    let mut all = Vec::new();
    by_hand::join_limits(&mut all, url, clients).await;
    direct::join(&mut all, url, clients).await;
    by_hand::join(&mut all, url, clients).await;
    articles::join(&mut all, url, clients).await;
    ours::join(&mut all, url, clients).await;
    peers::join(&mut all, url, clients).await;
    all
}
