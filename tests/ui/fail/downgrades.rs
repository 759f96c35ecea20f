//! Locks that others cannot share, and not so.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "mail", permits = 3, guard = lock)]
async fn one_of_several_permits() -> Result<(), LockError> {
    lock.downgrade().await
}

#[distributed_lock(keys = ["account:{from}", "account:{to}"], guard = locks)]
fn several_keys(from: u64, to: u64) -> Result<(), LockError> {
    locks.downgrade_blocking()
}

#[distributed_lock(key = "report", tick = "1h", guard = lock)]
async fn the_body_of_a_tick() -> Result<(), LockError> {
    lock.downgrade().await
}

#[distributed_lock(key = "catalogue:{shop}", guard = lock)]
fn awaited_in_a_sync_function(shop: &str) -> Result<(), LockError> {
    lock.downgrade().await
}

#[distributed_lock(key = "catalogue:{shop}")]
async fn below_the_guard(shop: &str) -> Result<(), LockError> {
    redlocked::current()?.downgrade().await
}

fn main() {}
