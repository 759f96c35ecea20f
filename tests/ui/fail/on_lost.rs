//! Values of `on_lost`.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", on_lost = false)]
async fn on_lost_boolean(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = |_| ())]
async fn on_lost_closure(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "continue")]
async fn on_lost_in_other_words(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "finnish")]
async fn on_lost_misspelled(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = "explode")]
async fn on_lost_unknown(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost)]
async fn on_lost_without_a_value(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on_lost = finish)]
async fn on_lost_without_quotes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
