use redlocked::{distributed_lock, LockError};

fn main() {
    #[distributed_lock(key = "nightly")]
    let _job: Result<(), LockError> = Ok(());
}
