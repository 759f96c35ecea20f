use redlocked::{distributed_lock, LockError};

fn key_of(sku: String) -> String {
    format!("stock:{sku}")
}

#[distributed_lock(key = key_of(sku))]
async fn purchase(sku: String) -> Result<(), LockError> {
    drop(sku);
    Ok(())
}

fn main() {}
