//! [`Fence`]: the number that a resource remembers of a lock. [`FenceError`]: why a fenced write was
//! not made.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::base::error::LockError;

/// The name of a lock and the fencing token of one holder: what a resource remembers to refuse the
/// writes of earlier holders. [`LockGuard::fences`](crate::LockGuard::fences) returns one for each
/// lock.
///
/// A resource that keeps the largest token for each [`name`](Self::name) accepts a write with that
/// token or a larger one, and answers a smaller one with [`refused`](Self::refused). The crate
/// `redlocked-sqlx` does so in SQL.
///
/// Two primaries that give locks at a time may give one number to two holders. So a resource that
/// must survive such a split brain keeps who holds the number, too, and refuses an equal number of
/// another holder, as below. The holders of one lock with `shared` or `permits` have equal numbers by
/// design: there, leave this out.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{Fence, LockError, LockManager};
///
/// /// A file, a queue, a table: with the largest token, and the holder that has it.
/// #[derive(Default)]
/// struct Resource(u64, String);
///
/// impl Resource {
///     /// `holder`: any text that no other holder has, such as a random one for each call.
///     fn write(&mut self, fence: &Fence, holder: &str) -> Result<(), LockError> {
///         let is_of_another = fence.token() == self.0 && holder != self.1;
///         if fence.token() < self.0 || is_of_another {
///             return Err(fence.refused());
///         }
///         (self.0, self.1) = (fence.token(), holder.to_owned());
///         Ok(())
///     }
/// }
///
/// let locks = LockManager::builder("memory://fence").prefix("shop:").connect_blocking()?;
/// let fence = || locks.lock("ledger").run_blocking(|guard| guard.fences().next());
/// let (Some(early), Some(late)) = (fence()?, fence()?) else { return Ok(()) };
/// assert_eq!((early.key(), early.name()), ("ledger", "shop:ledger"));
///
/// let mut resource = Resource::default();
/// resource.write(&late, "b")?;
/// resource.write(&late, "b")?;
/// assert!(matches!(resource.write(&early, "a"), Err(LockError::Fenced { .. })));
/// assert!(matches!(resource.write(&late, "c"), Err(LockError::Fenced { .. })), "of a split brain");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    key: Arc<str>,
    name: Arc<str>,
    token: u64,
}

impl Fence {
    pub(crate) fn new(key: &Arc<str>, prefix: &str, token: u64) -> Self {
        Self { key: Arc::clone(key), name: [prefix, key].concat().into(), token }
    }

    /// The key of the lock, without the prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The key with the prefix of the manager, at most 1 KiB. Tokens compare for one name only.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The [fencing token](crate::LockGuard::fencing_token): below 2^53.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The error for this holder, when the resource has seen a larger token.
    #[must_use]
    pub fn refused(&self) -> LockError {
        LockError::Fenced { key: Arc::clone(&self.key), fence: self.token }
    }

    /// The error for a store that has failed with `source`, in the middle of `step`, such as
    /// `"the commit"`.
    #[must_use]
    pub fn failed<E>(&self, step: &'static str, source: E) -> FenceError<E> {
        FenceError::Store { key: Arc::clone(&self.key), step, source }
    }
}

/// Why a fenced write was not made. `E` is the error of the store: `sqlx::Error`,
/// `redis::RedisError`.
///
/// # Examples
///
/// ```
/// use redlocked::{FenceError, LockError};
///
/// /// The error of a service: a later holder is no outage.
/// #[derive(Debug)]
/// enum Failure {
///     Overtaken,
///     Broken(String),
/// }
///
/// impl<E: std::error::Error> From<FenceError<E>> for Failure {
///     fn from(error: FenceError<E>) -> Self {
///         match error {
///             FenceError::Lock(LockError::Fenced { .. } | LockError::Lost { .. }) => Self::Overtaken,
///             error => Self::Broken(error.to_string()),
///         }
///     }
/// }
///
/// let broken: FenceError<std::fmt::Error> = LockError::NotLocked.into();
/// assert!(matches!(Failure::from(broken), Failure::Broken(_)));
/// # let _ = Failure::Overtaken;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceError<E> {
    /// Nothing was written: [`LockError::Fenced`] where a later holder was there before,
    /// [`LockError::Lost`] where the lease has ended.
    Lock(LockError),
    /// The store has refused, or gave no answer.
    #[non_exhaustive]
    Store {
        /// The key of the lock, without the prefix.
        key: Arc<str>,
        /// What was being done.
        step: &'static str,
        /// The error of the store.
        source: E,
    },
}

impl<E> FenceError<E> {
    /// True for [`LockError::Fenced`]: a later holder of the lock has written.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{FenceError, LockError};
    ///
    /// let error: FenceError<std::io::Error> = LockError::NotConfigured.into();
    /// assert!(!error.is_fenced());
    /// ```
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Lock(LockError::Fenced { .. }))
    }
}

impl<E> From<LockError> for FenceError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for FenceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Store { key, step, source } => write!(f, "`{key}`: {step} failed: {source}"),
        }
    }
}

impl<E: Error> Error for FenceError<E> {
    /// What is behind the error of the store, whose words are in the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Lock(error) => error.source(),
            Self::Store { source, .. } => source.source(),
        }
    }
}
