//! [`LockGuard`]: a held lock, or several that are held as one.

mod downgrade;
mod extend;
mod hand_over;
mod lost;
mod release;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use crate::base::error::LockError;
use crate::base::fence::Fence;
use crate::base::lease::Lease;
use crate::base::lease::LeaseEnd;
use crate::base::limit::Limit;
use crate::base::one_or_many::OneOrMany;
use crate::base::outcome::LostReason;
use crate::base::telemetry;
use crate::base::tick::time_of;
use crate::engine::command::Command;
use crate::engine::handle::Engine;
use crate::engine::protocol::Id;
use crate::reentrancy::{HeldLock, Scope};

pub use hand_over::HandOver;
pub use lost::Lost;
pub(crate) use release::PendingRelease;

/// A held lock. It is renewed until it is released; dropping it releases it.
///
/// A guard of [several keys](crate::LockManager::lock_all) holds all their locks: it counts as lost
/// as soon as one of them is lost, and releases them together.
///
/// Dropping a guard needs no runtime and never panics. Inside tokio, the drop writes the release to
/// the connection, and does not wait for the answer; the process may exit next. If the release
/// fails, the manager retries it in the background, and [`shutdown`](crate::LockManager::shutdown)
/// waits for it: call it before the process exits, if the connection may be down at that time, or
/// if many guards were just dropped. Outside tokio, the drop waits for the answer, because the
/// process may exit next: one round trip, at most the
/// [`io_timeout`](crate::LockManagerBuilder::io_timeout). Without a connection it does not wait.
///
/// A guard can be moved to another thread, and may outlive the function that acquired it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockManager, ReleaseOutcome};
///
/// let locks = LockManager::connect("memory://guard-example").await?;
/// let guard = locks.lock("stock:42").acquire().await?;
/// assert_eq!(guard.key(), "stock:42");
/// assert!(guard.is_held());
/// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
/// # Ok(())
/// # }
/// ```
#[must_use = "a lock is released when its guard is dropped"]
pub struct LockGuard {
    engine: Arc<Engine>,
    /// In the order of their keys.
    grants: OneOrMany<Grant>,
    hold: telemetry::ObservedHold,
}

/// The reason where a process stood still before its start.
const TOO_LATE_TO_START: &str =
    "this process stood still between the answer of Redis and its start, which is used up: call again";

struct Grant {
    hold: HeldLock,
    /// It shares the lease of an outer guard, which releases it.
    is_joined: bool,
    /// Dropping the guard sends no release for it.
    is_released: AtomicBool,
}

impl Grant {
    fn lease(&self) -> &Arc<Lease> {
        &self.hold.lease
    }

    /// Its former guard releases it no more.
    fn take(&mut self) -> Self {
        let is_released = std::mem::replace(self.is_released.get_mut(), true);
        Self { hold: self.hold.clone(), is_joined: self.is_joined, is_released: is_released.into() }
    }
}

impl LockGuard {
    pub(crate) fn new(engine: Arc<Engine>, id: Id, lease: Arc<Lease>) -> Self {
        let hold = HeldLock { id, lease };
        let grant = Grant { hold, is_joined: false, is_released: AtomicBool::new(false) };
        if let Some(tested) = engine.tested() {
            tested.on_acquired(grant.lease().key());
        }
        Self { engine, grants: OneOrMany::One(grant), hold: telemetry::ObservedHold::default() }
    }

    /// The guard of a nested call: it shares the leases of the outer guard, and releases nothing.
    pub(crate) fn joined(Scope { engine, holds }: Scope) -> Self {
        let joined = |hold: &HeldLock| Grant {
            hold: hold.clone(),
            is_joined: true,
            is_released: AtomicBool::new(true),
        };
        Self { engine, grants: holds.map(joined), hold: telemetry::ObservedHold::default() }
    }

    /// One guard for all the locks of `guards`, which are of one manager.
    pub(crate) fn all(engine: Arc<Engine>, guards: impl Iterator<Item = Self>) -> Self {
        let mut grants = Vec::new();
        for mut guard in guards {
            grants.extend(guard.grants.as_mut_slice().iter_mut().map(Grant::take));
        }
        Self { engine, grants: grants.into(), hold: telemetry::ObservedHold::default() }
    }

    /// Makes the guard of a body that runs once, and is done: there is nothing to hold.
    pub(crate) fn of_no_lock(engine: Arc<Engine>) -> Self {
        Self { engine, grants: Vec::new().into(), hold: telemetry::ObservedHold::default() }
    }

