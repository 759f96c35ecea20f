use redlocked::{distributed_lock, LockError};

struct Account {
    id: u64,
}

#[distributed_lock(keys = ["account:{from.id}", "account:{too.id}"])]
async fn transfer(from: &Account, to: &Account) -> Result<(), LockError> {
    let _ = (from.id, to);
    Ok(())
}

fn main() {}
