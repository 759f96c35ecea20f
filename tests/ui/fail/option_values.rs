//! Values of another kind than the option takes.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", crate = "redlocked")]
async fn crate_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock", constant_key = "yes")]
async fn global_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", guard = self)]
async fn guard_keyword(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ticket = "60s")]
async fn ticket_string(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "ledger", guard = mut lock)]
async fn guard_mutable() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", guard = "lock")]
async fn guard_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = b"stock")]
async fn key_byte_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = 42)]
async fn key_integer(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = -"stock:{sku}")]
async fn key_with_an_operator(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", manager = "redis://127.0.0.1/")]
async fn manager_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_error = "ignore")]
async fn on_error_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", reentrant = "yes")]
async fn reentrant_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = 0)]
async fn permits_for_nobody(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = 10_001)]
async fn permits_for_too_many(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = 10, take = 0)]
async fn take_of_no_permit(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", rate = "5/m")]
async fn rate_without_a_number_of_minutes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", rate = "0/1m")]
async fn rate_of_no_starts(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", rate = 5)]
async fn rate_without_a_time(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = "5")]
async fn permits_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", shared = "yes")]
async fn shared_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", renew = 0)]
async fn renew_integer(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", renew = "false")]
async fn renew_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_busy = |_| Ok(()))]
async fn on_busy_closure(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", release = "nowait")]
async fn release_of_others(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", release_in_background = "yes")]
async fn release_with_a_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_error = Ok(()))]
async fn on_error_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = None, ttl = Some(limit))]
async fn duration_optional(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:" + sku)]
async fn key_added(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{}".format(sku))]
async fn key_formatted(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", permits = "{limit}")]
async fn permits_as_a_template(sku: &str, limit: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
