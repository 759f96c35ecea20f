use redlocked::{distributed_lock, LockError};

#[distributed_lock(kyes = ["account:{from}", "account:{to}"])]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

fn main() {}
