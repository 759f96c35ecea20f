//! Locks from outside: the holder of one, the list of all, and a release by force.

use std::sync::Arc;
use std::time::SystemTime;

use crate::base::error::{Holder, LockError};
use crate::base::key;
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::tick::time_of;
use crate::base::token::{self, Token};
use crate::block_on::block_on;
use crate::engine::operator_calls::OperatorCall;
use crate::engine::protocol::{Inspection, Listed, Releases};
use crate::manager::LockManager;

/// So many locks of a listing are asked for at a time.
const INSPECTED_TOGETHER: usize = 1_000;

/// The names of all locks that are listed, in bytes: a server that always has another page must not
/// take all memory.
const LARGEST_LIST: usize = 256 * 1024 * 1024;

/// Why a holder of an error cannot lose its lock to an operator.
const NOT_INSPECTED: &str =
    "only a holder that `inspect` or `list` has shown can lose the lock: one of an error names no call";

/// Why several holders at once cannot lose their places to an operator.
const SEVERAL: &str =
    "several hold the lock: name one of `holders()`, or take it from all with `force_release`";

/// A held lock, as the server reports it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::inspect::LockInfo;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://lock-info-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
/// let info: Option<LockInfo> = locks.inspect("stock:42").await?;
/// assert!(info.is_some_and(|info| info.waiters() == 0 && info.holder().name().is_some()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    key: String,
    holder: Holder,
    /// [Names](Token::naming) the value of the key. It is shown to nobody.
    value: Token,
    waiters: u32,
    queue: Vec<Waiter>,
    limit: Limit,
    /// Those that hold it together.
    holders: Vec<Holder>,
}

impl LockInfo {
    pub(crate) fn new(key: &str, found: Inspection) -> Self {
        let Inspection { holder, value, waiters, queue, counted, .. } = found;
        let queue = queue.into_iter().map(|owner| Waiter { owner }).collect();
        let (limit, holders) = counted.map_or((Limit::ONE, Vec::new()), |counted| {
            let holder = |(token, take, left): (Token, _, _)| Holder {
                owner: token::owner_of(token.value()),
                limit: Some(counted.limit.taking(take)),
                expires_in: Some(left),
                call: Some(token),
                ..Holder::default()
            };
            (counted.limit, counted.holders.into_iter().map(holder).collect())
        });
        let holder = Holder { call: Some(value.clone()), ..holder };
        Self { key: key.to_owned(), holder, value, waiters, queue, limit, holders }
    }

