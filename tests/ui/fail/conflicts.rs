//! Options that contradict one another, or the function.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", guard = sku)]
async fn guard_named_like_an_argument(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", ticket = sku)]
async fn ticket_named_like_an_argument(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", ticket = lock, guard = held)]
async fn ticket_beside_a_guard(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(keys = ["stock:{sku}", "order:{sku}"], ticket = lock)]
async fn ticket_of_several_keys(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", ticket = lock, reentrant)]
async fn ticket_of_a_reentrant_call(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", ticket = lock, shared)]
async fn ticket_of_one_of_several_holders(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{sku}", shared, permits = 5)]
async fn shared_with_permits(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "gpu:{gpu}", take = { gigabytes })]
async fn take_without_permits(gpu: u32, gigabytes: u32) -> Result<u32, LockError> {
    Ok(gpu + gigabytes)
}

#[distributed_lock(key = "gpu:{gpu}", permits = 16, take = 17)]
async fn take_of_more_permits_than_there_are(gpu: u32) -> Result<u32, LockError> {
    Ok(gpu)
}

#[distributed_lock(key = "mail:{tenant}", rate = "5/1m", permits = 5, min_hold = "1m")]
async fn a_rate_with_permits(tenant: &str) -> Result<usize, LockError> {
    Ok(tenant.len())
}

#[distributed_lock(key = "mail:{tenant}", rate = "5/1m", ttl = "10s", on_lost = "finish", guard = lock, tick = "1h")]
async fn a_rate_with_what_is_held(tenant: &str) -> Result<usize, LockError> {
    Ok(tenant.len())
}

#[distributed_lock(keys = ["stock:{sku}", "order:{sku}"], rate = "5/1m")]
async fn a_rate_of_several_keys(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(keys = ["stock:{sku}", "order:{sku}"], shared)]
async fn several_keys_shared(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(keys = ["stock:{sku}", "order:{sku}"], permits = { limit })]
async fn several_keys_with_permits(sku: &str, limit: u32) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{lock}", guard = lock)]
fn guard_named_like_an_argument_in_a_pattern((lock, _): (u32, u32)) -> Result<u32, LockError> {
    Ok(lock)
}

#[distributed_lock(
    ttl = "10s",
    renew = false,
    max_hold = "1m",
    min_hold = "2m",
    on_lost = "finish",
    reentrant = "yes"
)]
fn many_mistakes_of_holding(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10s", renew = false, max_hold = "1m")]
async fn max_hold_without_renewal(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", renew = false, max_hold = std::time::Duration::from_secs(1))]
async fn max_hold_without_renewal_of_an_expression(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", max_hold = "1m", min_hold = "5m")]
async fn min_hold_longer_than_max_hold(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl = "10s", renew = false, min_hold = "5m")]
async fn min_hold_longer_than_the_lease(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", wait = "forever", on_busy = Ok(()))]
async fn on_busy_of_a_lock_that_is_awaited_forever(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "finish")]
fn on_lost_on_a_sync_function(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "finnish")]
fn on_lost_on_a_sync_function_and_misspelled(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "error", release_in_background)]
async fn a_loss_that_nobody_hears_of(sku: &str) -> Result<(), LockError> {
    Ok(())
}

mod on_lost_on_a_sync_function_that_returns_a_future {
    use super::*;
    use std::future::Future;

    #[distributed_lock(key = "stock:{sku}", on_lost = "finish")]
    fn purchase(sku: u32) -> impl Future<Output = Result<u32, LockError>> {
        std::future::ready(Ok(sku))
    }
}

#[distributed_lock(key = "stock:{sku}", on_lost = "cancel", guard = held)]
fn on_lost_on_a_sync_function_with_a_guard(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
