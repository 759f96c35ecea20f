//! Whom a command waits for, told to the person who waits with it.

use std::time::Duration;

use redlocked::inspect::LockInfo;
use redlocked::{LockError, LockManager};
use tokio::time::{Instant, sleep_until};

use crate::lock_text::{Span, holder, lease_left, printable};
use crate::stderr::tell;

/// As in the log of the library: a second, then 4, 16, 64 …
const FIRST: Duration = Duration::from_secs(1);
const FACTOR: u32 = 4;

/// Whether the command stands in the queue of the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    InTheQueue,
    Beside,
}

/// What `wait` returns; meanwhile standard error tells whom it waits for.
pub(crate) async fn told<T>(
    locks: &LockManager,
    key: &str,
    stands: Stands,
    wait: impl Future<Output = T>,
) -> T {
    let start = Instant::now();
    let reports = async {
        let mut due = FIRST;
        loop {
            sleep_until(start + due).await;
            let found = locks.inspect(key).await;
            let me = if stands == Stands::InTheQueue { own_name().await } else { None };
            if let Some(words) = words(&found, key, me.as_deref()) {
                tell(&format!("waiting for {}: {words}", Span(start.elapsed())));
            }
            due = due.saturating_mul(FACTOR);
        }
    };
    tokio::select! {
        biased;
        outcome = wait => outcome,
        never = reports => never,
    }
}

/// `None` where there is nothing to tell: the wait is about to end.
fn words(found: &Result<Option<LockInfo>, LockError>, key: &str, me: Option<&str>) -> Option<String> {
    let key = printable(key);
    let lock = match found {
        Ok(lock) => lock.as_ref()?,
        Err(error) => return Some(printable(&error.to_string())),
    };
    // This process waits for one lock only.
    let place = me.and_then(|me| lock.queue().iter().position(|waiter| waiter.name() == Some(me)));
    let queue = match (place, lock.waiters()) {
        (Some(place), waiters) => format!(", place {} of {waiters} in the queue", place + 1),
        (None, 0) => String::new(),
        (None, waiters) => format!(", {waiters} in the queue"),
    };
    Some(format!("`{key}` is held by {}, lease left {}{queue}", holder(lock), lease_left(lock)))
}

/// What the library calls this process.
async fn own_name() -> Option<String> {
    let locks = LockManager::connect("memory://").await.ok()?;
    let _guard = locks.lock("own name").acquire().await.ok()?;
    locks.inspect("own name").await.ok()??.holder().name().map(ToOwned::to_owned)
}
