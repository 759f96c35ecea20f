//! [`Fence`]: the number that a resource remembers of a lock.

use std::error::Error;
use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::key::{self, shown};
use crate::base::store_error::StoreError;

/// Above all fencing tokens.
pub(crate) const ABOVE_ALL: u64 = 1 << 53;

/// The name of a lock and the fencing token of one holder: what a resource remembers to refuse the
/// writes of earlier holders. [`LockGuard::fences`](crate::LockGuard::fences) returns one for each
/// lock; [`new`](Self::new) is for the fence of another process.
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
    /// Builds the fence of another process, from the [`key`](Self::key), the [`name`](Self::name) and the
    /// [`fencing_token`](Self::fencing_token) that it has sent: for a service that writes on behalf of
    /// the holder of a lock.
    ///
    /// Nothing proves that the sender holds the lock: take a fence from processes that you trust. A
    /// token that is too large makes the resource refuse every later holder.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidRequest`] for what no lock has: an empty key, a name that does not end with
    /// the key, a name above 1 KiB or with control characters, a token of 2^53 or more.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlocked::{Fence, LockManager};
    ///
    /// let locks = LockManager::builder("memory://fence-new").prefix("shop:").connect_blocking()?;
    /// let guard = locks.lock("ledger").acquire_blocking()?;
    /// let fence = guard.fences().next().ok_or("a guard holds a lock")?;
    ///
    /// // Into the headers of a request …
    /// let headers = [fence.key(), fence.name(), &fence.fencing_token().to_string()].map(str::to_owned);
    ///
    /// // … and out of them, in the process that writes.
    /// let [key, name, token] = headers;
    /// let received = Fence::new(key, name, token.parse()?)?;
    /// assert_eq!(received, fence);
    ///
    /// let swapped = Fence::new("shop:ledger", "ledger", 7).map_err(|error| error.to_string());
    /// assert!(swapped.is_err_and(|said| said.contains("does not end with the key")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(key: impl AsRef<str>, name: impl AsRef<str>, token: u64) -> Result<Self, LockError> {
        let (key, name) = (key.as_ref(), name.as_ref());
        let invalid = |reason: String| Err(LockError::invalid(&shown(key).into(), reason));
        let Some(prefix) = name.strip_suffix(key) else {
            let name = shown(name);
            return invalid(format!(
                "the name of a fence is its key behind the prefix of the manager, and `{name}` does not end with the key"
            ));
        };
        if let Err(LockError::InvalidKey { reason, .. }) = key::validate(prefix, key) {
            return invalid(format!("no lock has the key of this fence: {reason}"));
        }
        if token >= ABOVE_ALL {
            return invalid(format!("a fencing token is below 2^53, and {token} is not"));
        }
        Ok(Self { key: key.into(), name: name.into(), token })
    }

    pub(crate) fn of(key: &Arc<str>, prefix: &str, token: u64) -> Self {
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

    /// The [fencing token](crate::LockGuard::fencing_token): below 2^53, so that a program that keeps
    /// numbers as doubles does not round it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_lock_has_is_no_fence_and_the_error_says_why() {
        let long = "x".repeat(1020);
        let long_name = ["lock:", &long].concat();
        let wrong = [
            ("", "lock:", 7, "it is empty"),
            ("ledger", "lock:order", 7, "`lock:order` does not end with the key"),
            (&*long, &*long_name, 7, "longer than 1 KiB"),
            ("a\nb", "lock:a\nb", 7, "control characters"),
            ("a%queue", "lock:a%queue", 7, "%queue"),
            ("ledger", "lock:ledger", ABOVE_ALL, "below 2^53, and 9007199254740992 is not"),
        ];
        for (key, name, token, reason) in wrong {
            let refused = Fence::new(key, name, token);
            assert!(matches!(refused, Err(LockError::InvalidRequest { .. })), "{refused:?}");
            let said = refused.map_err(|error| error.to_string());
            let says = |said: &str| said.contains(reason) && said.len() < 300 && !said.contains('\n');
            assert!(said.as_ref().is_err_and(|said| says(said)), "{said:?}");
        }
        let key = &long[..1019];
        let fence = Fence::new(key, ["lock:", key].concat(), ABOVE_ALL - 1);
        assert_eq!(fence, Ok(Fence::of(&key.into(), "lock:", ABOVE_ALL - 1)));
    }
}
