use std::cell::Cell;

use redlocked::{LockError, LockGuard, distributed_lock};

struct Shop {
    tenant: String,
}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{sku}", wait = "1s")]
    async fn sell(&mut self, sku: &str, cell: Cell<u32>) -> Result<u32, LockError> {
        std::future::ready(()).await;
        Ok(cell.get())
    }

    #[distributed_lock(key = "{self.tenant}:{cell:?}", guard = lock)]
    async fn guarded(&self, cell: Cell<u32>) -> Result<u32, LockError> {
        let lock: &LockGuard = lock;
        std::future::ready(()).await;
        assert!(lock.is_held());
        Ok(cell.get())
    }
}

fn require_send(_: impl Send) {}

#[test]
fn compiles() {
    let mut shop = Shop { tenant: String::from("acme") };
    require_send(shop.guarded(Cell::new(1)));
    require_send(shop.sell("sku", Cell::new(1)));
}
