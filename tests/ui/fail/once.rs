//! Bodies that run once, with what does not go with them.
#![allow(unused_variables)]

use std::time::SystemTime;

use redlocked::{LockError, distributed_lock};

#[distributed_lock(keys = ["a:{a}", "b:{a}"], once = "24h")]
async fn several_keys(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h", shared)]
async fn readers(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", permits = 5, once = "24h")]
async fn permits(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", min_hold = "5m", once = "24h")]
async fn min_hold(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", ticket = lock, once = "24h")]
async fn ticket(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", reentrant, once = "24h")]
async fn reentrant(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", tick = "1h", once = "24h")]
async fn tick(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h", tick_at = a)]
async fn the_time_of_a_tick(a: SystemTime) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once_fingerprint = "{a}")]
async fn a_request_without_once(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", on_interrupted = "error")]
async fn a_policy_without_once(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", on_undecodable = "rerun")]
async fn another_policy_without_once(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "9ms")]
async fn too_short(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = 24h)]
async fn without_quotes(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "forever")]
async fn for_ever(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h", on_interrupted = "again")]
async fn an_unknown_policy(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h", on_undecodable = "ignore")]
async fn another_unknown_policy(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h")]
async fn no_result(a: u64) {}

#[distributed_lock(key = "a:{a}", once = "24h")]
async fn a_type_without_a_name(a: u64) -> Result<impl Clone, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h")]
async fn a_borrowed_result(a: &str) -> Result<&str, LockError> {
    Ok(a)
}

#[distributed_lock(key = "a", constant_key, once = "24h")]
async fn a_list_of_borrowed_results<'a>(a: &'a [u64]) -> Result<Vec<&'a [u64]>, LockError> {
    Ok(vec![a])
}

#[distributed_lock(key = "a:{a}", once = "24h", once_fingerprint = 5)]
async fn a_number_as_the_request(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a:{a}", once = "24h", once_fingerprint = (a, 5))]
async fn a_tuple_as_the_request(a: u64) -> Result<u64, LockError> {
    Ok(1)
}

fn main() {}
