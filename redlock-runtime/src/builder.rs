//! [`LockManagerBuilder`]: the settings of a manager, and how it starts.

use std::fmt;
use std::time::Duration;

use crate::blocking::block_on;
use crate::engine::{self, Engine, NodeSettings};
use crate::error::LockError;
use crate::manager::LockManager;
use crate::token::{self, Token};

/// Settings of a [`LockManager`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlock_runtime::LockError> {
/// use std::time::Duration;
/// use redlock_runtime::LockManager;
///
/// let locks = LockManager::builder("memory://")
///     .prefix("shop:")
///     .io_timeout(Duration::from_millis(200))
///     .connect_blocking()?;
/// # let _ = locks;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is connected"]
pub struct LockManagerBuilder {
    url: String,
    prefix: String,
    io_timeout: Duration,
    max_waiters: u32,
    foreign_clients: bool,
    allow_eviction: bool,
}

impl LockManagerBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            prefix: "lock:".to_owned(),
            io_timeout: Duration::from_secs(1),
            max_waiters: 100_000,
            foreign_clients: true,
            allow_eviction: false,
        }
    }

    /// What every key on the server starts with; `lock:` by default. It may be empty. In a Cluster, one with a brace
    /// must hold a whole hash tag, as `{shop}:` does; then all locks are in one slot.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlock_runtime::LockManager::builder("memory://").prefix("shop:lock:");
    /// # let _ = builder;
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long the server may take to answer, or to accept a connection, before the connection is replaced; one
    /// second by default. A request with `wait` zero fails after this time at the latest.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = redlock_runtime::LockManager::builder("memory://").io_timeout(Duration::from_millis(200));
    /// # let _ = builder;
    /// ```
    pub fn io_timeout(mut self, timeout: Duration) -> Self {
        self.io_timeout = timeout;
        self
    }

    /// How many may wait for one lock, over all processes; 100,000 by default. One more gets
    /// [`LockError::QueueFull`] at once.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlock_runtime::LockManager::builder("memory://").max_waiters(50);
    /// # let _ = builder;
    /// ```
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.max_waiters = waiters;
        self
    }

    /// Whether clients of another kind (a hand-written `SET NX PX`, redis-py, redsync …) take locks with the same
    /// keys; true by default. They know nothing of the queue, so now and then a lock is left free for a moment for
    /// them, which costs a few per cent of the hand-overs' speed under constant demand.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlock_runtime::LockManager::builder("memory://").foreign_clients(false);
    /// # let _ = builder;
    /// ```
    pub fn foreign_clients(mut self, foreign_clients: bool) -> Self {
        self.foreign_clients = foreign_clients;
        self
    }

    /// Whether to accept a server that may throw locks away when it is full, by its `maxmemory-policy`; false by
    /// default: connecting fails.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlock_runtime::LockManager::builder("memory://").allow_eviction(true);
    /// # let _ = builder;
    /// ```
    pub fn allow_eviction(mut self, allow_eviction: bool) -> Self {
        self.allow_eviction = allow_eviction;
        self
    }

    /// Connects, and waits until that has succeeded or failed.
    ///
    /// # Errors
    ///
    /// As [`LockManager::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the connection up.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock_runtime::LockError> {
    /// let locks = redlock_runtime::LockManager::builder("memory://").prefix("shop:").connect().await?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<LockManager, LockError> {
        let manager = self.start()?;
        manager.capabilities().await?;
        Ok(manager)
    }

    /// [`connect`](Self::connect) for code without a runtime; blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`LockManager::connect`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// let locks = redlock_runtime::LockManager::builder("memory://").connect_blocking()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(self) -> Result<LockManager, LockError> {
        block_on(self.connect())
    }

    /// Connects in the background: a service can start while Redis is down, and its locks report
    /// [`LockError::Unavailable`] until it is up.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidUrl`]; [`LockError::Unavailable`] when no thread can be started.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// let locks = redlock_runtime::LockManager::builder("memory://").start()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(self) -> Result<LockManager, LockError> {
        let instance = Token::random()
            .map_err(|error| LockError::Unavailable { key: None, reason: token::no_random(error).into() })?;
        let settings = NodeSettings {
            prefix: self.prefix.clone(),
            instance: instance.value().to_owned(),
            foreign_clients: self.foreign_clients,
            allow_eviction: self.allow_eviction,
        };
        let node = engine::parse(&self.url, &settings)?;
        let engine = Engine::start(node, self.io_timeout).map_err(|error| LockError::Unavailable {
            key: None,
            reason: format!("the thread of the lock manager cannot be started: {error}").into(),
        })?;
        Ok(LockManager::new(engine, self.prefix, self.io_timeout, self.max_waiters))
    }
}

impl fmt::Debug for LockManagerBuilder {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder")
            .field("prefix", &self.prefix)
            .field("io_timeout", &self.io_timeout)
            .finish_non_exhaustive()
    }
}
