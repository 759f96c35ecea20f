//! A lock that travels: its guard becomes a ticket.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::LockGuard;
use crate::base::error::LockError;
use crate::base::lease::ttl_is_in_range;
use crate::base::outcome::{LostReason, ReleaseOutcome};
use crate::base::span::Span;
use crate::block_on::block_on;
use crate::engine::command::{Command, Released, Response};
use crate::engine::handle::{ENGINE_GONE, Engine};
use crate::engine::operator_calls::OperatorCall;
use crate::engine::protocol::Releases;
use crate::ticket::Ticket;

impl LockGuard {
    /// Gives the lock away: another process, or a later call, takes it over with
    /// [`LockManager::redeem`](crate::LockManager::redeem), and nobody else has it in between.
    ///
    /// The lease of this guard ends at once, with [`LostReason::HandedOver`], and a nested call
    /// that has joined it is stopped. On the server, the lock stays held for `lasts`, without
    /// renewal, and its waiters keep waiting. If nobody has redeemed the ticket by then, the next
    /// waiter gets the lock. A `min_hold` and a `max_hold` end with this hold.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock was lost before; [`LockError::Unavailable`] and
    /// [`LockError::Misconfigured`] as [`release`](Self::release); [`LockError::InvalidRequest`]
    /// for a `lasts` below 10 ms or above 2^53 ms, for a guard of several keys, for that of a
    /// nested call, for one of a [tick](crate::LockRequest::tick), and over a quorum of independent servers, which has no tickets. In each case
    /// there is no ticket, and the lock is released.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped gives no ticket, and the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://into-ticket-example").await?;
    /// let guard = locks.lock("export:7").acquire().await?;
    /// let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
    /// assert!(locks.lock("export:7").acquire().await.is_err(), "it is taken all the time");
    /// let guard = locks.redeem(ticket).await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_ticket(self, lasts: Duration) -> Result<Ticket, LockError> {
        self.give_away(lasts).await
    }

    /// [`into_ticket`](Self::into_ticket) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`into_ticket`](Self::into_ticket).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://into-ticket-blocking-example")?;
    /// let guard = locks.lock("export:7").acquire_blocking()?;
    /// let ticket = guard.into_ticket_blocking(Duration::from_secs(60))?;
    /// let guard = locks.redeem(ticket).acquire_blocking()?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_ticket_blocking(self, lasts: Duration) -> Result<Ticket, LockError> {
        block_on(&self.engine, self.give_away(lasts))
    }

    /// After [`LockError::InvalidRequest`] the lock is still held.
    async fn give_away(&self, lasts: Duration) -> Result<Ticket, LockError> {
        let [grant] = self.grants.as_slice() else {
            let reason = format!(
                "a ticket is for one lock, and this guard holds {}: acquire the keys one by one, and give each away",
                self.keys().count()
            );
            return Err(LockError::InvalidRequest { key: self.key().into(), reason: reason.into() });
        };
        let (key, lease) = (grant.lease().key(), grant.lease());
        if !self.engine.is_here() {
            return Err(LockError::Lost { key: Arc::clone(key), reason: LostReason::Forked });
        }
        if !ttl_is_in_range(lasts) {
            let reason =
                format!("a ticket cannot last for {}: at least 10 ms, and below 2^53 ms", Span(lasts));
            return Err(LockError::invalid(key, reason));
        }
        if grant.is_joined {
            return Err(LockError::invalid(key, NOT_ITS_OWN));
        }
        if lease.tick().is_some() {
            return Err(LockError::invalid(key, OF_A_TICK));
        }
        if grant.is_released.swap(true, Ordering::Relaxed) {
            return Err(lease.lost());
        }
        let (caller, outcome) = oneshot::channel();
        let response = Response::to(caller);
        self.engine.send(Command::HandOver { id: grant.hold.id, lasts, response });
        let mut untaken = Untaken { engine: &self.engine, key, lasts, outcome };
        let Ok(Released { outcome, lock, .. }) = (&mut untaken.outcome).await else {
            return Err(LockError::closed(key, ENGINE_GONE));
        };
        match (outcome, lock) {
            (Ok(ReleaseOutcome::Released), Some((name, token))) => {
                Ticket::new(&name, key, token).ok_or_else(|| LockError::closed(key, ENGINE_GONE))
            }
            (Ok(_), _) if lease.is_handed_over() => {
                Err(LockError::Lost { key: Arc::clone(key), reason: LostReason::KeyChanged })
            }
            (Ok(_), _) => Err(lease.lost()),
            (Err(error), _) => {
                if let LockError::InvalidRequest { .. } = *error {
                    grant.is_released.store(false, Ordering::Relaxed);
                }
                Err(*error)
            }
        }
    }
}

