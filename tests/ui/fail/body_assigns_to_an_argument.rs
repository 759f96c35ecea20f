use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "page:{n}")]
async fn next(n: u32) -> Result<u32, LockError> {
    n += 1;
    Ok(n)
}

#[distributed_lock(key = "page:{n}")]
fn next_blocking(n: u32) -> Result<u32, LockError> {
    n += 1;
    Ok(n)
}

fn main() {}
