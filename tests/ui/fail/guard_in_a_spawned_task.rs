use redlocked::{LockError, distributed_lock};

fn spawn(_: impl Future + Send + 'static) {}

#[distributed_lock(key = "ledger", guard = lock)]
async fn post() -> Result<(), LockError> {
    spawn(async move { lock.is_held() });
    Ok(())
}

fn main() {}
