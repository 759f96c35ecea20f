//! A key that is free under the prefix of the tool, and held under the prefix of a program.

use std::time::Duration;

use redlocked::inspect::{KeyInfo, LockInfo};
use redlocked::{LockError, LockManager};

use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::lock_text::{holder, printable};

/// So long may the walk over all keys of the server take.
pub(crate) const LONGEST_WALK: Duration = Duration::from_secs(10);

/// So many prefixes are named.
const NAMED: usize = 5;

/// `` `k` is free ``; or who holds it under another prefix. What the walk cannot find is not told.
pub(crate) async fn free(locks: &LockManager, prefix: &str, key: &str) -> String {
    let walk = tokio::time::timeout(LONGEST_WALK, locks.inspect_elsewhere(key)).await;
    let elsewhere = walk.ok().and_then(Result::ok).unwrap_or_default();
    let shown = printable(key);
    if elsewhere.is_empty() {
        return format!("`{shown}` is free");
    }
    format!("nobody holds `{}{shown}`, but {}", printable(prefix), held(key, &elsewhere).join("; "))
}

/// What a command looks for beside a lock.
#[derive(Clone, Copy)]
pub(crate) enum Record {
    Tick,
    Once,
    Leader,
}

impl Record {
    fn is_in(self, key: &KeyInfo) -> bool {
        match self {
            Self::Tick => key.has_tick(),
            Self::Once => key.has_once_record(),
            Self::Leader => key.has_leader(),
        }
    }

    /// The key under another prefix has one.
    fn is_there(self, name: &str) -> String {
        match self {
            Self::Tick => format!("one of `{name}` is"),
            Self::Once => format!("something is of `{name}`"),
            Self::Leader => format!("`{name}` has a leader"),
        }
    }

    /// The key has none.
    fn is_missing(self, name: &str) -> String {
        match self {
            Self::Tick => format!("no tick of `{name}` is recorded"),
            Self::Once => format!("nothing is known of `{name}`"),
            Self::Leader => format!("nobody leads `{name}`"),
        }
    }
}

/// The key has no such record under the prefix of the tool, and what it has under another prefix.
pub(crate) async fn missing(locks: &LockManager, prefix: &str, key: &str, what: Record) -> String {
    let walk = tokio::time::timeout(LONGEST_WALK, elsewhere(locks, key, what)).await;
    let elsewhere = walk.ok().and_then(Result::ok).unwrap_or_default();
    let shown = printable(key);
    if elsewhere.is_empty() {
        let next = if matches!(what, Record::Leader) { "" } else { ": its next call runs" };
        return format!("{}{next}", what.is_missing(&shown));
    }
    format!("{}, but {}", what.is_missing(&format!("{}{shown}", printable(prefix))), elsewhere.join("; "))
}

async fn elsewhere(locks: &LockManager, key: &str, what: Record) -> Result<Vec<String>, LockError> {
    let found = locks.keys_elsewhere(key).await?;
    let recorded = found.iter().filter(|other| what.is_in(other)).map(|other| {
        let words = what.is_there(&printable(other.key()));
        format!("{words}: {}", give(prefix_of(other.key(), key)))
    });
    let recorded: Vec<_> = recorded.collect();
    if recorded.is_empty() && found.iter().any(KeyInfo::is_locked) {
        return Ok(held(key, &locks.inspect_elsewhere(key).await?));
    }
    Ok(recorded)
}

fn held(key: &str, elsewhere: &[LockInfo]) -> Vec<String> {
    let words = |lock: &LockInfo| {
        let give = give(prefix_of(lock.key(), key));
        format!("`{}` is held by {}: {give}", printable(lock.key()), holder(lock))
    };
    elsewhere.iter().map(words).collect()
}

fn prefix_of<'a>(name: &'a str, key: &str) -> &'a str {
    name.strip_suffix(key).unwrap_or_default()
}

fn give(prefix: &str) -> String {
    format!("give --prefix '{}'", printable(prefix))
}

/// Why nothing is listed, and how many locks match under other prefixes.
pub(crate) async fn nothing_listed(
    server: &ServerArgs,
    locks: &LockManager,
    prefix: &str,
    pattern: &str,
) -> String {
    let walk = tokio::time::timeout(LONGEST_WALK, listed_elsewhere(server, locks, prefix, pattern)).await;
    let others = walk.ok().and_then(Result::ok).unwrap_or_default();
    if others.is_empty() {
        return none(prefix, pattern);
    }
    let counts = others.iter().take(NAMED).map(|(other, count)| match &*printable(other) {
        "" => format!("{count} without a prefix"),
        other => format!("{count} under `{other}`"),
    });
    let more = others.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} other prefixes") } else { String::new() };
    let prefixes: Vec<_> =
        others.iter().take(NAMED).map(|(other, _)| format!("'{}'", printable(other))).collect();
    let counts = counts.collect::<Vec<_>>().join(", ");
    format!("{}, but {counts}{more}: give --prefix {}", none_under(prefix, pattern), prefixes.join(" or "))
}

/// How many locks of this library match the pattern, under each other prefix that the server knows.
async fn listed_elsewhere(
    server: &ServerArgs,
    locks: &LockManager,
    prefix: &str,
    pattern: &str,
) -> Result<Vec<(String, usize)>, Failure> {
    let known = locks.prefixes().await?;
    let mut others = Vec::new();
    for other in known.iter().filter(|other| *other != prefix) {
        // A lock may match two of them, if one is the start of the other: it is under the longer one.
        let is_its_own = |lock: &&LockInfo| {
            let name = format!("{other}{}", lock.key());
            !known.iter().any(|longer| longer.len() > other.len() && name.starts_with(longer))
        };
        let is_ours = |lock: &&LockInfo| lock.holder().name().is_some() || lock.holder().inside().is_some();
        let builder = server.builder()?.prefix(other).allow_eviction(true);
        // The access rules may keep this user out of other prefixes.
        let Ok(manager) = builder.connect().await else { continue };
        let found = manager.list(pattern).await.unwrap_or_default();
        let count = found.iter().filter(is_its_own).filter(is_ours).count();
        others.extend((count > 0).then(|| (other.clone(), count)));
    }
    Ok(others)
}

/// Why nothing is listed, without a look at other prefixes.
pub(crate) fn none(prefix: &str, pattern: &str) -> String {
    let more = if prefix.is_empty() { "" } else { ": --prefix names another one" };
    format!("{}{more}", none_under(prefix, pattern))
}

fn none_under(prefix: &str, pattern: &str) -> String {
    let (prefix, pattern) = (printable(prefix), printable(pattern));
    let under = if prefix.is_empty() { String::new() } else { format!(" under `{prefix}`") };
    let matching = if pattern == "*" { String::new() } else { format!(" match `{pattern}`") };
    format!("no locks{under}{matching}")
}
