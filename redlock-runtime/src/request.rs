//! [`LockRequest`]: keys and options, from the caller.

use std::time::Duration;

use crate::base::owner::{CallSite, ConstOption, Origin};
use crate::base::tick::{NominalTime, TickMissed};
use crate::lock_key::{Keys, LockKey};
use crate::manager::LockManager;
use crate::options::{OnLost, Options, Wait};

/// A request for a lock: its key, its TTL, the longest wait, and other options.
///
/// [`LockManager::lock`] creates it, or [`LockManager::lock_all`] for several keys. It sends
/// nothing before [`acquire`](Self::acquire), which returns a guard, or [`run`](Self::run), which
/// runs a body under the lock. These fail with
/// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest) if a parameter is out of range.
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
    /// `None`: the process-wide one, looked up at the first poll.
    pub(crate) manager: Option<LockManager>,
    pub(crate) keys: Keys,
    pub(crate) options: Options,
}

/// The request of an annotated function. Its constant options stay where they are, so it takes
/// little room.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct SiteRequest {
    manager: Option<LockManager>,
    keys: Keys,
    site: &'static CallSite,
}

/// A lock on the process-wide manager.
#[doc(hidden)]
pub fn lock(key: String, site: &'static CallSite) -> SiteRequest {
    SiteRequest { manager: None, keys: Keys::One(key), site }
}

/// Several locks on the process-wide manager.
#[doc(hidden)]
pub fn lock_all<const N: usize>(keys: [impl Into<LockKey>; N], site: &'static CallSite) -> SiteRequest {
    SiteRequest { manager: None, keys: Keys::all(keys), site }
}

/// A lock on this manager.
#[doc(hidden)]
pub fn lock_with(manager: &LockManager, key: String, site: &'static CallSite) -> SiteRequest {
    SiteRequest { manager: Some(manager.clone()), ..lock(key, site) }
}

/// Several locks on this manager.
#[doc(hidden)]
pub fn lock_all_with<const N: usize>(
    manager: &LockManager,
    keys: [impl Into<LockKey>; N],
    site: &'static CallSite,
) -> SiteRequest {
    SiteRequest { manager: Some(manager.clone()), ..lock_all(keys, site) }
}

impl SiteRequest {
    /// For options that are not constants.
    pub fn with_options(self) -> LockRequest {
        let Self { manager, keys, site } = self;
        let mut request = LockRequest::new(manager, keys);
        request.options.origin = Origin::Site(site);
        request.options.fenced = site.fenced;
        site.options.iter().fold(request, |request, option| match *option {
            ConstOption::Ttl(millis) => request.ttl(Duration::from_millis(millis)),
            ConstOption::Wait(millis) => request.wait(Duration::from_millis(millis)),
            ConstOption::WaitForever => request.wait_forever(),
            ConstOption::MaxHold(millis) => request.max_hold(Duration::from_millis(millis)),
            ConstOption::MinHold(millis) => request.min_hold(Duration::from_millis(millis)),
            ConstOption::Renew(renew) => request.renew(renew),
            ConstOption::Cancel => request.on_lost(OnLost::Cancel),
            ConstOption::Finish => request.on_lost(OnLost::Finish),
            ConstOption::Error => request.on_lost(OnLost::Error),
            ConstOption::Reentrant(reentrant) => request.reentrant(reentrant),
            ConstOption::Shared => request.shared(),
            ConstOption::Permits(permits) => request.permits(permits),
            ConstOption::Take(permits) => request.take(permits),
            ConstOption::Rate(starts, millis) => request.rate(starts, Duration::from_millis(millis)),
            ConstOption::Tick(millis) => request.tick(Duration::from_millis(millis)),
            ConstOption::TickSkip => request.tick_missed(TickMissed::Skip),
            ConstOption::TickRetry => request.tick_missed(TickMissed::Retry),
            ConstOption::ReleaseInBackground(in_background) => request.release_in_background(in_background),
        })
    }
}

/// The functions that run a body accept both.
#[doc(hidden)]
#[derive(Debug)]
pub enum CallRequest {
    Site(SiteRequest),
    Options(LockRequest),
}

impl From<SiteRequest> for CallRequest {
    fn from(request: SiteRequest) -> Self {
        Self::Site(request)
    }
}

