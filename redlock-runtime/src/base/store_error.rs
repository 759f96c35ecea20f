//! [`StoreError`]: the error of the database or the client that a fenced write goes through.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The error of the store of a fenced write, such as a `sqlx::Error` or a `redis::RedisError`:
/// the source of [`LockError::Store`](crate::LockError::Store). It is that error: `downcast_ref`
/// has its type. Two are equal if they are clones of one.
///
/// # Examples
///
/// ```
/// use redlocked::LockError;
///
/// /// The retry code of a service.
/// fn is_worth_another_try(error: &LockError) -> bool {
///     match error {
///         LockError::Store { source, .. } => {
///             source.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
///         }
///         other => other.retry_after().is_some(),
///     }
/// }
///
/// # fn main() -> Result<(), LockError> {
/// let locks = redlocked::LockManager::connect_blocking("memory://store-error")?;
/// let guard = locks.lock("ledger").acquire_blocking()?;
/// let Some(fence) = guard.fences().next() else { return Ok(()) };
/// let error = fence.failed("the commit", std::io::Error::from(std::io::ErrorKind::TimedOut));
/// assert_eq!(error.to_string(), "`ledger`: the commit failed");
/// assert!(is_worth_another_try(&error));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
// In a box, so that the error around it is small.
pub struct StoreError(Arc<Box<dyn Error + Send + Sync>>);

impl StoreError {
    pub(crate) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(Box::new(error)))
    }
}

impl Deref for StoreError {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &**self.0
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// It is never changed, so a panic leaves it as it was.
impl UnwindSafe for StoreError {}
impl RefUnwindSafe for StoreError {}

impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StoreError {}
