//! [`LockErrorKind`]: an error without its details, for labels and for tables by kind.

use std::fmt;

/// The kind of a [`LockError`](crate::LockError), one for each of its variants. [`LockError::kind`](crate::LockError::kind)
/// returns it.
///
/// It has no key and no reason, so it is cheap to copy, can be a key of a map, and is safe to show to anyone.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use std::collections::HashMap;
/// use redlocked::{LockErrorKind, LockManager};
///
/// let locks = LockManager::connect_blocking("memory://error-kind-example")?;
/// let _guard = locks.lock("stock:42").acquire_blocking()?;
///
/// let mut failures: HashMap<LockErrorKind, u32> = HashMap::new();
/// if let Err(error) = locks.lock("stock:42").acquire_blocking() {
///     *failures.entry(error.kind()).or_default() += 1;
/// }
/// assert_eq!(failures[&LockErrorKind::Busy], 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LockErrorKind {
    /// [`LockError::Busy`](crate::LockError::Busy)
    Busy,
    /// [`LockError::TimedOut`](crate::LockError::TimedOut)
    TimedOut,
    /// [`LockError::Deadlock`](crate::LockError::Deadlock)
    Deadlock,
    /// [`LockError::QueueFull`](crate::LockError::QueueFull)
    QueueFull,
    /// [`LockError::Lost`](crate::LockError::Lost)
    Lost,
    /// [`LockError::NotReplicated`](crate::LockError::NotReplicated)
    NotReplicated,
    /// [`LockError::Unavailable`](crate::LockError::Unavailable)
    Unavailable,
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured)
    Misconfigured,
    /// [`LockError::ManagerClosed`](crate::LockError::ManagerClosed)
    ManagerClosed,
    /// [`LockError::ShutdownIncomplete`](crate::LockError::ShutdownIncomplete)
    ShutdownIncomplete,
    /// [`LockError::InvalidKey`](crate::LockError::InvalidKey)
    InvalidKey,
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest)
    InvalidRequest,
    /// [`LockError::InvalidUrl`](crate::LockError::InvalidUrl)
    InvalidUrl,
    /// [`LockError::NotConfigured`](crate::LockError::NotConfigured)
    NotConfigured,
    /// [`LockError::NotLocked`](crate::LockError::NotLocked)
    NotLocked,
}

impl LockErrorKind {
    /// The name in `snake_case`, which stays the same over versions: for the label of a metric or a field of a log.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::LockError;
    ///
    /// assert_eq!(LockError::NotConfigured.kind().as_str(), "not_configured");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::Deadlock => "deadlock",
            Self::QueueFull => "queue_full",
            Self::Lost => "lost",
            Self::NotReplicated => "not_replicated",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
            Self::ManagerClosed => "manager_closed",
            Self::ShutdownIncomplete => "shutdown_incomplete",
            Self::InvalidKey => "invalid_key",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidUrl => "invalid_url",
            Self::NotConfigured => "not_configured",
            Self::NotLocked => "not_locked",
        }
    }
}

impl fmt::Display for LockErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