    /// Returns whether it holds no lock, because its body, which runs once, is done.
    #[cfg(feature = "once")]
    pub(crate) fn is_of_no_lock(&self) -> bool {
        self.grants.as_slice().is_empty()
    }

    /// The caller that has waited for it has it now.
    pub(crate) fn observed(mut self, wait: &mut telemetry::Wait) -> Self {
        let mut owned = self.grants.as_slice().iter().filter(|grant| !grant.is_joined).peekable();
        if owned.peek().is_none() {
            if self.grants.as_slice().is_empty() {
                wait.replays();
            } else {
                wait.joins();
            }
            return self;
        }
        let events = self.engine.events();
        owned.clone().for_each(|grant| events.acquired(grant.lease().key(), grant.lease().fence()));
        let first = self.grants.as_slice().first().map(Grant::lease);
        let limits = self.grants.as_slice().iter().map(|grant| grant.lease().limit());
        let limit = limits.reduce(Limit::least).unwrap_or(Limit::ONE);
        let is_run = first.is_some_and(|lease| lease.is_run());
        let hold = wait.acquires(self.fencing_token(), limit, is_run, events);
        owned.for_each(|grant| {
            grant.lease().observed(&hold);
            grant.lease().begins(|| self.engine.now());
        });
        self.hold = hold;
        self
    }

    /// The caller of a rate starts now, and holds nothing from now on. The engine tells the server when
    /// that was, in the background: until then the server counts the start for longer.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] where it is too late: the server might forget the start too soon.
    pub(crate) fn started(self) -> Result<Self, LockError> {
        let OneOrMany::One(grant) = &self.grants else { return Ok(self) };
        let lease = Arc::clone(grant.lease());
        if !lease.is_start() {
            return Ok(self);
        }
        let is_late = lease.check(self.engine.now()).is_none();
        self.hold.ends();
        lease.end(LostReason::Started);
        self.release_in_background();
        match lease.lost_reason() {
            Some(LostReason::Started) => Ok(self),
            Some(LostReason::Expired) if is_late => {
                Err(LockError::unavailable(lease.key(), TOO_LATE_TO_START))
            }
            _ => Err(lease.lost()),
        }
    }

    /// The holder of one lock leads, and announces this; `None`: it steps down.
    pub(crate) fn announce(&self, text: Option<Arc<str>>) {
        if let OneOrMany::One(grant) = &self.grants {
            self.engine.send(Command::Announce { id: grant.hold.id, text });
        }
    }

    /// To be entered for each poll of the body.
    pub(crate) fn body_span(&self) -> telemetry::BodySpan {
        self.hold.body_span()
    }

    /// Releases the locks of an attempt that failed. No body has run, so a `min_hold` does not
    /// count.
    pub(crate) fn abandon(mut self) {
        for grant in self.grants.as_mut_slice() {
            if !std::mem::replace(grant.is_released.get_mut(), true) {
                self.engine.send(Command::Abandon { id: grant.hold.id });
            }
        }
        self.engine.flush();
    }

    /// False for the guard of a nested call, whose lock is that of an outer one.
    pub(crate) fn may_give_away(&self) -> bool {
        self.grants.as_slice().iter().all(|grant| !grant.is_joined)
    }

    /// The locks that a nested call may join.
    pub(crate) fn scope(&self) -> Scope {
        Scope { engine: Arc::clone(&self.engine), holds: self.grants.map(|grant| grant.hold.clone()) }
    }

    /// Completes when the first of its leases ends.
    pub(crate) fn lease_end(&self) -> LeaseEnd {
        LeaseEnd::of(self.engine.clock(), self.grants.map(|grant| Arc::clone(grant.lease())))
    }

    fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        self.grants.as_slice().iter().map(Grant::lease)
    }

    /// Returns the key; of several, the first.
    pub(crate) fn first_key(&self) -> Option<Arc<str>> {
        self.leases().next().map(|lease| Arc::clone(lease.key()))
    }

    /// The first of its leases that has ended.
    pub(crate) fn lost_lease(&self) -> Option<&Arc<Lease>> {
        let now = self.engine.now();
        self.leases().find(|lease| lease.check(now).is_none())
    }

    /// Returns how long until the first of its leases ends; `None` when one has ended.
    fn time_left(&self) -> Option<Duration> {
        if !self.engine.is_here() {
            return None;
        }
        let now = self.engine.now();
        // `None` is less than any duration.
        self.leases().map(|lease| lease.check(now)).min().flatten()
    }

    /// The key, without the prefix; the first of several, in the order of their bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://key-example")?;
    /// assert_eq!(locks.lock("stock:42").acquire_blocking()?.key(), "stock:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.leases().next().map_or("", |lease| lease.key())
    }

    /// All keys, without the prefix, each once, in the order of their bytes, which is the order in
    /// which they were taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://keys-example")?;
    /// let guard = locks.lock_all(["account:2", "account:1", "account:2"]).acquire_blocking()?;
    /// assert!(guard.keys().eq(["account:1", "account:2"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.leases().map(|lease| &**lease.key())
    }

    /// Returns a number that grows with every grant of this lock through this prefix. The protected
    /// resource
    /// [refuses](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html) a
    /// write with a smaller number than it has seen, because that write comes from a holder that
    /// has lost the lock.
    ///
    /// It is the server's time in microseconds, or the last number plus one if that is larger, and
    /// below 2^53. So it grows across an expiry, and also across a restart without data, a flush
    /// and a failover, unless the new server's clock is behind the old one. In a split brain, two
    /// primaries may give the same number to two holders. If callers reach one key through two
    /// prefixes, their numbers cannot be compared. Details: [How far fencing tokens
    /// go](../redlocked/docs/options/index.html#how-far-fencing-tokens-go).
    ///
    /// For several keys, this returns the largest of their numbers, which is larger than the number
    /// of every earlier holder of one of them. But send each resource the number of its own key,
    /// [`fencing_token_of`](Self::fencing_token_of): if a key is deleted while this caller still
    /// waits for the later keys, another caller may take its lock with a number below this caller's
    /// largest. Numbers of keys in different slots of a Cluster, or of different keys with a
    /// [`cohort`](crate::LockManagerBuilder::cohort), cannot be compared.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://fence-example")?;
    /// let first = locks.lock("ledger").run_value_blocking(|guard| guard.fencing_token())?;
    /// let second = locks.lock("ledger").run_value_blocking(|guard| guard.fencing_token())?;
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.leases().map(|lease| lease.fence()).max().unwrap_or_default()
    }

    /// Returns the [fencing token](Self::fencing_token) of the lock on `key`, which is given
    /// without the prefix; `None` for a key that this guard does not hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://fence-of-example")?;
    /// let guard = locks.lock_all(["account:1", "account:2"]).acquire_blocking()?;
    /// assert!(guard.fencing_token_of("account:1").is_some());
    /// assert_ne!(guard.fencing_token_of("account:1"), guard.fencing_token_of("account:2"));
    /// assert_eq!(guard.fencing_token_of("account:3"), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token_of(&self, key: &str) -> Option<u64> {
        self.leases().find(|lease| **lease.key() == *key).map(|lease| lease.fence())
    }

    /// Returns the name and the fencing token of each lock, in the order of their keys, for a
    /// resource that refuses the writes of earlier holders. The crate `redlocked-sqlx` does it in
    /// SQL.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://fences-example")?;
    /// let guard = locks.lock_all(["account:1", "account:2"]).acquire_blocking()?;
    /// for fence in guard.fences() {
    ///     assert_eq!(guard.fencing_token_of(fence.key()), Some(fence.fencing_token()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fences(&self) -> impl Iterator<Item = Fence> {
        self.leases().map(|lease| Fence::of(lease.key(), self.engine.prefix(), lease.fence()))
    }

    /// The tick that this guard runs, by its nominal time: that of
    /// [`tick_at`](crate::LockRequest::tick_at), or the full [`tick`](crate::LockRequest::tick) that
    /// the server has named. `None` for a lock that is for no tick.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let locks = redlocked::LockManager::connect_blocking("memory://guard-tick-example")?;
    /// let guard = locks.lock("report").tick(Duration::from_secs(3600)).acquire_blocking()?;
    /// if let Some(tick) = guard.tick() {
    ///     assert_eq!(tick.duration_since(UNIX_EPOCH)?.as_secs() % 3600, 0, "a full hour");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tick(&self) -> Option<SystemTime> {
        self.leases().next()?.tick().map(time_of)
    }

    /// Marks the tick as failed: with [`TickMissed::Retry`](crate::TickMissed::Retry), its release
    /// leaves it to the next caller that asks for it. With
    /// [`TickMissed::Skip`](crate::TickMissed::Skip), or for a lock without a tick, it has no
    /// effect. An annotated function, or a body of [`run`](crate::LockRequest::run), that returns
    /// an `Err` does this by itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::TickMissed;
    /// # async fn send() -> Result<(), std::fmt::Error> { Err(std::fmt::Error) }
    /// # let locks = redlocked::LockManager::connect("memory://fail-tick-example").await?;
    /// let tick = || locks.lock("report").tick(Duration::from_secs(3600)).tick_missed(TickMissed::Retry);
    /// let sent = tick().run_value(async |guard| {
    ///     let sent = send().await;
    ///     if sent.is_err() {
    ///         guard.fail_tick();
    ///     }
    ///     sent
    /// });
    /// assert!(sent.await?.is_err());
    /// assert!(tick().acquire().await.is_ok(), "another replica may run it");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_tick(&self) {
        self.leases().for_each(|lease| lease.fails_tick());
    }

    /// Returns true while the lease lasts on this process's own monotonic clock. The lease ends
    /// before the server may grant the lock to another caller.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://is-held-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// for _row in 0..3 {
    ///     if !guard.is_held() {
    ///         break; // a sync body cannot be stopped from outside
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.time_left().is_some()
    }

    /// Returns how long the lease lasts if no renewal succeeds from now on; zero when it has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://remaining-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// assert!(guard.remaining() > std::time::Duration::from_secs(20));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.time_left().unwrap_or_default()
    }

    /// Returns a future that completes with the reason when the lock, or the first of several, is no
    /// longer held. The future does not borrow the guard and does not keep the lock: see [`Lost`].
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time. A new one completes at the same event.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://lost-example").await?;
    /// let guard = locks.lock("import").ttl(Duration::from_millis(20)).renew(false).acquire().await?;
    /// assert_eq!(guard.lost().await, redlocked::LostReason::Expired);
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::new(self.engine.is_here().then(|| self.lease_end()))
    }

    /// Returns why the lock, or the first of several, is no longer held; `None` while it [is
    /// held](Self::is_held).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://why-lost-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// for _row in 0..3 {
    ///     if let Some(reason) = guard.lost_reason() {
    ///         eprintln!("stopped: {reason}");
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        if !self.engine.is_here() {
            return Some(LostReason::Forked);
        }
        self.lost_lease().and_then(|lease| lease.lost_reason())
    }

    /// Returns an error if the lock, or one of several, is no longer held. Use it with `?` before a
    /// step that needs the lock.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the key and the reason.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://guard-assert-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// guard.ensure_held()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), LockError> {
        let Some(reason) = self.lost_reason() else {
            return Ok(());
        };
        let lost = self.lost_lease().or_else(|| self.leases().next());
        Err(LockError::Lost { key: lost.map(|lease| Arc::clone(lease.key())).unwrap_or_default(), reason })
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("keys", &self.keys().collect::<Vec<_>>())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquire::Acquire;
    use crate::block_on::block_on;
    use crate::manager::LockManager;
    use crate::request::LockRequest;

    #[test]
    fn a_forked_child_has_no_lock_and_releases_none() -> Result<(), LockError> {
        let locks = LockManager::connect_blocking("memory://forked")?;
        let guard = locks.lock("k").acquire_blocking()?;
        locks.engine().fork();
        let lost = |error| matches!(error, Err(LockError::Lost { reason: LostReason::Forked, .. }));
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert_eq!(guard.lost_reason(), Some(LostReason::Forked));
        assert_eq!(block_on(&guard.engine, guard.lost()), LostReason::Forked);
        assert!(lost(guard.extend_blocking(Duration::from_secs(1))));
        let closed = |error: Option<LockError>| matches!(error, Some(LockError::ManagerClosed { .. }));
        assert!(closed(locks.lock("other").wait_forever().acquire_blocking().err()));
        assert!(closed(locks.lock_all(["a", "b"]).wait_forever().acquire_blocking().err()));
        assert!(closed(locks.inspect_blocking("k").err()) && closed(locks.capabilities_blocking().err()));
        let nested = |request: LockRequest| request.wait_forever().reentrant(true).acquire_blocking().err();
        let mut scope = Some(guard.scope());
        let here = crate::reentrancy::enter(&mut scope);
        assert!(closed(nested(locks.lock("k"))), "what the parent holds is not joined");
        drop(here);
        locks.shutdown_blocking(Duration::MAX)?;
        drop(guard);

        locks.engine().fork();
        let held = locks.inspect_blocking("k")?;
        assert!(held.is_some(), "the parent still has it");
        locks.lock("other").acquire_blocking().map(drop)
    }

    #[test]
    fn a_request_of_one_key_does_not_pay_for_requests_of_many() {
        let observed = size_of::<telemetry::Wait>();
        assert_eq!(size_of::<Acquire>(), size_of::<LockRequest>() + observed);
        assert_eq!(size_of::<OneOrMany<Grant>>(), size_of::<Grant>());
        assert_eq!(size_of::<Option<Scope>>(), size_of::<(Arc<Engine>, HeldLock)>());
    }
}
