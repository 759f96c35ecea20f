//! Where a waiter stands on the server, and how often it asks there.
//!
//! What the server pushes is asked for less often: the server notifies the head of a queue of its
//! turn, and who watches the lock of its change. A push or a watch may be lost, so each waiter
//! that asks for its process asks from time to time all the same.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::engine::protocol::{Place, QUEUE_TTL, ServerTime};
use crate::engine::timers::jittered;

/// How often the first waiter of a process asks again where the server tells of no release.
pub(super) const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How often the first waiter of a process asks again when it is next in the queue: less than a
/// claim, so a stuck waiter with a grant delays the others by no more than its claim.
const ASK_AGAIN_QUEUED: Duration = Duration::from_millis(600);

/// How often it asks far behind in the queue if no client is notified when the lock is deleted.
const ASK_AGAIN_UNWATCHED: Duration = Duration::from_secs(2);

/// How often it asks there if a client is notified: less than the queue's time to live.
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(10);
const _: () = assert!(2 * ASK_AGAIN_AT_LAST.as_secs() <= QUEUE_TTL.as_secs());

/// What the last reply "busy" says of the waiter.
pub(super) struct Standing {
    /// The time of the request whose reply had its place in the queue; `None` without a place.
    sent: Option<Moment>,
    /// The server's time in that reply.
    at: ServerTime,
    /// The waiters in front of it.
    in_front: u32,
    /// All in front of it may be of this process, where only the first waiter asks.
    leads: bool,
    /// This waiter watches the lock: the server tells when it changes.
    watches: bool,
    /// The server notifies a client of the end of the lock: this waiter, or a holder that uses the
    /// queue.
    reports_end: bool,
}

impl Standing {
    /// No reply has had a place yet.
    pub(super) const UNKNOWN: Self =
        Self { sent: None, at: ServerTime(0), in_front: 0, leads: false, watches: false, reports_end: false };

    /// The lock is busy, as the server has replied to the request that was `sent` then. `first`: this
    /// waiter asks for its process, with so many. `can_watch`: the server can tell a waiter of
    /// changes, which are `news`.
    pub(super) fn set(
        &mut self,
        place: Option<Place>,
        sent: Moment,
        first: Option<u32>,
        can_watch: bool,
        is_foreign: bool,
        is_news: bool,
    ) {
        let has_waited = self.is_queued();
        // A release wakes no waiter without a queue, or when the holder is a client of another
        // kind. Of a queue the head watches, and whoever has waited for longer: those in front may
        // be dead.
        let leads = first.zip(place).is_some_and(|(of, place)| place.in_front < of);
        let wakes_no_waiter = place.is_none() || (leads || has_waited) && is_foreign;
        let watches = first.is_some() && can_watch && wakes_no_waiter && is_news;
        let reports_end = can_watch && (watches || !is_foreign);
        let Place { in_front, at } = place.unwrap_or(Place { in_front: 0, at: ServerTime(0) });
        *self = Self { sent: place.map(|_| sent), at, in_front, leads, watches, reports_end };
    }

    /// It has a place in the queue.
    pub(super) fn is_queued(&self) -> bool {
        self.sent.is_some()
    }

    /// The waiters in front of it, in the last reply.
    pub(super) fn in_front(&self) -> Option<u32> {
        self.sent.map(|_| self.in_front)
    }

    /// Its place is gone.
    pub(super) fn clear_place(&mut self) {
        self.sent = None;
    }

    /// The server tells this waiter when another client changes the lock.
    pub(super) fn watches(&self) -> bool {
        self.watches
    }

    /// Its next request ends the watch.
    pub(super) fn end_watch(&mut self) {
        self.watches = false;
    }

    /// The server has refused the watch, and tells nobody.
    pub(super) fn clear_watch(&mut self) {
        (self.watches, self.reports_end) = (false, false);
    }

    /// Returns how long it pauses before it asks again.
    pub(super) fn interval(&self, is_foreign: bool) -> Duration {
        jittered(match self.sent {
            _ if self.watches && (self.leads || !self.is_queued()) => ASK_AGAIN_QUEUED,
            // A client of another kind releases without a push.
            Some(_) if self.leads && is_foreign => ASK_AGAIN_AFTER,
            Some(_) => {
                let longest = if self.reports_end { ASK_AGAIN_AT_LAST } else { ASK_AGAIN_UNWATCHED };
                (ASK_AGAIN_QUEUED * (2 + self.in_front.min(100)) / 2).min(longest)
            }
            None => ASK_AGAIN_AFTER,
        })
    }

    /// The earliest time at which the lock may have been granted; `None` when that is unknown.
    ///
    /// The arrival of a push says nothing: the process may have been suspended. The server's clock
    /// tells how long after the last reply it granted the lock, and that reply came after its
    /// request was sent. A hundredth allows for clocks of different speed.
    pub(super) fn granted_since(&self, now: Moment, at: ServerTime) -> Option<Moment> {
        let sent = self.sent?;
        let later = Duration::from_micros(at.0.checked_sub(self.at.0)?);
        Some(sent.after(later.saturating_sub(later / 100)).min(now))
    }

    /// The time here when the server's clock showed `at`, or a little before. The server may have
    /// read its clock again for the last reply.
    pub(super) fn local_time_of(&self, now: Moment, at: ServerTime) -> Moment {
        match self.sent {
            Some(sent) if at < self.at && self.at.0 < u64::MAX => sent.min(now),
            _ => self.granted_since(now, at).unwrap_or(now),
        }
    }

    /// Its queue may be on another server now, with another clock: the start of a pushed grant is
    /// unknown until that server has answered.
    pub(super) fn forget_server_clock(&mut self) {
        self.at = ServerTime(u64::MAX);
    }
}
