use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "ledger", wait = "infinite")]
async fn post() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
