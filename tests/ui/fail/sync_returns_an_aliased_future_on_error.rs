use redlocked::{distributed_lock, LockError};

type Later = std::future::Ready<Result<u32, LockError>>;

#[distributed_lock(key = "nightly", on_error = |error| std::future::ready(Err(error)))]
fn nightly() -> Later {
    std::future::ready(Ok(7))
}

fn main() {}
