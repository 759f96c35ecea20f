//! Keys that are the same for every call, and `constant_key` where it is not so.

use redlocked::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "stock:{sku}", constant_key)]
async fn global_with_a_placeholder(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = format!("stock:{sku}"), constant_key)]
async fn global_with_an_expression(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock")]
async fn key_same_for_every_call(sku: &str) -> Result<(), LockError> {
    Ok(())
}

mod key_same_for_every_call_in_an_async_trait {
    use super::*;

    struct Stock;

    #[async_trait::async_trait]
    trait Shop {
        async fn purchase(&self, order: (u32, u32)) -> Result<u32, LockError>;
    }

    #[async_trait::async_trait]
    impl Shop for Stock {
        #[distributed_lock(key = "stock")]
        async fn purchase(&self, (sku, quantity): (u32, u32)) -> Result<u32, LockError> {
            Ok(sku + quantity)
        }
    }
}

mod key_same_for_every_call_of_a_constant {
    use super::*;

    const TENANT: &str = "acme";

    struct Shop;

    impl Shop {
        #[distributed_lock(key = "stock:{TENANT}")]
        fn purchase(&self, _unused: u32, (quantity, sku): (u32, &str)) -> Result<u32, LockError> {
            Ok(quantity)
        }
    }
}

mod key_same_for_every_call_of_an_expression {
    use super::*;

    const STOCK: &str = "stock:{sku}";

    #[distributed_lock(key = STOCK)]
    async fn purchase(sku: &str) -> Result<usize, LockError> {
        Ok(sku.len())
    }
}

mod key_same_for_every_order {
    use super::*;

    struct Order {
        id: u64,
    }

    #[distributed_lock(key = "order", manager = locks)]
    async fn ship(locks: &LockManager, order: Order) -> Result<u64, LockError> {
        Ok(order.id)
    }
}

#[distributed_lock(key = if all { "stock" } else { "stock:{sku}" })]
async fn key_that_only_looks_like_a_template(sku: &str, all: bool) -> Result<bool, LockError> {
    Ok(sku.is_empty() || all)
}

#[distributed_lock(key = "stock:{{sku}}")]
async fn key_with_doubled_braces(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:sku")]
async fn key_without_braces(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "prices", constant_ky)]
async fn misspelled_global(prices: &[u32]) -> Result<usize, LockError> {
    Ok(prices.len())
}

#[distributed_lock(key = "stock:{sku}" + "x")]
async fn key_of_two_strings(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = format("stock:{sku}"))]
async fn key_of_format_without_its_mark(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = key("stock:{}", sku))]
async fn key_of_key_without_its_mark(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}" + &shop.to_string())]
async fn a_template_and_a_value_that_are_added(sku: &str, shop: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = stock)]
async fn a_word_without_quotes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
