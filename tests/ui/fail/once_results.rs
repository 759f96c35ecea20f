//! Results of bodies that run once that cannot be stored.

use redlocked::{LockError, distributed_lock};

struct Receipt;

#[distributed_lock(key = "charge:{order}", once = "24h")]
async fn a_type_without_serde(order: u64) -> Result<Receipt, LockError> {
    Ok(Receipt)
}

#[distributed_lock(key = "charge:{order}", once = "24h", guard = lock)]
async fn with_its_guard(order: u64) -> Result<Receipt, LockError> {
    let _ = lock.is_held();
    Ok(Receipt)
}

#[distributed_lock(key = "charge:{order}", once = "24h")]
fn sync(order: u64) -> Result<Receipt, LockError> {
    Ok(Receipt)
}

#[distributed_lock(key = "charge:{order}", once = "24h")]
fn a_returned_future(order: u64) -> impl Future<Output = Result<Receipt, LockError>> {
    async move { Ok(Receipt) }
}

#[distributed_lock(key = "charge:{order}", once = "24h")]
async fn a_list_of_them(order: u64) -> Result<Vec<Receipt>, LockError> {
    Ok(vec![])
}

#[distributed_lock(key = "charge:{order}", once = "24h")]
async fn what_only_lives_here(order: u64) -> Result<std::time::Instant, LockError> {
    Ok(std::time::Instant::now())
}

#[distributed_lock(key = "charge:{order}", once = "24h")]
async fn any_type<T>(order: u64, value: T) -> Result<T, LockError> {
    Ok(value)
}

#[distributed_lock(key = "charge:{order}", once = "24h", on_error = |_| 0)]
async fn no_result(order: u64) -> u64 {
    order
}

#[distributed_lock(key = "charge:{order}", once = "24h", on_busy = 0, on_error = |_| 0)]
fn no_result_of_a_sync_one(order: u64) -> u64 {
    order
}

#[distributed_lock(key = "charge:{order}", once = "24h", on_error = |_| ())]
fn nothing(order: u64) {
    let _ = order;
}

fn main() {}
