use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
fn nightly() -> impl Future<Output = Result<u32, LockError>> {
    async move { Ok("seven") }
}

fn main() {}
