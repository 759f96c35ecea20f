use redlocked::{distributed_lock, LockError};

use std::pin::Pin;

fn work() {}

#[distributed_lock(key = "nightly")]
fn nightly() -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
    work();
    Box::pin(async move { Ok(7) })
}

fn main() {}