    /// The key, without the prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The holder, and how long until the lock is free unless the holder renews it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-holder-example")?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// let info = locks.inspect_blocking("stock:42")?;
    /// assert!(info.is_some_and(|info| info.holder().expires_in().is_some()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// All that hold the lock together, [`shared`](crate::LockRequest::shared) or with
    /// [`permits`](crate::LockRequest::permits): the first 100 by the end of their leases, of
    /// [`inside`](Self::inside). One holder where it has the lock alone.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-holders-example")?;
    /// let reads = || locks.lock("catalogue").shared().label("read").acquire_blocking();
    /// let _readers = [reads()?, reads()?];
    /// if let Some(info) = locks.inspect_blocking("catalogue")? {
    ///     let functions: Vec<_> = info.holders().iter().map(|holder| holder.function()).collect();
    ///     assert_eq!(functions, [Some("read"), Some("read")]);
    ///     assert_eq!((info.inside(), info.limit()), (2, None));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holders(&self) -> &[Holder] {
        if self.holders.is_empty() { std::slice::from_ref(&self.holder) } else { &self.holders }
    }

    /// Returns how many callers hold the lock: 1 if it is exclusive.
    #[must_use]
    pub fn inside(&self) -> u32 {
        self.holder.inside().unwrap_or(1)
    }

    /// Returns how many permits the holders take together: one for each, unless one of them
    /// [takes](crate::LockRequest::take) several.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-taken-example")?;
    /// let jobs = [4, 2, 1].map(|size| locks.lock("gpu").permits(10).take(size).acquire_blocking());
    /// if let Some(info) = locks.inspect_blocking("gpu")? {
    ///     assert_eq!((info.taken(), info.limit(), info.inside()), (7, Some(10), 3));
    ///     assert_eq!(info.holders().iter().map(|holder| holder.taken()).sum::<u32>(), 7);
    /// }
    /// # drop(jobs);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.holder.taken()
    }

    /// Returns how many callers may hold the lock together, by the least limit of the holders, or by
    /// the [central limit](Self::has_central_limit): 1 if one caller holds it alone, `None` for
    /// readers.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        Some(self.limit.number()).filter(|limit| *limit > 0)
    }

    /// True when the [limit](Self::limit) is the number that
    /// [`set_permits`](crate::LockManager::set_permits) has set, in the place of those of the holders.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-central-example")?;
    /// let _job = locks.lock("gpu").permits(10).acquire_blocking()?;
    /// locks.set_permits_blocking("gpu", 16)?;
    /// if let Some(info) = locks.inspect_blocking("gpu")? {
    ///     assert_eq!((info.limit(), info.has_central_limit()), (Some(16), true));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn has_central_limit(&self) -> bool {
        self.holder.is_central
    }

    /// True when both show the same call that holds the lock, not only the same process and
    /// function. Clients of another kind differ if they wrote different values into the key. For a
    /// lock that several hold together, true while it was not free in between.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-same-holder-example")?;
    /// # let look = || locks.inspect_blocking("stock:42");
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// let (first, second) = (look()?, look()?);
    /// guard.release_blocking()?;
    /// let _next = locks.lock("stock:42").acquire_blocking()?;
    /// let third = look()?;
    /// if let (Some(first), Some(second), Some(third)) = (first, second, third) {
    ///     assert!(first.has_same_holder(&second) && !first.has_same_holder(&third));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn has_same_holder(&self, other: &Self) -> bool {
        (&self.key, &self.value) == (&other.key, &other.value)
    }

    /// Returns how many callers wait in the queue on the server. With a
    /// [`cohort`](crate::LockManagerBuilder::cohort) these are one for each process, and none of
    /// the process that has the lock; on several servers there is no queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-waiters-example")?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// let info = locks.inspect_blocking("stock:42")?;
    /// assert!(info.is_some_and(|info| info.waiters() == 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.waiters
    }

    /// The first 100 of these callers, in the order of their turns.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-queue-example")?;
    /// # let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// if let Some(info) = locks.inspect_blocking("stock:42")? {
    ///     for waiter in info.queue() {
    ///         println!("{:?} in {:?} since {:?}", waiter.name(), waiter.function(), waiter.asked());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn queue(&self) -> &[Waiter] {
        &self.queue
    }
}

/// A caller in the queue of a lock, as the server reports it; without its token.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redlocked::inspect::Waiter;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://waiter-example").await?;
/// let guard = locks.lock("stock:42").acquire().await?;
/// let waiting = locks.lock("stock:42").wait(Duration::from_secs(5)).label("restock").acquire();
/// let waiting = tokio::spawn(waiting);
/// let next: Waiter = loop {
///     let info = locks.inspect("stock:42").await?;
///     if let Some(first) = info.and_then(|info| info.queue().first().cloned()) {
///         break first;
///     }
/// };
/// assert_eq!(next.function(), Some("restock"));
/// guard.release().await?;
/// waiting.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    owner: Option<Owner>,
}

impl Waiter {
    /// `<host>:<pid>` of the waiter, control characters escaped; `None` when another kind of client
    /// put it into the queue.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.owner.as_ref().map(Owner::name)
    }

    /// The function that waits, or the label of a request made by hand; as [`Holder::function`].
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.owner.as_ref()?.function()
    }

    /// Returns when the waiter asked, to the second, by the clock of its host; as [`Holder::asked`].
    #[must_use]
    pub fn asked(&self) -> Option<SystemTime> {
        self.owner.as_ref()?.asked()
    }
}

