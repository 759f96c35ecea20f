//! Bodies and expressions that the borrow checker refuses.

use redlocked::{LockError, distributed_lock};

mod body_assigns_to_an_argument {
    use super::*;

    #[distributed_lock(key = "page:{n}")]
    async fn next(n: u32) -> Result<u32, LockError> {
        n += 1;
        Ok(n)
    }

    #[distributed_lock(key = "page:{n}")]
    fn next_blocking(n: u32) -> Result<u32, LockError> {
        n += 1;
        Ok(n)
    }
}

mod body_borrows_an_argument_as_mutable {
    use super::*;

    struct Shop {
        sold: Vec<u32>,
    }

    impl Shop {
        #[distributed_lock(key = "sold:{id}")]
        async fn sell(&self, id: u32) -> Result<(), LockError> {
            self.sold.push(id);
            Ok(())
        }
    }

    #[distributed_lock(key = "names:{name}", guard = _lock)]
    async fn rename(name: String) -> Result<String, LockError> {
        name.push('!');
        Ok(name)
    }
}

mod body_uses_a_moved_argument {
    use super::*;

    fn save(order: String) -> usize {
        order.len()
    }

    #[distributed_lock(key = "order:{order}")]
    async fn book(order: String) -> Result<usize, LockError> {
        Ok(save(order) + order.len())
    }
}

mod guard_in_a_spawned_task {
    use super::*;

    fn spawn(_: impl Future + Send + 'static) {}

    #[distributed_lock(key = "ledger", guard = lock)]
    async fn post() -> Result<(), LockError> {
        spawn(async move { lock.is_held() });
        Ok(())
    }
}

mod key_moves_an_argument {
    use super::*;

    fn key_of(sku: String) -> String {
        format!("stock:{sku}")
    }

    #[distributed_lock(key = key_of(sku))]
    async fn purchase(sku: String) -> Result<(), LockError> {
        drop(sku);
        Ok(())
    }
}

mod on_busy_uses_a_moved_argument {
    use super::*;

    #[distributed_lock(key = "stock:{sku}", on_busy = Err(refuse(&sku)))]
    async fn purchase(sku: String) -> Result<(), LockError> {
        drop(sku);
        Ok(())
    }

    fn refuse(_: &str) -> LockError {
        LockError::NotConfigured
    }
}

fn main() {}
