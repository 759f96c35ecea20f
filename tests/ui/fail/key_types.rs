//! Keys of a type that cannot be printed, or is no string.

use redlocked::{LockError, distributed_lock, key};

struct Order {
    id: u64,
    coupon: Option<u64>,
}

struct Account;

#[distributed_lock(key = "order:{order}")]
async fn without_display(order: &Order) -> Result<(), LockError> {
    let _ = order.id;
    Ok(())
}

#[distributed_lock(key = "order:{order:?}")]
async fn without_debug(order: Order) -> Result<(), LockError> {
    drop(order);
    Ok(())
}

#[distributed_lock(key = "order:{order.coupon}")]
async fn field_without_display(order: &Order) -> Result<(), LockError> {
    let _ = order.id;
    Ok(())
}

#[distributed_lock(key = "order:{order.idd}")]
async fn unknown_field(order: &Order) -> Result<(), LockError> {
    let _ = order.id;
    Ok(())
}

#[distributed_lock(key = "order:{id}")]
async fn an_option(id: Option<u64>) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "order:{id}")]
async fn a_generic_without_display<T>(id: T) -> Result<(), LockError> {
    drop(id);
    Ok(())
}

#[distributed_lock(key = id)]
async fn a_number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = sku.len())]
async fn a_number_of_an_expression(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", to])]
async fn a_number_in_a_list(from: u64, to: u64) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", "account:{to}"])]
async fn without_display_in_a_list(from: u64, to: Account) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

fn without_display_by_hand(sku: &str) -> String {
    key!("stock:{}", Some(sku))
}

mod key_field_without_display {
    use super::*;

    struct User {
        org: Option<String>,
    }

    #[distributed_lock(key = "user:{user.org}")]
    async fn load(user: &User) -> Result<bool, LockError> {
        Ok(user.org.is_some())
    }
}

fn main() {}
