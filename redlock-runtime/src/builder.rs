//! [`LockManagerBuilder`]: the settings of a manager.

mod connect;

use std::fmt;
use std::time::Duration;

use crate::engine::redis::tls::TlsSettings;
#[cfg(doc)]
use crate::{LockError, LockManager};

/// Settings of a [`LockManager`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::LockManager;
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
    node_timeout: Duration,
    max_ttl: Duration,
    replicas: u32,
    cohort: u32,
    tls: TlsSettings,
}

impl LockManagerBuilder {
    fn new(url: String) -> Self {
        Self {
            url,
            prefix: "lock:".to_owned(),
            io_timeout: Duration::from_secs(1),
            max_waiters: 100_000,
            foreign_clients: true,
            allow_eviction: false,
            node_timeout: Duration::from_millis(200),
            max_ttl: Duration::ZERO,
            replicas: 0,
            cohort: 0,
            tls: TlsSettings::default(),
        }
    }

    /// Adds a server: a lock on several servers survives the loss of any minority of them (Redlock). The servers are
    /// independent primaries without replication between them, an odd number of three to seven. `connect` and the
    /// environment take the addresses with commas between.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let builder = LockManager::builder("memory://node-1").node("memory://node-2").node("memory://node-3");
    /// let locks = builder.connect().await?;
    /// let guard = locks.lock("account:7").try_acquire().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.url.push(',');
        self.url.push_str(url.as_ref());
        self
    }

    /// With several servers, how long a call waits for a server that does not answer; 200 ms by default. A call that the
    /// other answers have decided waits for no server. Where a quorum is farther away, the limit is twice the round trip to
    /// it, measured when connecting. It is never more than a quarter of the ttl.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = redlocked::LockManager::builder("memory://").node_timeout(Duration::from_millis(500));
    /// # let _ = builder;
    /// ```
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// With several servers, the longest ttl that any manager uses with them, if that is longer than those of this one.
    /// A server that has restarted may have forgotten a lock, so it has no vote until it has been up for this long,
    /// unless it writes everything to disk before it answers (`appendonly yes`, `appendfsync always`).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = redlocked::LockManager::builder("memory://").max_ttl(Duration::from_secs(60));
    /// # let _ = builder;
    /// ```
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = ttl;
        self
    }

    /// What every key on the server starts with; `lock:` by default. It may be empty. In a Cluster, a prefix with a brace
    /// must hold a whole hash tag, as `{shop}:` does; then all locks are in one slot. A prefix with `%queue`, `%clock` or
    /// `%inbox`, which the library's own keys hold, is [`LockError::InvalidUrl`] when connecting.
    ///
    /// Clients that may write keys of this prefix, or publish to its channels, are trusted: they can take any of its
    /// locks away, and let two callers in.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("memory://").prefix("shop:lock:");
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
    /// let builder = redlocked::LockManager::builder("memory://").io_timeout(Duration::from_millis(200));
    /// # let _ = builder;
    /// ```
    pub fn io_timeout(mut self, timeout: Duration) -> Self {
        self.io_timeout = timeout;
        self
    }

    /// How many callers may wait for one lock, over all processes; 100,000 by default. The next caller gets
    /// [`LockError::QueueFull`] at once. With several servers there is no queue, and no limit.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("memory://").max_waiters(50);
    /// # let _ = builder;
    /// ```
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.max_waiters = waiters;
        self
    }

    /// Whether clients of another kind (a hand-written `SET NX PX`, redis-py, redsync …) take locks with the same
    /// keys; true by default. They know nothing of the queue, so about one release in 128 leaves the lock free for a
    /// moment for them. That costs a few per cent of the hand-offs' speed under constant demand.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("memory://").foreign_clients(false);
    /// # let _ = builder;
    /// ```
    pub fn foreign_clients(mut self, foreign_clients: bool) -> Self {
        self.foreign_clients = foreign_clients;
        self
    }

    /// Whether to accept a server that may evict locks when it is full, by its `maxmemory-policy`; false by default:
    /// connecting fails with [`LockError::Misconfigured`].
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("memory://").allow_eviction(true);
    /// # let _ = builder;
    /// ```
    pub fn allow_eviction(mut self, allow_eviction: bool) -> Self {
        self.allow_eviction = allow_eviction;
        self
    }

    /// How many replicas of the server must have a lock before the caller has it; 0 by default. If there are fewer
    /// within the [`io_timeout`](Self::io_timeout), the lock is given back, and the caller gets
    /// [`LockError::NotReplicated`].
    ///
    /// A failover then gives a lock away twice less often, but it still can: a replica without the lock may be promoted,
    /// unless all must have it. It costs a second connection and one more round trip, with `WAIT`. Renewals are not
    /// confirmed.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("redis://127.0.0.1/").replicas(1);
    /// # let _ = builder;
    /// ```
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// How many callers of this process may get a lock from each other in a row, without asking the server, once this
    /// process has it; 0 by default: every lock goes to the longest waiter of all processes.
    ///
    /// For a lock that very many tasks of one process want at the same time: a hand-off within the process costs no round
    /// trip. This is [lock cohorting](https://doi.org/10.1145/2145816.2145848). Fencing tokens still grow with each holder,
    /// and a body still ends before its lease does. What changes:
    /// - The processes take turns, instead of the callers: a waiter may have so many bodies in front of it for each other
    ///   process that waits. Within a process it still is first come, first served.
    /// - One waiter of each process stands in the queue on the server. [`inspect`](LockManager::inspect) counts these;
    ///   [`max_waiters`](Self::max_waiters) limits these, and the waiters of each process.
    /// - A release within the process does not ask the server whether the lock still was there: it reports
    ///   [`Released`](crate::ReleaseOutcome::Released) unless the loss was known by then.
    ///
    /// Only callers with the same `ttl` follow each other. With several servers nothing changes.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("memory://").cohort(32);
    /// # let _ = builder;
    /// ```
    pub fn cohort(mut self, at_most: u32) -> Self {
        self.cohort = at_most;
        self
    }

    /// The certificate authorities that encrypted servers are checked against, in PEM form, instead of those that the
    /// system trusts. Needs the feature `tls`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = redlocked::LockManager::builder("rediss://redis.internal/")
    ///     .tls_ca(std::fs::read("ca.pem")?);
    /// # let _ = builder;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca = Some(pem.into());
        self
    }

    /// The certificate to show to a server that wants one (`tls-auth-clients yes`), followed by those between it and its
    /// authority, and its private key, both in PEM form. Neither is ever printed. Needs the feature `tls`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = redlocked::LockManager::builder("rediss://redis.internal/")
    ///     .tls_client(std::fs::read("shop.pem")?, std::fs::read("shop.key")?);
    /// # let _ = builder;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_client(mut self, certificate_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.tls.client = Some((certificate_pem.into(), key_pem.into()));
        self
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
