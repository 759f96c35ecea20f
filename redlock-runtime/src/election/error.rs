//! [`LeadError`]: why a candidate stands by no longer.

use std::error::Error;
use std::fmt;

use crate::base::error::LockError;

/// Why [`Election::lead`](crate::Election::lead) ended without a value.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::election::LeadError;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://lead-error-example").await?;
/// locks.shutdown(Duration::from_secs(5)).await?;
/// let outcome = locks.election("billing-loop").lead(async |_term| Ok::<_, LockError>(())).await;
/// assert!(matches!(outcome, Err(LeadError::Lock(LockError::ManagerClosed { .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeadError<E> {
    /// The candidate cannot stand by: [`LockError::ManagerClosed`] after
    /// [`shutdown`](crate::LockManager::shutdown), a key or a ttl that no lock can have,
    /// [`LockError::QueueFull`] where too many wait, [`LockError::Deadlock`] inside a body that
    /// holds the same key, [`LockError::NotReplicated`].
    Lock(LockError),
    /// The error of the body, with [`stop_on_error`](crate::Election::stop_on_error).
    Body(E),
}

impl<E> From<LockError> for LeadError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for LeadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for LeadError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Lock(error) => error.source(),
            Self::Body(error) => error.source(),
        }
    }
}
