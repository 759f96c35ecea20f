//! Safety: no more holders at once than each of them allows, fencing tokens in order, no write after a later one.
//!
//! A holder is inside from when it knew that it had the lock until it left, until its own deadline
//! as it last saw it, or until its last report, whichever comes first: acts after its deadline are
//! not the lock's fault. The resource is a register per key that remembers the largest fencing
//! token it has seen and refuses a smaller one.
//!
//! The checker takes the holds in the order in which they entered and then forgets them, so that a
//! run may last for hours.

pub mod calls;
pub mod history;
mod lag;
mod limits;
pub mod liveness;
mod loss;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) use lag::{Lag, LagOf};
use limits::Limits;
pub use loss::{Loss, LossDetection};

/// A holder's time inside. Times in nanoseconds of one clock.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    pub(crate) key: u64,
    /// Since when the caller waited, if known.
    pub(crate) called: Option<u64>,
    /// Foreign clients have none.
    pub(crate) fence: Option<u64>,
    /// How many may be inside together with it, itself included, 0 for any number; `None` where it
    /// must be alone.
    pub(crate) allows: Option<u64>,
    /// When the caller asked for the lock, or earlier.
    pub(crate) asked: u64,
    pub(crate) entered: u64,
    /// When it was last seen inside, and the deadline of its lease as it saw it then.
    pub(crate) seen: u64,
    pub(crate) deadline: u64,
    /// When it asked for another ttl, and when a lease of that ttl ends, until it was seen inside
    /// again.
    pub(crate) asked_for: Option<(u64, u64)>,
    /// The longest ttl that it had.
    pub(crate) lasts: u64,
    pub(crate) left: Option<u64>,
    /// When a foreign client found another value than its own, before its deadline.
    pub(crate) changed: Option<u64>,
    /// When it wrote, with or without the lock.
    pub(crate) writes: Vec<u64>,
}

impl Hold {
    /// Makes the call that returned without the lock: it was never inside.
    pub(crate) fn of_a_vain_wait(key: u64, called: u64, back: u64) -> Self {
        Self {
            key,
            called: Some(called),
            asked: called,
            entered: back,
            seen: back,
            deadline: back,
            ..Self::default()
        }
    }

    /// A central limit counts in place of a number of permits.
    fn allows(&self, inside: usize, central: Option<u64>) -> bool {
        let most = match self.allows.unwrap_or(1) {
            own @ (0 | 1) => own,
            own => central.unwrap_or(own),
        };
        most == 0 || usize::try_from(most).is_ok_and(|most| inside <= most)
    }

    /// Both may be inside in one phase of the lock, and have one fencing token then.
    fn is_of_phase(&self, other: &Self) -> bool {
        self.allows.is_some() && other.allows.is_some() && self.fence == other.fence
    }

    pub(crate) fn end(&self) -> u64 {
        let deadline = self.asked_for.map_or(self.deadline, |(_, until)| until.min(self.deadline));
        self.left.unwrap_or(self.seen).min(deadline)
    }

    /// It is inside, and its lease ends then. A shorter ttl counts from when it was sent: before
    /// that, it is not seen.
    pub(crate) fn on_seen(&mut self, at: u64, deadline: u64) {
        const SENT_WITHIN: u64 = 5_000_000;
        (self.seen, self.deadline) = (at, deadline);
        self.lasts = self.lasts.max(deadline.saturating_sub(at));
        self.asked_for = self.asked_for.filter(|(asked, _)| at < asked + SENT_WITHIN);
    }
}

/// The worker's number, and the number of the hold in it.
pub type HoldId = (usize, u64);

/// The kinds of violation between two holds of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViolationKind {
    /// Both were inside, and more than one of those inside allows.
    Overlap {
        /// For so long.
        lasted: Duration,
    },
    /// The later grant does not have the larger fencing token.
    Fence {
        /// How much smaller than the token before; zero when equal.
        by: u64,
    },
    /// The lock had no holder although the second waited for it.
    Idle {
        /// For so long.
        lasted: Duration,
    },
    /// A foreign client could not release its lock, because another client had changed the value.
    Changed,
    /// The register accepted a write of the first after a write of the second, which entered later.
    StaleWrite,
}

/// A violation between two holds of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub(crate) what: ViolationKind,
    pub(crate) key: u64,
    pub(crate) first: HoldId,
    pub(crate) second: HoldId,
    pub(crate) at: u64,
}

