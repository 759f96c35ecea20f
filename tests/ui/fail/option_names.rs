//! Options that are misspelled, missing, or given twice.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku}", ttl = "10s", ttl = "20s")]
async fn duplicate_option(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock()]
async fn empty_list(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock("stock:{sku}", ttl = "10s")]
async fn key_without_its_name(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(kye = "stock:{sku}", ttl = 10, wait "5s", renew = "no", colour = "red")]
async fn many_mistakes(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn missing_arguments(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(ttl = "10s")]
async fn missing_key(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", rentrant)]
async fn misspelled_flag(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(kye = "stock:{sku}")]
async fn misspelled_key(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", reentrant, wait = "1s", reentrant = false)]
async fn reentrant_twice(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", tll = "10s")]
async fn unknown_option(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", lock_at_least_for = "5m")]
async fn unknown_option_lock_at_least_for(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", timeout = "10s")]
async fn unknown_option_of_another_library(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", colour = "red")]
async fn unknown_option_without_a_likeness(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", on-busy = Ok(()))]
async fn on_busy_with_a_hyphen(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", skip_if_locked)]
async fn on_busy_in_other_words(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", TTL = "10s", lockTimeout = "5s")]
async fn other_spellings(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", ttl_ms = 500)]
async fn ttl_with_a_unit(sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(sku)]
async fn argument_alone(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = format!("stock:{}"), sku)]
async fn argument_behind_its_macro(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", prefix = "shop:")]
async fn prefix_of_the_manager(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", leader)]
async fn leader_of_an_election(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", fenced)]
async fn fenced(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku}", rate = "5/1m")]
async fn rate_of_starts(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
