use redlocked::{LockError, distributed_lock};

#[derive(Debug)]
enum ShopError {
    Locked(LockError),
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "5s")]
async fn purchase(sku: &str, quantity: u32) -> Result<u32, ShopError> {
    Ok(quantity + u32::try_from(sku.len()).unwrap_or(0))
}

#[test]
fn compiles() {
    drop(purchase("sku", 1));
    let _ = |error: ShopError| match error {
        ShopError::Locked(error) => error,
    };
}
