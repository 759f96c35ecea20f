//! A key that is free under the prefix of the tool, and held under the prefix of a program.

use std::time::Duration;

use redlocked::LockManager;
use redlocked::inspect::LockInfo;

use crate::lock_text::{holder, printable};

/// So long may the walk over all keys of the server take.
pub(crate) const LONGEST_WALK: Duration = Duration::from_secs(10);

/// `` `k` is free ``; or who holds it under another prefix. What the walk cannot find is not told.
pub(crate) async fn free(locks: &LockManager, prefix: &str, key: &str) -> String {
    let walk = tokio::time::timeout(LONGEST_WALK, locks.inspect_elsewhere(key)).await;
    let elsewhere = walk.ok().and_then(Result::ok).unwrap_or_default();
    words(prefix, key, &elsewhere)
}

fn words(prefix: &str, key: &str, elsewhere: &[LockInfo]) -> String {
    let shown = printable(key);
    if elsewhere.is_empty() {
        return format!("`{shown}` is free");
    }
    let held = elsewhere.iter().map(|lock| {
        let other = lock.key().strip_suffix(key).unwrap_or_default();
        format!(
            "`{}` is held by {}: give --prefix '{}'",
            printable(lock.key()),
            holder(lock),
            printable(other)
        )
    });
    format!("nobody holds `{}{shown}`, but {}", printable(prefix), held.collect::<Vec<_>>().join("; "))
}
