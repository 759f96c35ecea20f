//! [`current`]: the lock that the running code is under, without its guard.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::acquire;
use crate::base::error::LockError;
use crate::base::fence::Fence;
use crate::block_on::block_on;
use crate::guard::LockGuard;
use crate::reentrancy::{self, Scope};

/// The lock that the code which calls this runs under: of an annotated function, or of the body of
/// [`run`](crate::LockRequest::run) or [`run_blocking`](crate::LockRequest::run_blocking), however
/// many calls are in between. Of nested ones, the innermost.
///
/// A task or a thread that the body starts is not under the lock, and neither is code that holds a
/// guard from [`acquire`](crate::LockRequest::acquire): it has the guard.
///
/// # Errors
///
/// [`LockError::NotLocked`] when the code runs under no lock: so a function that must not run
/// without one begins with `redlocked::current()?.ensure_held()?`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// /// It must not run without a lock, and takes longer than its caller knows.
/// async fn write_invoice(id: u32) -> Result<u64, LockError> {
///     let lock = redlocked::current()?;
///     lock.ensure_held()?;
///     lock.extend(Duration::from_secs(120)).await?;
///     lock.fencing_token().await
/// }
///
/// #[distributed_lock(key = "invoice:{id}", ttl = "10s")]
/// async fn book(id: u32) -> Result<u64, LockError> {
///     write_invoice(id).await
/// }
///
/// LockManager::connect("memory://current-example").await?.set_global();
/// assert!(book(7).await? > 0);
/// assert_eq!(write_invoice(7).await, Err(LockError::NotLocked));
/// # Ok(())
/// # }
/// ```
pub fn current() -> Result<CurrentLock, LockError> {
    let scope = reentrancy::innermost().ok_or(LockError::NotLocked)?;
    Ok(CurrentLock { guard: LockGuard::joined(scope) })
}

/// The lock, or the several locks held as one, that the code runs under: from [`current`].
///
/// It releases nothing when it is dropped, and does not keep the lock: after the end of the body it
/// [is not held](Self::is_held).
///
/// # Examples
///
/// In sync code, which cannot be stopped when its lock is lost:
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// fn sum(rows: &[u64]) -> Result<u64, LockError> {
///     let lock = redlocked::current()?;
///     let held = rows.iter().take_while(|_| lock.is_held());
///     Ok(held.sum())
/// }
///
/// #[distributed_lock(key = "ledger:{year}", on_lost = "error")]
/// fn close(year: u32, rows: &[u64]) -> Result<u64, LockError> {
///     sum(rows)
/// }
///
/// LockManager::connect_blocking("memory://current-lock-example")?.set_global();
/// assert_eq!(close(2026, &[30, 12])?, 42);
/// # Ok(())
/// # }
/// ```
pub struct CurrentLock {
    guard: LockGuard,
}

