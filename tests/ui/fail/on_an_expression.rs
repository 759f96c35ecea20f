use redlocked::{distributed_lock, LockError};

fn main() {
    let _job: Result<(), LockError> = #[distributed_lock(key = "nightly")] Ok(());
}
