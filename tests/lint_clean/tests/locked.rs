//! The functions of this crate take their locks; and `#[async_trait]`, which allows lints that the
//! library forbids.
#![deny(warnings, missing_docs, rust_2018_idioms, rust_2024_compatibility, unused, unused_qualifications)]
#![deny(clippy::all, clippy::nursery, clippy::pedantic)]

use async_trait::async_trait;
use lint_clean::methods::Shop;
use redlocked::{LockError, LockManager, distributed_lock};

fn shop(name: &str) -> Result<(Shop, LockManager), LockError> {
    let locks = LockManager::connect_blocking(format!("memory://{name}"))?;
    Ok((Shop::new("acme".to_owned(), locks.clone()), locks))
}

fn is_busy<T>(outcome: &Result<T, LockError>) -> bool {
    outcome.as_ref().is_err_and(LockError::is_busy)
}

#[tokio::test]
async fn an_async_method_locks() -> Result<(), LockError> {
    let (shop, locks) = shop("an-async-method-locks")?;
    let held = locks.lock("count:acme").acquire().await?;
    assert!(is_busy(&shop.count().await));
    let _ = held.release().await?;
    assert_eq!(shop.count().await, Ok(0));
    assert_eq!(shop.count().await, Ok(0), "released");
    Ok(())
}

#[test]
fn a_sync_method_locks() -> Result<(), LockError> {
    let (mut shop, locks) = shop("a-sync-method-locks")?;
    let held = locks.lock("sold:acme").acquire_blocking()?;
    assert!(is_busy(&shop.sold()));
    let _ = held.release_blocking()?;
    assert_eq!(shop.sold().copied(), Ok(0));
    assert_eq!(shop.sold().copied(), Ok(0), "released");
    Ok(())
}

/// A trait of the user's.
#[async_trait]
pub trait Store {
    /// Saves it.
    async fn save(&mut self, pair: (u32, u32), name: &str) -> Result<u32, LockError>;

    /// Saves it under a guard, by default.
    #[distributed_lock(key = "{name}", manager = self.locks(), guard = lock)]
    async fn save_under_a_guard(&self, name: &str) -> Result<usize, LockError>
    where
        Self: Sync,
    {
        Ok(lock.key().len())
    }

    /// The manager of the locks.
    fn locks(&self) -> LockManager;
}

/// An implementation.
#[derive(Debug)]
pub struct Memory {
    locks: LockManager,
    saved: u32,
}

#[async_trait]
impl Store for Memory {
    #[distributed_lock(key = "{name}:{left}", manager = self.locks)]
    async fn save(&mut self, (left, right): (u32, u32), name: &str) -> Result<u32, LockError> {
        self.saved += right;
        Ok(self.saved)
    }

    fn locks(&self) -> LockManager {
        self.locks.clone()
    }
}

#[tokio::test]
async fn a_method_of_async_trait_locks() -> Result<(), LockError> {
    let locks = LockManager::connect("memory://a-method-of-async-trait-locks").await?;
    let mut store = Memory { locks: locks.clone(), saved: 0 };
    let held = locks.lock("a:1").acquire().await?;
    assert!(is_busy(&store.save((1, 2), "a").await));
    let _ = held.release().await?;
    assert_eq!(store.save((1, 2), "a").await, Ok(2));
    assert_eq!(store.save_under_a_guard("abc").await, Ok(3));
    Ok(())
}
