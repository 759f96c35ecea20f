use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", on_lost = "finnish")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
