//! [`LockGuard`]: a held lock, or several that are held as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, slice};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::block_on::{block_on, wait_for};
use crate::clock::Moment;
use crate::engine::command::Command;
use crate::engine::handle::Engine;
use crate::engine::protocol::Id;
use crate::error::LockError;
use crate::lease::Lease;
use crate::lease_end::LeaseEnd;
use crate::lost_reason::LostReason;
use crate::options::check_ttl;
use crate::outcome::ReleaseOutcome;
use crate::reentrancy::{Hold, Holds, Scope};
use crate::release::{OneRelease, PendingRelease};

pub(crate) use crate::engine::command::{Extension, Response};

/// A held lock. It is renewed until it is released; dropping it releases it.
///
/// A guard of [several keys](crate::LockManager::lock_all) stands for all their locks: they are held while each of them
/// is, lost when the first one is, and released together.
///
/// Dropping needs no runtime and never panics. Inside tokio it never blocks: the release goes on in the background, and
/// [`shutdown`](crate::LockManager::shutdown) waits for it at the end of the process. Outside tokio it waits for the
/// server's answer, because the process may end next: one round trip, at most the
/// [`io_timeout`](crate::LockManagerBuilder::io_timeout), and not at all without a connection.
///
/// It can be moved to other threads and outlive the function that took it.
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
    held: Grants,
}

/// A guard of one lock is as small as if there were no other kind.
enum Grants {
    One(Grant),
    /// In the order of their keys.
    Several(Box<[Grant]>),
}

impl Grants {
    fn as_mut_slice(&mut self) -> &mut [Grant] {
        match self {
            Self::One(grant) => slice::from_mut(grant),
            Self::Several(grants) => grants,
        }
    }
}

struct Grant {
    hold: Hold,
    /// It has joined an outer lock, whose guard releases it.
    is_joined: bool,
    given_back: AtomicBool,
}

type Extended = oneshot::Receiver<Result<(), LockError>>;

impl Grant {
    fn lease(&self) -> &Arc<Lease> {
        &self.hold.lease
    }
}

impl LockGuard {
    pub(crate) fn new(engine: Arc<Engine>, id: Id, lease: Arc<Lease>) -> Self {
        let hold = Hold { id, lease };
        Self {
            engine,
            held: Grants::One(Grant { hold, is_joined: false, given_back: AtomicBool::new(false) }),
        }
    }

    /// A nested guard: it shares the lease of the outer one, and gives nothing back.
    pub(crate) fn joined(engine: Arc<Engine>, hold: Hold) -> Self {
        Self { engine, held: Grants::One(Grant { hold, is_joined: true, given_back: AtomicBool::new(true) }) }
    }

    /// One guard of all that these hold, which are of one manager.
    pub(crate) fn all(engine: Arc<Engine>, guards: impl Iterator<Item = Self>) -> Self {
        let mut grants = Vec::new();
        for mut guard in guards {
            match std::mem::replace(&mut guard.held, Grants::Several(Box::default())) {
                Grants::One(grant) => grants.push(grant),
                Grants::Several(several) => grants.extend(several),
            }
        }
        Self { engine, held: Grants::Several(grants.into()) }
    }

    /// Gives back what was taken for an attempt that failed: no body has run, and a `min_hold` does not count.
    pub(crate) fn abandon(mut self) {
        for grant in self.held.as_mut_slice() {
            if !std::mem::replace(grant.given_back.get_mut(), true) {
                self.engine.send(Command::Abandon { id: grant.hold.id });
            }
        }
    }

    /// What a nested call needs to find these locks.
    pub(crate) fn scope(&self) -> Scope {
        let holds = match &self.held {
            Grants::One(grant) => Holds::One(grant.hold.clone()),
            Grants::Several(grants) => {
                Holds::Several(Arc::new(grants.iter().map(|grant| grant.hold.clone()).collect()))
            }
        };
        Scope { engine: Arc::clone(&self.engine), holds }
    }

    /// Ready when the first of its leases is over.
    pub(crate) fn ended(&self) -> LeaseEnd {
        match &self.held {
            Grants::One(grant) => LeaseEnd::of(grant.lease()),
            Grants::Several(grants) => LeaseEnd::first_of(grants.iter().map(Grant::lease)),
        }
    }

    fn grants(&self) -> &[Grant] {
        match &self.held {
            Grants::One(grant) => slice::from_ref(grant),
            Grants::Several(grants) => grants,
        }
    }

