#![deny(unused_variables)]

use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly", global)]
async fn nightly(unused: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
