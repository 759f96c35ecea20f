//! [`ReleaseOutcome`]: whether a lock was still held when it was released.
//!
//! [`LostReason`]: why a lock is no longer held.

use std::fmt;

/// The outcome of a release: whether the lock was still held.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockManager, ReleaseOutcome};
///
/// let locks = LockManager::connect_blocking("memory://outcome-example")?;
/// let outcome = locks.lock("stock:42").acquire_blocking()?.release_blocking()?;
/// assert_eq!(outcome, ReleaseOutcome::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was held until this release, and is free or the next waiter's now.
    Released,
    /// The lock was held until this release. It stays taken until its
    /// [`min_hold`](crate::LockRequest::min_hold) is over.
    Kept,
    /// The guard had joined the lock of an outer call, as [`reentrant`](crate::LockRequest::reentrant)
    /// allows: that call still holds it.
    Joined,
    /// The lock had been lost before: its lease ended, or the key was deleted or overwritten.
    /// Another caller may have been inside.
    AlreadyLost,
}

/// Why a lock is no longer held. Where several reasons apply, the earliest counts.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockManager, LostReason};
///
/// let locks = LockManager::connect("memory://lost-reason-example").await?;
/// let guard = locks.lock("import").max_hold(Duration::from_millis(20)).acquire().await?;
/// assert_eq!(guard.lost().await, LostReason::MaxHold);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease ended before a renewal succeeded: Redis did not answer or refused, or this process
    /// stood still. A lock [without renewal](crate::LockRequest::renew) ends like this when its TTL
    /// has passed.
    Expired,
    /// The lock was held for [`max_hold`](crate::LockRequest::max_hold).
    MaxHold,
    /// The key on the server was deleted, overwritten or evicted, or the server has forgotten it:
    /// another client may have the lock.
    KeyChanged,
    /// [`force_release`](crate::LockManager::force_release) of the same manager released it.
    ForceReleased,
    /// An operator took its place from this one of several holders, with
    /// [`force_release_from`](crate::LockManager::force_release_from) of any manager. The others keep
    /// theirs.
    Revoked,
    /// The guard of this hold released the lock, or was dropped.
    Released,
    /// [`shutdown`](crate::LockManager::shutdown) ended it at its limit, or its manager has ended.
    ManagerClosed,
    /// This process was forked from the one that holds the lock.
    Forked,
    /// The holder gave it away: its [ticket](crate::LockGuard::into_ticket) may be redeemed
    /// elsewhere.
    HandedOver,
    /// Nobody has the lock of a ticket: it was [redeemed](crate::LockManager::redeem) before, and the
    /// lock is released since, or its time is over, or the server has forgotten the lock.
    TicketOver,
    /// A ticket was redeemed a second time, or after its time: another caller has the lock.
    TicketUsed,
    /// The body of a [leader](crate::Election::lead) was not polled, and did not ask
    /// [`is_leading`](crate::Term::is_leading), for its
    /// [`max_blocked`](crate::Election::max_blocked), so its lease was not renewed any more.
    Blocked,
    /// Under a [`rate`](crate::LockRequest::rate) nothing is held: its guard notes a start.
    Started,
}

impl LostReason {
    pub(crate) const ALL: [Self; 13] = [
        Self::Expired,
        Self::MaxHold,
        Self::KeyChanged,
        Self::ForceReleased,
        Self::Revoked,
        Self::Released,
        Self::ManagerClosed,
        Self::Forked,
        Self::HandedOver,
        Self::TicketOver,
        Self::TicketUsed,
        Self::Blocked,
        Self::Started,
    ];

    /// The name in `snake_case`, which stays the same over versions: for the label of a metric or a
    /// field of a log.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(redlocked::LostReason::KeyChanged.as_str(), "key_changed");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::MaxHold => "max_hold",
            Self::KeyChanged => "key_changed",
            Self::ForceReleased => "force_released",
            Self::Revoked => "revoked",
            Self::Released => "released",
            Self::ManagerClosed => "manager_closed",
            Self::Forked => "forked",
            Self::HandedOver => "handed_over",
            Self::TicketOver => "ticket_over",
            Self::TicketUsed => "ticket_used",
            Self::Blocked => "blocked",
            Self::Started => "started",
        }
    }

    /// False for a lock that its holder has released or given away.
    pub(crate) fn is_loss(self) -> bool {
        !matches!(self, Self::Released | Self::HandedOver | Self::Started)
    }

    /// All codes are below this.
    pub(crate) const CODES: u64 = Self::ALL.len() as u64;

    /// The number that a lease stores in place of its deadline.
    pub(crate) fn code(self) -> u64 {
        self as u64
    }

    pub(crate) fn of_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ended before it was renewed",
            Self::MaxHold => "it was held for `max_hold`",
            Self::KeyChanged => "its key was deleted or overwritten on the server",
            Self::ForceReleased => "it was released by force",
            Self::Revoked => "an operator took its place among several holders",
            Self::Released => "its guard has released it",
            Self::ManagerClosed => "its lock manager has been shut down",
            Self::Forked => "this process was forked from the one that holds it",
            Self::HandedOver => "its holder has given it away with a ticket",
            Self::TicketOver => "its ticket was redeemed before and the lock released since, or its time is over, or the server has \
                 forgotten it",
            Self::TicketUsed => "its ticket was redeemed before, or not in time, and another caller has it",
            Self::Blocked => "the body of its leader was blocked for longer than `max_blocked`, so its lease was not renewed",
            Self::Started => "a `rate` limits starts, and nothing is held",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_code_of_its_own() {
        for (reason, code) in LostReason::ALL.into_iter().zip(0..) {
            assert_eq!(reason.code(), code);
            assert_eq!(LostReason::of_code(code), Some(reason));
        }
        assert_eq!(LostReason::of_code(LostReason::CODES), None);
    }
}
