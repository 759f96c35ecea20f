//! Another TTL for a held lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Grant, LockGuard};
use crate::base::error::LockError;
use crate::base::outcome::LostReason;
use crate::block_on::block_on;
use crate::engine::command::{Command, Extension};
use crate::options::check_ttl;

impl LockGuard {
    /// Sets another TTL, counted from now, for this lease and for all later renewals.
    ///
    /// A longer TTL counts once the server has confirmed it. A shorter one ends the lease earlier
    /// from now on: even without an answer, [`is_held`](Self::is_held) becomes false before the
    /// server may give the lock to another caller.
    ///
    /// It returns an error without an answer within
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout), or if the lock is lost. The lease
    /// then lasts as long as [`remaining`](Self::remaining) says. Later renewals carry the new TTL,
    /// which counts when the server confirms one of them. A request with
    /// [`renew(false)`](crate::LockRequest::renew) has no renewals, so the manager requests a
    /// longer TTL again.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock, or one of several, is no longer held, or its lease ended
    /// before the server confirmed; [`LockError::Unavailable`] without an answer in time;
    /// [`LockError::Misconfigured`] when Redis refused; [`LockError::InvalidRequest`] for a TTL out
    /// of range.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the call: the TTL may change or not.
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
        for lease in self.leases() {
            check_ttl(lease.key(), ttl)?;
            if !self.engine.is_here() {
                return Err(LockError::Lost { key: Arc::clone(lease.key()), reason: LostReason::Forked });
            }
        }
        // All are sent before the first answer is awaited.
        let mut outcomes = self.grants.map(|grant| self.send_extension(grant, ttl));
        for (lease, outcome) in self.leases().zip(outcomes.as_mut_slice()) {
            outcome.await.unwrap_or_else(|_| Err(lease.lost()))?;
        }
        Ok(())
    }

    fn send_extension(&self, grant: &Grant, ttl: Duration) -> oneshot::Receiver<Result<(), LockError>> {
        let (caller, outcome) = oneshot::channel();
        self.engine.send(Command::Extend { id: grant.hold.id, extension: Extension { ttl, caller } });
        outcome
    }

    /// Renews before a renewal is due, and waits for nothing.
    pub(crate) fn renew_now(&self, ttl: Duration) {
        for grant in self.grants.as_slice() {
            drop(self.send_extension(grant, ttl));
        }
    }

    /// [`extend`](Self::extend) for sync code: blocks this thread.
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
        block_on(&self.engine, self.extend(ttl))
    }
}
