use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", ttl = "10s", renew = false, min_hold = "5m")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
