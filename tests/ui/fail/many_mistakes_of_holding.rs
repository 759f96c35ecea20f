use redlocked::{distributed_lock, LockError};

#[distributed_lock(
    ttl = "10s",
    renew = false,
    max_hold = "1m",
    min_hold = "2m",
    on_lost = "finish",
    reentrant = "yes",
)]
fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
