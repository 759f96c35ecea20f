//! Every option.

use core::time::Duration;

use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

/// Where the options come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Used for the lock.
    pub locks: LockManager,
    /// How long the lock outlives its holder.
    pub ttl: Duration,
}

impl Config {
    /// A configuration.
    #[must_use]
    pub const fn new(locks: LockManager) -> Self {
        Self { locks, ttl: Duration::from_secs(10) }
    }
}

/// All of them, as literals where they can be.
#[distributed_lock(
    key = "report:{name}",
    constant_key = false,
    ttl = "10s",
    wait = "5s",
    renew = true,
    max_hold = "15m",
    min_hold = "1ms",
    on_lost = "finish",
    reentrant,
    guard = lock,
    manager = config.locks,
    on_busy = 0,
    on_error = |_| 1,
    crate = ::redlocked,
)]
pub async fn literals(config: &Config, name: &str) -> usize {
    lock.key().len().saturating_add(name.len())
}

/// All of them, as expressions where they can be.
#[distributed_lock(
    key = name,
    ttl = config.ttl,
    wait = Duration::from_secs(5).saturating_add(config.ttl),
    renew = true,
    max_hold = config.ttl,
    min_hold = Duration::ZERO,
    on_lost = "cancel",
    reentrant = false,
    guard = held,
    manager = config.locks.clone(),
    on_busy = 0,
    on_error = no_lock,
)]
pub async fn expressions(config: &Config, name: &str) -> usize {
    let length = |lock: &LockGuard| lock.key().len();
    length(held)
}

/// All of them in a sync function.
#[distributed_lock(
    key = "report:{name}",
    ttl = config.ttl,
    wait = "5s",
    renew = true,
    max_hold = "15m",
    min_hold = "1ms",
    reentrant,
    guard = lock,
    manager = config.locks,
    on_busy = 0,
    on_error = |error| { no_lock(error) },
)]
pub fn sync(config: &Config, name: &str) -> usize {
    lock.key().len().saturating_add(name.len())
}

/// A handler that is a path.
#[expect(clippy::needless_pass_by_value, reason = "the error is the handler's")]
fn no_lock(error: LockError) -> usize {
    usize::from(error.is_busy())
}

/// A guard in a function with nothing else.
#[distributed_lock(key = "ledger", ttl = "1m", renew = false, guard = lock)]
pub async fn guard() -> Result<u64, LockError> {
    Ok(lock.fencing_token())
}

/// In a sync function.
#[distributed_lock(key = "ledger", guard = lock)]
pub fn sync_guard() -> Result<u64, LockError> {
    Ok(lock.fencing_token())
}

/// Busy is no error.
#[distributed_lock(key = "nightly", on_busy = Ok(false))]
pub async fn skipped() -> Result<bool, LockError> {
    Ok(true)
}

/// In a sync function.
#[distributed_lock(key = "nightly", on_busy = Ok(false))]
pub fn sync_skipped() -> Result<bool, LockError> {
    Ok(true)
}
