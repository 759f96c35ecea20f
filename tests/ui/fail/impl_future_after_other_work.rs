use redlocked::{distributed_lock, LockError};

fn work() {}

#[distributed_lock(key = "nightly")]
fn nightly() -> impl Future<Output = Result<u32, LockError>> {
    work();
    async move { Ok(7) }
}

fn main() {}
