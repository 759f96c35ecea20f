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
/// [`LockManager::builder`](crate::LockManager::builder) returns them with their defaults.
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

    /// Adds a server to a quorum. A lock on several servers survives the loss of any minority of
    /// them ([Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/)). A
    /// quorum has 3, 5 or 7 servers, which are independent primaries: none replicates another.
    /// [`LockManager::connect`](crate::LockManager::connect) and the environment accept the
    /// addresses in one text, separated by commas.
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

    /// Sets how long a call to a quorum waits for a server that does not answer; 200 ms by
    /// default, and never more than [`io_timeout`](Self::io_timeout) or a quarter of the TTL. If
    /// the measured round trip to a majority is more than half of this time, the limit is twice
    /// that round trip. A call stops waiting as soon as the answers so far decide it.
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

    /// Sets the longest TTL that any manager uses on the servers of a quorum, if it is longer than
    /// the TTLs of this manager. A restarted server may have forgotten a lock, so it gets no vote
    /// until it has been up for this long. A server that writes to disk before it answers
    /// (`appendonly yes`, `appendfsync always`) gets its vote at once.
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

    /// Sets the prefix of every key on the server; `lock:` by default, and it may be empty. In a
    /// Cluster, a prefix with a brace must contain a whole hash tag, such as `{shop}:`; all locks
    /// are then in one slot. The prefix must not contain `%queue`, `%clock` or `%inbox`, which
    /// name the library's own keys, nor `|`, which separates the parts of a push: otherwise,
    /// connecting fails with [`LockError::InvalidSetting`](crate::LockError::InvalidSetting).
    ///
    /// If two prefixes form the same name on the server (`a:` with `b:7`, `a:b:` with `7`), the
    /// lock excludes the callers of both, but each prefix has its own clock of fencing tokens.
    ///
    /// Redis clients that may write keys of this prefix, or publish to its channels, are trusted:
    /// they can delete any of its locks, so that two callers hold that lock.
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

    /// Sets how long the server may take to answer, or to accept a connection, before the manager
    /// reconnects; one second by default. A request with a [`wait`](crate::LockRequest::wait) of
    /// zero fails after this time at the latest.
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

    /// Sets how many callers of all processes may wait for one lock; 100,000 by default. The next
    /// caller gets [`LockError::QueueFull`](crate::LockError::QueueFull) at once. A quorum has no
    /// queue, and so no limit. If a process passes a lock on to its own next callers without the
    /// server, up to 31 of them still count for about 10 ms.
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

    /// Sets the [`ttl`](crate::LockRequest::ttl) of requests that set none, by the attribute or by
    /// hand; 30 s by default. Below 10 ms, connecting fails with
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

    /// Sets the [`wait`](crate::LockRequest::wait) of requests that set none, by the attribute or
    /// by hand; zero by default, which is one try.
    ///
    /// [`try_acquire`](crate::LockRequest::try_acquire) ignores it, and makes one try. So does an
    /// attribute with `on_busy` and without `wait`: it skips a job that already runs, and must not
    /// run that job again after a wait.
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

    /// Lets requests that set no `wait` wait without a limit, also while Redis is down or
    /// refuses the lock, as [`wait_forever`](crate::LockRequest::wait_forever) describes. It
    /// does not apply to a request with its own `wait`, to
    /// [`try_acquire`](crate::LockRequest::try_acquire), or to an attribute with `on_busy` and
    /// without `wait`. Of this call and [`default_wait`](Self::default_wait), the last one
    /// counts.
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

    /// Sets the [`max_hold`](crate::LockRequest::max_hold) of requests that set none, by the
    /// attribute or by hand; unlimited by default. Below 10 ms, connecting fails with
    /// [`LockError::InvalidSetting`](crate::LockError::InvalidSetting). A request with a longer
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

    /// Sets the [`release_in_background`](crate::LockRequest::release_in_background) of requests
    /// that do not set it, by the attribute or by hand; false by default. With `true`, a call
    /// returns without waiting for its release. A call with
    /// [`OnLost::Error`](crate::OnLost::Error) always waits.
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
    /// // The next call of this process follows that release.
    /// locks.lock("stock:42").run_value(async |_guard| ()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_release_in_background(mut self, in_background: bool) -> Self {
        self.defaults.release_in_background = in_background;
        self
    }

    /// Sets whether clients of another kind (a hand-written `SET NX PX`, redis-py, redsync …) take
    /// locks with the same keys; true by default. These clients do not join the queue. So with
    /// `true`, about one release in 128 leaves the lock free for 1 to 3 ms. Such a client, or a
    /// caller that arrives at that moment, can then take it. A client that polls every 2 ms gets
    /// it each time, and a client that polls every 100 ms one time in fifty. Under constant
    /// demand, this slows hand-offs by a few percent. The lock of an
    /// [election](crate::LockManager::election) is always handed over, because a leader that
    /// resigns would otherwise be the first to find it free.
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

    /// Sets whether to accept a server whose `maxmemory-policy` may evict locks when its memory is
    /// full; false by default. With `false`, connecting to such a server fails with
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured). The parameter
    /// `?allow_eviction=true` of an address has the same effect.
    ///
    /// If the policy changes while the manager runs, the manager keeps its locks. When it
    /// reconnects, it logs a warning, and
    /// [`Capabilities::may_evict`](crate::Capabilities::may_evict) is true.
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

    /// Sets how many replicas of the server must confirm a lock with
    /// [`WAIT`](https://redis.io/docs/latest/commands/wait/) before its caller gets it; 0 by
    /// default. They also confirm the stored result of a call, or its tick. If fewer replicas
    /// confirm before the caller's wait ends, or within a quarter of the
    /// [`io_timeout`](Self::io_timeout) if that is sooner, the manager releases the lock, and the
    /// caller gets [`LockError::NotReplicated`](crate::LockError::NotReplicated).
    ///
    /// Confirmations make it less likely that two callers hold the same lock after a failover.
    /// It can still happen if a replica without the lock is promoted. To exclude that, all
    /// replicas must confirm. `WAIT` costs a
    /// second connection and one more round trip. Replicas do not confirm renewals.
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

    /// Sets where the engine of this manager runs:
    /// - With `true`, the engine runs on a thread outside of the callers' runtimes from the
    ///   start. All managers of the process with `true` share this thread. This is for services
    ///   whose tasks often block their runtime.
    /// - With `false`, you state that the tokio runtimes of the callers have I/O and timers, as
    ///   with `#[tokio::main]` or `enable_all`. This matters only in a program that is built with
    ///   `panic = "abort"`.
    /// - If you do not call this, the engine runs on the tokio runtime of its callers, after it
    ///   has checked that runtime.
    ///
    /// On the runtime of its callers, the engine passes no outcome from one thread to another.
    /// The engine moves to its own thread when that runtime is dropped or blocked for about 100
    /// ms, or when callers have no runtime. If 64 engines have their own threads, further engines
    /// share one thread. Each move opens a new connection. A blocked caller without a runtime
    /// polls the engine itself until its outcome arrives.
    ///
    /// In a runtime without I/O or timers, the engine has its own thread, too. Only a panic of
    /// tokio reveals such a runtime: the engine catches it, and the panic hook of the program does
    /// not run. A program that is built with `panic = "abort"` cannot catch it. There, the engine
    /// has its own thread, unless `own_thread(false)` states that it needs none. If that statement
    /// is wrong, the program aborts.
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

    /// Sets how many callers of this process may pass a lock to each other in a row without a
    /// request to the server; 0 by default. With 0, every release passes the lock to the longest
    /// waiter of all processes.
    ///
    /// Use it for a hot key: a hand-off within the process costs no round trip, but waiters of
    /// different processes are no longer served first come, first served. This is [lock
    /// cohorting](https://doi.org/10.1145/2145816.2145848). Fencing tokens still grow with each
    /// holder of a lock, and a body still ends before its lease does. The differences:
    /// - Fencing tokens of different locks are not ordered any more: a process draws the tokens of
    ///   its next bodies in advance.
    /// - Processes take turns instead of callers: for each other process that waits, up to
    ///   `at_most` bodies may run before a waiter gets the lock. Within a process the longest
    ///   waiter is still the next holder.
    /// - One waiter of each process is in the queue on the server.
    ///   [`inspect`](crate::LockManager::inspect) counts only these waiters.
    ///   [`max_waiters`](Self::max_waiters) limits them, and, separately, the waiters of each
    ///   process.
    /// - A release within the process does not ask the server whether the key still exists. Its
    ///   outcome is [`Released`](crate::ReleaseOutcome::Released) unless the process already knew
    ///   of the loss.
    ///
    /// Only callers with the same `ttl` pass the lock to each other. A quorum ignores this
    /// setting.
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

    /// Sets a callback that returns the user and the password, for credentials that change while
    /// the program runs: a secret store, a file that is replaced, a token that expires. The
    /// manager calls `ask` for each new connection, and once more if the server refuses the
    /// credentials. Held locks stay held: an open connection keeps the password that it was opened
    /// with.
    ///
    /// The calls of `ask` run as tasks on the tokio runtime that the manager uses at that time.
    /// Each call may take three quarters of the [`io_timeout`](Self::io_timeout). After an error,
    /// a panic or a timeout of `ask`, callers get
    /// [`LockError::Unavailable`](crate::LockError::Unavailable), and the manager retries a few
    /// times a second. If the server refuses the credentials twice, callers get
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured).
    ///
    /// It applies to all servers of the manager: one server, a quorum, the nodes of a Cluster, and
    /// the primary behind Sentinel. The sentinels themselves use `sentinel_user` and
    /// `sentinel_password` of the address. Connecting to an address with a user or a password
    /// fails with [`LockError::InvalidUrl`](crate::LockError::InvalidUrl). `memory://` has no
    /// users, and never calls `ask`.
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

    /// Sets how long a call waits before the manager logs a warning to `tracing`, with the key,
    /// the holder and the number of waiters in front; one second by default. The next warning
    /// follows when the wait is four times as long, and so on. The last line says how the wait
    /// ended. With [`Duration::MAX`], the manager logs no wait. Needs the feature `tracing`.
    ///
    /// Each warning costs one request, which asks the server for the holder. In this process, the
    /// manager logs one waiter of a key at a time, until the wait of that waiter ends; the
    /// warning says how many wait.
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

    /// Sets the certificate authorities, in PEM form, that sign the servers' certificates. They
    /// replace the authorities that the system trusts. Needs the feature `tls`.
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

    /// Sets the client certificate for a server that demands one (`tls-auth-clients yes`), and
    /// its private key, both in PEM form. Intermediate certificates follow the client's. The
    /// library prints neither the certificates nor the key. Needs the feature `tls`.
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

    /// Sets a callback for events: `tell` runs when a call of this manager acquires a lock, when a
    /// held lock is lost, when a call fails because another caller has the lock, and when the term
    /// of a leader ends. Metrics and spans report the same events. A callback can also page an
    /// engineer, count events, or follow a leader.
    ///
    /// The callback must return at once: it may send to a channel, but must not block, acquire a
    /// lock, or wait for one. It runs inside the call. For a loss, it runs on the thread that
    /// detects the loss, which may be the thread of the engine: if the callback blocks that
    /// thread, no lock of the manager is renewed. The callback may run on several threads at the
    /// same time. The manager catches a panic of the callback, and logs a line with the feature
    /// `tracing`. A program that is built with `panic = "abort"` aborts.
    ///
    /// `Acquired` fires before the body runs; `Lost` fires later, if at all. The manager sends no
    /// event for a release, or when the process ends. A second call of `on_event` replaces the callback.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockEvent, LockManager};
    ///
    /// let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    /// let builder = LockManager::builder("memory://on-event-example").on_event(move |event| {
    ///     if let LockEvent::Lost { key, reason, .. } = event {
    ///         let _ = sender.send(format!("{key}: {}", reason.as_str()));
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
    /// Leaves out the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder")
            .field("prefix", &self.prefix)
            .field("io_timeout", &self.io_timeout)
            .finish_non_exhaustive()
    }
}
