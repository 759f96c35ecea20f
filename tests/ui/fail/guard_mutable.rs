use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "ledger", guard = mut lock)]
async fn post() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