impl From<LockRequest> for CallRequest {
    fn from(request: LockRequest) -> Self {
        Self::Options(request)
    }
}

impl From<CallRequest> for LockRequest {
    fn from(request: CallRequest) -> Self {
        match request {
            CallRequest::Site(request) => request.with_options(),
            CallRequest::Options(request) => request,
        }
    }
}

impl LockRequest {
    pub(crate) fn new(manager: Option<LockManager>, keys: Keys) -> Self {
        Self { manager, keys, options: Options::default() }
    }

    /// Sets the name of a request made by hand in metrics and logs, and, in place of a function, in
    /// what others see of its holder. Use one label for all keys of a kind, such as
    /// `nightly-report`. The attribute uses the template of the key, and the function. By default a
    /// request has no label; an empty label is none.
    ///
    /// The server gets the last 64 characters, with `_` in place of each one that is neither an
    /// ASCII letter, a digit nor one of `_:.-`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://label-example")?;
    /// let _guard = locks.lock("report:2026-11-22").label("nightly-report").acquire_blocking()?;
    /// let info = locks.inspect_blocking("report:2026-11-22")?;
    /// assert!(info.is_some_and(|info| info.holder().function() == Some("nightly-report")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        let label = label.as_ref();
        self.options.origin = if label.is_empty() { Origin::Unnamed } else { Origin::Label(label.into()) };
        self
    }

    /// Sets how long the lock outlives a crashed or disconnected holder, at least 10 ms; by default
    /// the [`default_ttl`](crate::LockManagerBuilder::default_ttl) of the manager, 30 s. It does
    /// not limit a live holder: the lock is renewed every third of this time.
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
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets how long the caller waits for the lock at most, through retries, reconnects and I/O.
    /// Zero is one try. By default the [`default_wait`](crate::LockManagerBuilder::default_wait) of
    /// the manager: one try.
    ///
    /// If a request is in flight when the wait ends, the call awaits its answer for as long as
    /// answers usually take, or a quarter of [`io_timeout`](crate::LockManagerBuilder::io_timeout).
    /// So a wait shorter than a round trip is one try, and a silent Redis never makes a lock busy.
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
        self.options.wait = Wait::AtMost(wait);
        self
    }

    /// Waits without a limit, also while Redis is down or refuses: an operator may correct a wrong
    /// password, a missing permission or an eviction policy while the caller waits. The feature
    /// `tracing` logs each refusal as a warning. [`QueueFull`](crate::LockError::QueueFull),
    /// [`Deadlock`](crate::LockError::Deadlock) and
    /// [`ManagerClosed`](crate::LockError::ManagerClosed) still end the wait.
    ///
    /// Dropping the future leaves the queue.
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
        self.options.wait = Wait::Forever;
        self
    }

    /// Sets whether the lock is renewed while it is held; true by default. Without renewal the
    /// holder loses it when the TTL has passed.
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

    /// Sets how long a holder keeps the lock at most, at least 10 ms; then the holder loses it,
    /// although it could be renewed. By default the
    /// [`default_max_hold`](crate::LockManagerBuilder::default_max_hold) of the manager: unlimited,
    /// as is [`Duration::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://max-hold-example").await?;
    /// let stuck = locks.lock("import").max_hold(Duration::from_millis(20)).run_value(async |_| std::future::pending::<()>().await);
    /// assert!(matches!(stuck.await, Err(redlocked::LockError::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets the shortest time for which the key stays locked, counted from the start of the body,
    /// or from when [`acquire`](Self::acquire) returned. After an earlier release, the key stays
    /// locked until then. Use it for work that must not be repeated too soon; for a job that many
    /// machines start by their own clocks, use a [`tick`](Self::tick). None by default.
    ///
    /// The release sends the rest of this time to the server. If it cannot be delivered, or the
    /// process is killed, the key expires one TTL after its last renewal. Then
    /// [`release`](crate::LockGuard::release) returns an error, and [`run`](Self::run) still
    /// returns the result of its body. With [`permits`](Self::permits) or [`shared`](Self::shared),
    /// the server always keeps the place for `min_hold`; if the holder is killed, for a TTL longer
    /// at most.
    ///
    /// A caller that has waited needs one more round trip, in which the server confirms that it
    /// keeps the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://min-hold-example")?;
    /// locks.lock("reminder:42").min_hold(Duration::from_secs(60)).run_value_blocking(|_guard| ())?;
    /// assert!(locks.lock("reminder:42").acquire_blocking().is_err(), "a second reminder within the minute");
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options.min_hold = Some(min_hold);
        self.options.sharing = self.options.sharing.min_hold();
        self
    }

    /// Lets any number of callers with `shared` hold the lock at once: readers. A request without
    /// `shared` is the writer. By default a lock is exclusive.
    ///
    /// All callers wait in one queue, first come, first served: readers behind a waiting writer
    /// wait for it, and when it releases, all readers up to the next writer enter together. Each
    /// holder has its own guard, TTL and renewal; if one loses its lock, the others are not
    /// affected. Readers that are inside together have the same [fencing
    /// token](crate::LockGuard::fencing_token); that of a writer is larger than those before it.
    ///
    /// If other callers of the key have [`permits`](Self::permits), the smallest limit of the
    /// holders and the new caller counts. If the server cannot hand over locks (see
    /// [`Capabilities::hands_over`](crate::Capabilities::hands_over)), readers that overlap may
    /// starve a writer.
    ///
    /// Each of several keys says for itself that it is shared, with
    /// [`LockKey::shared`](crate::LockKey::shared).
    ///
    /// A request with `permits`, too, for several keys, over a quorum of servers, on a manager with
    /// a [`cohort`](crate::LockManagerBuilder::cohort), or that redeems a ticket, fails with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest), and sends nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://shared-example")?;
    /// let first = locks.lock("catalogue").shared().acquire_blocking()?;
    /// let second = locks.lock("catalogue").shared().acquire_blocking()?;
    /// let writer = locks.lock("catalogue").acquire_blocking();
    /// assert!(writer.is_err_and(|error| error.is_busy()));
    /// # drop((first, second));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(mut self) -> Self {
        self.options.sharing = self.options.sharing.shared();
        self
    }

    /// Lets at most this many callers hold the lock at once, from 1 to 10,000. One is an exclusive
    /// lock.
    ///
    /// All callers of a key should use the same number. If they differ, the smallest limit of the
    /// holders and the new caller counts, so a rolling deployment that changes it ends with the new
    /// one. As with [`shared`](Self::shared), there is one queue for all kinds, and a killed holder
    /// keeps its permit for its TTL at most. All holders have the same fencing token, so a resource
    /// cannot tell them apart.
    ///
    /// With [`min_hold`](Self::min_hold) it limits a rate: five permits for a minute each are at
    /// most five starts in any minute, over all processes, even if processes are killed.
    ///
    /// The combinations that `shared` refuses are refused, too, and so is a number out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://permits-example")?;
    /// let request = || locks.lock("smtp:example.org").permits(2);
    /// let both = [request().acquire_blocking()?, request().acquire_blocking()?];
    /// assert!(request().acquire_blocking().is_err_and(|error| error.is_busy()));
    /// drop(both);
    /// let _third = request().acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.options.sharing = self.options.sharing.permits(permits);
        self
    }

    /// Takes this many of the [`permits`](Self::permits) at once: 1 by default, and at most the
    /// number of `permits`. Use it if callers need different shares of one resource, such as jobs
    /// of 1 to 8 GB on a GPU with 16 GB.
    ///
    /// A caller gets all of its permits or none, and waits until enough are free. The queue is
    /// first come, first served, and nobody overtakes: behind a caller that waits for 8 permits,
    /// callers that need 1 wait, too, even if 1 is free. So small callers cannot starve a large
    /// one, but permits may be unused meanwhile.
    ///
    /// During a deployment, a process of a version without `take` enters only after all holders
    /// that take several permits have left, so permits are never overbooked.
    ///
    /// Without `permits`, for 0, and for more than `permits`, the request fails with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest), and sends nothing. So does
    /// every combination that `permits` refuses.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://take-example")?;
    /// let job = |gigabytes| locks.lock("gpu").permits(16).take(gigabytes).acquire_blocking();
    /// let both = [job(8)?, job(7)?];
    /// assert!(job(2).is_err_and(|error| error.is_busy()));
    /// let small = job(1)?;
    /// # drop((both, small));
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(mut self, permits: u32) -> Self {
        self.options.sharing = self.options.sharing.take(permits);
        self
    }

    /// Limits how often a body starts, over all processes: at most `starts` of them, 1 to 10,000,
    /// in any `per`, at least 10 ms. It is not a lock: nothing is held while the body runs, so
    /// bodies of any length may overlap.
    ///
    /// The start is when [`acquire`](Self::acquire) returns, or the body of [`run`](Self::run) begins. The
    /// server counts the starts by its clock, in one script for each. A start is not given back, whether the
    /// body fails, its future is dropped, or its process dies. A process that dies between the answer of the
    /// server and the start costs that start, for [`io_timeout`](crate::LockManagerBuilder::io_timeout)
    /// longer, or 1 s if that is longer.
    ///
    /// With [`wait`](Self::wait), callers start in their order of arrival, over all processes; each
    /// sleeps until its start is free. Without it, a call gets
    /// [`LockError::Busy`](crate::LockError::Busy) at once if no start is free, and
    /// [`retry_after`](crate::LockError::retry_after) returns when the next one is free.
    ///
    /// The guard that `acquire` returns [is not held](crate::LockGuard::is_held): dropping it
    /// changes nothing, and its fencing token has no meaning. The body runs under no lock:
    /// [`current`](crate::current) returns the lock outside of it, if there is one.
    ///
    /// All callers of a key should use the same rate. If they differ, the smallest number counts,
    /// and each start counts for its own `per`. A server that loses its data, or whose clock jumps
    /// ahead, forgets starts. If its clock is set back, starts count for longer.
    ///
    /// It is refused with [`shared`](Self::shared), [`permits`](Self::permits), [`take`](Self::take),
    /// [`min_hold`](Self::min_hold), [`max_hold`](Self::max_hold), [`ttl`](Self::ttl),
    /// [`renew(false)`](Self::renew), [`on_lost`](Self::on_lost),
    /// [`release_in_background`](Self::release_in_background), [`reentrant`](Self::reentrant),
    /// [`tick`](Self::tick), a ticket, a body that runs once and several keys, by a manager with a
    /// [`cohort`](crate::LockManagerBuilder::cohort), and over a quorum: the request fails with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest), and sends nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://rate-example")?;
    /// let mail = || locks.lock("mail:acme").rate(2, Duration::from_secs(60)).run_value_blocking(|_guard| "sent");
    /// assert_eq!((mail()?, mail()?), ("sent", "sent"));
    /// let third = mail().unwrap_err();
    /// assert!(third.to_string().starts_with("`mail:acme` has had its 2 starts in 1 min 0 s: the next one is free in "));
    /// assert!(third.retry_after().is_some_and(|after| after > Duration::from_secs(50)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rate(mut self, starts: u32, per: Duration) -> Self {
        let has_min_hold = self.options.min_hold.is_some();
        self.options.sharing = self.options.sharing.rate(starts, has_min_hold);
        self.options.min_hold = Some(per);
        self
    }

    /// [`rate`](Self::rate), as the attribute gives an expression.
    #[doc(hidden)]
    pub fn rate_of(self, (starts, per): (u32, Duration)) -> Self {
        self.rate(starts, per)
    }

    /// Runs once per tick, not once at a time: of all callers of this key in all processes, one gets
    /// the lock for each tick of this length, and the others get
    /// [`LockError::TickTaken`](crate::LockError::TickTaken). For a timer in each replica. At least
    /// 1 s, at most 366 days.
    ///
    /// The server names the tick, by its own clock: the last full multiple of the length since 1970
    /// (UTC) before the call, or the next one for a call that is a little early. Two calls that are
    /// less than two and a half minutes apart, or less than a quarter of a tick below ten minutes,
    /// never both run, at any minute and second. A waiter keeps the tick of its call.
    ///
    /// [`tick_missed`](Self::tick_missed) says whether a tick runs again after its runner was
    /// killed. [Once per tick](../redlocked/docs/ticks/index.html) has recipes and limits.
    ///
    /// It is refused together with [`tick_at`](Self::tick_at), [`shared`](Self::shared),
    /// [`permits`](Self::permits), [`min_hold`](Self::min_hold), [`reentrant`](Self::reentrant),
    /// several keys and a ticket, by a manager with a
    /// [`cohort`](crate::LockManagerBuilder::cohort), and over a quorum.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://tick-request-example")?;
    /// let report = || locks.lock("report").tick(Duration::from_secs(366 * 86_400)).run_value_blocking(|_guard| "sent");
    /// assert_eq!(report()?, "sent");
    /// assert!(matches!(report(), Err(LockError::TickTaken { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.options.rare().ticks.get_or_insert_default().every = Some(tick);
        self
    }

    /// Runs once per tick, as [`tick`](Self::tick) does, for the tick with this nominal time: the
    /// time for which a scheduler has started the call, the same in all replicas. Use it for cron
    /// expressions, whose ticks have different lengths, and for jobs from a queue. The time counts
    /// to the millisecond. It is a `SystemTime`, or converts to one, as the times of chrono, time
    /// and jiff do.
    ///
    /// A tick is taken when it was run, or a later one was. A nominal time more than seven days
    /// before the server's time, or more than a day ahead of it, is refused with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest): no record is kept for longer,
    /// and one of a time far ahead would keep all earlier ticks out.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::{Duration, SystemTime};
    ///
    /// # let locks = redlocked::LockManager::connect_blocking("memory://tick-at-example")?;
    /// # let scheduled_for = || SystemTime::now();
    /// let fire_time = scheduled_for(); // what the scheduler says, not the time of the call
    /// let report = |fire_time| locks.lock("report").tick_at(fire_time).acquire_blocking().map(|guard| guard.tick());
    /// assert!(report(fire_time)?.is_some());
    /// assert!(report(fire_time).is_err_and(|error| error.is_busy()), "another replica was first");
    /// assert!(report(fire_time + Duration::from_secs(60)).is_ok(), "the next tick");
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick_at(mut self, nominal: impl NominalTime) -> Self {
        self.options.rare().ticks.get_or_insert_default().at = Some(nominal.nominal());
        self
    }

    /// Sets whether a tick runs again if its run has not ended well, because its runner was killed,
    /// lost its lock, or failed; [`TickMissed::Skip`] by default. Only together with
    /// [`tick`](Self::tick) or [`tick_at`](Self::tick_at).
    ///
    /// With [`TickMissed::Retry`] a run has ended well when its guard was
    /// [released](crate::LockGuard::release), the lock was still held, and nobody has called
    /// [`fail_tick`](crate::LockGuard::fail_tick). A run has failed when its guard is dropped, and when
    /// an annotated function or the body of [`run`](Self::run) returns an `Err`.
    /// [`run_value`](Self::run_value) does not look at what its body returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::TickMissed;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://tick-missed-request-example")?;
    /// let day = Duration::from_secs(366 * 86_400);
    /// let report = || locks.lock("report").tick(day).tick_missed(TickMissed::Retry);
    /// # use redlocked::LockError;
    /// assert!(report().run_blocking(|_guard| Err::<(), _>(LockError::NotLocked)).is_err());
    /// report().run_value_blocking(|_guard| "sent")?;
    /// assert!(report().acquire_blocking().is_err(), "it has ended well");
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick_missed(mut self, missed: TickMissed) -> Self {
        self.options.rare().ticks.get_or_insert_default().missed = Some(missed);
        self
    }

    /// Sets whether the async body of [`run`](Self::run) is stopped when the lock is lost;
    /// [`OnLost::Cancel`] by default. A sync body cannot be stopped, and the call returns its
    /// result, except with [`OnLost::Error`].
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
        self.options.at_end = self.options.at_end.with_on_lost(on_lost);
        self
    }

    /// Sets whether [`run`](Self::run) and [`run_blocking`](Self::run_blocking) return without
    /// waiting for the release; by default as
    /// [`default_release_in_background`](crate::LockManagerBuilder::default_release_in_background)
    /// of the manager says, which is false. With `true`, a call takes one round trip instead of
    /// two. It has no effect on a guard, which has its own [`release`](crate::LockGuard::release).
    ///
    /// The release is sent before the call returns, and the next request of this process follows it
    /// on the same connection. **Others can race with the release:** a process that this caller
    /// notifies may find the lock still held, for about a round trip. So may another manager, also
    /// in this process, and the next call without a wait, if the connection broke in between. If
    /// the order matters, wait for the release.
    ///
    /// The manager retries a failed release until the TTL is over, as after a dropped guard. If the
    /// release detects a loss, only metrics and logs show it. The calling thread writes the release
    /// to the socket before the call returns, so the process may exit next, also by
    /// `std::process::exit`. If the connection may be down at that time, or many releases in
    /// flight, call [`shutdown`](crate::LockManager::shutdown) before, which waits for the answers:
    /// a server that cannot deliver an answer to a closed connection may discard requests that it
    /// has not read.
    ///
    /// A body that runs once still waits for its release, which stores its result.
    ///
    /// With [`OnLost::Error`], whose caller needs the answer of the release, the request fails with
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://background-example").await?;
    /// let request = || locks.lock("stock:42").release_in_background(true);
    /// for sold in 1..=3 {
    ///     assert_eq!(request().run_value(async |_guard| sold).await?, sold);
    /// }
    /// locks.shutdown(Duration::from_secs(1)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_in_background(mut self, in_background: bool) -> Self {
        self.options.at_end = self.options.at_end.with_release(in_background);
        self
    }

    /// Sets whether a call inside a body that holds the same key of the same manager joins that
    /// lock; false by default: the call fails with
    /// [`LockError::Deadlock`](crate::LockError::Deadlock) at once. A task that the body spawns is
    /// not inside it.
    ///
    /// Where a sync body runs an executor (`block_on`), a task of tokio is not inside the body; a
    /// task of another executor counts as inside.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://reentrant-example")?;
    /// let inner = || locks.lock("ledger").reentrant(true).run_value_blocking(|_guard| 42);
    /// assert_eq!(locks.lock("ledger").run_blocking(|_guard| inner())?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = reentrant;
        self
    }
}

