//! [`Testing`]: what the test of a user does to a lock in memory, and what it asks.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::environment;
use crate::base::error::{Holder, LockError};
use crate::base::key;
use crate::base::token::Token;
pub use crate::engine::tested::Calls;
use crate::engine::tested::Tested;
use crate::inspect::{LockInfo, release_of};
use crate::manager::LockManager;
use crate::options::Sharing;

thread_local! {
    static HERE: RefCell<Option<LockManager>> = const { RefCell::new(None) };
}

/// The process-wide manager of this thread, if a test has set one.
pub(crate) fn global_here() -> Option<LockManager> {
    // A thread that is ending has none any more.
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

/// A test's hand on the node of a `memory://` manager, from [`LockManager::testing`]. Needs the
/// feature `testing`.
///
/// What it does concerns the node: every manager of the same `memory://` name, and none of another
/// name. No call waits or blocks. An engine processes it when its runtime runs it next: an async
/// test awaits something, such as the call under test.
///
/// [Testing](../../redlocked/docs/testing/index.html) shows whole tests.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(key = "stock:{sku}", manager = locks)]
/// async fn purchase(locks: &LockManager, sku: u32) -> Result<(), LockError> {
///     Ok(())
/// }
///
/// let locks = LockManager::connect("memory://testing-example").await?;
/// let node = locks.testing()?;
///
/// let held = node.hold("stock:42", "shop::refund")?;
/// assert!(purchase(&locks, 42).await.is_err_and(|error| error.is_busy()));
/// drop(held);
///
/// node.set_unreachable();
/// assert!(matches!(purchase(&locks, 42).await, Err(LockError::Unavailable { .. })));
/// node.recover();
///
/// purchase(&locks, 42).await?;
/// assert_eq!(node.calls("stock:42").acquired, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Testing {
    locks: LockManager,
}

impl LockManager {
    /// A test's hand on the node of this manager, which must be one node in memory
    /// (`memory://name`). Needs the feature `testing`. From now on, the environment names no
    /// process-wide manager, as after [`Testing::ignore_environment`].
    ///
    /// # Errors
    ///
    /// [`LockError::Misconfigured`] for a manager of a server or of several nodes: a test does not
    /// break those from inside.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect_blocking("memory://testing-handle-example")?;
    /// assert!(!locks.testing()?.is_locked("stock:42"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn testing(&self) -> Result<Testing, LockError> {
        match self.engine().tested() {
            Some(_) => {
                Testing::ignore_environment();
                Ok(Testing { locks: self.clone() })
            }
            None => Err(LockError::Misconfigured { key: None, reason: NOT_IN_MEMORY.into() }),
        }
    }
}

const NOT_IN_MEMORY: &str = "`testing` is for a manager of one node in memory: connect this one to `memory://` and a name of your choice";

