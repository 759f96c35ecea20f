use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly", global)]
async fn nightly(text: &str) -> Result<u32, LockError> {
    Ok(text.parse::<u32>()?)
}

fn main() {}
