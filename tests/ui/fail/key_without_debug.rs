use redlocked::{distributed_lock, LockError};

struct Order;

#[distributed_lock(key = "order:{order:?}")]
async fn ship(order: Order) -> Result<(), LockError> {
    drop(order);
    Ok(())
}

fn main() {}
