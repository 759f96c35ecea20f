use redlocked::{distributed_lock, LockError};

trait Job {
    #[distributed_lock(key = "nightly")]
    fn run(&self) -> Result<(), LockError>;
}

fn main() {}
