use redlocked::{LockError, distributed_lock};

fn save(order: String) -> usize {
    order.len()
}

#[distributed_lock(key = "order:{order}")]
async fn book(order: String) -> Result<usize, LockError> {
    Ok(save(order) + order.len())
}

fn main() {}
