use redlocked::{distributed_lock, LockError};

#[distributed_lock(key = "nightly")]
trait Job {
    fn run() -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
