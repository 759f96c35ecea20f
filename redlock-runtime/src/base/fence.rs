//! [`Fence`]: the number that a resource remembers of a lock.

use std::error::Error;
use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::store_error::StoreError;

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
///         let is_of_another = fence.fencing_token() == self.0 && holder != self.1;
///         if fence.fencing_token() < self.0 || is_of_another {
///             return Err(fence.refused());
///         }
///         (self.0, self.1) = (fence.fencing_token(), holder.to_owned());
///         Ok(())
///     }
/// }
///
/// let locks = LockManager::builder("memory://fence").prefix("shop:").connect_blocking()?;
/// let fence = || locks.lock("ledger").run_value_blocking(|guard| guard.fences().next());
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
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// The error for this holder, when the resource has seen a larger token.
    #[must_use]
    pub fn refused(&self) -> LockError {
        LockError::Fenced { key: Arc::clone(&self.key), fencing_token: self.token }
    }

    /// The error for a store that has failed with `source`, in the middle of `step`, such as
    /// `"the commit"`.
    #[must_use]
    pub fn failed(&self, step: impl Into<Arc<str>>, source: impl Error + Send + Sync + 'static) -> LockError {
        LockError::Store { key: Arc::clone(&self.key), step: step.into(), source: StoreError::new(source) }
    }
}
