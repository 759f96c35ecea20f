//! Safety: no two holders at once, fencing tokens in order, no write after a later one.
//!
//! A holder is inside from when it had the lock and knew it until it left, until its own deadline as it last saw
//! it, or until it was last heard of, whichever comes first: what it does after its deadline is not the lock's
//! fault. The resource is a register per key that remembers the largest fencing token it has seen and refuses a
//! smaller one.
//!
//! Holds are looked at in the order in which they entered and then forgotten, so that a run may last for hours.

pub mod calls;
pub mod history;
pub mod liveness;
mod loss;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use loss::{Loss, LossDetection};

/// A holder's time inside. Times in nanoseconds of one clock.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    pub(crate) key: u64,
    /// Since when it waited, if it is known.
    pub(crate) called: Option<u64>,
    /// Clients of another kind have none.
    pub(crate) fence: Option<u64>,
    /// Not later than when it was asked for.
    pub(crate) asked: u64,
    pub(crate) entered: u64,
    /// When it was last seen inside, and until when it had the lock as it saw it then.
    pub(crate) seen: u64,
    pub(crate) deadline: u64,
    /// The longest ttl that it had.
    pub(crate) lasts: u64,
    pub(crate) left: Option<u64>,
    /// When it wrote, whether it still had the lock or not.
    pub(crate) writes: Vec<u64>,
}

impl Hold {
    /// Of a call that came back without the lock: it was inside for no time at all.
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

    pub(crate) fn end(&self) -> u64 {
        self.left.unwrap_or(self.seen).min(self.deadline)
    }
}

/// The worker's number, and the number of the hold in it.
pub type HoldId = (usize, u64);

/// What two holds of one key may not do to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViolationKind {
    /// Both were inside.
    Overlap {
        /// For so long.
        lasted: Duration,
    },
    /// The later grant has not the larger fencing token.
    Fence {
        /// How much smaller than the token before; zero when equal.
        by: u64,
    },
    /// The lock had no holder although the second waited for it.
    Idle {
        /// For so long.
        lasted: Duration,
    },
    /// The register took a write of the first although the second, who came later, had written.
    StaleWrite,
}

/// Two holds of one key, and what was wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub(crate) what: ViolationKind,
    pub(crate) key: u64,
    pub(crate) first: HoldId,
    pub(crate) second: HoldId,
    pub(crate) at: u64,
}

/// What the checker has found, and how much it looked at.
#[derive(Clone, Default, Debug)]
pub struct CheckResult {
    /// Every one that nothing excuses.
    pub violations: Vec<Violation>,
    /// Violations that a loss excuses, and the longest time that two were inside then.
    pub excused: usize,
    /// The longest that two were inside where that is excused.
    pub longest_excused: Duration,
    /// Of workers.
    pub holds: usize,
    /// Holds of a client of another kind.
    pub foreign: usize,
    /// Of all holders, to the resource.
    pub writes: usize,
    /// Writes whose fencing token was older than one the resource had seen.
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

    /// How often a write came behind one of a later holder.
    pub fn stale_writes(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::StaleWrite))
    }

    /// How often a lock that was waited for had no holder.
    pub fn idle(&self) -> usize {
        self.count(|what| matches!(what, ViolationKind::Idle { .. }))
    }

    fn count(&self, kind: impl Fn(ViolationKind) -> bool) -> usize {
        self.violations.iter().filter(|violation| kind(violation.what)).count()
    }
}

/// A machine that was busy a moment ago is busy: what a plain timer has lost just before counts, too.
const JUST_BEFORE: u64 = 1_000_000_000;

/// Enough for some minutes.
const MOST_SLEPT: usize = 10_000;

/// A hold and its id, without its writes.
type NamedHold = (HoldId, Hold);

/// Compares each hold with those before it.
#[derive(Clone, Default)]
pub struct Checker {
    keys: BTreeMap<u64, Key>,
    pub(crate) result: CheckResult,
    /// A lock that is waited for has a holder again after so long: where nothing goes wrong.
    pub(crate) hand_over: Option<Duration>,
    /// When a plain timer of some process was late.
    pub(crate) slept: VecDeque<(u64, u64)>,
}

#[derive(Clone, Default)]
struct Key {
    /// Who stays longest of all that have entered.
    last: Option<NamedHold>,
    /// The last with a fencing token.
    fenced: Option<NamedHold>,
    entered: u64,
    /// Not yet in order with those of holds that are still to come: when, whose number, who.
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
    /// All holds that entered, and all waits that ended in vain, before `until`: each once, in that order. Later ones come
    /// with a later call.
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
            key.overlaps(name, &hold, &mut found);
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
                let stolen = self.stolen(loss.from, first.end().min(second.end()));
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

    /// Before the second is the last of its key. It may have waited in vain.
    fn idles(&self, second: HoldId, hold: &Hold, found: &mut Vec<Found>) {
        let (Some(limit), Some(called)) = (self.hand_over, hold.called) else {
            return;
        };
        let last = self.keys.get(&hold.key).and_then(|key| key.last.as_ref());
        let (first, other) = last.map_or((second, hold), |(first, other)| (*first, other));
        let (from, to) = (last.map_or(called, |_| other.end().max(called)), hold.entered);
        let stolen = self.stolen(from.saturating_sub(JUST_BEFORE), to);
        let lasted = Duration::from_nanos(to.saturating_sub(from).saturating_sub(stolen));
        if lasted > limit {
            let what = ViolationKind::Idle { lasted };
            let violation = Violation { what, key: hold.key, first, second, at: from };
            found.push((violation, other.clone(), hold.clone()));
        }
    }

    /// For how long plain timers did not run in that time.
    fn stolen(&self, from: u64, to: u64) -> u64 {
        self.slept.iter().map(|(due, at)| to.min(*at).saturating_sub(from.max(*due))).sum()
    }

    /// The recent holds of `key` between those times.
    pub(crate) fn around(&self, key: u64, from: u64, to: u64) -> impl Iterator<Item = &NamedHold> {
        let recent = self.keys.get(&key).into_iter().flat_map(|key| &key.recent);
        recent.filter(move |(_, hold)| hold.entered <= to && from <= hold.end())
    }

    /// Drops old holds, so that memory stays bounded.
    pub(crate) fn forget(&mut self) {
        const KEPT: usize = 256;
        self.slept.drain(..self.slept.len().saturating_sub(MOST_SLEPT));
        for key in self.keys.values_mut() {
            key.recent.drain(..key.recent.len().saturating_sub(KEPT));
        }
    }
}

type Found = (Violation, Hold, Hold);

impl Key {
    fn overlaps(&mut self, second: HoldId, hold: &Hold, found: &mut Vec<Found>) {
        if let Some((first, other)) = &self.last
            && hold.entered < other.end()
        {
            let lasted = Duration::from_nanos(other.end().min(hold.end()).saturating_sub(hold.entered));
            let what = ViolationKind::Overlap { lasted };
            let violation = Violation { what, key: hold.key, first: *first, second, at: hold.entered };
            found.push((violation, other.clone(), hold.clone()));
        }
        if self.last.as_ref().is_none_or(|(_, other)| hold.end() > other.end()) {
            self.last = Some((second, hold.clone()));
        }
    }

    fn fences(&mut self, second: HoldId, hold: &Hold, found: &mut Vec<Found>) {
        let Some(fence) = hold.fence else {
            return;
        };
        if let Some((first, other)) = &self.fenced
            && let Some(by) = other.fence.and_then(|before| before.checked_sub(fence))
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