    /// The first of its leases that is over.
    pub(crate) fn lost_lease(&self) -> Option<&Arc<Lease>> {
        let now = Moment::now();
        self.grants().iter().map(Grant::lease).find(|lease| lease.remaining(now).is_none())
    }

    /// What is left of the lease that ends first; `None` when one is over.
    fn left(&self) -> Option<Duration> {
        if !self.engine.is_here() {
            return None;
        }
        let now = Moment::now();
        // `None` is less than anything.
        self.grants().iter().map(|grant| grant.lease().remaining(now)).min().flatten()
    }

    /// The key, without the prefix; of several, the first in the order of their bytes.
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
        self.grants().first().map_or("", |grant| grant.lease().key())
    }

    /// The keys, without the prefix: one, or several, each once and in the order in which they were taken, which is that
    /// of their bytes.
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
        self.grants().iter().map(|grant| &**grant.lease().key())
    }

    /// A number that grows with every grant of every lock of this prefix on the server, for the protected resource to
    /// compare: a write with a smaller number than the resource has seen comes from a holder that has lost the lock.
    ///
    /// It is the server's time in microseconds, or one more than the last number, and below 2^53. So it grows across an
    /// expiry, a restart and a flush, too.
    ///
    /// For several keys it is the largest of their numbers, and larger than that of every earlier holder of one of them.
    /// Better give each resource the number of its own key, [`fencing_token_of`](Self::fencing_token_of): when a key is
    /// deleted while the next ones are still waited for, the largest number may be newer than that of the caller who took
    /// the lock since; the lock's own number never is. Numbers of keys in different slots of a Cluster do not compare.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://fence-example")?;
    /// let first = locks.lock("ledger").run_blocking(|guard| guard.fencing_token())?;
    /// let second = locks.lock("ledger").run_blocking(|guard| guard.fencing_token())?;
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.grants().iter().map(|grant| grant.lease().fence()).max().unwrap_or_default()
    }

    /// The [fencing token](Self::fencing_token) of the lock on `key`; `None` for a key that is not held by this guard.
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
        self.grants().iter().map(Grant::lease).find(|lease| **lease.key() == *key).map(|lease| lease.fence())
    }

    /// True while the lease lasts on this process's own clock. It ends before the server may give the lock to another
    /// caller.
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
        self.left().is_some()
    }

    /// How long the lease lasts if no renewal succeeds from now on; zero when it is over.
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
        self.left().unwrap_or_default()
    }

    /// Completes when the lock, or the first of several, is no longer held, and says why.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
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
    pub async fn lost(&self) -> LostReason {
        if !self.engine.is_here() {
            return LostReason::Forked;
        }
        let lost = match &self.held {
            Grants::One(grant) => {
                grant.lease().ended().cancelled().await;
                grant.lease().lost_reason()
            }
            Grants::Several(_) => Box::pin(self.ended()).await.lost_reason(),
        };
        lost.unwrap_or(LostReason::Expired)
    }

    /// Why the lock, or the first of several, is no longer held; `None` while it [is held](Self::is_held).
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

    /// Sets another ttl, counted from now, for this and for the coming renewals.
    ///
    /// A longer one counts once the server has confirmed it. A shorter one counts for the lease as soon as it is sent:
    /// without an answer, [`is_held`](Self::is_held) is false before the server may give the lock to another caller.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock, or one of several, is no longer held, or could not be extended before its
    /// lease ended; [`LockError::Misconfigured`] when Redis refused; [`LockError::InvalidRequest`] for a ttl out of range.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the request back: the ttl may change or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://extend-example").await?;
    /// let guard = locks.lock("import").ttl(Duration::from_secs(1)).acquire().await?;
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        match &self.held {
            Grants::One(grant) => {
                let outcome = self.extend_one(grant, ttl)?;
                outcome.await.unwrap_or_else(|_| Err(grant.lease().lost()))
            }
            Grants::Several(grants) => Box::pin(self.extend_all(grants, ttl)).await,
        }
    }

    async fn extend_all(&self, grants: &[Grant], ttl: Duration) -> Result<(), LockError> {
        // All are sent before the first is waited for.
        let sent: Result<Vec<_>, _> = grants.iter().map(|grant| self.extend_one(grant, ttl)).collect();
        for (grant, outcome) in grants.iter().zip(sent?) {
            outcome.await.unwrap_or_else(|_| Err(grant.lease().lost()))?;
        }
        Ok(())
    }

    fn extend_one(&self, grant: &Grant, ttl: Duration) -> Result<Extended, LockError> {
        check_ttl(grant.lease().key(), ttl)?;
        if !self.engine.is_here() {
            return Err(LockError::Lost { key: Arc::clone(grant.lease().key()), reason: LostReason::Forked });
        }
        let (caller, outcome) = oneshot::channel();
        self.engine.send(Command::Extend { id: grant.hold.id, extension: Extension { ttl, caller } });
        Ok(outcome)
    }

    /// [`extend`](Self::extend) for sync code; parks this thread.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://extend-blocking-example")?;
    /// let guard = locks.lock("import").acquire_blocking()?;
    /// guard.extend_blocking(Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend_blocking(&self, ttl: Duration) -> Result<(), LockError> {
        block_on(self.extend(ttl))
    }

    /// Releases the lock, and says whether it was still held. A lock that another caller has by now is left alone. With
    /// [`min_hold`](crate::LockRequest::min_hold) the key stays until then; a nested guard leaves the release to the outer
    /// one. Several locks are released together, and the outcome is [`ReleaseOutcome::AlreadyLost`] when one was lost.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when Redis gave no answer in time, or says that it cannot do this now (it loads its data,
    /// cannot save them, has too few replicas); the release is retried in the background until the ttl has passed.
    /// [`LockError::Misconfigured`] when Redis refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the release back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::ReleaseOutcome;
    /// # let locks = redlocked::LockManager::connect("memory://release-example").await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.begin_release().await
    }

    /// [`release`](Self::release) for sync code; parks this thread.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::ReleaseOutcome;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://release-blocking-example")?;
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        block_on(self.begin_release())
    }

    /// Sends the release now; the future is only for the outcome.
    pub(crate) fn begin_release(&self) -> PendingRelease {
        match &self.held {
            Grants::One(grant) => PendingRelease::One(self.release_one(grant)),
            Grants::Several(grants) => {
                PendingRelease::several(grants.iter().map(|grant| self.release_one(grant)).collect())
            }
        }
    }

    fn release_one(&self, grant: &Grant) -> OneRelease {
        let (caller, outcome) = oneshot::channel();
        if grant.is_joined {
            let is_held = grant.lease().remaining(Moment::now()).is_some();
            let found = if is_held { ReleaseOutcome::Released } else { ReleaseOutcome::AlreadyLost };
            let _ = caller.send(Ok(found));
        } else {
            grant.given_back.store(true, Ordering::Relaxed);
            self.engine.send(Command::Release { id: grant.hold.id, response: Some(Response::to(caller)) });
        }
        OneRelease { key: Arc::clone(grant.lease().key()), outcome }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Sync code may be at the end of its process, which would take the release with it.
        let waits = Handle::try_current().is_err();
        let mut answers = Vec::new();
        for grant in self.held.as_mut_slice() {
            if *grant.given_back.get_mut() {
                continue;
            }
            let response = waits.then(|| {
                let (caller, outcome) = oneshot::channel();
                answers.push(OneRelease { key: Arc::clone(grant.lease().key()), outcome });
                Response::to_dropped(caller)
            });
            self.engine.send(Command::Release { id: grant.hold.id, response });
        }
        if !answers.is_empty() {
            wait_for(self.engine.io_timeout(), PendingRelease::several(answers));
        }
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
    use crate::manager::LockManager;
    use crate::request::{Keys, LockRequest};

    type Event = tokio_util::sync::WaitForCancellationFutureOwned;

    #[test]
    fn a_forked_child_has_no_lock_and_releases_none() -> Result<(), LockError> {
        let locks = LockManager::connect_blocking("memory://forked")?;
        let guard = locks.lock("k").acquire_blocking()?;
        locks.engine().fork();
        let lost = |error| matches!(error, Err(LockError::Lost { reason: LostReason::Forked, .. }));
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert_eq!(guard.lost_reason(), Some(LostReason::Forked));
        assert_eq!(block_on(guard.lost()), LostReason::Forked);
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
    fn several_keys_cost_one_key_nothing() {
        assert_eq!(size_of::<Keys>(), size_of::<String>());
        assert_eq!(size_of::<Acquire>(), size_of::<LockRequest>());
        assert_eq!(size_of::<Grants>(), size_of::<Grant>());
        assert_eq!(size_of::<PendingRelease>(), size_of::<OneRelease>());
        assert_eq!(size_of::<Option<Scope>>(), size_of::<(Arc<Engine>, Hold)>());
        assert_eq!(size_of::<LeaseEnd>(), size_of::<(Arc<Lease>, Event)>());
    }
}
