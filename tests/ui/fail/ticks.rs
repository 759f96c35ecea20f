//! A tick that is none, and options that a tick excludes.

use std::time::SystemTime;

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "report", tick = "999ms")]
async fn tick_too_short() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "400d")]
async fn tick_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "forever")]
async fn tick_forever() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = 1h)]
async fn tick_without_quotes() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick_at = "1h")]
async fn length_as_a_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "1h", tick_at = fire_time)]
async fn tick_and_its_time(fire_time: SystemTime) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick_missed = "retry")]
async fn missed_without_a_tick() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "1h", tick_missed = "again")]
async fn another_word_for_retry() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["report:{a}", "report:{b}"], tick = "1h")]
async fn several_keys(a: u32, b: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "1h", shared)]
async fn shared() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick_at = fire_time, permits = 5)]
async fn permits(fire_time: SystemTime) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "1h", min_hold = "5m", reentrant)]
async fn min_hold_and_reentrant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", tick = "1h", ticket = lock)]
async fn ticket() -> Result<(), LockError> {
    lock.ensure_held()
}

#[distributed_lock(key = "report", every = "1h")]
async fn another_name() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
