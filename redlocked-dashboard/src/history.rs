//! Who held a lock in the last half hour, as far as somebody looked.
//!
//! Each look at a lock says who holds it. A holder that was not there at the look before has begun a
//! hold, and one that is not there any more has ended it. The server says to the second when a lock
//! was granted, so a hold begins then, but not before the last look. While nobody looked, or Redis
//! did not answer, nobody knows who held the lock: that time is a gap.

use std::time::{Duration, SystemTime};

use redlocked::Holder;
use redlocked::inspect::LockInfo;

/// So long is a lock's past kept.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 60);

/// And so many of its holds.
const MOST_HOLDS: usize = 500;

/// Without a look for longer than this, nobody knows who held the lock.
const SILENCE: Duration = Duration::from_secs(4);

/// How a hold has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Open,
    /// It was released, or taken away.
    Released,
    /// Its lease has ended, and nobody renewed it.
    Expired,
    /// It was not there any more after a gap.
    Unseen,
}

/// Whether a holder renews its lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewal {
    /// The key does not expire.
    NoLease,
    /// The first third of its TTL is not over yet.
    NotYet,
    /// When the last one was seen.
    Seen(SystemTime),
    /// None since then, for half of its TTL.
    Overdue(SystemTime),
}

/// The hold of one caller.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) holder: Holder,
    pub(crate) from: SystemTime,
    /// The first look that found it.
    pub(crate) found: SystemTime,
    /// The last time at which it was seen, or at which it had ended.
    pub(crate) to: SystemTime,
    pub(crate) end: End,
    /// It may have begun before `from`.
    pub(crate) began_earlier: bool,
    /// The last renewal that was seen.
    pub(crate) renewed: Option<SystemTime>,
    /// The longest lease that was seen: about the TTL.
    longest: Duration,
}

impl Hold {
    fn found(holder: &Holder, now: SystemTime, last: Option<SystemTime>, is_alone: bool) -> Self {
        // The server keeps no grant time for one of several holders.
        let granted = holder.granted().filter(|_| is_alone).filter(|granted| *granted <= now);
        let (from, began_earlier) = match (granted, last) {
            (Some(granted), Some(last)) => (granted.max(last), false),
            (Some(granted), None) => (granted, false),
            (None, Some(_)) => (now, false),
            (None, None) => (now, true),
        };
        let longest = holder.expires_in().unwrap_or_default();
        let (holder, end, renewed) = (holder.clone(), End::Open, None);
        Self { holder, from, found: now, to: now, end, began_earlier, renewed, longest }
    }

    fn goes_on(&mut self, holder: &Holder, now: SystemTime) {
        let passed = now.duration_since(self.to).unwrap_or_default();
        if let (Some(before), Some(left)) = (self.holder.expires_in(), holder.expires_in()) {
            // A lease grows by a renewal only; the two looks are not exactly as far apart as they seem.
            if left > before.saturating_sub(passed) + Duration::from_millis(150) {
                self.renewed = Some(now);
            }
            self.longest = self.longest.max(left);
        }
        (self.holder, self.to) = (holder.clone(), now);
    }

    fn ends(&mut self, now: SystemTime, was_seen: bool) {
        let left = self.holder.expires_in();
        // A live holder renews each third of its TTL, so its lease is never that short.
        let is_late = left.is_some_and(|left| left < self.longest / 2 && self.to + left <= now);
        self.end = match (was_seen, is_late) {
            (false, _) => End::Unseen,
            (true, true) => End::Expired,
            (true, false) => End::Released,
        };
        self.to = match (self.end, left) {
            (End::Unseen, _) => self.to,
            (End::Expired, Some(left)) => self.to + left,
            _ => now,
        };
    }

