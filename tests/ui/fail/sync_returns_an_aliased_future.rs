use redlocked::{distributed_lock, LockError};

type Later = std::future::Ready<Result<u32, LockError>>;

#[distributed_lock(key = "nightly")]
fn nightly() -> Later {
    std::future::ready(Ok(7))
}

fn main() {}
