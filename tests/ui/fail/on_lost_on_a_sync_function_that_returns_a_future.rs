use std::future::Future;

use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", on_lost = "finish")]
fn purchase(sku: u32) -> impl Future<Output = Result<u32, LockError>> {
    std::future::ready(Ok(sku))
}

fn main() {}
