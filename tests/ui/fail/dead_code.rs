#![deny(dead_code)]

use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
async fn nightly() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
