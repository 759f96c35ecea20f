use std::io;

use redlocked::{FromLockError, LockError, distributed_lock};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[distributed_lock(key = "a")]
async fn boxed_error() -> Outcome<u32> {
    Ok("7".parse::<u32>()?)
}

#[distributed_lock(key = "a", on_error = |error| Err(io::Error::other(error)))]
fn io_result() -> io::Result<u32> {
    Ok(7)
}

enum Job {
    Done,
    Failed,
}

impl FromLockError for Job {
    fn from_lock_error(_: LockError) -> Self {
        Self::Failed
    }
}

#[distributed_lock(key = "a")]
async fn own_type() -> Job {
    Job::Done
}

#[distributed_lock(key = "a")]
async fn impl_trait() -> Result<impl Iterator<Item = u8>, LockError> {
    Ok([1, 2].into_iter())
}

#[distributed_lock(key = "a")]
fn nested_impl_trait() -> Result<(Vec<impl Copy>, Option<Box<dyn Iterator<Item = impl Copy>>>), LockError> {
    let list: Box<dyn Iterator<Item = u8>> = Box::new([1].into_iter());
    Ok((vec![1], Some(list)))
}

#[distributed_lock(key = "a", wait = "forever", on_error = |_| std::process::abort())]
async fn never() -> ! {
    loop {
        std::future::pending::<()>().await;
    }
}

#[distributed_lock(key = "a", on_error = |_| std::process::abort())]
fn sync_never() -> ! {
    std::process::abort()
}

#[distributed_lock(key = "a", on_error = drop)]
async fn nothing() {}

#[distributed_lock(key = "a", on_error = drop)]
async fn written_nothing() -> () {}

#[distributed_lock(key = "a", constant_key, on_error = |_| None)]
fn reference<'a>(list: &'a mut Vec<u8>) -> Option<&'a mut u8> {
    list.first_mut()
}

#[distributed_lock(key = "a", on_error = |_| |n| n)]
fn closure() -> fn(u8) -> u8 {
    |n| n + 1
}

#[distributed_lock(key = "a", constant_key, on_error = |_| value.clone())]
fn generic<T: Clone>(value: &T) -> T {
    value.clone()
}

#[test]
fn compiles() {
    let _ = (boxed_error, io_result, own_type, impl_trait, never, sync_never, nothing);
    let _ = (written_nothing, reference, closure, generic::<u8>);
    let _ = nested_impl_trait;
    let _ = Job::Done;
}
