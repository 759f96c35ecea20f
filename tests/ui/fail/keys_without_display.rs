use redlocked::{distributed_lock, LockError};

struct Account;

#[distributed_lock(keys = ["account:{from}", "account:{to}"])]
async fn transfer(from: u64, to: Account) -> Result<(), LockError> {
    let _ = (from, to);
    Ok(())
}

fn main() {}
