//! Locks that the body cannot give away, or not so.

use std::time::Duration;

use redlocked::{LockError, Ticket, distributed_lock};

#[distributed_lock(key = "stock:{sku}", guard = lock)]
async fn a_guard_is_lent(sku: &str) -> Result<Ticket, LockError> {
    lock.into_ticket(Duration::from_secs(60)).await
}

#[distributed_lock(key = "stock:{sku}", guard = held)]
fn a_guard_of_a_sync_function(sku: &str) -> Result<Ticket, LockError> {
    held.into_ticket_blocking(Duration::from_secs(60))
}

#[distributed_lock(key = "stock:{sku}", ticket = lock)]
fn awaited_in_a_sync_function(sku: &str) -> Result<Ticket, LockError> {
    lock.into_ticket(Duration::from_secs(60)).await
}

fn main() {}
