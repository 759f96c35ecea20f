//! A library without `std`, in an older edition.
#![no_std]
#![allow(missing_docs, clippy::missing_errors_doc, clippy::unused_async, reason = "the shapes are the test")]

use lock::{distributed_lock, LockError, LockGuard};

#[distributed_lock(key = "k:{n}")]
pub async fn asynchronous(n: u32) -> Result<u32, LockError> {
    Ok(n)
}

#[distributed_lock(key = "k:{n}", guard = lock)]
pub fn guarded(n: u32) -> Result<u32, LockError> {
    let _: &LockGuard = lock;
    Ok(n)
}

#[distributed_lock(key = lock::key!("k:{n}"), guard = lock, on_busy = Ok(0))]
pub async fn guarded_asynchronous(n: u32) -> Result<u32, LockError> {
    let _: &LockGuard = lock;
    Ok(n)
}
