//! [`LockRequest`]: what is asked for, and the ways to get it.

use std::time::Duration;

use crate::manager::LockManager;
use crate::one_or_many::OneOrMany;
use crate::options::{OnLost, Options};

/// A request for a lock: which key, how long the lock outlives a vanished holder, how long to wait for it.
///
/// Nothing is sent before it is acquired. [`LockManager::lock`] makes it, or [`LockManager::lock_all`] for several keys.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://request-example").await?;
/// let request = locks.lock("stock:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5));
/// let guard = request.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is acquired or run"]
pub struct LockRequest {
    /// `None`: the process-wide one, looked up when it is acquired.
    pub(crate) manager: Option<LockManager>,
    pub(crate) keys: OneOrMany<String>,
    pub(crate) options: Options,
}

/// Each key once, in the order of their bytes. All callers take several locks in this order, so no two wait for each other.
fn in_order(keys: impl IntoIterator<Item = impl Into<String>>) -> OneOrMany<String> {
    let mut keys: Vec<String> = keys.into_iter().map(Into::into).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into()
}

/// A lock on the process-wide manager.
#[doc(hidden)]
pub fn lock(key: String) -> LockRequest {
    LockRequest::new(None, OneOrMany::One(key))
}

/// Several locks on the process-wide manager.
#[doc(hidden)]
pub fn lock_all<const N: usize>(keys: [String; N]) -> LockRequest {
    LockRequest::new(None, in_order(keys))
}

impl LockRequest {
    pub(crate) fn new(manager: Option<LockManager>, keys: OneOrMany<String>) -> Self {
        Self { manager, keys, options: Options::default() }
    }

    /// How long the lock outlives a holder that has vanished; 30 s by default, at least 10 ms. It does not limit
    /// the holder: the lock is renewed every third of this time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://ttl-example")?;
    /// let guard = locks.lock("report").ttl(Duration::from_secs(5)).acquire_blocking()?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// The longest to wait for the lock, over retries, reconnects and I/O; zero by default, which is one try.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://wait-example")?;
    /// let _held = locks.lock("report").acquire_blocking()?;
    /// let error = locks.lock("report").wait(Duration::from_millis(200)).acquire_blocking().unwrap_err();
    /// assert!(error.is_busy());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Waits until the lock is acquired, also while Redis is down or refuses: an operator may correct a wrong password, a
    /// missing permission or an eviction policy while the caller waits. The feature `tracing` logs each refusal as a
    /// warning. A manager that is shut down and a full queue are still errors.
    ///
    /// Dropping the future gives up its place in the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://forever-example")?;
    /// let guard = locks.lock("leader").wait_forever().acquire_blocking()?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_forever(mut self) -> Self {
        self.options.wait = None;
        self
    }

    /// Whether the lock is renewed while it is held; true by default. Without renewal it is lost when the ttl has
    /// passed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://renew-example").await?;
    /// let guard = locks.lock("burst").ttl(Duration::from_millis(20)).renew(false).acquire().await?;
    /// guard.lost().await;
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// The longest that the lock is held, at least 10 ms; then it is treated as lost, although it could be renewed.
    /// Unlimited by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://max-hold-example").await?;
    /// let stuck = locks.lock("import").max_hold(Duration::from_millis(20)).run(async |_| std::future::pending::<()>().await);
    /// assert!(matches!(stuck.await, Err(redlocked::LockError::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// The shortest that the key stays taken: after an earlier release it stays until then. For a job that many replicas
    /// start at nearly the same time. None by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://min-hold-example")?;
    /// locks.lock("nightly").min_hold(Duration::from_secs(60)).run_blocking(|_guard| ())?;
    /// assert!(locks.lock("nightly").acquire_blocking().is_err(), "a clock that is a little late finds it taken");
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options.min_hold = Some(min_hold);
        self
    }

    /// What happens to the async body of [`run`](Self::run) when the lock is lost; [`OnLost::Cancel`] by default. A sync
    /// body cannot be stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::OnLost;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://on-lost-example")?;
    /// let request = locks.lock("audit").on_lost(OnLost::Finish);
    /// # let _ = request;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = on_lost;
        self
    }

    /// Whether a call inside the body of another one, with the same key and manager, joins its lock; false by default:
    /// the call fails with [`LockError::Deadlock`](crate::LockError::Deadlock) at once. A task that the body spawns is not
    /// inside it.
    ///
    /// Where a sync body runs an executor (`block_on`), the tasks of tokio are told apart from the body. Tasks of another
    /// executor count as nested in it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://reentrant-example")?;
    /// let inner = || locks.lock("ledger").reentrant(true).run_blocking(|_guard| 42);
    /// assert_eq!(locks.lock("ledger").run_blocking(|_guard| inner())??, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = reentrant;
        self
    }

    pub(crate) fn policy(&self) -> OnLost {
        self.options.on_lost
    }
}

impl LockManager {
    /// A request for the lock on `key`; nothing is sent before it is acquired. The key on the server is the
    /// prefix, `lock:` by default, followed by `key`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect_blocking("memory://")?;
    /// let sum = locks.lock("sum").run_blocking(|_guard| 1 + 1)?;
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, key: impl Into<String>) -> LockRequest {
        LockRequest::new(Some(self.clone()), OneOrMany::One(key.into()))
    }

    /// A request for the locks on all these keys, which are held as one: one guard, all or nothing.
    ///
    /// They are taken one after the other in the order of the bytes of their keys, whatever the order here, and each key
    /// once: so a caller that wants `(a, b)` and one that wants `(b, a)` never wait for each other. `wait` is for all of
    /// them together. When one cannot be acquired, the others are released; the error names the key. When one is
    /// lost while others are still waited for, all are released and asked for again, as long as `wait` lasts;
    /// with one try it is [`LockError::Lost`](crate::LockError::Lost).
    ///
    /// Keys that are free cost one call to the server for up to 64 of them, and one more for each that has to be waited
    /// for. In a Cluster a call takes keys that follow each other in that order and share a slot, which a hash tag in
    /// front gives them: `{order:7}:stock`, `{order:7}:payment`. On several servers each key is asked for by itself.
    ///
    /// `max_hold`, and with [`renew(false)`](LockRequest::renew) the ttl, count for each lock from when it was taken. The
    /// body has that time, less what the locks after the first one took.
    ///
    /// The order holds within one request. A body that holds `b` and asks for `a` waits for the body that holds `a` and
    /// asks for `b`, until the `wait` of one of them is over: ask for everything at once, outside.
    ///
    /// An empty list is [`LockError::InvalidRequest`](crate::LockError::InvalidRequest).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect_blocking("memory://")?;
    /// let (from, to) = (7, 3);
    /// let accounts = [from, to].map(|id| format!("account:{id}"));
    /// locks.lock_all(accounts).wait(Duration::from_secs(5)).run_blocking(|guard| {
    ///     assert!(guard.keys().eq(["account:3", "account:7"]));
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all(&self, keys: impl IntoIterator<Item = impl Into<String>>) -> LockRequest {
        LockRequest::new(Some(self.clone()), in_order(keys))
    }
}
