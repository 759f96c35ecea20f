use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = if all { "stock" } else { "stock:{sku}" })]
async fn purchase(sku: &str, all: bool) -> Result<bool, LockError> {
    Ok(sku.is_empty() || all)
}

fn main() {}