/// The reason in the error of a nested call.
const NOT_ITS_OWN: &str = "this call has joined the lock of its caller, which alone can give it away";

/// The reason in the error of a lock that is for a tick.
const OF_A_TICK: &str = "a ticket gives a lock away, and not the tick that it is for: run the tick to its end here, or take the lock \
                         without a tick";

/// A ticket that is on its way to the caller. Where the caller leaves before it has come, nobody
/// can redeem it: the lock is released.
struct Untaken<'a> {
    engine: &'a Engine,
    key: &'a Arc<str>,
    lasts: Duration,
    outcome: oneshot::Receiver<Released>,
}

impl Drop for Untaken<'_> {
    fn drop(&mut self) {
        // From now on the engine releases the lock by itself.
        self.outcome.close();
        if let Ok(Released { outcome: Ok(ReleaseOutcome::Released), lock: Some((name, token)), .. }) =
            self.outcome.try_recv()
        {
            let release = OperatorCall::release(name, token, self.lasts, Releases::Usual);
            drop(self.engine.call(Some(Arc::clone(self.key)), release));
        }
    }
}

/// The option of a body to give its lock to another process: what `ticket = name` of the attribute
/// binds. It is the [`LockGuard`] of the body, too: `name.fencing_token()`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use redlocked::{LockError, LockManager, Ticket, distributed_lock};
///
/// #[distributed_lock(key = "export:{id}", ticket = lock, manager = locks)]
/// async fn begin(locks: &LockManager, id: u64) -> Result<Ticket, LockError> {
///     // Under the lock: note that the export has begun …
///     lock.into_ticket(Duration::from_secs(60)).await // … and leave the rest to a worker.
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://hand-over-example").await?;
/// let ticket = begin(&locks, 7).await?;
/// let guard = locks.redeem(ticket).await?;
/// assert_eq!(guard.key(), "export:7");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HandOver<'a> {
    guard: &'a LockGuard,
}

impl Deref for HandOver<'_> {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        self.guard
    }
}

impl<'a> HandOver<'a> {
    #[doc(hidden)]
    #[must_use]
    pub fn of(guard: &'a LockGuard) -> Self {
        Self { guard }
    }

    /// Gives the lock away, as [`LockGuard::into_ticket`] does, and the body continues without the
    /// lock: it sends the ticket, and ends. The caller gets the result of the body.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::into_ticket`]. After [`LockError::InvalidRequest`] the body still holds the
    /// lock; after any other error it does not.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped gives no ticket, and the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlocked::{LockError, LockManager, Ticket, distributed_lock};
    /// #[distributed_lock(key = "export:{id}", ticket = lock, manager = locks)]
    /// async fn begin(locks: &LockManager, jobs: &mut Vec<Ticket>, id: u64) -> Result<(), LockError> {
    ///     let ticket = lock.into_ticket(Duration::from_secs(60)).await?;
    ///     jobs.push(ticket);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://hand-over-async-example").await?;
    /// let mut jobs = Vec::new();
    /// begin(&locks, &mut jobs, 7).await?;
    /// assert_eq!(jobs.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_ticket(self, lasts: Duration) -> Result<Ticket, LockError> {
        self.guard.give_away(lasts).await
    }

    /// [`into_ticket`](Self::into_ticket) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`into_ticket`](Self::into_ticket).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlocked::{LockError, LockManager, Ticket, distributed_lock};
    /// #[distributed_lock(key = "export:{id}", ticket = lock, manager = locks)]
    /// fn begin(locks: &LockManager, id: u64) -> Result<Ticket, LockError> {
    ///     lock.into_ticket_blocking(Duration::from_secs(60))
    /// }
    ///
    /// # fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect_blocking("memory://hand-over-sync-example")?;
    /// let ticket = begin(&locks, 7)?;
    /// assert_eq!(ticket.key(), "export:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_ticket_blocking(self, lasts: Duration) -> Result<Ticket, LockError> {
        block_on(&self.guard.engine, self.guard.give_away(lasts))
    }
}
