use redlocked::{LockError, LockManager, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order", manager = locks)]
async fn ship(locks: &LockManager, order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
