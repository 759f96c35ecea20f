use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", renew = false, max_hold = std::time::Duration::from_secs(1))]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
