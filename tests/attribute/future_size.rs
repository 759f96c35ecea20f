//! The attribute adds no copy of the arguments to a function's future, and a fixed few bytes for
//! each lock.
#![allow(
    clippy::large_types_passed_by_value,
    clippy::unused_async,
    reason = "the tests measure arguments passed by value"
)]

use std::mem::size_of_val;

use redlocked::{LockError, distributed_lock};

/// An argument too large to store twice.
type Lines = [u8; 4096];

/// An argument that is moved, not copied.
struct Order {
    id: u64,
    lines: Lines,
}

impl Order {
    fn new() -> Self {
        Self { id: 1, lines: [0; 4096] }
    }

    fn count(&self) -> usize {
        self.lines.len() + usize::from(self.id == 0)
    }
}

/// An argument of which the body uses one part, while the other part has a destructor.
struct Parcel {
    lines: Lines,
    label: Vec<u8>,
}

impl Parcel {
    fn new() -> Self {
        Self { lines: [0; 4096], label: Vec::new() }
    }
}

async fn step() {}

async fn plain(id: u64, lines: Lines) -> Result<usize, LockError> {
    step().await;
    Ok(lines.len() + usize::from(id == 0))
}

#[distributed_lock(key = "order:{id}", ttl = "10s", wait = "5s", max_hold = "1m", min_hold = "1s", reentrant)]
async fn locked(id: u64, lines: Lines) -> Result<usize, LockError> {
    step().await;
    Ok(lines.len() + usize::from(id == 0))
}

#[distributed_lock(key = "order:{id}", guard = lock)]
async fn locked_with_guard(id: u64, lines: Lines) -> Result<usize, LockError> {
    step().await;
    Ok(lines.len() + lock.key().len())
}

async fn plain_struct(order: Order) -> Result<usize, LockError> {
    step().await;
    Ok(order.count())
}

#[distributed_lock(key = "order:{order.id}")]
async fn locked_struct(order: Order) -> Result<usize, LockError> {
    step().await;
    Ok(order.count())
}

async fn plain_part(parcel: Parcel) -> Result<usize, LockError> {
    step().await;
    Ok(parcel.lines.len())
}

#[distributed_lock(key = "parcel", constant_key)]
async fn locked_part(parcel: Parcel) -> Result<usize, LockError> {
    step().await;
    Ok(parcel.lines.len())
}

async fn plain_borrowed(order: &Order) -> Result<usize, LockError> {
    step().await;
    Ok(order.count())
}

#[distributed_lock(key = "order:{order.id}")]
async fn locked_borrowed(order: &Order) -> Result<usize, LockError> {
    step().await;
    Ok(order.count())
}

async fn plain_small(id: u64) -> Result<u64, LockError> {
    step().await;
    Ok(id)
}

#[distributed_lock(key = "order:{id}")]
async fn locked_small(id: u64) -> Result<u64, LockError> {
    step().await;
    Ok(id)
}

/// The bytes of the lock in the future: the request, the guard, the receivers of the engine's
/// answers, and which task the end of the lease wakes; with the feature `tracing`, the spans of the
/// wait and of the body. 8 of them are for a ticket or a tick, which are in a box; with the feature
/// `metrics`, 8 for the kind of the lock.
const LOCK: usize = if cfg!(feature = "tracing") { 376 } else { 176 };

#[track_caller]
fn compare(plain: usize, locked: usize, more: usize) {
    assert!(locked <= plain + plain / 10 + more, "{plain} bytes without the attribute, {locked} with it");
}

#[test]
fn a_small_future_grows_by_the_lock() {
    compare(size_of_val(&plain_small(1)), size_of_val(&locked_small(1)), LOCK);
}

#[test]
fn a_large_one_grows_by_less_than_a_tenth() {
    let plain = size_of_val(&plain(1, [0; 4096]));
    compare(plain, size_of_val(&locked(1, [0; 4096])), 0);
    compare(plain, size_of_val(&locked_with_guard(1, [0; 4096])), 0);
}

#[test]
fn what_the_body_uses_in_part_is_not_stored_twice() {
    assert!(Parcel::new().label.is_empty());
    compare(size_of_val(&plain_part(Parcel::new())), size_of_val(&locked_part(Parcel::new())), 0);
}

/// rustc reserves room for a borrowed variable until the function ends, even after it has been
/// moved: but not where a closure makes the key.
#[test]
fn what_the_key_borrows_is_stored_no_more_often() {
    compare(size_of_val(&plain_struct(Order::new())), size_of_val(&locked_struct(Order::new())), 0);
    let order = Order::new();
    compare(size_of_val(&plain_borrowed(&order)), size_of_val(&locked_borrowed(&order)), LOCK);
}
