use redlocked::{distributed_lock, LockError};

struct Shop;

impl Shop {
    #[distributed_lock(key = "nightly")]
    pub const unsafe fn nightly(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
