use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
fn nightly() -> Result<u32, LockError> {
    "seven"
}

fn main() {}