/// The findings of the checker, and how much it has checked.
#[derive(Clone, Default, Debug)]
pub struct CheckResult {
    /// The violations that no loss excuses.
    pub violations: Vec<Violation>,
    /// The number of violations that a loss excuses.
    pub excused: usize,
    /// The longest excused overlap.
    pub longest_excused: Duration,
    /// Holds of workers.
    pub holds: usize,
    /// Holds of the foreign client.
    pub foreign: usize,
    /// Holds for which there was room only because of a central limit.
    pub by_central_limit: usize,
    /// Writes of all holders to the resource.
    pub writes: usize,
    /// Writes whose fencing token was older than one that the resource had seen.
    pub refused: usize,
}

impl CheckResult {
    /// How often two were inside.
    pub fn overlaps(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::Overlap { .. }))
    }

    /// How often a later grant had no larger fencing token.
    pub fn fences(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::Fence { .. }))
    }

    /// How often a write came after one of a later holder.
    pub fn stale_writes(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::StaleWrite))
    }

    /// How often a foreign client's value was changed.
    pub fn changed(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::Changed))
    }

    /// How often a lock that was waited for had no holder.
    pub fn idle(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::Idle { .. }))
    }

    fn count(&self, kind: impl Fn(ViolationKind) -> bool) -> usize {
        self.violations.iter().filter(|violation| kind(violation.what)).count()
    }
}

/// A machine that was busy a moment ago is still busy: the lateness of a plain timer just before
/// counts, too.
const JUST_BEFORE: u64 = 1_000_000_000;

/// A hold and its id, without its writes.
type NamedHold = (HoldId, Hold);

/// Compares each hold with those before it.
#[derive(Clone, Default)]
pub struct Checker {
    keys: BTreeMap<u64, Key>,
    pub(crate) result: CheckResult,
    /// How soon a lock with waiters has its next holder, where no fault is injected.
    pub(crate) hand_over: Option<Duration>,
    pub(crate) lag: Lag,
    pub(crate) limits: Limits,
}

#[derive(Clone, Default)]
struct Key {
    /// The hold that lasts longest of all so far.
    last: Option<NamedHold>,
    /// Those that may be inside when the next one enters.
    inside: Vec<NamedHold>,
    /// The last hold with a fencing token.
    fenced: Option<NamedHold>,
    entered: u64,
    /// Writes that are not yet ordered with those of later holds: the time and a number, and the
    /// hold.
    writes: BTreeMap<(u64, u64), NamedHold>,
    register: Register,
    recent: VecDeque<NamedHold>,
}

#[derive(Clone, Default)]
struct Register {
    largest: u64,
    latest: Option<(u64, NamedHold)>,
}

impl Checker {
    /// Takes all holds that entered, and all waits that ended without the lock, before `until`:
    /// each once, in that order. Later ones come with a later call.
    pub(crate) fn look(
        &mut self,
        holds: Vec<NamedHold>,
        vain_waits: Vec<NamedHold>,
        until: u64,
        losses: &[Loss],
    ) {
        let mut found = Vec::new();
        let mut vain_waits = vain_waits.into_iter().peekable();
        for (name, mut hold) in holds {
            while let Some((name, wait)) = vain_waits.next_if(|(_, wait)| wait.entered <= hold.entered) {
                self.idles(name, &wait, &mut found);
            }
            self.idles(name, &hold, &mut found);
            match hold.fence {
                Some(_) => self.result.holds += 1,
                None => self.result.foreign += 1,
            }
            let key = self.keys.entry(hold.key).or_default();
            key.entered += 1;
            let writes = std::mem::take(&mut hold.writes);
            key.writes.extend(writes.into_iter().map(|at| ((at, key.entered), (name, hold.clone()))));
            key.fences(name, &hold, &mut found);
            let since = hold.called.unwrap_or(hold.asked).min(hold.asked);
            let limits = self.limits.within(hold.key, since, hold.entered, losses);
            self.result.by_central_limit += usize::from(key.overlaps(name, &hold, &limits, &mut found));
            if let Some(at) = hold.changed {
                let what = ViolationKind::Changed;
                let violation = Violation { what, key: hold.key, first: name, second: name, at };
                found.push((violation, hold.clone(), hold.clone()));
            }
            key.recent.push_back((name, hold));
        }
        for (name, wait) in vain_waits {
            self.idles(name, &wait, &mut found);
        }
        for key in self.keys.values_mut() {
            let later = key.writes.split_off(&(until, 0));
            for ((at, number), writer) in std::mem::replace(&mut key.writes, later) {
                self.result.writes += 1;
                self.result.refused += usize::from(!key.register.takes(at, number, writer, &mut found));
            }
        }
        for (violation, first, second) in found {
            let excuses = |loss: &Loss| {
                let stolen = self.lag.of_machine(loss.from, first.end().min(second.end()));
                loss.excuses(&violation, &first, &second, stolen)
            };
            if losses.iter().any(excuses) {
                self.result.excused += 1;
                if let ViolationKind::Overlap { lasted } = violation.what {
                    self.result.longest_excused = self.result.longest_excused.max(lasted);
                }
            } else {
                self.result.violations.push(violation);
            }
        }
    }