impl LockManager {
    /// Returns a request for the lock on `key`, which sends nothing before it is acquired. The key
    /// on the server is the [prefix](crate::LockManagerBuilder::prefix), `lock:` by default,
    /// followed by `key`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect_blocking("memory://")?;
    /// let sum = locks.lock("sum").run_value_blocking(|_guard| 1 + 1)?;
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, key: impl Into<String>) -> LockRequest {
        LockRequest::new(Some(self.clone()), Keys::One(key.into()))
    }

    /// Returns a request for the locks on all these keys, held as one: one guard, all or nothing.
    ///
    /// The caller takes each key once, one after the other, in the order of their bytes, not in the
    /// order here: so a caller of `(a, b)` and a caller of `(b, a)` never wait for each other.
    /// [`wait`](LockRequest::wait) covers all keys together. When one cannot be acquired, the
    /// others are released; the error names its key. If one is lost while the caller waits for
    /// another, the manager releases all, and tries again within `wait`; without a wait, the error
    /// is [`LockError::Lost`](crate::LockError::Lost).
    ///
    /// One call to the server takes up to 64 free keys; each key that the caller has to wait for
    /// costs another call, and so does each [`LockKey`] that is not exclusive. In a Cluster one call takes consecutive keys that share a slot: a common
    /// hash tag puts them into one slot, as in `{order:7}:stock`, `{order:7}:payment`. On several
    /// servers each key costs its own call.
    ///
    /// [`max_hold`](LockRequest::max_hold), and the TTL with [`renew(false)`](LockRequest::renew),
    /// count for each lock from when it was taken: waiting for the later locks shortens the body's
    /// time.
    ///
    /// The order holds within one request only. A body that holds `b` and asks for `a` waits for a
    /// body that holds `a` and asks for `b`, until the `wait` of one of them ends. Ask for all keys
    /// in one request instead.
    ///
    /// A string is an exclusive key. A [`LockKey`] says that the key is shared, or has permits. A key
    /// that is given twice is taken in the stricter of its kinds.
    ///
    /// An empty list fails with [`LockError::InvalidRequest`](crate::LockError::InvalidRequest), and so
    /// do two different numbers of permits for one key.
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
    /// locks.lock_all(accounts).wait(Duration::from_secs(5)).run_value_blocking(|guard| {
    ///     assert!(guard.keys().eq(["account:3", "account:7"]));
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all(&self, keys: impl IntoIterator<Item = impl Into<LockKey>>) -> LockRequest {
        LockRequest::new(Some(self.clone()), Keys::all(keys))
    }
}