/// A tick that is over, as the server reports it: from [`LockManager::last_tick`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use std::time::SystemTime;
/// use redlocked::inspect::LastTick;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect_blocking("memory://last-tick-type-example")?;
/// locks.lock("report").tick_at(SystemTime::UNIX_EPOCH).run_value_blocking(|_| ()).unwrap_err();
/// let last: Option<LastTick> = locks.last_tick_blocking("report")?;
/// assert_eq!(last, None, "a time so long ago is refused");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastTick {
    time: SystemTime,
    by: Holder,
}

impl LastTick {
    /// Its nominal time.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// Returns the caller that has run the tick: its name, its function, and when it asked. It may
    /// still hold the lock.
    #[must_use]
    pub fn by(&self) -> &Holder {
        &self.by
    }
}

impl LockManager {
    /// The holder and the waiters of the lock on `key`; `None` when it is free.
    ///
    /// A process may pass a lock on to its own callers without the server: then the server says who
    /// has it, and who waits, 100 ms later at most.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the server cannot be reached or does not answer in time,
    /// [`LockError::Misconfigured`] when it refuses; [`LockError::InvalidKey`];
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
    /// # let locks = redlocked::LockManager::connect("memory://inspect-example").await?;
    /// assert_eq!(locks.inspect("stock:42").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: &str) -> Result<Option<LockInfo>, LockError> {
        key::validate(self.prefix(), key)?;
        let found = self.call(key, OperatorCall::inspect(self.name(key))).await?;
        Ok(found.map(|found| LockInfo::new(key, found)))
    }

    /// [`inspect`](Self::inspect) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://inspect-blocking-example")?;
    /// assert_eq!(locks.inspect_blocking("stock:42")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect_blocking(&self, key: &str) -> Result<Option<LockInfo>, LockError> {
        block_on(self.engine(), self.inspect(key))
    }

    /// The last [tick](crate::LockRequest::tick) of the lock on `key` that is over, and who has run it;
    /// `None` before the first one, and when its record is gone: two ticks after it, but seven days at
    /// least, and seven days after a [`tick_at`](crate::LockRequest::tick_at).
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect), and [`LockError::InvalidRequest`] over a quorum of independent
    /// servers, which knows no ticks.
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
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://last-tick-example").await?;
    /// let hourly = locks.lock("report").tick(Duration::from_secs(3600)).label("reports");
    /// hourly.run_value(async |_| ()).await?;
    /// let last = locks.last_tick("report").await?;
    /// assert!(last.is_some_and(|last| last.by().function() == Some("reports")));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn last_tick(&self, key: &str) -> Result<Option<LastTick>, LockError> {
        self.check_ticks_of(key)?;
        let found = self.call(key, OperatorCall::last_tick(self.name(key))).await?;
        Ok(found.map(|last| LastTick {
            time: time_of(last.at_ms),
            by: Holder { owner: last.by, ..Holder::default() },
        }))
    }

    /// [`last_tick`](Self::last_tick) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`last_tick`](Self::last_tick).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://last-tick-blocking-example")?;
    /// assert_eq!(locks.last_tick_blocking("report")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn last_tick_blocking(&self, key: &str) -> Result<Option<LastTick>, LockError> {
        block_on(self.engine(), self.last_tick(key))
    }

    /// Forgets which [ticks](crate::LockRequest::tick) of `key` are over: the next call runs its tick,
    /// even if it has been run. Returns true when a tick was recorded.
    ///
    /// For an operator, after the clock of the server was ahead for a while: a tick that was run at
    /// that time is later than the ticks that are due now, so they count as taken. A body that runs
    /// meanwhile goes on.
    ///
    /// # Errors
    ///
    /// As [`last_tick`](Self::last_tick).
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before its first poll does nothing. After that, the record may be
    /// cleared or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://clear-tick-example").await?;
    /// let daily = || locks.lock("report").tick(Duration::from_secs(86_400));
    /// daily().run_value(async |_| ()).await?;
    /// assert!(locks.clear_tick("report").await?);
    /// daily().run_value(async |_| ()).await?; // the same tick again
    /// # Ok(())
    /// # }
    /// ```
    pub async fn clear_tick(&self, key: &str) -> Result<bool, LockError> {
        self.check_ticks_of(key)?;
        self.call(key, OperatorCall::clear_tick(self.name(key))).await
    }

    /// [`clear_tick`](Self::clear_tick) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`clear_tick`](Self::clear_tick).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://clear-tick-blocking-example")?;
    /// assert!(!locks.clear_tick_blocking("report")?, "no tick was recorded");
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear_tick_blocking(&self, key: &str) -> Result<bool, LockError> {
        block_on(self.engine(), self.clear_tick(key))
    }

    fn check_ticks_of(&self, key: &str) -> Result<(), LockError> {
        key::validate(self.prefix(), key)?;
        if self.engine().multi_key().is_by_votes() {
            let reason = self.engine().no_ticks().unwrap_or_default();
            return Err(LockError::invalid(&key.into(), reason));
        }
        Ok(())
    }

    /// Takes the lock on `key` away from its holder and passes it to the longest waiter. Returns
    /// the former holder, which learns that its lock is lost; `None` when the lock was free.
    ///
    /// The call looks first who holds the lock, and then takes it from that holder alone: two round
    /// trips, and one more each time that the lock has changed hands in between. A request that arrives
    /// late, after its connection has broken, takes nothing from a later holder. If several hold the
    /// lock, all of them lose it; [`force_release_from`](Self::force_release_from) takes it from one.
    ///
    /// On several servers, the lock is taken from the holder that most of them name; what only a
    /// few of them have stays while the lock is free on most.
    ///
    /// For an operator who knows that a holder hangs. Writes of its body may still be in flight;
    /// only [fencing tokens](crate::LockGuard::fencing_token) keep them out.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). After [`LockError::Unavailable`] the lock may have been taken
    /// away, or may be later; but no later holder loses it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://force-example").await?;
    /// let hung = locks.lock("stock:42").acquire().await?;
    /// assert!(locks.force_release("stock:42").await?.is_some());
    /// let _next = locks.lock("stock:42").acquire().await?;
    /// # drop(hung);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, key: &str) -> Result<Option<Holder>, LockError> {
        key::validate(self.prefix(), key)?;
        let by = self.engine().now().after(self.io_timeout());
        let call = |call| self.engine().call_by(by, Some(key.into()), call);
        if self.engine().multi_key().is_by_votes() {
            // It looks at all nodes, and names the holder, by itself.
            let found = call(OperatorCall::force_release(self.name(key), None)).await?;
            return Ok(found.map(|found| found.holder));
        }
        let mut seen = call(OperatorCall::inspect(self.name(key))).await?;
        while let Some(Inspection { value, .. }) = seen {
            let found = call(OperatorCall::force_release(self.name(key), Some(value.clone()))).await?;
            match found {
                Some(found) if found.value == value => return Ok(Some(found.holder)),
                // It has changed hands, or is free.
                found => seen = found,
            }
        }
        Ok(None)
    }

    /// [`force_release`](Self::force_release) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://force-blocking-example")?;
    /// assert_eq!(locks.force_release_blocking("stock:42")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release_blocking(&self, key: &str) -> Result<Option<Holder>, LockError> {
        block_on(self.engine(), self.force_release(key))
    }

    /// Takes the lock on `key` from this `holder` alone, which [`inspect`](Self::inspect) or
    /// [`list`](Self::list) has shown, and lets the waiters in that have room then. True when the
    /// holder had the lock; false when it had it no longer, and for a client of another kind, which
    /// has no token that tells it from the next one.
    ///
    /// If several hold the lock together, [`shared`](crate::LockRequest::shared) or with
    /// [`permits`](crate::LockRequest::permits), each of [`LockInfo::holders`] can lose its place, and
    /// the others keep theirs. The one that loses it receives [`LostReason::Revoked`](crate::LostReason):
    /// within a round trip where the server pushes to its process, else at its next renewal, after a
    /// third of its TTL, with [`LostReason::KeyChanged`](crate::LostReason).
    ///
    /// Writes of its body may still be in flight. A [fencing token](crate::LockGuard::fencing_token)
    /// keeps out those of an exclusive holder; those that hold a lock together have the same one.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). After [`LockError::Unavailable`] the lock may have been taken
    /// away, or may be later; but no later holder loses it. [`LockError::InvalidRequest`] for a
    /// holder that an error has shown, and for one that stands for several: see
    /// [`LockInfo::holders`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LostReason;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://force-from-example").await?;
    /// let sends = |label| locks.lock("smtp").permits(2).label(label).acquire();
    /// let (hung, other) = (sends("newsletter").await?, sends("invoice").await?);
    /// if let Some(seen) = locks.inspect("smtp").await? {
    ///     for holder in seen.holders().iter().filter(|holder| holder.function() == Some("newsletter")) {
    ///         assert!(locks.force_release_from("smtp", holder).await?);
    ///         assert!(!locks.force_release_from("smtp", holder).await?, "it has no permit any more");
    ///     }
    /// }
    /// assert_eq!(hung.lost().await, LostReason::Revoked);
    /// assert!(other.is_held());
    /// let _next = sends("reminder").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release_from(&self, key: &str, holder: &Holder) -> Result<bool, LockError> {
        key::validate(self.prefix(), key)?;
        let of_holder = release_of(holder).map_err(|reason| LockError::invalid(&key.into(), reason))?;
        let Some((token, release)) = of_holder else { return Ok(false) };
        // For each node of a quorum, a quarter of it.
        let ttl = self.io_timeout().saturating_mul(4);
        self.call(key, OperatorCall::release(self.name(key), token, ttl, release)).await
    }

    /// [`force_release_from`](Self::force_release_from) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`force_release_from`](Self::force_release_from).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://force-from-blocking-example")?;
    /// # let hung = locks.lock("stock:42").acquire_blocking()?;
    /// if let Some(seen) = locks.inspect_blocking("stock:42")? {
    ///     assert!(locks.force_release_from_blocking("stock:42", seen.holder())?);
    /// }
    /// # drop(hung);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release_from_blocking(&self, key: &str, holder: &Holder) -> Result<bool, LockError> {
        block_on(self.engine(), self.force_release_from(key, holder))
    }

    /// All held locks whose keys match `pattern`, sorted by key. `*` stands for any characters, `?`
    /// for one.
    ///
    /// The call walks over all keys of the server, locks or not, with
    /// [`SCAN`](https://redis.io/docs/latest/commands/scan/): one round trip for about 1,000 keys,
    /// so other clients do not wait for long; then it inspects each lock, in batches. Each round
    /// trip may take the [`io_timeout`](crate::LockManagerBuilder::io_timeout). A lock that is
    /// taken or released meanwhile may be missing. A key that the server does not let inspect, such
    /// as one of another type, is left out, unless there is no other.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
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
    /// # let locks = redlocked::LockManager::connect("memory://list-example").await?;
    /// let _guards = [locks.lock("stock:1").acquire().await?, locks.lock("cron").acquire().await?];
    /// for lock in locks.list("stock:*").await? {
    ///     println!("{}: {}", lock.key(), lock.holder());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, pattern: &str) -> Result<Vec<LockInfo>, LockError> {
        let pattern = format!("{}{pattern}", escape_pattern(self.prefix()));
        let names = self.names(Listed::Locks, pattern.into()).await?;
        let locks = names.iter().filter_map(|name| Some((name.strip_prefix(self.prefix())?, &**name)));
        self.inspect_each(&locks.collect::<Vec<_>>()).await
    }

    /// [`list`](Self::list) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://list-blocking-example")?;
    /// assert!(locks.list_blocking("*")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_blocking(&self, pattern: &str) -> Result<Vec<LockInfo>, LockError> {
        block_on(self.engine(), self.list(pattern))
    }

    /// The locks of this library that are held on `key` under another prefix of the same server, sorted:
    /// for an operator who does not know the prefix of a program. The [key](LockInfo::key) of each is its
    /// whole name on the server.
    ///
    /// The call walks over all keys of the server, as [`list`](Self::list) does. A lock that access rules
    /// hide from this manager is missing, and so is one of a client of another kind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
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
    /// use redlocked::LockManager;
    ///
    /// let url = "memory://elsewhere-example";
    /// let shop = LockManager::builder(url).prefix("shop:").connect().await?;
    /// let _guard = shop.lock("stock:42").acquire().await?;
    /// let locks = LockManager::connect(url).await?;
    /// assert!(locks.inspect("stock:42").await?.is_none());
    /// assert_eq!(locks.inspect_elsewhere("stock:42").await?[0].key(), "shop:stock:42");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect_elsewhere(&self, key: &str) -> Result<Vec<LockInfo>, LockError> {
        key::validate(self.prefix(), key)?;
        let names = self.names(Listed::Locks, format!("*{}", escape_pattern(key)).into()).await?;
        let own = self.name(key);
        let others = names.iter().map(|name| &**name).filter(|name| *name != &*own && name.ends_with(key));
        let mut held = self.inspect_each(&others.map(|name| (name, name)).collect::<Vec<_>>()).await?;
        held.retain(|lock| lock.holder().name().is_some() || lock.holder().inside().is_some());
        Ok(held)
    }

    /// [`inspect_elsewhere`](Self::inspect_elsewhere) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://elsewhere-blocking-example")?;
    /// assert!(locks.inspect_elsewhere_blocking("stock:42")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect_elsewhere_blocking(&self, key: &str) -> Result<Vec<LockInfo>, LockError> {
        block_on(self.engine(), self.inspect_elsewhere(key))
    }

    /// Those of these locks that are held. Each has its key and its name.
    async fn inspect_each(&self, locks: &[(&str, &str)]) -> Result<Vec<LockInfo>, LockError> {
        let (mut held, mut refused) = (Vec::new(), None);
        for locks in locks.chunks(INSPECTED_TOGETHER) {
            let ask = |&(key, name)| (key, self.call(key, OperatorCall::inspect(Arc::from(name))));
            let asked: Vec<_> = locks.iter().map(ask).collect();
            for (key, outcome) in asked {
                match outcome.await {
                    Ok(found) => held.extend(found.map(|found| LockInfo::new(key, found))),
                    Err(error @ LockError::Misconfigured { .. }) => refused = refused.or(Some(error)),
                    Err(error) => return Err(error),
                }
            }
        }
        match refused {
            Some(error) if held.is_empty() => Err(error),
            _ => Ok(held),
        }
    }

    /// All names that match the pattern, read in pages.
    pub(crate) async fn names(&self, what: Listed, pattern: Arc<str>) -> Result<Vec<String>, LockError> {
        let (mut found, mut memory, mut cursor) = (Vec::new(), 0, 0);
        loop {
            let page = OperatorCall::list(what, Arc::clone(&pattern), cursor);
            let (next, names) = self.engine().call(None, page).await?;
            memory += names.iter().map(|name| name.capacity() + size_of::<String>()).sum::<usize>();
            found.extend(names);
            if memory > LARGEST_LIST {
                let reason = "the names of the locks take more than 256 MiB: list those of a prefix with fewer of them";
                return Err(LockError::Misconfigured { key: None, reason: reason.into() });
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        // A key that moves during the scan is found twice.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Sends it at once, and waits for the answer when polled.
    pub(crate) fn call<T>(
        &self,
        key: &str,
        call: OperatorCall<T>,
    ) -> impl Future<Output = Result<T, LockError>> + use<T> {
        self.engine().call(Some(key.into()), call)
    }
}

/// The token with which an operator releases the lock for this holder, and how; `None` for a client of
/// another kind, and an error with the reason for a holder that is not one call.
pub(crate) fn release_of(holder: &Holder) -> Result<Option<(Token, Releases)>, &'static str> {
    let call = holder.call.as_ref().ok_or(NOT_INSPECTED)?;
    if holder.inside > 0 {
        return Err(SEVERAL);
    }
    // Who has it beside others has a limit.
    let (token, release) = match holder.limit {
        Some(_) => (Some(call.clone()).filter(Token::is_ours), Releases::AmongSeveral),
        None => (call.named(), Releases::Usual),
    };
    Ok(token.map(|token| (token, release)))
}

/// A pattern that matches `text` only.
pub(crate) fn escape_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}
