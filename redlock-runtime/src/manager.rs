//! [`LockManager`]: one engine and the way to its node; and the process-wide default.

use std::env;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::blocking::block_on;
use crate::builder::LockManagerBuilder;
use crate::capabilities::Capabilities;
use crate::clock::Moment;
use crate::engine::{Command, Engine, Unfinished};
use crate::error::LockError;
use crate::request::{Keys, LockRequest};

/// The entry point: connects to Redis and hands out [`LockRequest`]s.
///
/// A manager owns one background thread with one connection of its own (in a Cluster one to each primary), however
/// many locks are held or waited for. It is cheap to clone; the thread ends when the last clone and the last guard
/// are gone and everything has been released.
///
/// A process that forks leaves that thread behind: in the child its manager answers with
/// [`LockError::ManagerClosed`] at once, and its guards hold and release nothing. Connect a new one there.
///
/// | URL | |
/// | --- | --- |
/// | `redis://[user:password@]host[:port][/db]` | a Redis server, 6 or newer recommended |
/// | `rediss://[user:password@]host[:port][/db]` | the same, encrypted; needs the feature `tls` |
/// | `redis+sentinel://[user:password@]host[:port],…/name[/db]` | the primary that Sentinel calls so |
/// | `redis+unix:///path/to/redis.sock` | the same through a unix socket |
/// | `redis+cluster://[user:password@]host[:port],host[:port]` | a Redis Cluster; some of its nodes are enough |
/// | `memory://[name]` | inside this process, for tests and first steps: same protocol, no server; one store for each name, and one for all managers without |
///
/// `rediss+sentinel://` and `rediss+cluster://` are encrypted, too: every sentinel, and every node.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use redlocked::{LockError, LockManager};
///
/// # fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect_blocking("memory://manager-example")?;
/// let guard = locks.lock("stock:42").ttl(Duration::from_secs(10)).acquire_blocking()?;
/// assert!(guard.is_held());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockManager {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Engine>,
    prefix: String,
    io_timeout: Duration,
    max_waiters: u32,
}

static GLOBAL: RwLock<Option<LockManager>> = RwLock::new(None);

/// Where the process-wide manager connects to when nobody called `set_global`, in this order.
const ENVIRONMENT: [&str; 2] = ["REDLOCK_URL", "REDIS_URL"];

