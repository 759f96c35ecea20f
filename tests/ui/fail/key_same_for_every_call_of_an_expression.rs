use redlocked::{LockError, distributed_lock};

const STOCK: &str = "stock:{sku}";

#[distributed_lock(key = STOCK)]
async fn purchase(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

fn main() {}
