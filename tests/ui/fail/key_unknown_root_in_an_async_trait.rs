use async_trait::async_trait;
use redlocked::{distributed_lock, LockError};

struct Order {
    id: u64,
}

struct Stock;

#[async_trait]
trait Shop {
    async fn purchase(&self, order: Order, pair: (u32, u32)) -> Result<u64, LockError>;
}

#[async_trait]
impl Shop for Stock {
    #[distributed_lock(key = "order:{purchase.id}")]
    async fn purchase(&self, order: Order, (sku, quantity): (u32, u32)) -> Result<u64, LockError> {
        Ok(order.id + u64::from(sku + quantity))
    }
}

fn main() {}
