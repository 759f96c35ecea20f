use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{sku}", on_lost = "cancel", guard = held)]
fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = (sku, held);
    Ok(())
}

fn main() {}
