//! Lists of keys.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = ["account:{from}", "account:{to}"])]
async fn key_list(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "account:{from}", keys = ["account:{to}"])]
async fn keys_beside_key(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [])]
async fn keys_empty(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ids.iter().map(|id| format!("account:{id}")))]
async fn keys_known_at_run_time(ids: &[u64]) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(kyes = ["account:{from}", "account:{to}"])]
async fn keys_misspelled(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", ["account:{to}"]])]
async fn keys_nested_list(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = &["account:{from}", "account:{to}"])]
async fn keys_reference(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{from}"; 2])]
async fn keys_repetition(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = "account:{from}")]
async fn keys_string(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ("account:{from}", "account:{to}"))]
async fn keys_tuple(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [("account:{from}", "account:{to}")])]
async fn keys_tuple_inside(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{from}"], keys = ["account:{to}"])]
async fn keys_twice(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", 5])]
async fn keys_with_an_integer(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{}", ["a"], 5, "account:{0}"], ttl = "10")]
async fn keys_with_many_mistakes(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", "account:{from}"])]
async fn keys_with_the_same_twice(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys)]
async fn keys_without_a_value(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
