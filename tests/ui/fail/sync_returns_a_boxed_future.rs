use redlocked::{distributed_lock, LockError};

use std::pin::Pin;

#[distributed_lock(key = "nightly")]
fn nightly() -> Pin<Box<dyn Future<Output = Result<u32, LockError>>>> {
    let work = async { Ok(7) };
    Box::pin(work)
}

fn main() {}
