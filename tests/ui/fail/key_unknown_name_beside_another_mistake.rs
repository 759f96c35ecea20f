use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{skuu}", ttl = "10", guard = lock)]
async fn purchase(sku: &str) -> Result<u64, LockError> {
    Ok(lock.fencing_token())
}

fn main() {}
