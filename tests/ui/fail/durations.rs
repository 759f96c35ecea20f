//! Durations that are not spelled as one.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", max_hold = "forever")]
async fn max_hold_forever(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = 60)]
async fn max_hold_integer(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = "9ms")]
async fn max_hold_too_short(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = "60")]
async fn max_hold_without_unit(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = "0s")]
async fn max_hold_zero(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", min_hold = "forever")]
async fn min_hold_forever(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", min_hold = "5 minutes")]
async fn min_hold_spelled_out(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10 sec")]
async fn ttl_abbreviated(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "500us")]
async fn ttl_below_a_millisecond(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = true)]
async fn ttl_boolean(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "")]
async fn ttl_empty(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = 1.5)]
async fn ttl_float(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "forever")]
async fn ttl_forever(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "1.5s")]
async fn ttl_fraction(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "ten seconds")]
async fn ttl_in_words(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = 10)]
async fn ttl_integer(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = -10)]
async fn ttl_negative(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "-1s")]
async fn ttl_negative_string(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "30s 1m")]
async fn ttl_out_of_order(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10 seconds")]
async fn ttl_spelled_out(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10s10s")]
async fn ttl_the_same_unit_twice(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "999999999999d")]
async fn ttl_too_long(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "9ms")]
async fn ttl_too_short(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "2w")]
async fn ttl_unknown_unit(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10 s")]
async fn ttl_with_a_space(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10_000ms")]
async fn ttl_with_an_underscore(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10")]
async fn ttl_without_unit(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "0s")]
async fn ttl_zero(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = true)]
async fn wait_boolean(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "ledger", wait = "infinite")]
async fn wait_infinite() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = 5)]
async fn wait_integer(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = "never")]
async fn wait_never(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = "0")]
async fn wait_zero_without_unit(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = 1m 30s, wait = 10 s)]
async fn words_without_quotes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
