//! A transaction of another version of sqlx, or of another client.

use redlocked::{LockError, LockGuard};
use redlocked_sqlx::FencedGuard;

mod sqlx_0_9 {
    pub struct Transaction;
}

async fn other_version(guard: &LockGuard, mut tx: sqlx_0_9::Transaction) -> Result<(), LockError> {
    guard.fence_in(&mut tx).await
}

fn main() {}
