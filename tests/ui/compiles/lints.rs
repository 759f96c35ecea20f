//! The expansion is clean under the strictest lints, and does not hide the user's own.
#![deny(warnings)]
#![forbid(
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    missing_docs,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unreachable_code,
    unsafe_code,
    unused,
    unused_lifetimes,
    unused_qualifications,
    unused_results
)]

use redlocked::{FromLockError, LockError, LockGuard, LockManager, distributed_lock};

/// A shop.
#[derive(Debug)]
pub struct Shop {
    tenant: String,
    locks: LockManager,
}

/// An error.
#[derive(Debug)]
pub struct Failed;

impl FromLockError for Failed {
    fn from_lock_error(_: LockError) -> Self {
        Self
    }
}

impl Shop {
    /// Sells.
    #[distributed_lock(key = "stock:{self.tenant}:{sku}", ttl = "10s", wait = "5s", manager = self.locks, guard = lock)]
    pub async fn sell(&mut self, sku: &str) -> Result<usize, LockError> {
        let lock: &LockGuard = lock;
        Ok(lock.key().len() + sku.len())
    }

    /// Counts.
    #[distributed_lock(key = "count:{self.tenant}", on_busy = Ok(0))]
    pub fn count(&self) -> Result<usize, LockError> {
        Ok(self.tenant.len())
    }

    /// Fails.
    #[distributed_lock(key = self.tenant)]
    pub fn fail(&self) -> Failed {
        Failed
    }
}

/// Runs.
#[distributed_lock(key = "nightly", on_busy = (), on_error = |_| ())]
pub async fn nightly() {}

/// Runs.
#[distributed_lock(key = "nightly", on_error = drop)]
pub fn nightly_blocking() {}

/// Never runs.
#[distributed_lock(key = "nightly")]
#[deprecated = "use `nightly`"]
#[must_use]
pub async fn old_nightly() -> Result<(), LockError> {
    Ok(())
}
