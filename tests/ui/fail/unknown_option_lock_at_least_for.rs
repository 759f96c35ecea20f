use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", lock_at_least_for = "5m")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
