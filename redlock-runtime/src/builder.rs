//! [`LockManagerBuilder`]: the settings of a manager.

mod connect;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::address::Address;
use crate::base::credentials::Credentials;
use crate::base::telemetry::{Events, LockEvent};
use crate::defaults::Defaults;
use crate::engine::redis::connect::login::CredentialSource;
use crate::engine::redis::connect::tls::TlsSettings;

/// The settings of a [`LockManager`](crate::LockManager).
/// [`LockManager::builder`](crate::LockManager::builder) makes it with the defaults.
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
    address: Address,
    prefix: String,
    io_timeout: Duration,
    max_waiters: u32,
    defaults: Defaults,
    foreign_clients: bool,
    allow_eviction: bool,
    node_timeout: Duration,
    max_ttl: Duration,
    replicas: u32,
    cohort: u32,
    warn_after: Duration,
    own_thread: Option<bool>,
    tls: TlsSettings,
    credentials: Option<CredentialSource>,
    events: Events,
}

impl LockManagerBuilder {
    fn new(address: Address) -> Self {
        Self {
            address,
            prefix: "lock:".to_owned(),
            io_timeout: Duration::from_secs(1),
            max_waiters: 100_000,
            defaults: Defaults::default(),
            foreign_clients: true,
            allow_eviction: false,
            node_timeout: Duration::from_millis(200),
            max_ttl: Duration::ZERO,
            replicas: 0,
            cohort: 0,
            warn_after: Duration::from_secs(1),
            own_thread: None,
            tls: TlsSettings::default(),
            credentials: None,
            events: Events::default(),
        }
    }

    /// Adds a server: a lock on several servers survives the loss of any minority of them
    /// ([Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/)). The
    /// servers are independent primaries without replication between them, an odd number of three
    /// to seven. [`LockManager::connect`](crate::LockManager::connect) and the environment take the
    /// addresses in one text, with commas between them.
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
    pub fn node(mut self, address: impl Into<Address>) -> Self {
        self.address.push(&address.into());
        self
    }

    /// With several servers, how long a call waits for a server that does not answer; 200 ms by
    /// default, and never more than [`io_timeout`](Self::io_timeout) or a quarter of the ttl. Where
    /// a quorum is farther away, the limit is twice the round trip to it, measured when connecting.
    /// A call that the other answers have decided waits for no server.
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

    /// With several servers, the longest ttl that any manager uses on them, if it is longer than
    /// the ttls of this manager. A server that has restarted may have forgotten a lock, so it has
    /// no vote until it has been up for this long, unless it writes everything to disk before it
    /// answers (`appendonly yes`, `appendfsync always`).
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

    /// The start of every key on the server; `lock:` by default, and it may be empty. In a Cluster,
    /// a prefix with a brace must hold a whole hash tag, as `{shop}:` does; all locks are then in
    /// one slot. `%queue`, `%clock` and `%inbox` are reserved for the library's own keys, and `|`
    /// separates the parts of a push: a prefix with one of them fails with
    /// [`LockError::InvalidSetting`](crate::LockError::InvalidSetting) when connecting.
    ///
    /// One key that is reached through two prefixes excludes both, but has two clocks of fencing
    /// tokens.
    ///
    /// Clients that may write keys of this prefix, or publish to its channels, are trusted: they
    /// can take any of its locks away, and let two callers in.
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

    /// How long the server may take to answer, or to accept a connection, before the connection is
    /// replaced; one second by default. A request with a [`wait`](crate::LockRequest::wait) of zero
    /// fails after this time at the latest.
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

    /// How many callers may wait for one lock, over all processes; 100,000 by default. The next
    /// caller gets [`LockError::QueueFull`](crate::LockError::QueueFull) at once. With several
    /// servers there is no queue, hence no limit. A process that passes a lock on to its own next
    /// callers gives their places back together: up to 31 count for some 10 ms more.
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

