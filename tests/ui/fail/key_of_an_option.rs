use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "order:{id}")]
async fn ship(id: Option<u64>) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

fn main() {}