    /// Whether its holder renews it: the last renewal that was seen, or that there should have been one.
    pub(crate) fn renewal(&self, now: SystemTime) -> Renewal {
        let is_overdue = |since| now.duration_since(since).is_ok_and(|passed| passed > self.longest / 2);
        match self.renewed {
            _ if self.holder.expires_in().is_none() => Renewal::NoLease,
            Some(renewed) if is_overdue(renewed) => Renewal::Overdue(renewed),
            Some(renewed) => Renewal::Seen(renewed),
            None if is_overdue(self.found) => Renewal::Overdue(self.found),
            None => Renewal::NotYet,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// How long, and whether it is longer.
    pub(crate) fn lasted(&self) -> (Duration, bool) {
        let lasted = self.to.duration_since(self.from).unwrap_or_default();
        (lasted, self.began_earlier || self.end == End::Unseen)
    }
}

/// The past of one lock.
#[derive(Clone)]
pub(crate) struct History {
    /// In the order in which they have begun.
    pub(crate) holds: Vec<Hold>,
    /// When nobody looked.
    pub(crate) gaps: Vec<(SystemTime, SystemTime)>,
    pub(crate) began: SystemTime,
    last: Option<(SystemTime, Option<LockInfo>)>,
    /// Grows with each change of the holder: a form that carries it names the holder that its page has
    /// shown.
    pub(crate) change: u64,
}

impl History {
    pub(crate) fn new(now: SystemTime) -> Self {
        Self { holds: Vec::new(), gaps: Vec::new(), began: now, last: None, change: 0 }
    }

    /// Since when nobody has looked, if that is too long.
    fn silent_since(&self, now: SystemTime) -> Option<SystemTime> {
        let (last, _) = self.last.as_ref()?;
        now.duration_since(*last).is_ok_and(|silence| silence > SILENCE).then_some(*last)
    }

    pub(crate) fn look(&mut self, now: SystemTime, found: Option<&LockInfo>) {
        let gap = self.silent_since(now);
        self.gaps.extend(gap.map(|since| (since, now)));
        let before = self.last.as_ref().and_then(|(_, before)| before.as_ref());
        let is_same = match (before, found) {
            (Some(before), Some(found)) => before.has_same_holder(found),
            (before, found) => before.is_none() == found.is_none(),
        };
        if !is_same {
            self.change += 1;
        }
        let holders = found.map_or(&[][..], LockInfo::holders);
        for hold in self.holds.iter_mut().filter(|hold| hold.is_open()) {
            match holders.iter().find(|holder| holder.is_same_call(&hold.holder)) {
                Some(holder) => hold.goes_on(holder, now),
                None => hold.ends(now, gap.is_none()),
            }
        }
        let is_alone = found.is_some_and(|found| found.holder().inside().is_none());
        let last = self.last.as_ref().map(|(last, _)| *last);
        for holder in holders {
            if !self.holds.iter().any(|hold| hold.is_open() && hold.holder.is_same_call(holder)) {
                let mut hold = Hold::found(holder, now, last, is_alone);
                hold.began_earlier |= gap.is_some() && holder.granted().is_none();
                self.holds.push(hold);
            }
        }
        self.last = Some((now, found.cloned()));
        self.forget(now);
    }

    fn forget(&mut self, now: SystemTime) {
        let is_kept = |to: SystemTime| now.duration_since(to).is_ok_and(|age| age < KEPT) || to > now;
        self.holds.retain(|hold| hold.is_open() || is_kept(hold.to));
        self.gaps.retain(|(_, to)| is_kept(*to));
        let more = self.holds.len().saturating_sub(MOST_HOLDS);
        self.holds.drain(..more);
    }

    /// When it was last seen, and what.
    pub(crate) fn last(&self) -> Option<(SystemTime, Option<&LockInfo>)> {
        self.last.as_ref().map(|(at, found)| (*at, found.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use redlocked::{LockGuard, LockManager};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn locks(name: &str) -> LockManager {
        LockManager::connect_blocking(format!("memory://history-{name}"))
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn hold(locks: &LockManager) -> LockGuard {
        locks.lock("k").acquire_blocking().unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn found(locks: &LockManager) -> Option<LockInfo> {
        locks.inspect_blocking("k").unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn a_hold_begins_and_ends_between_two_looks() {
        let (locks, start) = (locks("begins"), SystemTime::now());
        let mut history = History::new(start);
        history.look(start, None);
        let guard = hold(&locks);
        history.look(start + SECOND, found(&locks).as_ref());
        drop(guard);
        history.look(start + 2 * SECOND, None);
        let hold = &history.holds[0];
        assert_eq!((hold.end, hold.to, history.change), (End::Released, start + 2 * SECOND, 2));
        assert!(hold.from >= start && hold.from <= start + SECOND && !hold.began_earlier);
    }

    #[test]
    fn nobody_knows_what_was_while_nobody_looked() {
        let (locks, start) = (locks("gap"), SystemTime::now());
        let mut history = History::new(start);
        let guard = hold(&locks);
        history.look(start, found(&locks).as_ref());
        drop(guard);
        history.look(start + 60 * SECOND, None);
        assert_eq!(history.gaps, [(start, start + 60 * SECOND)]);
        assert_eq!((history.holds[0].end, history.holds[0].to), (End::Unseen, start));
    }

    #[test]
    fn a_lease_that_nobody_renews_is_told_from_a_release() {
        let (locks, start) = (locks("expired"), SystemTime::now());
        let request = locks.lock("k").ttl(60 * SECOND).renew(false);
        let guard = request.acquire_blocking().unwrap_or_else(|error| unreachable!("{error}"));
        let full = found(&locks);
        let mut hold =
            Hold::found(full.as_ref().map_or_else(|| unreachable!(), LockInfo::holder), start, None, true);
        drop(guard);
        hold.longest = 180 * SECOND;
        hold.ends(start + 61 * SECOND, true);
        assert_eq!(hold.end, End::Expired);
    }
}
