use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
async fn nightly() -> Result<u32, LockError> {
    "seven"
}

fn main() {}