impl Testing {
    /// Connects a manager to the node in memory of this name, `memory://name`: a test gives its own
    /// name. Needs the feature `testing`.
    ///
    /// The manager is connected on the runtime of the caller, so it follows the clock of the test.
    /// The node is forgotten when the last of its managers and guards is gone.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidUrl`] for a name that no address can have.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlock_runtime::Testing;
    /// use redlocked::{LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "stock:{sku}")]
    /// async fn purchase(sku: u32) -> Result<u32, LockError> {
    ///     Ok(sku)
    /// }
    ///
    /// let node = Testing::connect("testing-connect-example").await?;
    /// let _global = node.global_here();
    /// let held = node.hold("stock:42", "shop::refund")?;
    /// assert!(purchase(42).await.is_err_and(|error| error.is_busy()));
    /// drop(held);
    /// assert_eq!(purchase(42).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(name: &str) -> Result<Self, LockError> {
        LockManager::connect(format!("memory://{name}")).await?.testing()
    }

    /// As [`connect`](Self::connect), for a test without a runtime.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlock_runtime::Testing;
    /// let node = Testing::connect_blocking("testing-connect-blocking-example")?;
    /// assert!(!node.is_locked("stock:42"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(name: &str) -> Result<Self, LockError> {
        LockManager::connect_blocking(format!("memory://{name}"))?.testing()
    }

    /// From now on, `REDLOCK_URL` and `REDIS_URL` make no process-wide manager in this process: a call
    /// that finds no other manager is [`LockError::NotConfigured`], and does not lock the server that
    /// they name. The first `Testing` of a process does the same. This call is for a test that may run
    /// before that, and for tests that use no `Testing`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use redlock_runtime::Testing;
    /// use redlocked::{LockError, LockManager};
    ///
    /// Testing::ignore_environment();
    /// assert!(matches!(LockManager::global(), Err(LockError::NotConfigured)));
    /// ```
    pub fn ignore_environment() {
        environment::ignore();
    }

    /// The manager that this was made from: for a function with `manager = …`, or a type that has
    /// one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockError, LockManager, distributed_lock};
    ///
    /// struct Shop {
    ///     locks: LockManager,
    /// }
    ///
    /// impl Shop {
    ///     #[distributed_lock(key = "stock:{sku}", manager = self.locks)]
    ///     async fn purchase(&self, sku: u32) -> Result<(), LockError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let node = LockManager::connect("memory://testing-manager-example").await?.testing()?;
    /// let shop = Shop { locks: node.manager() };
    /// let held = node.hold("stock:42", "shop::refund")?;
    /// assert!(shop.purchase(42).await.is_err_and(|error| error.is_busy()));
    /// drop(held);
    /// shop.purchase(42).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn manager(&self) -> LockManager {
        self.locks.clone()
    }

    /// True while any caller holds the lock on the node.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://is-locked-example")?;
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// assert!(locks.testing()?.is_locked("stock:42"));
    /// guard.release_blocking()?;
    /// assert!(!locks.testing()?.is_locked("stock:42"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_locked(&self, key: &str) -> bool {
        self.holder(key).is_some()
    }

    /// The holder of the lock, as the node has it; `None` while the lock is free.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://holder-of-example")?;
    /// let _guard = locks.lock("report").label("nightly").acquire_blocking()?;
    /// let holder = locks.testing()?.holder("report");
    /// assert!(holder.is_some_and(|holder| holder.function() == Some("nightly")));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holder(&self, key: &str) -> Option<Holder> {
        let found = self.tested()?.node().inspect(&self.locks.name(key))?;
        Some(LockInfo::new(key, found).holder().clone())
    }

    /// All that hold the lock together, [`shared`](crate::LockRequest::shared) or with
    /// [`permits`](crate::LockRequest::permits), as [`LockInfo::holders`](crate::LockInfo::holders); the
    /// one that has it alone; nobody when it is free.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://testing-holders-example")?;
    /// let reads = || locks.lock("catalogue").shared().label("read").acquire_blocking();
    /// let _readers = [reads()?, reads()?];
    /// let node = locks.testing()?;
    /// assert!(node.holders("catalogue").iter().all(|holder| holder.function() == Some("read")));
    /// assert_eq!((node.holders("catalogue").len(), node.holders("stock").len()), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holders(&self, key: &str) -> Vec<Holder> {
        let found = self.tested().and_then(|tested| tested.node().inspect(&self.locks.name(key)));
        found.map(|found| LockInfo::new(key, found).holders().to_vec()).unwrap_or_default()
    }

    /// Sets the time of the node, from which it goes on: the one that names the
    /// [tick](crate::LockRequest::tick) of a call. Without this, it begins as that of the machine, and
    /// goes on with the clock of the manager, also where a test has paused that.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// # let locks = redlocked::LockManager::connect_blocking("memory://set-time-example")?;
    /// let node = locks.testing()?;
    /// let hourly = || locks.lock("report").tick(Duration::from_secs(3600)).run_value_blocking(|guard| guard.tick());
    /// let ten = UNIX_EPOCH + Duration::from_secs(1_795_687_200);
    ///
    /// node.set_time(ten - Duration::from_secs(2)); // a timer that fires a little early
    /// assert_eq!(hourly()?, Some(ten));
    /// node.set_time(ten + Duration::from_secs(2)); // and that of another replica, a little late
    /// assert!(hourly().is_err_and(|error| error.is_busy()));
    /// node.set_time(ten + Duration::from_secs(3600));
    /// assert_eq!(hourly()?, Some(ten + Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_time(&self, time: SystemTime) {
        if let Some(tested) = self.tested() {
            tested.node().set_time(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        }
    }

    /// The calls for this key so far, of this manager and its clones.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://calls-of-example")?;
    /// locks.lock("stock:42").run_value_blocking(|_| ())?;
    /// assert_eq!(locks.testing()?.calls("stock:42").acquired, 1);
    /// assert_eq!(locks.testing()?.calls("stock:7").attempts, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn calls(&self, key: &str) -> Calls {
        self.tested().map(|tested| tested.calls(key)).unwrap_or_default()
    }

    /// Takes the lock away from its holder, as [`force_release`](LockManager::force_release) of
    /// another process does: the holder loses it with
    /// [`LostReason::KeyChanged`](crate::LostReason::KeyChanged), and the next waiter gets the
    /// lock. Returns the holder; `None` when the lock is free.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LostReason;
    /// # let locks = redlocked::LockManager::connect("memory://take-away-example").await?;
    /// let guard = locks.lock("import").acquire().await?;
    /// locks.testing()?.take_away("import");
    /// assert_eq!(guard.lost().await, LostReason::KeyChanged);
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most tests know who holds it")]
    pub fn take_away(&self, key: &str) -> Option<Holder> {
        Some(self.tested()?.node().force_release(&self.locks.name(key))?.holder)
    }

    /// Takes the lock from this holder, which [`holder`](Self::holder) or [`holders`](Self::holders)
    /// has shown, as [`force_release_from`](LockManager::force_release_from) of another process does.
    /// One of several holders loses its place with [`LostReason::Revoked`](crate::LostReason::Revoked),
    /// and the others keep theirs. True when it had the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LostReason;
    /// # let locks = redlocked::LockManager::connect("memory://take-away-from-example").await?;
    /// let node = locks.testing()?;
    /// let other = node.hold_shared("catalogue", "other")?;
    /// let guard = locks.lock("catalogue").shared().label("read").acquire().await?;
    /// for holder in node.holders("catalogue") {
    ///     if holder.function() == Some("read") {
    ///         assert!(node.take_away_from("catalogue", &holder));
    ///     }
    /// }
    /// assert_eq!(guard.lost().await, LostReason::Revoked);
    /// assert_eq!(node.holders("catalogue").len(), 1);
    /// # drop(other);
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most tests know who holds it")]
    pub fn take_away_from(&self, key: &str, holder: &Holder) -> bool {
        let Some(tested) = self.tested() else { return false };
        let Ok(Some((token, release))) = release_of(holder) else { return false };
        tested.node().release_from(&self.locks.name(key), token, release)
    }

    /// Holds the lock for a caller of another process, which renews it until the returned value is
    /// dropped. Errors and [`holder`](Self::holder) show `function` as the function of that caller.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] when the lock is held, [`LockError::InvalidKey`] for a key that no lock
    /// can have.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://hold-example")?;
    /// let held = locks.testing()?.hold("stock:42", "shop::refund")?;
    /// let busy = locks.lock("stock:42").acquire_blocking().unwrap_err();
    /// assert!(busy.to_string().contains("shop::refund"));
    /// drop(held);
    /// locks.lock("stock:42").run_value_blocking(|_| ())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold(&self, key: &str, function: &str) -> Result<HeldElsewhere, LockError> {
        self.hold_as(Sharing::Exclusive, key, function)
    }

    /// [`hold`](Self::hold), [`shared`](crate::LockRequest::shared): readers enter beside it, and a
    /// writer does not.
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://hold-shared-example")?;
    /// let node = locks.testing()?;
    /// let _readers = [node.hold_shared("catalogue", "shop::read")?, node.hold_shared("catalogue", "shop::list")?];
    /// locks.lock("catalogue").shared().run_value_blocking(|_| ())?;
    /// assert!(locks.lock("catalogue").acquire_blocking().is_err_and(|error| error.is_busy()));
    /// assert_eq!(node.holders("catalogue").len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_shared(&self, key: &str, function: &str) -> Result<HeldElsewhere, LockError> {
        self.hold_as(Sharing::Shared, key, function)
    }

    /// [`hold`](Self::hold), with one of so many [`permits`](crate::LockRequest::permits).
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold); [`LockError::InvalidRequest`] for a number that is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://hold-permit-example")?;
    /// let node = locks.testing()?;
    /// let _both = [node.hold_permit("smtp", 2, "mail::send")?, node.hold_permit("smtp", 2, "mail::send")?];
    /// assert!(locks.lock("smtp").permits(2).acquire_blocking().is_err_and(|error| error.is_busy()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_permit(&self, key: &str, permits: u32, function: &str) -> Result<HeldElsewhere, LockError> {
        self.hold_as(Sharing::Exclusive.permits(permits), key, function)
    }

    /// As [`hold_permit`](Self::hold_permit), for a caller that [takes](crate::LockRequest::take)
    /// several of the permits.
    ///
    /// # Errors
    ///
    /// As [`hold_permit`](Self::hold_permit); and [`LockError::InvalidRequest`] where it takes none, or more
    /// than there are.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://hold-permits-example")?;
    /// let _job = locks.testing()?.hold_permits("gpu", 16, 12, "train")?;
    /// assert!(locks.lock("gpu").permits(16).take(5).acquire_blocking().is_err_and(|error| error.is_busy()));
    /// assert!(locks.lock("gpu").permits(16).take(4).acquire_blocking().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_permits(
        &self,
        key: &str,
        permits: u32,
        take: u32,
        function: &str,
    ) -> Result<HeldElsewhere, LockError> {
        self.hold_as(Sharing::Exclusive.permits(permits).take(take), key, function)
    }

    fn hold_as(&self, sharing: Sharing, key: &str, function: &str) -> Result<HeldElsewhere, LockError> {
        let (name, token) = self.hold_elsewhere(key, function, sharing, None)?;
        Ok(HeldElsewhere { testing: self.clone(), name, token })
    }

    /// As [`hold`](Self::hold), for a caller that vanishes: the lock expires after `lasts`.
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://hold-for-example").await?;
    /// tokio::time::pause();
    /// locks.testing()?.hold_for("stock:42", "shop::refund", Duration::from_secs(30))?;
    /// locks.lock("stock:42").wait(Duration::from_secs(60)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_for(&self, key: &str, function: &str, lasts: Duration) -> Result<(), LockError> {
        self.hold_elsewhere(key, function, Sharing::Exclusive, Some(lasts)).map(drop)
    }

    fn hold_elsewhere(
        &self,
        key: &str,
        function: &str,
        sharing: Sharing,
        lasts: Option<Duration>,
    ) -> Result<(Arc<str>, Token), LockError> {
        key::validate(self.locks.prefix(), key)?;
        let name = self.locks.name(key);
        let key: Arc<str> = key.into();
        let limit = sharing.checked(&key)?;
        let Some(tested) = self.tested() else {
            return Err(LockError::misconfigured(&key, NOT_IN_MEMORY));
        };
        let token = tested.node().hold_elsewhere(&key, &name, function, limit, lasts)?;
        Ok((name, token))
    }

    /// Nothing reaches the node: connections end, new ones are refused, and calls fail with
    /// [`LockError::Unavailable`] or wait. Its locks expire meanwhile. [`recover`](Self::recover)
    /// ends it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://unreachable-example")?;
    /// locks.testing()?.set_unreachable();
    /// let error = locks.lock("stock:42").acquire_blocking().unwrap_err();
    /// assert!(matches!(error, LockError::Unavailable { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_unreachable(&self) {
        self.with_node(|tested| tested.node().set_unreachable());
    }

    /// From now on a request and its reply take this long together. With more than the
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout), the node does not answer in time:
    /// what it has executed is not known, as with a network that drops packets.
    /// [`recover`](Self::recover) ends it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://latency-example").await?;
    /// tokio::time::pause();
    /// let start = tokio::time::Instant::now();
    /// locks.testing()?.set_latency(Duration::from_millis(300));
    /// let _guard = locks.lock("stock:42").acquire().await?;
    /// assert!(start.elapsed() >= Duration::from_millis(300));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_latency(&self, latency: Duration) {
        self.with_node(|tested| tested.node().set_latency(latency));
    }

    /// The node answers each request with this error, as a server does to a user without
    /// permissions: calls fail with [`LockError::Misconfigured`]. [`recover`](Self::recover) ends
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://refuse-example")?;
    /// locks.testing()?.refuse("NOPERM User shop has no permissions to run the 'evalsha' command");
    /// let error = locks.lock("stock:42").acquire_blocking().unwrap_err();
    /// assert!(matches!(error, LockError::Misconfigured { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn refuse(&self, words: &str) {
        self.with_node(|tested| tested.node().refuse(words));
    }

    /// The node loses all locks and queues, as with `FLUSHALL`, or in a failover to a replica that
    /// lacks them. Holders hear of it with
    /// [`LostReason::KeyChanged`](crate::LostReason::KeyChanged), waiters queue again. Fencing
    /// tokens still grow.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LostReason;
    /// # let locks = redlocked::LockManager::connect("memory://lose-data-example").await?;
    /// let guard = locks.lock("import").acquire().await?;
    /// locks.testing()?.lose_data();
    /// assert_eq!(guard.lost().await, LostReason::KeyChanged);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lose_data(&self) {
        self.with_node(|tested| tested.node().lose_data());
    }

    /// The node is reachable, quick and willing again, for the next call already. Locks stay as
    /// they are.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://recover-example")?;
    /// # let node = locks.testing()?;
    /// node.set_unreachable();
    /// node.recover();
    /// locks.lock("stock:42").wait(Duration::from_secs(5)).acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn recover(&self) {
        self.with_node(|tested| tested.node().recover());
    }

    /// Makes this manager the process-wide one for this thread alone, until the returned value is
    /// dropped: for functions without `manager = …` in tests that run side by side. Each
    /// `#[tokio::test]` with the usual flavor, and each `#[test]`, has a thread of its own; tasks
    /// on other threads do not see it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockError, LockManager, distributed_lock};
    ///
    /// #[distributed_lock(key = "stock:{sku}")]
    /// async fn purchase(sku: u32) -> Result<(), LockError> {
    ///     Ok(())
    /// }
    ///
    /// let locks = LockManager::connect("memory://global-here-example").await?;
    /// let _global = locks.testing()?.global_here();
    /// purchase(42).await?;
    /// assert_eq!(locks.testing()?.calls("stock:42").acquired, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "it ends when the returned value is dropped"]
    pub fn global_here(&self) -> GlobalHere {
        let set = |here: &RefCell<_>| here.replace(Some(self.locks.clone()));
        GlobalHere { before: HERE.try_with(set).ok().flatten(), on_this_thread: PhantomData }
    }

    /// `Some`, because [`LockManager::testing`] has looked.
    fn tested(&self) -> Option<&Tested> {
        self.locks.engine().tested()
    }

    fn with_node(&self, change: impl FnOnce(&Tested)) {
        if let Some(tested) = self.tested() {
            change(tested);
        }
    }
}

