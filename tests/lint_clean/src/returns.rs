//! Return types, and the ways to return.

use core::error::Error;
use core::fmt;
use core::pin::Pin;
use std::process;

use redlocked::{FromLockError, LockError, distributed_lock};

/// An error of the user's own.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShopError {
    /// From the lock.
    Lock(LockError),
    /// From the shop.
    SoldOut,
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no sale")
    }
}

impl Error for ShopError {}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// A type that carries the failure in its own way.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It ran.
    Done,
    /// It did not.
    NoLock,
}

impl FromLockError for Outcome {
    fn from_lock_error(_error: LockError) -> Self {
        Self::NoLock
    }
}

/// `?` and `return`.
///
/// # Errors
///
/// When there is no lock, or nothing to sell.
#[distributed_lock(key = "stock:{sku}")]
pub async fn early(sku: &str, quantity: u32) -> Result<u32, ShopError> {
    if sku.is_empty() {
        return Err(ShopError::SoldOut);
    }
    let left = 10_u32.checked_sub(quantity).ok_or(ShopError::SoldOut)?;
    Ok(left)
}

/// In a sync function.
///
/// # Errors
///
/// When there is no lock, or nothing to sell.
#[distributed_lock(key = "stock:{sku}")]
pub fn sync_early(sku: &str, quantity: u32) -> Result<u32, ShopError> {
    if sku.is_empty() {
        return Err(ShopError::SoldOut);
    }
    let left = 10_u32.checked_sub(quantity).ok_or(ShopError::SoldOut)?;
    Ok(left)
}

/// Nothing.
#[distributed_lock(key = "nightly", on_busy = (), on_error = drop)]
pub async fn nothing() {}

/// In a sync function.
#[distributed_lock(key = "nightly", on_busy = (), on_error = drop)]
pub fn sync_nothing() {}

/// A `FromLockError`.
#[distributed_lock(key = "nightly")]
pub async fn outcome() -> Outcome {
    Outcome::Done
}

/// In a sync function.
#[distributed_lock(key = "nightly")]
pub fn sync_outcome() -> Outcome {
    Outcome::Done
}

/// A borrowed value.
#[distributed_lock(key = "longest", constant_key)]
pub async fn borrowed<'text>(left: &'text str, right: &'text str) -> Result<&'text str, LockError> {
    Ok(if left.len() > right.len() { left } else { right })
}

/// An iterator without a name.
#[distributed_lock(key = "count", constant_key, on_error = |_| None)]
pub async fn iterator(end: u32) -> Option<impl Iterator<Item = u32>> {
    Some(0..end)
}

/// In a sync function.
#[distributed_lock(key = "count", constant_key, on_error = |_| None)]
pub fn sync_iterator(end: u32) -> Option<impl Iterator<Item = u32>> {
    Some(0..end)
}

/// A future that is allocated.
pub type Boxed<'body, R> = Pin<Box<dyn Future<Output = R> + Send + 'body>>;

/// A boxed future.
#[distributed_lock(key = "walk:{path}")]
pub fn boxed<'path>(
    path: &'path str,
) -> Pin<Box<dyn Future<Output = Result<usize, LockError>> + Send + 'path>> {
    Box::pin(async move { Ok(path.len()) })
}

/// Attributes of others stay where they are.
#[distributed_lock(key = "old")]
#[deprecated = "use `outcome`"]
#[must_use]
#[inline]
pub async fn old() -> Outcome {
    Outcome::Done
}

/// One lock inside another.
#[distributed_lock(key = "outer")]
pub async fn nested() -> Result<u32, ShopError> {
    /// Has a lock of its own.
    #[distributed_lock(key = "inner:{n}")]
    async fn inner(n: u32) -> Result<u32, LockError> {
        Ok(n)
    }
    Ok(inner(1).await?.max(inner(2).await?))
}

/// Control flow of every kind.
#[distributed_lock(key = "flow", constant_key)]
pub async fn control_flow(list: &[u32]) -> Result<u32, ShopError> {
    let mut sum = 0_u32;
    for number in list {
        match *number {
            0 => continue,
            1 => return Ok(sum),
            2 => break,
            _ => {}
        }
        let Some(next) = sum.checked_add(*number) else {
            return Err(ShopError::SoldOut);
        };
        sum = next;
        nothing().await;
    }
    Ok(sum)
}

/// A leader until the end of the process.
#[distributed_lock(key = "leader", wait = "forever", on_error = never)]
pub async fn lead() -> ! {
    loop {
        nothing().await;
    }
}

/// In a sync function.
#[distributed_lock(key = "leader", wait = "forever", on_error = never)]
pub fn sync_lead() -> ! {
    loop {
        sync_nothing();
    }
}

/// The fallback without a lock.
fn never(_error: LockError) -> ! {
    process::abort()
}

/// A user who denies the implicit return writes `return`, and so does the expansion.
#[deny(clippy::implicit_return)]
#[expect(clippy::needless_return, reason = "the opposite lint")]
pub mod explicit {
    use redlocked::{LockError, distributed_lock};

    use super::Boxed;

    /// The opposite lint is still there.
    #[must_use]
    pub const fn without_the_attribute() -> u32 {
        return 1;
    }

    /// In an async function.
    #[distributed_lock(key = "explicit", constant_key, on_busy = Ok(0))]
    pub async fn asynchronous(number: u32) -> Result<u32, LockError> {
        return Ok(number);
    }

    /// In a sync function.
    #[distributed_lock(key = "explicit", on_error = |_| { return None; }, guard = lock)]
    pub fn sync() -> Option<u64> {
        return Some(lock.fencing_token());
    }

    /// In a function that does not say what it returns.
    #[distributed_lock(key = "explicit", on_error = drop)]
    pub async fn nothing() {}

    /// In a boxed future.
    #[distributed_lock(key = "explicit:{path}")]
    #[expect(clippy::implicit_return, reason = "the attribute knows a boxed future by this tail")]
    pub fn boxed(path: &str) -> Boxed<'_, Result<usize, LockError>> {
        Box::pin(async move {
            return Ok(path.len());
        })
    }
}
