//! Names that only the compiler knows not to exist.

use redlocked::{LockError, distributed_lock, key};

#[distributed_lock(key = "stock:{sku}", crate = ::redlock)]
async fn crate_unknown(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

mod key_by_hand_unknown_name {
    use super::*;

    fn stock(sku: &str) -> String {
        key!("stock:{skuu}")
    }
}

#[distributed_lock(key = r#"stock:"{skuu}""#)]
async fn key_raw_string_unknown_name(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{product}")]
async fn key_unknown_name(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", "account:{too}"])]
async fn keys_unknown_name(from: u64, to: u64) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

fn main() {}
