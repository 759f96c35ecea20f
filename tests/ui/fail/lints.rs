//! Lints that fire as they do without the attribute.
#![deny(dead_code, unused_must_use, unused_variables)]

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
async fn dead_code() -> Result<(), LockError> {
    Ok(())
}

#[must_use = "count it"]
#[distributed_lock(key = "a", on_error = |_| 0)]
fn above() -> u32 {
    7
}

#[distributed_lock(key = "a", on_error = |_| 0)]
#[must_use = "count it"]
fn below() -> u32 {
    7
}

#[distributed_lock(key = "nightly")]
fn result_must_be_used() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", constant_key)]
async fn unused_argument(unused: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    above();
    below();
    result_must_be_used();
    drop(unused_argument(7));
}
