use async_trait::async_trait;
use redlocked::{distributed_lock, LockError};

struct Stock;

#[async_trait]
trait Shop {
    async fn purchase(&self, order: (u32, u32)) -> Result<u32, LockError>;
}

#[async_trait]
impl Shop for Stock {
    #[distributed_lock(key = "stock")]
    async fn purchase(&self, (sku, quantity): (u32, u32)) -> Result<u32, LockError> {
        Ok(sku + quantity)
    }
}

fn main() {}
