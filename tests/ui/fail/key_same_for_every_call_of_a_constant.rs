use redlocked::{distributed_lock, LockError};

const TENANT: &str = "acme";

struct Shop;

impl Shop {
    #[distributed_lock(key = "stock:{TENANT}")]
    fn purchase(&self, _unused: u32, (quantity, sku): (u32, &str)) -> Result<u32, LockError> {
        let _ = sku;
        Ok(quantity)
    }
}

fn main() {}