    /// Called before the second becomes the last of its key. It may have waited without success.
    fn idles(&self, second: HoldId, hold: &Hold, found: &mut Vec<Found>) {
        let (Some(limit), Some(called)) = (self.hand_over, hold.called) else {
            return;
        };
        let last = self.keys.get(&hold.key).and_then(|key| key.last.as_ref());
        let (first, other) = last.map_or((second, hold), |(first, other)| (*first, other));
        let (from, to) = (last.map_or(called, |_| other.end().max(called)), hold.entered);
        let stolen = self.lag.of_any(from.saturating_sub(JUST_BEFORE), to);
        let lasted = Duration::from_nanos(to.saturating_sub(from).saturating_sub(stolen));
        if lasted > limit {
            let what = ViolationKind::Idle { lasted };
            let violation = Violation { what, key: hold.key, first, second, at: from };
            found.push((violation, other.clone(), hold.clone()));
        }
    }

    /// The recent holds of `key` between those times.
    pub(crate) fn around(&self, key: u64, from: u64, to: u64) -> impl Iterator<Item = &NamedHold> {
        let recent = self.keys.get(&key).into_iter().flat_map(|key| &key.recent);
        recent.filter(move |(_, hold)| hold.entered <= to && from <= hold.end())
    }

    /// Drops old holds, so that memory stays bounded. Those that enter before then have been looked at.
    pub(crate) fn forget(&mut self, before: u64) {
        const KEPT: usize = 256;
        self.lag.forget();
        self.limits.forget(before);
        for key in self.keys.values_mut() {
            key.recent.drain(..key.recent.len().saturating_sub(KEPT));
        }
    }
}

type Found = (Violation, Hold, Hold);

impl Key {
    /// True when it has room by one of these central limits alone. Each may have counted when the last of those
    /// inside was let in, which was after this one had asked.
    fn overlaps(
        &mut self,
        second: HoldId,
        hold: &Hold,
        limits: &[Option<u64>],
        found: &mut Vec<Found>,
    ) -> bool {
        self.inside.retain(|(_, other)| hold.entered < other.end());
        let count = self.inside.len() + 1;
        let allows = |central| {
            hold.allows(count, central) && self.inside.iter().all(|(_, other)| other.allows(count, central))
        };
        let (allow, by_callers) = (limits.iter().any(|central| allows(*central)), allows(None));
        // What a loss excuses, it excuses for the one that asked first.
        if let Some((first, other)) = self.inside.iter().min_by_key(|(_, other)| other.asked)
            && !allow
        {
            let lasted = Duration::from_nanos(other.end().min(hold.end()).saturating_sub(hold.entered));
            let what = ViolationKind::Overlap { lasted };
            let violation = Violation { what, key: hold.key, first: *first, second, at: hold.entered };
            found.push((violation, other.clone(), hold.clone()));
        }
        self.inside.push((second, hold.clone()));
        if self.last.as_ref().is_none_or(|(_, other)| hold.end() > other.end()) {
            self.last = Some((second, hold.clone()));
        }
        allow && !by_callers
    }

    fn fences(&mut self, second: HoldId, hold: &Hold, found: &mut Vec<Found>) {
        let Some(fence) = hold.fence else {
            return;
        };
        if let Some((first, other)) = &self.fenced
            && let Some(by) = other.fence.and_then(|before| before.checked_sub(fence))
            && !other.is_of_phase(hold)
        {
            let what = ViolationKind::Fence { by };
            let violation = Violation { what, key: hold.key, first: *first, second, at: hold.entered };
            found.push((violation, other.clone(), hold.clone()));
        }
        self.fenced = Some((second, hold.clone()));
    }
}

impl Register {
    fn takes(&mut self, at: u64, number: u64, (writer, hold): NamedHold, found: &mut Vec<Found>) -> bool {
        let fence = hold.fence.unwrap_or(0);
        let taken = fence >= self.largest;
        if taken
            && let Some((latest, (behind, other))) = &self.latest
            && number < *latest
            && !hold.is_of_phase(other)
        {
            let what = ViolationKind::StaleWrite;
            let violation = Violation { what, key: hold.key, first: writer, second: *behind, at };
            found.push((violation, hold.clone(), other.clone()));
        }
        self.largest = self.largest.max(fence);
        if self.latest.as_ref().is_none_or(|(latest, _)| number > *latest) {
            self.latest = Some((number, (writer, hold)));
        }
        taken
    }
}