    /// The [`ttl`](crate::LockRequest::ttl) of every lock that is asked for without one, by the
    /// attribute or by hand; 30 s by default, at least 10 ms, else connecting fails with
    /// [`LockError::InvalidSetting`](crate::LockError::InvalidSetting).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager, distributed_lock};
    ///
    /// #[distributed_lock(key = "stock:{sku}", guard = lock)]
    /// async fn purchase(sku: u32) -> Result<Duration, LockError> {
    ///     Ok(lock.remaining())
    /// }
    ///
    /// let builder = LockManager::builder("memory://default-ttl-example").default_ttl(Duration::from_secs(5));
    /// builder.connect().await?.set_global();
    /// assert!(purchase(42).await? <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// The [`wait`](crate::LockRequest::wait) of every call that is made without one, by the
    /// attribute or by hand; zero by default: one try.
    ///
    /// [`try_acquire`](crate::LockRequest::try_acquire) makes one try all the same. So does an
    /// attribute with `on_busy` and without `wait`: a job that skips its turn must not wait for it,
    /// and run a second time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let builder = LockManager::builder("memory://default-wait-example").default_wait(Duration::from_millis(50));
    /// let locks = builder.connect_blocking()?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// let late = locks.lock("stock:42").acquire_blocking();
    /// assert!(matches!(late, Err(LockError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = Some(wait);
        self
    }

    /// Every call that is made without a `wait` waits without a limit, as
    /// [`wait_forever`](crate::LockRequest::wait_forever) describes: also while Redis is down or
    /// refuses. A call with a `wait` of its own, [`try_acquire`](crate::LockRequest::try_acquire),
    /// and an attribute with `on_busy` and without `wait` have their limit all the same. Of this
    /// and [`default_wait`](Self::default_wait), the last one counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockManager, distributed_lock};
    ///
    /// #[distributed_lock(key = "queue:{name}", manager = locks)]
    /// async fn drain(locks: &LockManager, name: &str) -> Result<usize, redlocked::LockError> {
    ///     Ok(name.len())
    /// }
    ///
    /// let builder = LockManager::builder("memory://default-wait-forever-example").default_wait_forever();
    /// let locks = builder.connect().await?;
    /// let (first, second) = tokio::join!(drain(&locks, "mail"), drain(&locks, "mail"));
    /// assert_eq!(first? + second?, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_wait_forever(mut self) -> Self {
        self.defaults.wait = None;
        self
    }

    /// The [`max_hold`](crate::LockRequest::max_hold) of every lock that is asked for without one,
    /// by the attribute or by hand; unlimited by default. At least 10 ms, else connecting fails
    /// with [`LockError::InvalidSetting`](crate::LockError::InvalidSetting). A request with a longer
    /// [`min_hold`](crate::LockRequest::min_hold) fails with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let builder = LockManager::builder("memory://default-max-hold-example").default_max_hold(Duration::from_millis(20));
    /// let locks = builder.connect().await?;
    /// let hangs = locks.lock("import").run_value(async |_| std::future::pending::<()>().await);
    /// assert!(matches!(hangs.await, Err(LockError::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = Some(max_hold);
        self
    }

    /// Whether calls that do not say so return without waiting for their release, as
    /// [`release_in_background`](crate::LockRequest::release_in_background) describes; false by
    /// default. A call with [`OnLost::Error`](crate::OnLost::Error) waits for it all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let builder = LockManager::builder("memory://default-background-example").default_release_in_background(true);
    /// let locks = builder.connect().await?;
    /// assert_eq!(locks.lock("stock:42").run_value(async |_guard| 41).await?, 41);
    /// // The next call of this process comes behind that release.
    /// locks.lock("stock:42").run_value(async |_guard| ()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_release_in_background(mut self, in_background: bool) -> Self {
        self.defaults.release_in_background = in_background;
        self
    }

    /// Whether clients of another kind (a hand-written `SET NX PX`, redis-py, redsync …) take locks
    /// with the same keys; true by default. These clients do not join the queue, so about one
    /// release in 128 leaves the lock free for 1 to 3 ms, in which they can take it, and so can a
    /// caller that comes just then. One that polls each 2 ms or sooner gets it each time; one that
    /// polls each 100 ms, one time in fifty. Under constant demand that slows hand-offs by a few
    /// per cent. The lead of an [election](crate::LockManager::election) is always handed over: a
    /// leader that resigns would be the first to find it free.
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

    /// Whether to accept a server that may evict locks when it is full, by its `maxmemory-policy`;
    /// false by default: connecting fails with
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured). In an address, the parameter
    /// `?allow_eviction=true` says the same.
    ///
    /// If the policy is changed while the manager runs, it keeps its locks, and logs a warning when it
    /// connects again.
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

    /// How many replicas of the server must confirm a lock, and the result or the tick that a call
    /// keeps, with
    /// [`WAIT`](https://redis.io/docs/latest/commands/wait/), before the caller has it; 0 by
    /// default. When fewer have confirmed it at the end of the caller's wait, or after a quarter of
    /// the [`io_timeout`](Self::io_timeout) if that is sooner, the lock is released, and the caller
    /// gets [`LockError::NotReplicated`](crate::LockError::NotReplicated).
    ///
    /// A failover then lets two callers in less often. It still can: a replica without the lock may
    /// be promoted, unless all replicas must confirm. `WAIT` costs a second connection and one more
    /// round trip. Renewals are not confirmed.
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

    /// `true` gives the engine of this manager a thread of its own; `false` says that the tokio
    /// runtimes of its callers have I/O and timers, as with `#[tokio::main]` or `enable_all`. That
    /// counts in a program that is built with `panic = "abort"`. In every other program, and by
    /// default, the engine finds out.
    ///
    /// By default the engine runs on the tokio runtime of its callers, where no outcome crosses
    /// threads, and moves to a thread of its own when that runtime is dropped or blocked for some
    /// 100 ms, or when callers have no runtime. Each move is a new connection. A blocked caller
    /// without a runtime runs the engine itself until its outcome is there. A thread from the start
    /// is for services whose tasks often block their runtime.
    ///
    /// In a runtime without I/O or timers the engine has that thread, too. Tokio tells of such a
    /// runtime only by a panic, which is caught, and of which the panic hook of the program does
    /// not hear. In a program that is built with `panic = "abort"` there is no such panic: the
    /// engine has its thread, where each outcome crosses threads, unless `own_thread(false)` says
    /// that it needs none. Such a program aborts when that is not so.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = redlocked::LockManager::builder("redis://127.0.0.1/").own_thread(true);
    /// # let _ = builder;
    /// ```
    pub fn own_thread(mut self, own_thread: bool) -> Self {
        self.own_thread = Some(own_thread);
        self
    }

    /// How many callers of this process, once it has a lock, may pass it to each other in a row
    /// without asking the server; 0 by default: every release passes the lock to the longest waiter
    /// of all processes.
    ///
    /// For a hot key: a hand-off within the process costs no round trip, in exchange for first
    /// come, first served across processes. This is [lock
    /// cohorting](https://doi.org/10.1145/2145816.2145848). Fencing tokens still grow with each
    /// holder of a lock, and a body still ends before its lease does. The differences:
    /// - Fencing tokens of different locks are not ordered any more: a process draws those of its
    ///   next bodies in advance.
    /// - Processes take turns instead of callers: a waiter may have `at_most` bodies in front of it
    ///   for each other process that waits. Within a process the longest waiter is still the next
    ///   holder.
    /// - One waiter of each process stands in the queue on the server.
    ///   [`inspect`](crate::LockManager::inspect) counts these waiters;
    ///   [`max_waiters`](Self::max_waiters) limits these, and the waiters of each process.
    /// - A release within the process does not ask the server whether the key is still there: its
    ///   outcome is [`Released`](crate::ReleaseOutcome::Released) unless the process already knew
    ///   of the loss.
    ///
    /// Only callers with the same `ttl` pass the lock to each other. With several servers the
    /// setting has no effect.
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

    /// Where user and password come from, when they change while the program runs: a secret store,
    /// a file that is replaced, a token that expires. `ask` is called at each connect to a server,
    /// and once more when the server refuses what it gave. Locks that are held stay held: an open
    /// connection goes on with the password that it was opened with, and the next one asks.
    ///
    /// The calls run as tasks on the tokio runtime that the manager uses at the time. Each has
    /// three quarters of the [`io_timeout`](Self::io_timeout). An error, a panic, or no answer in
    /// time is [`LockError::Unavailable`](crate::LockError::Unavailable), and the manager tries
    /// again, some times a second; credentials that the server refuses twice are
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured).
    ///
    /// For all servers of the manager: one, a quorum, the nodes of a Cluster, and the primary
    /// behind Sentinel. The sentinels themselves have `sentinel_user` and `sentinel_password` in
    /// the address. An address with a user or a password is refused with
    /// [`LockError::InvalidUrl`](crate::LockError::InvalidUrl); `memory://` has no users and does
    /// not ask.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{Credentials, LockManager};
    ///
    /// let locks = LockManager::builder("redis://redis.internal/")
    ///     .credentials(async || {
    ///         let password = tokio::task::spawn_blocking(|| std::fs::read_to_string("/run/secrets/redis"));
    ///         std::io::Result::Ok(Credentials::new("shop", password.await??.trim_end()))
    ///     })
    ///     .connect()
    ///     .await?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials<F, E>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.credentials = Some(CredentialSource::new(ask));
        self
    }

    /// After how long a wait is reported to `tracing`, by a warning with the key, the holder and
    /// the number of waiters in front; one second by default. Again when the wait is four times as
    /// long, and so on; one line says how it ended. With [`Duration::MAX`], no wait is reported.
    /// Needs the feature `tracing`.
    ///
    /// Each warning costs one request, which asks the server for the holder. Of the waiters of one
    /// key in this process, one is reported at a time, until its wait ends; the warning says how
    /// many they are.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = redlocked::LockManager::builder("memory://").warn_after(Duration::from_secs(5));
    /// # let _ = builder;
    /// ```
    #[cfg(feature = "tracing")]
    pub fn warn_after(mut self, wait: Duration) -> Self {
        self.warn_after = wait;
        self
    }

    /// The certificate authorities, in PEM form, that sign the servers' certificates, instead of
    /// those that the system trusts. Needs the feature `tls`.
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

    /// The client certificate for a server that demands one (`tls-auth-clients yes`), followed by
    /// the intermediate certificates, and its private key, both in PEM form. Neither is ever
    /// printed. Needs the feature `tls`.
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

    /// `tell` is called when a call of this manager has a lock, when a lock is lost while it is
    /// held, and when a call fails because another caller has the lock: for what neither metrics
    /// nor spans reach, such as a page, a counter of the service's own, or a switch that follows a
    /// leader's lock.
    ///
    /// It runs inside the call, and for a loss on the thread that finds it, which may be the
    /// engine's, on which all locks of the manager depend: it must return at once. It may send to a
    /// channel; it must not block, take a lock, or wait for one. It may run on several threads at
    /// the same time. A panic in it is caught, and leaves a line in the log with the feature
    /// `tracing`; a program that is built with `panic = "abort"` ends.
    ///
    /// `Acquired` fires before the body runs; `Lost` fires later, if at all. A release and the end
    /// of a process fire no event. With a second call, the last callback counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockEvent, LockManager};
    ///
    /// let (told, mut events) = tokio::sync::mpsc::unbounded_channel();
    /// let builder = LockManager::builder("memory://on-event-example").on_event(move |event| {
    ///     if let LockEvent::Lost { key, reason, .. } = event {
    ///         let _ = told.send(format!("{key}: {}", reason.as_str()));
    ///     }
    /// });
    /// let locks = builder.connect().await?;
    /// let _guard = locks.lock("leader").acquire().await?;
    /// locks.force_release("leader").await?;
    /// assert_eq!(events.recv().await.as_deref(), Some("leader: force_released"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(mut self, tell: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.events = Events::new(tell);
        self
    }
}

impl fmt::Debug for LockManagerBuilder {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder")
            .field("prefix", &self.prefix)
            .field("io_timeout", &self.io_timeout)
            .finish_non_exhaustive()
    }
}
