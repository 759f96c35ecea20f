use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
const fn nightly() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
