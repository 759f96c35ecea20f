use redlocked::{distributed_lock, LockError};

struct Job;

#[distributed_lock(key = "nightly")]
impl Job {
    async fn run() -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
