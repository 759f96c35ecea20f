//! The central limit of a lock: a number of permits that an operator sets for all callers.

use crate::base::error::LockError;
use crate::base::key;
use crate::block_on::block_on;
use crate::engine::operator_calls::OperatorCall;
use crate::manager::LockManager;
use crate::options::MOST_PERMITS;

const OUT_OF_RANGE: &str = "the number of permits that is set for a key is at least 1 and at most 10,000: `clear_permits` lets the numbers \
                            of the callers count again";

impl LockManager {
    /// Sets how many permits `key` has, 1 to 10,000, for all callers with
    /// [`permits`](crate::LockRequest::permits) or a [`rate`](crate::LockRequest::rate), in the place of
    /// the numbers that they give: until [`clear_permits`](Self::clear_permits). Returns the number that
    /// was set before, `None` without one.
    ///
    /// A larger number takes effect at once: as many waiters enter as there is room for, before this
    /// returns. A smaller one takes nobody's place away: nobody enters until there is room. A caller
    /// that [takes](crate::LockRequest::take) more permits than there are now gets
    /// [`LockError::Misconfigured`]. Readers and exclusive callers, also those with `permits(1)`, are
    /// not affected.
    ///
    /// The number is a key of its own on the server, without an expiry. It stays when the lock is free,
    /// after [`force_release`](Self::force_release), and when the lock is deleted. What the server
    /// forgets is gone: after a flush, a restart without persistence, a failover to a replica that has not
    /// got it, or an eviction, the numbers of the callers count again. See
    /// [A limit that is set centrally](../redlocked/docs/how_many/index.html#a-limit-that-is-set-centrally).
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`]; [`LockError::InvalidRequest`] for a number out of range, and over a
    /// quorum, where nobody counts who is inside; [`LockError::Unavailable`] when there is no
    /// connection, or no answer: then the number may be set or not;
    /// [`LockError::Misconfigured`] when the server refuses, such as a full one: the number is as before;
    /// [`LockError::ManagerClosed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before its first poll does nothing. After that, the number may be set or
    /// not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://set-permits-example").await?;
    /// let send = || locks.lock("smtp:example.org").permits(1_000);
    /// assert_eq!(locks.set_permits("smtp:example.org", 2).await?, None);
    /// let (_first, second) = (send().acquire().await?, send().acquire().await?);
    /// assert!(send().acquire().await.is_err());
    /// assert_eq!(locks.set_permits("smtp:example.org", 3).await?, Some(2));
    /// let _third = send().acquire().await?;
    /// # drop(second);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_permits(&self, key: &str, permits: u32) -> Result<Option<u32>, LockError> {
        self.check_central_limit(key)?;
        if permits == 0 || permits > MOST_PERMITS.into() {
            return Err(LockError::invalid(&key.into(), OUT_OF_RANGE));
        }
        self.call(key, OperatorCall::set_permits(self.name(key), Some(permits))).await
    }

    /// [`set_permits`](Self::set_permits) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`set_permits`](Self::set_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://set-permits-blocking-example")?;
    /// assert_eq!(locks.set_permits_blocking("smtp:example.org", 20)?, None);
    /// assert_eq!(locks.permits_blocking("smtp:example.org")?, Some(20));
    /// assert_eq!(locks.clear_permits_blocking("smtp:example.org")?, Some(20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_permits_blocking(&self, key: &str, permits: u32) -> Result<Option<u32>, LockError> {
        block_on(self.engine(), self.set_permits(key, permits))
    }

    /// Clears the number that [`set_permits`](Self::set_permits) has set: the numbers of the callers count
    /// again, and waiters that have room then enter at once. Returns the number, `None` without one.
    ///
    /// # Errors
    ///
    /// As [`set_permits`](Self::set_permits).
    ///
    /// # Cancel safety
    ///
    /// As [`set_permits`](Self::set_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://clear-permits-example").await?;
    /// locks.set_permits("smtp:example.org", 20).await?;
    /// assert_eq!(locks.clear_permits("smtp:example.org").await?, Some(20));
    /// assert_eq!(locks.clear_permits("smtp:example.org").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn clear_permits(&self, key: &str) -> Result<Option<u32>, LockError> {
        self.check_central_limit(key)?;
        self.call(key, OperatorCall::set_permits(self.name(key), None)).await
    }

    /// [`clear_permits`](Self::clear_permits) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`set_permits`](Self::set_permits).
    pub fn clear_permits_blocking(&self, key: &str) -> Result<Option<u32>, LockError> {
        block_on(self.engine(), self.clear_permits(key))
    }

    /// The number that [`set_permits`](Self::set_permits) has set for `key`; `None` where those of the
    /// callers count.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect); [`LockError::InvalidRequest`] over a quorum.
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://permits-of-example").await?;
    /// assert_eq!(locks.permits("smtp:example.org").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn permits(&self, key: &str) -> Result<Option<u32>, LockError> {
        self.check_central_limit(key)?;
        self.call(key, OperatorCall::permits(self.name(key))).await
    }

    /// [`permits`](Self::permits) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`permits`](Self::permits).
    pub fn permits_blocking(&self, key: &str) -> Result<Option<u32>, LockError> {
        block_on(self.engine(), self.permits(key))
    }

    fn check_central_limit(&self, key: &str) -> Result<(), LockError> {
        key::validate(self.prefix(), key)?;
        let refused = self.engine().no_central_limits();
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(&key.into(), reason)))
    }
}
