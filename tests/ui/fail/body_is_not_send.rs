use redlocked::{LockError, distributed_lock};

use std::rc::Rc;

#[distributed_lock(key = "nightly")]
async fn nightly() -> Result<(), LockError> {
    let count = Rc::new(1);
    work().await;
    drop(count);
    Ok(())
}

async fn work() {}

fn require_send(_: impl Send) {}

fn main() {
    require_send(nightly());
}
