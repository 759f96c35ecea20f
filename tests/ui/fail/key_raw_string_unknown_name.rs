use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = r#"stock:"{skuu}""#)]
async fn purchase(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
