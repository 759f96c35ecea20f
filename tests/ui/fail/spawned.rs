//! `spawn` where it has nothing to do, and arguments that the caller lends.
#![allow(unused_variables)]

use std::borrow::Cow;
use std::sync::Arc;

use redlocked::{LockError, distributed_lock};

struct Shop;

#[distributed_lock(key = "charge:{order}", spawn)]
async fn without_once(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
fn sync(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn = "yes")]
async fn a_word(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", detached)]
async fn another_word(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

impl Shop {
    #[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
    async fn a_method(&self, order: u64) -> Result<u64, LockError> {
        Ok(order)
    }
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn text(order: &str) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn a_value(order: u64, shop: &Shop) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn a_list(order: u64, cents: &[u64]) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn inside(order: u64, name: Option<Cow<'_, str>>) -> Result<u64, LockError> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn a_mutable_one(order: u64, shop: &mut Arc<Shop>) -> Result<u64, LockError> {
    Ok(order)
}

fn main() {}
