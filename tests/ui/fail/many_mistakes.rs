use redlocked::{distributed_lock, LockError};

#[distributed_lock(kye = "stock:{sku}", ttl = 10, wait "5s", renew = "no", colour = "red")]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
