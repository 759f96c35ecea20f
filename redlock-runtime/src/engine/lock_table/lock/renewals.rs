//! When a held lock is renewed.
//!
//! The first renewal is due after a third of the ttl, and it is repeated until the deadline of the
//! lease. A lock that was granted by a push lasts for the claim only, so its first renewal claims the
//! ttl; most bodies end before.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::engine::protocol::CLAIM;

/// A lock whose key expires early is renewed no more often than this.
const REPAIRED_EVERY: Duration = Duration::from_millis(100);

/// Renewals that are due within this time go out in one batch, which wakes the engine once.
const BATCH: Duration = Duration::from_millis(10);

/// The time of the renewal: after a third of the time from `since`, or a little before.
fn renewal_after(since: Moment, lasts: Duration) -> Moment {
    since.after(lasts / 3).rounded_down(BATCH.min(lasts / 100))
}

pub(super) struct Renewals {
    /// Since when the lock is held at the earliest. What is not renewed lasts for its ttl from then on.
    since: Moment,
    next: Option<Moment>,
    /// The time when the last one was sent; before the first one, since when the lock is held.
    sent: Moment,
    /// False: only a claim, and a change of the ttl, renew.
    is_wanted: bool,
    /// False while the lock, granted by a push, expires after the claim instead of the ttl.
    is_claimed: bool,
}

impl Renewals {
    /// Those of a lock that is held since then. `claims`: until a renewal the server keeps it for the
    /// claim.
    pub(super) fn new(since: Moment, is_wanted: bool, claims: bool) -> Self {
        Self { since, next: None, sent: since, is_wanted, is_claimed: !claims }
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.next
    }

    /// True when the holder has asked for renewals.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// True when the server keeps the lock for its ttl.
    pub(super) fn is_claimed(&self) -> bool {
        self.is_claimed
    }

    /// Returns what is left of the TTL, unless a renewal extends it.
    pub(super) fn left(&self, now: Moment, ttl: Duration) -> Duration {
        ttl.saturating_sub(now.since(self.since))
    }

    /// For how long the server keeps the lock.
    pub(super) fn lasts(&self, ttl: Duration) -> Duration {
        if self.is_claimed { ttl } else { ttl.min(CLAIM) }
    }

    /// The first one is due.
    pub(super) fn start(&mut self, ttl: Duration) {
        self.next = Some(renewal_after(self.sent, self.lasts(ttl)));
    }

    /// One is being sent. The next one is due without a reply, too.
    pub(super) fn set_sent(&mut self, now: Moment, ttl: Duration) {
        self.sent = now;
        self.start(ttl);
    }

    /// The server has confirmed one: it keeps the lock for the ttl.
    pub(super) fn set_claimed(&mut self) {
        self.is_claimed = true;
    }

    /// The one that was sent then is confirmed. `is_due`: another one follows it. `is_kept`: no later
    /// than it was to be sent.
    pub(super) fn go_on(&mut self, sent: Moment, ttl: Duration, is_due: bool, is_kept: bool) {
        let next = is_due.then(|| renewal_after(sent, ttl));
        self.next = self.next.filter(|_| is_kept).into_iter().chain(next).min();
    }

    /// The key expires early: true when one is due at once. It is renewed, but not more often than
    /// every [`REPAIRED_EVERY`].
    pub(super) fn repair(&mut self, now: Moment) -> bool {
        let from = self.sent.after(REPAIRED_EVERY);
        if now < from {
            self.next = Some(self.next.map_or(from, |due| due.min(from)));
        }
        now >= from
    }

    /// The server refused, or the body of a leader is blocked, for now: renew again soon.
    pub(super) fn retry(&mut self, now: Moment, ttl: Duration) {
        let pause = (ttl / 10).clamp(Duration::from_millis(5), Duration::from_secs(1));
        self.next = Some(now.after(pause));
    }

    /// None is due before the next connection, where one is sent at once, or a change of the ttl.
    pub(super) fn suspend(&mut self) {
        self.next = None;
    }

    /// Another caller has the lock, and may not want renewals. The server knows the new holder by
    /// then.
    pub(super) fn hand_over(&mut self, now: Moment, is_wanted: bool, named_by: Moment) {
        self.is_wanted = is_wanted;
        self.next = Some(self.next.unwrap_or(now).min(named_by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_one_batch_are_due_at_once_and_none_later_than_a_third() {
        let start = Moment::now().rounded_down(BATCH);
        for ttl in [Duration::from_millis(10), Duration::from_millis(500), Duration::from_secs(30)] {
            for micros in [0, 1, 9_999, 10_000, 123_456] {
                let since = start.after(Duration::from_micros(micros));
                let at = renewal_after(since, ttl);
                assert!(at <= since.after(ttl / 3), "{ttl:?}");
                assert!(at >= since.after(ttl * 3 / 10), "{ttl:?}");
            }
        }
        let ttl = Duration::from_secs(30);
        let [first, last, next] =
            [0, 9_999, 10_000].map(|micros| renewal_after(start.after(Duration::from_micros(micros)), ttl));
        assert_eq!(first, last);
        assert_ne!(first, next);
    }
}
