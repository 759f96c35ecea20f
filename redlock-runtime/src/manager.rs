//! [`LockManager`]: the handle of one engine.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::base::capabilities::Capabilities;
use crate::base::error::LockError;
use crate::base::key::QUEUE;
use crate::block_on::block_on;
use crate::defaults::Defaults;
use crate::engine::command::{Command, ShutdownIncomplete};
use crate::engine::handle::{ENGINE_GONE, Engine};
use crate::engine::operator_calls::OperatorCall;

/// The entry point: connects to Redis and hands out [`LockRequest`](crate::LockRequest)s.
///
/// A manager has one connection to its server (one to each primary of a Cluster, or to each server
/// of a quorum), however many locks are held or waited for. Its event loop runs on the callers'
/// runtime, and on a thread of its own where callers have no runtime or block it. It is cheap to
/// clone. The loop ends when the last clone and the last guard are gone and everything has been
/// released.
///
/// A forked process has no event loop: in the child each call fails with
/// [`LockError::ManagerClosed`] at once, and guards hold and release nothing. Connect a new manager
/// there.
///
/// The address starts with `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`,
/// `rediss+sentinel://`, `redis+cluster://`, `rediss+cluster://` or `memory://`. Each form, and
/// TLS, is described in [Addresses and TLS](../redlocked/docs/addresses/index.html).
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
    io_timeout: Duration,
    max_waiters: u32,
    defaults: Defaults,
    /// True from the first call of `shutdown` on.
    closing: watch::Sender<bool>,
}