impl LockManager {
    /// Connects to the server at `url`.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidUrl`] for an address that cannot be used, [`LockError::Unavailable`] when the server
    /// cannot be reached, [`LockError::Misconfigured`] when it refuses (wrong password …), in its own words.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the connection up.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect("memory://").await?;
    /// locks.set_global();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder(url).connect().await
    }

    /// [`connect`](Self::connect) for code without a runtime; blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockError, LockManager};
    ///
    /// let _locks = LockManager::connect_blocking("memory://")?;
    /// let refused = LockManager::connect_blocking("ftp://example.com");
    /// assert!(matches!(refused, Err(LockError::InvalidUrl { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(url: &str) -> Result<Self, LockError> {
        Self::builder(url).connect_blocking()
    }

    /// A manager for `url` with other settings than the default ones.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::builder("memory://").prefix("shop:lock:").connect_blocking()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: impl Into<String>) -> LockManagerBuilder {
        LockManagerBuilder::new(url.into())
    }

    /// Makes this the process-wide manager, which annotated functions use unless they name another one.
    /// Replaces an earlier one; locks that it holds stay held.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// LockManager::connect_blocking("memory://")?.set_global();
    /// LockManager::global()?.lock("cron:nightly").acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_global(&self) {
        *GLOBAL.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// The process-wide manager: the one given to [`set_global`](Self::set_global), else one for the address in
    /// the environment variable `REDLOCK_URL` or `REDIS_URL`, started at the first use. It does not wait for the
    /// connection.
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when there is neither; [`LockError::InvalidUrl`] when the address in the
    /// environment cannot be used. There is no silent fallback.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{LockError, LockManager};
    ///
    /// match LockManager::global() {
    ///     Ok(_) | Err(LockError::NotConfigured) => {}
    ///     Err(other) => panic!("{other}"),
    /// }
    /// ```
    pub fn global() -> Result<Self, LockError> {
        if let Some(manager) = &*GLOBAL.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(manager.clone());
        }
        let mut global = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(manager) = &*global {
            return Ok(manager.clone());
        }
        let url = ENVIRONMENT.iter().filter_map(|name| env::var(name).ok()).find(|url| !url.is_empty());
        let manager = Self::builder(url.ok_or(LockError::NotConfigured)?).start()?;
        *global = Some(manager.clone());
        Ok(manager)
    }

    /// Asks for the lock named `key`; nothing is sent before it is acquired. The key on the server is the
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
        LockRequest::new(Some(self.clone()), Keys::One(key.into()))
    }

    /// Asks for the locks of all these keys, to hold them as one: the same request, the same guard, all or nothing.
    ///
    /// They are taken one after the other in the order of the bytes of their keys, whatever the order here, and each key
    /// once: so a caller who wants `(a, b)` and one who wants `(b, a)` never wait for each other. `wait` is for all of
    /// them together. When one cannot be had, those that were taken are released; the error names the key. When one is
    /// lost while the others are still waited for, everything is released and asked for again, as long as `wait` lasts;
    /// with one try it is [`LockError::Lost`].
    ///
    /// Keys that are free cost one call to the server, however many they are (up to 64), and one more for each that has
    /// to be waited for. In a Cluster a call takes keys that follow each other in that order and have a slot in common,
    /// which a hash tag in front gives them: `{order:7}:stock`, `{order:7}:payment`. On several servers each key is asked
    /// for by itself.
    ///
    /// `max_hold`, and with [`renew(false)`](LockRequest::renew) the ttl, count for each lock from when it was taken:
    /// nobody waits for one longer than that, and for the body there is less by what the other locks took.
    ///
    /// The order holds within one request. A body that holds `b` and asks for `a` waits for the body that holds `a` and
    /// asks for `b`, until the `wait` of one of them is over: ask for everything at once, outside.
    ///
    /// An empty list is [`LockError::InvalidRequest`].
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
        LockRequest::new(Some(self.clone()), Keys::of(keys))
    }

    /// Begins nothing new, tells all callers that wait, and returns when every lock of this manager is released on the
    /// server. For the end of a process: a lock that is dropped when the runtime ends is else free only at its ttl.
    ///
    /// Bodies may end by themselves for as long as `limit`. What is held then is lost, with
    /// [`LostReason::ManagerClosed`](crate::LostReason::ManagerClosed): an async body is dropped before its next poll and
    /// its lock released; a sync body cannot be stopped, sees that [`is_held`](crate::LockGuard::is_held) is false, and
    /// its lock is released when its guard is dropped, else its key expires. Their releases may take another
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout).
    ///
    /// # Errors
    ///
    /// [`LockError::ShutdownIncomplete`] when locks were still held after `limit`, or their releases unanswered: with how
    /// many.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the shutdown back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://shutdown-example").await?;
    /// drop(locks.lock("stock:42").acquire().await?);
    /// locks.shutdown(Duration::from_secs(5)).await?;
    /// assert!(locks.lock("stock:42").acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, limit: Duration) -> Result<(), LockError> {
        let (caller, outcome) = oneshot::channel();
        self.engine().send(Command::Shutdown { until: Moment::now().after(limit), caller });
        match outcome.await {
            // An engine that has ended has nothing left to release.
            Ok(Ok(())) | Err(_) => Ok(()),
            Ok(Err(Unfinished { stopped, unreleased })) => {
                Err(LockError::ShutdownIncomplete { stopped, unreleased })
            }
        }
    }

    /// [`shutdown`](Self::shutdown) for sync code; blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Self::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://shutdown-blocking-example")?;
    /// drop(locks.lock("stock:42").acquire_blocking()?);
    /// locks.shutdown_blocking(Duration::from_secs(5))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown_blocking(&self, limit: Duration) -> Result<(), LockError> {
        block_on(self.shutdown(limit))
    }

    pub(crate) fn new(engine: Engine, prefix: String, io_timeout: Duration, max_waiters: u32) -> Self {
        Self { shared: Arc::new(Shared { engine: Arc::new(engine), prefix, io_timeout, max_waiters }) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.shared.prefix
    }

    /// What a key is called on the server.
    pub(crate) fn name(&self, key: &str) -> Arc<str> {
        [self.prefix(), key].concat().into()
    }

    pub(crate) fn max_waiters(&self) -> u32 {
        self.shared.max_waiters
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        self.shared.io_timeout
    }

    /// What the server can do; waits until connecting has succeeded or failed.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when there is no connection, [`LockError::Misconfigured`] when the server refuses.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::connect("memory://").await?;
    /// assert!(locks.capabilities().await?.hands_off());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn capabilities(&self) -> Result<Capabilities, LockError> {
        let (caller, outcome) = oneshot::channel();
        self.engine().send(Command::Connected { caller });
        match outcome.await {
            Ok(Ok(abilities)) => Ok(Capabilities(abilities)),
            Ok(Err(trouble)) => Err(trouble.error(None)),
            Err(_) => Err(LockError::ManagerClosed { key: None, reason: ENGINE_GONE }),
        }
    }

    /// [`capabilities`](Self::capabilities) for sync code; blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`capabilities`](Self::capabilities).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// assert!(locks.capabilities_blocking()?.hands_off());
    /// # Ok(())
    /// # }
    /// ```
    pub fn capabilities_blocking(&self) -> Result<Capabilities, LockError> {
        block_on(self.capabilities())
    }
}

/// What a caller hears when no thread answers. In the same process, no way to that is known.
pub(crate) const ENGINE_GONE: &str = "this lock manager has no thread in this process, which was forked after it was started: connect a new one";

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("prefix", &self.shared.prefix).finish_non_exhaustive()
    }
}
