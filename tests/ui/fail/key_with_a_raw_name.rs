use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "stock:{r#type}")]
async fn purchase(r#type: &str) -> Result<(), LockError> {
    let _ = r#type;
    Ok(())
}

fn main() {}
