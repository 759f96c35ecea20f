//! A lock that is held alone becomes a shared one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::LockGuard;
use crate::base::error::LockError;
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::block_on::block_on;
use crate::engine::command::Command;

impl LockGuard {
    /// Turns this lock, which is held alone, into a [shared](crate::LockRequest::shared) one, without a moment
    /// in which another caller has it alone: a writer becomes a reader. The readers that wait enter, up to the first
    /// caller in the queue that wants the lock alone.
    ///
    /// The guard is the same as before, and so is its [fencing token](Self::fencing_token), which the readers
    /// that enter have, too. Its lease, its ttl, its renewals, its `min_hold` and its `max_hold` go on. For a guard
    /// that is shared already, nothing is sent.
    ///
    /// There is no way back: an upgrade would wait for the other readers, and two readers that want the same
    /// would wait for each other. Take the lock alone, and downgrade it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock is no longer held; [`LockError::Unavailable`] without an answer within
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout), and [`LockError::Misconfigured`] when Redis
    /// refused: the lock is still held, and this may be called again. Behind `Unavailable` the server may
    /// have done it. [`LockError::InvalidRequest`], and nothing is changed, for a guard of several keys, for that of
    /// a nested call, of a [tick](crate::LockRequest::tick), of a body that runs once, of a leader, of several
    /// permits or of one with a `min_hold`; on a manager with a [`cohort`](crate::LockManagerBuilder::cohort); and
    /// over a quorum of independent servers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the call: the lock may be shared or not. The guard holds and releases it
    /// as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://downgrade-example").await?;
    /// let guard = locks.lock("catalogue").acquire().await?;
    /// // Replace the catalogue: nobody reads it.
    /// assert!(locks.lock("catalogue").shared().acquire().await.is_err());
    /// guard.downgrade().await?;
    /// // Announce what was written, beside those that read it, and before another one writes.
    /// let reader = locks.lock("catalogue").shared().acquire().await?;
    /// assert_eq!(reader.fencing_token(), guard.fencing_token());
    /// assert!(locks.lock("catalogue").acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(&self) -> Result<(), LockError> {
        let [grant] = self.grants.as_slice() else {
            let reason = format!(
                "a downgrade is for one lock, and this guard holds {}: acquire the keys one by one",
                self.keys().count()
            );
            return Err(LockError::InvalidRequest { key: self.key().into(), reason: reason.into() });
        };
        let (key, lease) = (grant.lease().key(), grant.lease());
        if !self.engine.is_here() {
            return Err(LockError::Lost { key: Arc::clone(key), reason: LostReason::Forked });
        }
        let reason = if grant.is_joined {
            Some(NOT_ITS_OWN)
        } else if lease.heartbeat().is_some() {
            Some(OF_A_LEADER)
        } else if lease.is_start() {
            Some(OF_A_START)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(LockError::invalid(key, reason));
        }
        if grant.is_released.load(Ordering::Relaxed) || lease.check(self.engine.now()).is_none() {
            return Err(lease.lost());
        }
        if lease.limit() == Limit::NONE {
            return Ok(());
        }
        let (caller, outcome) = oneshot::channel();
        self.engine.send(Command::Downgrade { id: grant.hold.id, caller });
        outcome.await.unwrap_or_else(|_| Err(lease.lost()))
    }

    /// [`downgrade`](Self::downgrade) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`downgrade`](Self::downgrade).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://downgrade-blocking-example")?;
    /// let guard = locks.lock("catalogue").acquire_blocking()?;
    /// guard.downgrade_blocking()?;
    /// assert!(locks.lock("catalogue").shared().acquire_blocking().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn downgrade_blocking(&self) -> Result<(), LockError> {
        block_on(&self.engine, self.downgrade())
    }
}

/// The reason in the error of a nested call.
const NOT_ITS_OWN: &str = "this call has joined the lock of its caller, which relies on having it alone: downgrade the guard of the outer call";

/// The reason in the error of a leader.
const OF_A_LEADER: &str =
    "there is one leader at a time: take a lock of its own for what others may read beside it";

/// The reason in the error of a call under a rate.
const OF_A_START: &str = "a call under a rate holds nothing";
