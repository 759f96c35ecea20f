use redlocked::{distributed_lock, LockError};

#[distributed_lock(keys = ["account:{}", ["a"], 5, "account:{0}"], ttl = "10")]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

fn main() {}
