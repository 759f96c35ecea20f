//! Leases: until when a holder may be inside, on its own clock.
//!
//! The deadline is conservative: it counts from the instant *before* the request was sent, and stops short of
//! the ttl by the drift that the Redlock algorithm allows for, `ttl / 100 + 2 ms`
//! (<https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>). The server may give the lock
//! away only after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Moment;

/// The shortest ttl that leaves room for a round trip and for the drift.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(10);

/// The longest: above 2^53 ms, Lua's numbers are no longer exact.
pub(crate) const MAX_TTL_MS: u64 = 1 << 53;

/// Until when a lock granted for `ttl` by a request sent at `sent` is safe.
pub(crate) fn safe_until(sent: Moment, ttl: Duration) -> Moment {
    let drift = ttl / 100 + Duration::from_millis(2);
    sent.after(ttl.saturating_sub(drift))
}

/// The deadline of an ended lease.
const OVER: u64 = 0;

/// One lease, shared by its guard (which checks) and the engine (which renews).
///
/// Once over, it stays over: a renewal that arrives late cannot revive it, because somebody may have seen it
/// end and stopped.
pub(crate) struct Lease {
    key: Arc<str>,
    fence: u64,
    deadline: AtomicU64,
    ended: CancellationToken,
}

impl Lease {
    pub(crate) fn new(key: Arc<str>, fence: u64, deadline: Moment) -> Self {
        Self { key, fence, deadline: AtomicU64::new(deadline.to_nanos()), ended: CancellationToken::new() }
    }

    /// The user's key, without the prefix.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The fencing token of this grant.
    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    /// What is left at `now`, or `None` when the lease is over; looking at it past its deadline ends it.
    pub(crate) fn remaining(&self, now: Moment) -> Option<Duration> {
        let deadline = self.deadline.load(Ordering::Acquire);
        if deadline == OVER {
            return None;
        }
        let left = Moment::from_nanos(deadline).since(now);
        if !left.is_zero() {
            return Some(left);
        }
        match self.deadline.compare_exchange(deadline, OVER, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.ended.cancel();
                None
            }
            // Renewed or ended in between: look again.
            Err(_) => self.remaining(now),
        }
    }

    /// Moves the deadline after a renewal. False when the lease is over, and stays so.
    pub(crate) fn renew(&self, now: Moment, deadline: Moment) -> bool {
        if self.remaining(now).is_none() {
            return false;
        }
        self.deadline
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                (old != OVER).then_some(deadline.to_nanos())
            })
            .is_ok()
    }

    /// Ends the lease now: lost, or about to be released.
    pub(crate) fn end(&self) {
        self.deadline.store(OVER, Ordering::Release);
        self.ended.cancel();
    }

    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self.deadline.load(Ordering::Acquire) {
            OVER => None,
            nanos => Some(Moment::from_nanos(nanos)),
        }
    }

    /// An event that fires when the lease is over.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_deadline_stops_short_of_the_ttl_by_the_drift() {
        let sent = Moment::now();
        let deadline = safe_until(sent, 10 * SECOND);
        assert_eq!(deadline.since(sent), Duration::from_millis(9_898));
        assert!(safe_until(sent, MIN_TTL) > sent);
    }

    #[test]
    fn an_ended_lease_cannot_be_revived() {
        let start = Moment::now();
        let lease = Lease::new("k".into(), 1, start.after(SECOND));
        assert!(lease.renew(start, start.after(2 * SECOND)));
        assert_eq!(lease.remaining(start), Some(2 * SECOND));
        assert_eq!(lease.remaining(start.after(3 * SECOND)), None, "seen past its deadline");
        assert!(lease.ended().is_cancelled());
        assert!(!lease.renew(start, start.after(9 * SECOND)), "a late renewal comes too late");
        assert_eq!(lease.remaining(start), None);
    }

    #[test]
    fn a_renewal_that_arrives_after_the_deadline_ends_the_lease() {
        let start = Moment::now();
        let lease = Lease::new("k".into(), 1, start.after(SECOND));
        assert!(!lease.renew(start.after(2 * SECOND), start.after(9 * SECOND)));
        assert!(lease.ended().is_cancelled());
    }
}
