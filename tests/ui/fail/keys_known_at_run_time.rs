use redlocked::{distributed_lock, LockError};

#[distributed_lock(keys = ids.iter().map(|id| format!("account:{id}")))]
async fn close(ids: &[u64]) -> Result<(), LockError> {
    let _ = ids;
    Ok(())
}

fn main() {}
