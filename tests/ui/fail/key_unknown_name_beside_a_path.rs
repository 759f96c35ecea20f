use redlocked::{distributed_lock, LockError};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{order.id}:{kind}")]
async fn ship(order: &Order) -> Result<(), LockError> {
    let _ = order.id;
    Ok(())
}

fn main() {}
