#![deny(unused_must_use)]

use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
fn nightly() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    nightly();
}
