//! Methods, with each kind of receiver.

extern crate alloc;

use alloc::sync::Arc;

use redlocked::{LockError, LockManager, distributed_lock};

/// Something with methods.
#[derive(Debug)]
pub struct Shop {
    /// Its name.
    tenant: String,
    /// How much it has sold.
    sold: u32,
    /// Used for all its locks.
    locks: LockManager,
}

/// A trait with a method that takes the lock by default.
pub trait Store {
    /// Its name.
    fn name(&self) -> String;

    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// When there is no lock.
    #[distributed_lock(key = self.name())]
    fn save(&mut self, amount: u32) -> Result<u32, LockError> {
        Ok(amount)
    }
}

impl Shop {
    /// Opens it.
    #[must_use]
    pub const fn new(tenant: String, locks: LockManager) -> Self {
        Self { tenant, sold: 0, locks }
    }

    /// By reference.
    #[distributed_lock(key = "count:{self.tenant}", manager = self.locks)]
    pub async fn count(&self) -> Result<u32, LockError> {
        Ok(self.sold)
    }

    /// By mutable reference.
    #[distributed_lock(key = "stock:{self.tenant}:{sku}", ttl = "10s", wait = "5s", manager = self.locks, guard = lock)]
    pub async fn sell(&mut self, sku: &str) -> Result<usize, LockError> {
        self.sold = self.sold.saturating_add(1);
        Ok(lock.key().len().max(sku.len()))
    }

    /// By value.
    #[distributed_lock(key = "close:{self.tenant}", manager = self.locks)]
    pub async fn close(self) -> Result<String, LockError> {
        Ok(self.tenant)
    }

    /// By a smart pointer.
    #[distributed_lock(key = "share:{self.tenant}", manager = self.locks)]
    pub async fn share(self: Arc<Self>) -> Result<u32, LockError> {
        Ok(self.sold)
    }

    /// A reference out of a mutable one.
    #[distributed_lock(key = "sold:{self.tenant}", manager = self.locks.clone())]
    pub fn sold(&mut self) -> Result<&mut u32, LockError> {
        Ok(&mut self.sold)
    }

    /// A reference out of a mutable one, async.
    #[distributed_lock(key = "tenant:{self.tenant}", manager = self.locks)]
    pub async fn tenant(&self) -> Result<&str, LockError> {
        Ok(&self.tenant)
    }

    /// A private method.
    #[distributed_lock(key = "private:{self.tenant}", manager = self.locks)]
    fn private(&self) -> Result<u32, LockError> {
        Ok(self.sold)
    }

    /// Calls the private one.
    ///
    /// # Errors
    ///
    /// When there is no lock.
    pub fn public(&self) -> Result<u32, LockError> {
        self.private()
    }
}

impl Store for Shop {
    fn name(&self) -> String {
        self.tenant.clone()
    }
}