impl LockManager {
    /// Ends the manager, for the end of a process: new calls and waiting callers fail with
    /// [`LockError::ManagerClosed`], and `shutdown` returns when the server has released every lock
    /// of this manager. Without it, a lock whose body still runs when the process ends stays taken
    /// until its TTL has passed, and so may the last of many locks that are released just before.
    ///
    /// Bodies have `limit` to end by themselves; that of a [leader](crate::Election::lead) is dropped
    /// at once. A lock that is still held after it is lost, with
    /// [`LostReason::ManagerClosed`](crate::LostReason::ManagerClosed): an async body is dropped
    /// before its next poll, and its lock is released. A sync body cannot be stopped: its guard's
    /// [`is_held`](crate::LockGuard::is_held) becomes false, and its lock is released when the
    /// guard is dropped, or expires. The releases may take another
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout).
    ///
    /// # Errors
    ///
    /// [`LockError::ShutdownIncomplete`], with their numbers, when locks were still held after
    /// `limit` or the server has not answered releases.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the shutdown.
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
        self.shared.closing.send_replace(true);
        let (caller, outcome) = oneshot::channel();
        self.engine().send(Command::Shutdown { until: self.engine().now().after(limit), caller });
        match outcome.await {
            // An engine that has ended has nothing left to release.
            Ok(Ok(())) | Err(_) => Ok(()),
            Ok(Err(ShutdownIncomplete { stopped, unreleased })) => {
                Err(LockError::ShutdownIncomplete { stopped, unreleased })
            }
        }
    }

    /// [`shutdown`](Self::shutdown) for sync code: blocks this thread.
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
        block_on(self.engine(), self.shutdown(limit))
    }

    pub(crate) fn new(engine: Engine, io_timeout: Duration, max_waiters: u32, defaults: Defaults) -> Self {
        let engine = Arc::new(engine);
        let closing = watch::Sender::new(false);
        Self { shared: Arc::new(Shared { engine, io_timeout, max_waiters, defaults, closing }) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// True once it is being shut down.
    pub(crate) fn is_closing(&self) -> bool {
        *self.shared.closing.borrow()
    }

    /// Becomes true when it is being shut down.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.shared.closing.subscribe()
    }

    /// The start of each of its keys on the server: `lock:`, unless the
    /// [builder](crate::LockManagerBuilder::prefix) says otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://prefix-example")?;
    /// assert_eq!(locks.prefix(), "lock:");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.shared.engine.prefix()
    }

    /// The name of a key on the server.
    pub(crate) fn name(&self, key: &str) -> Arc<str> {
        thread_local! {
            /// A buffer, so that the name is the only memory that a call takes for it.
            static NAME: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let in_buffer = NAME.try_with(|name| {
            let mut name = name.borrow_mut();
            name.clear();
            name.push_str(self.prefix());
            name.push_str(key);
            Arc::from(name.as_str())
        });
        // A thread that is ending has no buffer any more.
        in_buffer.unwrap_or_else(|_| [self.prefix(), key].concat().into())
    }

    pub(crate) fn max_waiters(&self) -> u32 {
        self.shared.max_waiters
    }

    /// Returns the defaults for options that a request does not set.
    pub(crate) fn defaults(&self) -> &Defaults {
        &self.shared.defaults
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        self.shared.io_timeout
    }

    /// The optional features that the server supports. Waits until connecting has succeeded or
    /// failed.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when there is no connection, [`LockError::Misconfigured`] when
    /// the server refuses, [`LockError::ManagerClosed`] after [`shutdown`](Self::shutdown).
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
    /// let locks = redlocked::LockManager::connect("memory://").await?;
    /// assert!(locks.capabilities().await?.hands_over());
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

    /// [`capabilities`](Self::capabilities) for sync code: blocks this thread.
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
    /// assert!(locks.capabilities_blocking()?.hands_over());
    /// # Ok(())
    /// # }
    /// ```
    pub fn capabilities_blocking(&self) -> Result<Capabilities, LockError> {
        block_on(self.engine(), self.capabilities())
    }

    /// Checks whether the server accepts locks now: for a health endpoint, and for the start of a
    /// service.
    ///
    /// One write that changes nothing goes over the connection that carries the locks, so a dead
    /// connection, a replica, a full server and a server that cannot save are never reported as
    /// well. Of several servers a majority must answer, and of a Cluster each primary that has
    /// slots. A connection that breaks meanwhile is replaced, within the same limit: the
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout).
    ///
    /// Needs no permission that locks do not need. Waiters and holders of locks wait for no ping.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the server cannot be reached, does not answer in time or
    /// takes no writes for the moment, [`LockError::Misconfigured`] when it refuses,
    /// [`LockError::ManagerClosed`] after [`shutdown`](Self::shutdown).
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
    /// let locks = redlocked::LockManager::connect("memory://").await?;
    /// locks.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<(), LockError> {
        // No lock has an empty key, so no queue is called like this.
        let name = self.name(QUEUE);
        let by = self.engine().now().after(self.io_timeout());
        let mut next = Some(0);
        while let Some(cursor) = next {
            next = self.engine().call_by(by, None, OperatorCall::ping(Arc::clone(&name), cursor)).await?;
        }
        Ok(())
    }

    /// [`ping`](Self::ping) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`ping`](Self::ping).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// locks.ping_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ping_blocking(&self) -> Result<(), LockError> {
        block_on(self.engine(), self.ping())
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("prefix", &self.prefix()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::thread::sleep;

    use super::*;
    use crate::engine::protocol::{Action, Reply};

    #[test]
    fn all_primaries_of_a_ping_have_one_limit() {
        let (engine, mut waiting) = Engine::stuck();
        let locks = LockManager::new(engine, Duration::from_secs(1), 10, Defaults::default());
        let mut ping = pin!(locks.ping());
        let mut limits = Vec::new();
        for cursor in 0..3 {
            assert!(ping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let Ok(Command::Operator { call, .. }) = waiting.try_recv() else {
                unreachable!("primary {cursor} is asked")
            };
            assert_eq!(call.request.action, Action::Ping { cursor });
            limits.push(call.by);
            call.answer(Reply::Page { cursor: cursor + 1, names: Vec::new() });
            // Time itself: the next limit would be a later one.
            sleep(Duration::from_millis(1));
        }
        assert!(limits.iter().all(|limit| *limit == limits[0]), "{limits:?}");
    }
}