impl fmt::Debug for Testing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Testing").finish_non_exhaustive()
    }
}

/// A lock that a test holds for a caller of another process, from [`Testing::hold`]. Dropping it
/// releases the lock.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect_blocking("memory://held-elsewhere-example")?;
/// let held = locks.testing()?.hold("stock:42", "shop::refund")?;
/// let busy = locks.lock("stock:42").acquire_blocking().unwrap_err();
/// assert!(busy.is_busy() && busy.to_string().contains("shop::refund"));
/// drop(held);
/// locks.lock("stock:42").acquire_blocking()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when this is dropped"]
pub struct HeldElsewhere {
    testing: Testing,
    name: Arc<str>,
    token: Token,
}

impl Drop for HeldElsewhere {
    fn drop(&mut self) {
        self.testing.with_node(|tested| tested.node().release_elsewhere(&self.name, &self.token));
    }
}

impl fmt::Debug for HeldElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldElsewhere").finish_non_exhaustive()
    }
}

/// While it lives, a manager is the process-wide one of this thread, from [`Testing::global_here`].
///
/// # Examples
///
/// ```
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(key = "report", constant_key)]
/// fn report() -> Result<&'static str, LockError> {
///     Ok("sent")
/// }
///
/// # fn main() -> Result<(), LockError> {
/// let node = LockManager::connect_blocking("memory://global-here-example")?.testing()?;
/// let here = node.global_here();
/// assert_eq!(report()?, "sent");
/// assert_eq!(node.calls("report").acquired, 1);
/// drop(here);
/// # Ok(())
/// # }
/// ```
#[must_use = "it ends when this is dropped"]
pub struct GlobalHere {
    before: Option<LockManager>,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for GlobalHere {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = HERE.try_with(|here| here.replace(before));
    }
}

impl fmt::Debug for GlobalHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalHere").finish_non_exhaustive()
    }
}
