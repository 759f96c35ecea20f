//! Values of the wrong type.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", manager = sku)]
async fn manager_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = 60_u64 * 1_000)]
async fn max_hold_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", min_hold = "5m".len())]
async fn min_hold_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_busy = None)]
async fn on_busy_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_error = sku)]
async fn on_error_not_a_function(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_error = |error| error.to_string())]
async fn on_error_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = 10_u64 * 1_000)]
async fn ttl_of_the_wrong_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = limit)]
async fn permits_of_another_type(sku: &str, limit: usize) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", tick_at = seconds)]
async fn tick_at_of_a_number(sku: &str, seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", tick_at = now)]
async fn tick_at_of_an_instant(sku: &str, now: std::time::Instant) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", once = "24h", once_fingerprint = quantity)]
async fn once_fingerprint_of_a_number(sku: &str, quantity: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
