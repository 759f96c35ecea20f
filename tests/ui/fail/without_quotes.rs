use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = stock:{sku}, ttl = 10s, wait = forever, max_hold = 1m30s)]
async fn purchase(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
