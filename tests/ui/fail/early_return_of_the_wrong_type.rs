use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly", global)]
async fn nightly(early: bool) -> Result<u32, LockError> {
    if early {
        return "early";
    }
    Ok(7)
}

fn main() {}
