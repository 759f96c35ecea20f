use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = id)]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
