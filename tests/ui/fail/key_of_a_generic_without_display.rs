use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "order:{id}")]
async fn ship<T>(id: T) -> Result<(), LockError> {
    drop(id);
    Ok(())
}

fn main() {}
