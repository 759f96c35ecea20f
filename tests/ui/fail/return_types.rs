//! Return types that cannot carry the error.

use std::future::{Ready, ready};

use redlocked::{LockError, distributed_lock};

struct ShopError;

trait IntoResponse {}

impl IntoResponse for &str {}

type Later = Ready<Result<u32, LockError>>;

fn work() {}

#[distributed_lock(key = "nightly")]
async fn nothing() {
    work();
}

#[distributed_lock(key = "nightly")]
fn sync_nothing() {
    work();
}

#[distributed_lock(key = "nightly")]
async fn a_number() -> u32 {
    7
}

#[distributed_lock(key = "nightly")]
fn impl_future_of_a_number() -> impl Future<Output = u32> + Send {
    async move { 7 }
}

#[distributed_lock(key = "nightly")]
async fn an_option() -> Option<u32> {
    Some(7)
}

#[distributed_lock(key = "leader", wait = "forever")]
async fn never() -> ! {
    loop {}
}

#[distributed_lock(key = "leader", wait = "forever")]
fn sync_never() -> ! {
    loop {}
}

#[distributed_lock(key = "nightly")]
async fn a_generic_error<E>() -> Result<u32, E> {
    Ok(7)
}

#[distributed_lock(key = "nightly")]
async fn an_error_without_from() -> Result<u32, ShopError> {
    Ok(7)
}

#[distributed_lock(key = "nightly")]
fn sync_an_error_without_from() -> Result<u32, ShopError> {
    Ok(7)
}

#[distributed_lock(key = "stock:{sku}")]
async fn impl_trait(sku: u32) -> impl IntoResponse {
    let _ = sku;
    "sold"
}

#[distributed_lock(key = "stock:{sku}")]
fn sync_impl_trait(sku: u32) -> impl IntoResponse {
    let _ = sku;
    "sold"
}

#[distributed_lock(key = "nightly")]
fn an_aliased_future() -> Later {
    ready(Ok(7))
}

#[distributed_lock(key = "nightly", on_error = |error| ready(Err(error)))]
fn an_aliased_future_on_error() -> Later {
    ready(Ok(7))
}

fn main() {}
