use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};

use redlocked::election::{Election, LeadError, Leader, Term};
use redlocked::inspect::LockInfo;
use redlocked::{CurrentLock, LockError, LockGuard, LockManager, LockRequest, Ticket, distributed_lock};

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

/// What crosses an FFI boundary, where a panic is caught.
fn require_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn what_crosses_a_caught_panic_is_unwind_safe() {
    require_unwind_safe::<LockError>();
    require_unwind_safe::<LeadError<LockError>>();
    require_unwind_safe::<LockManager>();
    require_unwind_safe::<LockRequest>();
    require_unwind_safe::<LockGuard>();
    require_unwind_safe::<CurrentLock>();
    require_unwind_safe::<Election>();
    require_unwind_safe::<Term>();
    require_unwind_safe::<Leader>();
    require_unwind_safe::<Ticket>();
    require_unwind_safe::<LockInfo>();
}
