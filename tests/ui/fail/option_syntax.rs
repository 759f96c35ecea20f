//! What stands between the name of an option and the next one.

use redlocked::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "stock:{sku}", ttl: "10s")]
async fn colon_instead_of_equals(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}",, ttl = "10s")]
async fn double_comma(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", guard)]
async fn guard_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key)]
async fn key_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key "stock:{sku}")]
async fn key_without_equals(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", manager =)]
async fn manager_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", min_hold)]
async fn min_hold_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}" ttl = "10s")]
async fn missing_comma(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl "10s")]
async fn missing_equals(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl =, wait = "5s")]
async fn missing_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_busy)]
async fn on_busy_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("stock:{sku}"))]
async fn option_as_a_call(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", reentrant(true))]
async fn reentrant_as_a_call(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}" reentrant, wait = "1s")]
async fn reentrant_without_a_comma(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", renew)]
async fn renew_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}"; ttl = "10s")]
async fn stray_token(sku: &str) -> Result<(), LockError> {
    Ok(())
}

struct Shop {
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = "stock:{sku}", manager = self.)]
    async fn value_cut_off(&self, sku: &str) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = stock:{sku}, ttl = 10s, wait = forever, max_hold = 1m30s)]
async fn without_quotes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key => "stock:{sku}")]
async fn an_arrow(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(keys("stock:{sku}", "shop:{shop}"))]
async fn keys_as_a_call(sku: &str, shop: &str) -> Result<(), LockError> {
    let _ = (sku, shop);
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", sku)]
async fn an_argument_behind_the_template(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", guard = lock: LockGuard)]
async fn guard_with_a_type(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", manager = redlocked::LockManager::connect("memory://"))]
async fn manager_that_is_not_awaited(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", manager = &redlocked::LockManager::connect("memory://")?)]
async fn manager_that_is_not_awaited_behind_an_operator(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

fn main() {}
