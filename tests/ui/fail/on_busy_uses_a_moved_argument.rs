use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", on_busy = Err(refuse(&sku)))]
async fn purchase(sku: String) -> Result<(), LockError> {
    drop(sku);
    Ok(())
}

fn refuse(_: &str) -> LockError {
    LockError::NotConfigured
}

fn main() {}
