//! What a crate of the oldest edition can annotate: functions that are not `async`.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "the shapes are the test"
)]

extern crate redlocked;

use redlocked::{distributed_lock, key, LockError, LockGuard, LockManager};

#[distributed_lock(key = "stock:{sku}", guard = lock)]
pub fn guarded(sku: u32) -> Result<u64, LockError> {
    let _: &LockGuard = lock;
    // No keyword yet.
    let async = u64::from(sku);
    Ok(lock.fencing_token().min(1) + async)
}

pub struct Shop {
    pub tenant: String,
    pub locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = key!("{}:{sku}", self.tenant), manager = self.locks, wait = "1s", on_busy = Ok(0))]
    pub fn sell(&self, sku: &str) -> Result<usize, LockError> {
        Ok(sku.len())
    }

    #[distributed_lock(keys = ["{self.tenant}:{from}", "{self.tenant}:{to}"], on_error = |_| None)]
    pub fn swap(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        Some((to, from))
    }
}

#[cfg(test)]
mod tests {
    use super::{guarded, LockManager, Shop};

    #[test]
    fn they_run_under_their_locks() {
        let connected = LockManager::connect_blocking("memory://edition-2015");
        assert!(connected.is_ok());
        let Ok(locks) = connected else { return };
        locks.clone().set_global();
        let shop = Shop { tenant: "acme".to_owned(), locks };
        assert_eq!(guarded(7), Ok(8));
        assert_eq!(shop.sell("shoes"), Ok(5));
        assert_eq!(shop.swap(1, 2), Some((2, 1)));
        let held = shop.locks.lock("acme:2").acquire_blocking();
        assert!(held.is_ok());
        assert_eq!(shop.swap(1, 2), None);
    }
}
