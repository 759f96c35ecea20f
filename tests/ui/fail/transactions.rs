//! Transactions that the caller commits, after the lock was released.

use redlocked::{LockError, distributed_lock};

/// As sqlx has it.
struct Transaction<'c, DB>(&'c DB);

struct Postgres;

#[distributed_lock(key = "account:{id}")]
async fn lent(tx: &mut Transaction<'_, Postgres>, id: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "account:{id}", guard = held)]
async fn lent_with_a_guard(tx: &mut Transaction<'_, Postgres>, id: u32) -> Result<(), LockError> {
    Ok(held.extend(std::time::Duration::from_secs(60)).await?)
}

#[distributed_lock(key = "account:{id}")]
fn lent_to_a_sync_function(tx: &Transaction<'_, Postgres>, id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
