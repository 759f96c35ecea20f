//! [`LockGuard`]: a held lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::blocking::block_on;
use crate::clock::Moment;
use crate::engine::{Command, Engine, Extension, Id};
use crate::error::LockError;
use crate::lease::Lease;
use crate::manager::ENGINE_GONE;
use crate::nesting::Scope;
use crate::request::check_ttl;

/// A held lock. It is renewed until it is released; dropping it releases it in the background.
///
/// Dropping needs no runtime, never blocks and never panics. It can be moved to other threads and outlive the
/// function that took it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock_runtime::LockError> {
/// use redlock_runtime::{LockManager, ReleaseOutcome};
///
/// let locks = LockManager::connect("memory://guard-example").await?;
/// let guard = locks.lock("stock:42").acquire().await?;
/// assert_eq!(guard.key(), "stock:42");
/// assert!(guard.is_held());
/// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
/// # Ok(())
/// # }
/// ```
#[must_use = "a lock is released when its guard is dropped"]
pub struct LockGuard {
    engine: Arc<Engine>,
    id: Id,
    lease: Arc<Lease>,
    /// It has joined an outer lock, whose guard releases it.
    is_joined: bool,
    given_back: AtomicBool,
}

/// What a release found.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlock_runtime::LockError> {
/// use redlock_runtime::{LockManager, ReleaseOutcome};
///
/// let locks = LockManager::connect_blocking("memory://outcome-example")?;
/// let outcome = locks.lock("stock:42").acquire_blocking()?.release_blocking()?;
/// assert_eq!(outcome, ReleaseOutcome::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReleaseOutcome {
    /// The lock was ours until now, and is free.
    Released,
    /// The lock had been lost before: its lease ended, or the key was deleted or overwritten. Somebody else may
    /// have been inside.
    AlreadyLost,
}

impl LockGuard {
    pub(crate) fn new(engine: Arc<Engine>, id: Id, lease: Arc<Lease>) -> Self {
        Self { engine, id, lease, is_joined: false, given_back: AtomicBool::new(false) }
    }

    /// A nested guard: it shares the lease of the outer one, and gives nothing back.
    pub(crate) fn joined(scope: Scope) -> Self {
        let Scope { engine, id, lease } = scope;
        Self { engine, id, lease, is_joined: true, given_back: AtomicBool::new(true) }
    }

    /// What a nested call needs to find this lock.
    pub(crate) fn scope(&self) -> Scope {
        Scope { engine: Arc::clone(&self.engine), id: self.id, lease: Arc::clone(&self.lease) }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The key, without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://key-example")?;
    /// assert_eq!(locks.lock("stock:42").acquire_blocking()?.key(), "stock:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease.key()
    }

    /// A number that grows with every grant of every lock on this server, for the protected resource to compare:
    /// a write that carries a smaller one than the resource has seen comes from a holder that has lost the lock.
    ///
    /// It is the server's time in microseconds, or one more than the last one, and below 2^53. So it grows also
    /// across an expiry, a restart and a flush.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://fence-example")?;
    /// let first = locks.lock("ledger").run_blocking(|guard| guard.fencing_token())?;
    /// let second = locks.lock("ledger").run_blocking(|guard| guard.fencing_token())?;
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.lease.fence()
    }

    /// True while the lease lasts on this process's own clock, which is before the server may give the lock to
    /// somebody else.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://is-held-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// for _row in 0..3 {
    ///     if !guard.is_held() {
    ///         break; // a sync body cannot be stopped from outside
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease.remaining(Moment::now()).is_some()
    }

    /// How long the lease lasts if no renewal succeeds from now on; zero when it is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://remaining-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// assert!(guard.remaining() > std::time::Duration::from_secs(20));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.remaining(Moment::now()).unwrap_or_default()
    }

    /// Ready when the lock is no longer held, for whatever reason.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock_runtime::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlock_runtime::LockManager::connect("memory://lost-example").await?;
    /// let guard = locks.lock("import").ttl(Duration::from_millis(20)).renew(false).acquire().await?;
    /// guard.lost().await;
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) {
        self.lease.ended().cancelled().await;
    }

    /// Sets another ttl, counted from now, for this and for the coming renewals.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock is no longer held, or could not be extended before its lease ended;
    /// [`LockError::InvalidRequest`] for a ttl out of range.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the request back: the ttl may change or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock_runtime::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlock_runtime::LockManager::connect("memory://extend-example").await?;
    /// let guard = locks.lock("import").ttl(Duration::from_secs(1)).acquire().await?;
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        check_ttl(self.lease.key(), ttl)?;
        let (caller, outcome) = oneshot::channel();
        let extension = Extension { key: Arc::clone(self.lease.key()), ttl, caller };
        self.engine.send(Command::Extend { id: self.id, extension });
        outcome.await.unwrap_or_else(|_| Err(LockError::Lost { key: Arc::clone(self.lease.key()) }))
    }

    /// [`extend`](Self::extend) for sync code; parks this thread.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://extend-blocking-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// guard.extend_blocking(Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend_blocking(&self, ttl: Duration) -> Result<(), LockError> {
        block_on(self.extend(ttl))
    }

    /// Releases the lock and says what it found. Only this token's own lock is ever freed; with
    /// [`min_hold`](crate::LockRequest::min_hold) the key stays until then, and a nested guard leaves the release to
    /// the outer one.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when Redis gave no answer in time; the release is tried again in the background
    /// until the ttl has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the release back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock_runtime::LockError> {
    /// # use redlock_runtime::ReleaseOutcome;
    /// # let locks = redlock_runtime::LockManager::connect("memory://release-example").await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.give_back().await
    }

    /// [`release`](Self::release) for sync code; parks this thread.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # use redlock_runtime::ReleaseOutcome;
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://release-blocking-example")?;
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        block_on(self.give_back())
    }

    /// Sends the release now; the future is only for the outcome.
    pub(crate) fn give_back(&self) -> GiveBack {
        let (response, outcome) = oneshot::channel();
        if self.is_joined {
            let outcome = if self.is_held() { ReleaseOutcome::Released } else { ReleaseOutcome::AlreadyLost };
            let _ = response.send(Ok(outcome));
        } else {
            self.given_back.store(true, Ordering::Relaxed);
            self.engine.send(Command::Release { id: self.id, response: Some(response) });
        }
        GiveBack { key: Arc::clone(self.lease.key()), outcome }
    }
}

/// The outcome of a release that is under way.
pub(crate) struct GiveBack {
    key: Arc<str>,
    outcome: oneshot::Receiver<Result<ReleaseOutcome, LockError>>,
}

impl Future for GiveBack {
    type Output = Result<ReleaseOutcome, LockError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.outcome)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or_else(|_| Err(LockError::unavailable(&self.key, ENGINE_GONE))))
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !*self.given_back.get_mut() {
            self.engine.send(Command::Release { id: self.id, response: None });
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", &self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
