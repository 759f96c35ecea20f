use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
fn nightly() -> impl Future<Output = Result<u32, LockError>> {
    std::future::ready(Ok(7))
}

fn main() {}
