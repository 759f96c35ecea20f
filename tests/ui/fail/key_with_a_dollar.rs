use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:${sku}")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
