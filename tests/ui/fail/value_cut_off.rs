use redlocked::{LockError, LockManager, distributed_lock};

struct Shop {
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = "stock:{sku}", manager = self.)]
    async fn purchase(&self, sku: &str) -> Result<(), LockError> {
        let _ = self.locks.clone();
        Ok(())
    }
}

fn main() {}
