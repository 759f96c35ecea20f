//! [`LockManager`]: one engine and the way to its node; and the process-wide default.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::block_on::block_on;
use crate::capabilities::Capabilities;
use crate::clock::Moment;
use crate::engine::command::{Command, Unfinished};
use crate::engine::handle::{ENGINE_GONE, Engine};
use crate::error::LockError;

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

impl LockManager {
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

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("prefix", &self.shared.prefix).finish_non_exhaustive()
    }
}
