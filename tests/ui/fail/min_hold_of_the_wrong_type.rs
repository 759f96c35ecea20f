use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", min_hold = "5m".len())]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