impl CurrentLock {
    /// The key, without the prefix; the first of several, in the order of their bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-key-example")?;
    /// locks.lock("stock:42").run_value_blocking(|_| assert!(redlocked::current().is_ok_and(|lock| lock.key() == "stock:42")))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.guard.key()
    }

    /// All keys, without the prefix, each once, in the order of their bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-keys-example")?;
    /// let count = || redlocked::current().map(|lock| lock.keys().count());
    /// assert_eq!(locks.lock_all(["account:2", "account:1"]).run_blocking(|_| count())?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.guard.keys()
    }

    /// As [`LockGuard::tick`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-tick-example")?;
    /// let tick = || redlocked::current().map(|lock| lock.tick());
    /// assert!(locks.lock("report").tick(Duration::from_secs(3600)).run_blocking(|_| tick())?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tick(&self) -> Option<SystemTime> {
        self.guard.tick()
    }

    /// As [`LockGuard::fail_tick`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::TickMissed;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-fail-tick-example")?;
    /// let report = || locks.lock("report").tick(Duration::from_secs(3600)).tick_missed(TickMissed::Retry);
    /// report().run_blocking(|_| redlocked::current().map(|lock| lock.fail_tick()))?;
    /// assert!(report().acquire_blocking().is_ok(), "another replica may run it");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_tick(&self) {
        self.guard.fail_tick();
    }

    /// As [`LockGuard::is_held`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-is-held-example")?;
    /// let lock = locks.lock("import").run_blocking(|_| redlocked::current())?;
    /// assert!(!lock.is_held(), "the body has ended");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// As [`LockGuard::remaining`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-remaining-example")?;
    /// let left = || redlocked::current().map(|lock| lock.remaining());
    /// assert!(locks.lock("import").run_blocking(|_| left())?.as_secs() > 20);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// An error when the lock is no longer held: for `?` before a step that needs it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the key and the reason.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, OnLost};
    ///
    /// # let locks = redlocked::LockManager::connect("memory://current-assert-example").await?;
    /// let request = locks.lock("import").ttl(Duration::from_millis(20)).renew(false).on_lost(OnLost::Finish);
    /// let outcome = request.run(async |guard| {
    ///     redlocked::current()?.ensure_held()?;
    ///     guard.lost().await;
    ///     redlocked::current()?.ensure_held()
    /// });
    /// assert!(matches!(outcome.await, Err(LockError::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), LockError> {
        self.guard.ensure_held()
    }

    /// As [`LockGuard::extend`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::extend`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the call: the TTL may change or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://current-extend-example").await?;
    /// async fn needs_longer() -> Result<(), redlocked::LockError> {
    ///     redlocked::current()?.extend(Duration::from_secs(60)).await
    /// }
    /// locks.lock("import").ttl(Duration::from_secs(1)).run(async |guard| {
    ///     needs_longer().await?;
    ///     assert!(guard.remaining() > Duration::from_secs(50));
    ///     Ok(())
    /// }).await
    /// # }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        self.guard.extend(ttl).await
    }

    /// [`extend`](Self::extend) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::extend`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-extend-blocking-example")?;
    /// let extend = || redlocked::current()?.extend_blocking(Duration::from_secs(60));
    /// locks.lock("import").run_blocking(|_| extend())
    /// # }
    /// ```
    pub fn extend_blocking(&self, ttl: Duration) -> Result<(), LockError> {
        self.guard.extend_blocking(ttl)
    }

    /// The [fencing token](LockGuard::fencing_token). A function without `guard = …` takes its lock
    /// without one, so the first call in it draws one from the server.
    ///
    /// # Errors
    ///
    /// Where it has to be drawn: [`LockError::Lost`] when the lock is no longer held,
    /// [`LockError::Unavailable`] when the server gives none in time.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped, and called again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://current-fence-example").await?;
    /// let token = async || redlocked::current()?.fencing_token().await;
    /// let first = locks.lock("ledger").run(async |_| token().await).await?;
    /// let second = locks.lock("ledger").run(async |_| token().await).await?;
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fencing_token(&self) -> Result<u64, LockError> {
        let fences = self.fences().await?;
        Ok(fences.iter().map(Fence::fencing_token).max().unwrap_or_default())
    }

    /// As [`LockGuard::fences`], with the tokens drawn as [`fencing_token`](Self::fencing_token)
    /// does.
    ///
    /// # Errors
    ///
    /// As [`fencing_token`](Self::fencing_token).
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped, and called again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://current-fences-example").await?;
    /// let fences = locks.lock("ledger").run(async |_| redlocked::current()?.fences().await).await?;
    /// assert!(fences[0].key() == "ledger" && fences[0].fencing_token() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fences(&self) -> Result<Vec<Fence>, LockError> {
        let Scope { engine, holds } = self.guard.scope();
        let mut fences = Vec::new();
        for hold in holds.as_slice() {
            let guard = acquire::with_fence(Arc::clone(&engine), hold.clone()).await?;
            fences.extend(guard.fences());
        }
        Ok(fences)
    }

    /// [`fencing_token`](Self::fencing_token) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`fencing_token`](Self::fencing_token).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-fence-blocking-example")?;
    /// let token = || redlocked::current()?.fencing_token_blocking();
    /// assert!(locks.lock("ledger").run_blocking(|_| token())? > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_token_blocking(&self) -> Result<u64, LockError> {
        block_on(&self.guard.scope().engine, self.fencing_token())
    }

    /// [`fences`](Self::fences) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`fences`](Self::fences).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://current-fences-blocking-example")?;
    /// let fences = || redlocked::current()?.fences_blocking();
    /// assert_eq!(locks.lock_all(["account:1", "account:2"]).run_blocking(|_| fences())?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fences_blocking(&self) -> Result<Vec<Fence>, LockError> {
        block_on(&self.guard.scope().engine, self.fences())
    }
}

impl fmt::Debug for CurrentLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentLock")
            .field("keys", &self.keys().collect::<Vec<_>>())
            .field("remaining", &self.remaining())
            .finish()
    }
}
