//! Names in a template that the function does not have, as far as the attribute sees it.

use redlocked::{LockError, distributed_lock};

struct Order {
    id: u64,
}

mod key_of_a_pattern_behind_instrument {
    use super::*;

    struct Bank;

    #[async_trait::async_trait]
    trait Account {
        async fn book(&self, amounts: (u64, u64)) -> Result<u64, LockError>;
    }

    #[async_trait::async_trait]
    impl Account for Bank {
        #[tracing::instrument(skip_all)]
        #[distributed_lock(key = "book:{debit}")]
        async fn book(&self, (debit, credit): (u64, u64)) -> Result<u64, LockError> {
            Ok(debit + credit)
        }
    }
}

mod key_of_a_pattern_misspelled_in_async_trait {
    use super::*;

    struct Bank {
        name: String,
    }

    #[async_trait::async_trait]
    trait Account {
        async fn book(&self, amounts: (u64, u64), _: u64) -> Result<u64, LockError>;
    }

    #[async_trait::async_trait]
    impl Account for Bank {
        #[distributed_lock(key = "book:{self.name}:{number}")]
        async fn book(&self, (debit, credit): (u64, u64), _: u64) -> Result<u64, LockError> {
            Ok(debit + credit)
        }
    }
}

#[distributed_lock(key = "stock:{self.tenant}:{sku}")]
async fn key_of_self_without_self(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{order.id}:{kind}")]
async fn key_unknown_name_beside_a_path(order: &Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{skuu}", ttl = "10", guard = lock)]
async fn key_unknown_name_beside_another_mistake(sku: &str) -> Result<u64, LockError> {
    Ok(lock.fencing_token())
}

#[distributed_lock(key = "order:{ordr.id}")]
async fn key_unknown_root(order: &Order) -> Result<(), LockError> {
    Ok(())
}

mod key_unknown_root_in_an_async_trait {
    use super::*;

    struct Stock;

    #[async_trait::async_trait]
    trait Shop {
        async fn purchase(&self, order: Order, pair: (u32, u32)) -> Result<u64, LockError>;
    }

    #[async_trait::async_trait]
    impl Shop for Stock {
        #[distributed_lock(key = "order:{purchase.id}")]
        async fn purchase(&self, order: Order, (sku, quantity): (u32, u32)) -> Result<u64, LockError> {
            Ok(order.id + u64::from(sku + quantity))
        }
    }
}

mod keys_unknown_root {
    use super::*;

    struct Account {
        id: u64,
    }

    #[distributed_lock(keys = ["account:{from.id}", "account:{too.id}"])]
    async fn transfer(from: &Account, to: &Account) -> Result<(), LockError> {
        let _ = (from.id, to);
        Ok(())
    }
}

fn main() {}
