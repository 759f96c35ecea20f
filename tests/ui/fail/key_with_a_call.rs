use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku.get(1)}")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
