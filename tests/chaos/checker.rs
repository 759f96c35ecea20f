//! What must not have happened under the locks: two inside, fencing tokens out of order, a write behind a later one.
//!
//! A holder is inside from when it had the lock and knew it until it left, until its own deadline as it last saw
//! it, or until it was last heard of, whichever comes first: what it does after its deadline is not the lock's
//! fault. The resource is a register per key that remembers the largest fencing token it has seen and refuses a
//! smaller one.
//!
//! Holds are looked at in the order in which they entered and then forgotten, so that a run may last for hours.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::support::now;

/// Somebody inside. Times in nanoseconds of one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
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
    pub(crate) fn end(&self) -> u64 {
        self.left.unwrap_or(self.seen).min(self.deadline)
    }
}

/// Who: a worker, and which of its holds.
pub(crate) type Name = (usize, u64);

/// Locks may have been forgotten: by a failover, a flush, or the clock of one node of a quorum that jumped ahead. Two
/// may be inside then, and nothing is promised but that the later has the larger fencing token if it asked later.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// Which locks; `None` for all.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) told: Told,
}

/// When a holder whose lock was forgotten knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Within a round trip, once it has held the lock for a while; else at the next renewal.
    Promptly,
    /// When its lease is over: it cannot be renewed.
    AtItsEnd,
    Never,
}

impl Told {
    /// A lock that was held for so long, and a bit, is watched.
    const WATCHED: u64 = 250_000_000;

    /// A round trip, on a busy machine.
    const SOON: u64 = 250_000_000;

    fn until(self, forgotten: u64, hold: &Hold) -> u64 {
        let known = match self {
            Self::Promptly if hold.entered + Self::WATCHED < forgotten => 0,
            Self::Promptly => hold.lasts / 3,
            Self::AtItsEnd => hold.lasts,
            Self::Never => u64::MAX,
        };
        forgotten.saturating_add(known).saturating_add(Self::SOON)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mishap {
    /// Both were inside.
    Overlap { lasted: Duration },
    /// The later grant has not the larger fencing token.
    Fence { by: u64 },
    /// Nobody was inside although the second waited.
    Idle { lasted: Duration },
    /// The register took a write of the first although the second, who came later, had written.
    StaleWrite,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    pub(crate) what: Mishap,
    pub(crate) key: u64,
    pub(crate) first: Name,
    pub(crate) second: Name,
    pub(crate) at: u64,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// What would be one, had nothing been forgotten at that time; and how long two were inside at most.
    pub(crate) excused: usize,
    pub(crate) longest_excused: Duration,
    pub(crate) holds: usize,
    pub(crate) foreign: usize,
    pub(crate) writes: usize,
    pub(crate) refused: usize,
}

impl Verdict {
    pub(crate) fn overlaps(&self) -> usize {
        self.count(|what| matches!(what, Mishap::Overlap { .. }))
    }

    pub(crate) fn fences(&self) -> usize {
        self.count(|what| matches!(what, Mishap::Fence { .. }))
    }

    pub(crate) fn stale_writes(&self) -> usize {
        self.count(|what| matches!(what, Mishap::StaleWrite))
    }

    pub(crate) fn idle(&self) -> usize {
        self.count(|what| matches!(what, Mishap::Idle { .. }))
    }

    fn count(&self, kind: impl Fn(Mishap) -> bool) -> usize {
        self.violations.iter().filter(|violation| kind(violation.what)).count()
    }
}

/// A machine that was busy a moment ago is busy: what a plain timer has lost just before counts, too.
const JUST_BEFORE: u64 = 1_000_000_000;

/// Enough for some minutes.
const MOST_SLEPT: usize = 10_000;

/// Somebody, without what he wrote.
type Visitor = (Name, Hold);

#[derive(Clone, Default)]
pub(crate) struct Checker {
    keys: BTreeMap<u64, Key>,
    pub(crate) verdict: Verdict,
    /// A lock that is waited for has somebody inside again after so long: where nothing goes wrong.
    pub(crate) hand_over: Option<Duration>,
    /// When a plain timer of some process was late.
    pub(crate) slept: VecDeque<(u64, u64)>,
}

#[derive(Clone, Default)]
struct Key {
    /// Who stays longest of all that have entered.
    last: Option<Visitor>,
    /// The last with a fencing token.
    fenced: Option<Visitor>,
    entered: u64,
    /// Not yet in order with those of holds that are still to come: when, whose number, who.
    writes: BTreeMap<(u64, u64), Visitor>,
    register: Register,
    recent: VecDeque<Visitor>,
}

#[derive(Clone, Default)]
struct Register {
    largest: u64,
    latest: Option<(u64, Visitor)>,
}

impl Checker {
    /// All holds that entered before `until`, each once, in that order; later ones come with a later call.
    pub(crate) fn look(&mut self, holds: Vec<(Name, Hold)>, until: u64, losses: &[Loss]) {
        let mut found = Vec::new();
        for (name, mut hold) in holds {
            match hold.fence {
                Some(_) => self.verdict.holds += 1,
                None => self.verdict.foreign += 1,
            }
            let key = self.keys.entry(hold.key).or_default();
            key.entered += 1;
            let writes = std::mem::take(&mut hold.writes);
            key.writes.extend(writes.into_iter().map(|at| ((at, key.entered), (name, hold.clone()))));
            key.fences(name, &hold, &mut found);
            if let Some(limit) = self.hand_over {
                key.idles(name, &hold, limit, &self.slept, &mut found);
            }
            key.overlaps(name, &hold, &mut found);
            key.recent.push_back((name, hold));
        }
        for key in self.keys.values_mut() {
            let later = key.writes.split_off(&(until, 0));
            for ((at, number), writer) in std::mem::replace(&mut key.writes, later) {
                self.verdict.writes += 1;
                self.verdict.refused += usize::from(!key.register.takes(at, number, writer, &mut found));
            }
        }
        for (violation, first, second) in found {
            let excuses = |loss: &Loss| {
                let stolen = self.stolen(loss.from, first.end().min(second.end()));
                loss.excuses(&violation, &first, &second, stolen)
            };
            if losses.iter().any(excuses) {
                self.verdict.excused += 1;
                if let Mishap::Overlap { lasted } = violation.what {
                    self.verdict.longest_excused = self.verdict.longest_excused.max(lasted);
                }
            } else {
                self.verdict.violations.push(violation);
            }
        }
    }

    /// For how long plain timers did not run in that time.
    fn stolen(&self, from: u64, to: u64) -> u64 {
        stolen(&self.slept, from, to)
    }

    /// Who was there at that time, as far as it was looked at and not forgotten.
    pub(crate) fn around(&self, key: u64, from: u64, to: u64) -> impl Iterator<Item = &Visitor> {
        let recent = self.keys.get(&key).into_iter().flat_map(|key| &key.recent);
        recent.filter(move |(_, hold)| hold.entered <= to && from <= hold.end())
    }

    /// Forgets who has long been gone.
    pub(crate) fn forget(&mut self) {
        const KEPT: usize = 256;
        self.slept.drain(..self.slept.len().saturating_sub(MOST_SLEPT));
        for key in self.keys.values_mut() {
            key.recent.drain(..key.recent.len().saturating_sub(KEPT));
        }
    }
}

fn stolen(slept: &VecDeque<(u64, u64)>, from: u64, to: u64) -> u64 {
    slept.iter().map(|(due, at)| to.min(*at).saturating_sub(from.max(*due))).sum()
}

type Found = (Violation, Hold, Hold);

impl Key {
    fn overlaps(&mut self, second: Name, hold: &Hold, found: &mut Vec<Found>) {
        if let Some((first, other)) = &self.last
            && hold.entered < other.end()
        {
            let lasted = Duration::from_nanos(other.end().min(hold.end()).saturating_sub(hold.entered));
            let what = Mishap::Overlap { lasted };
            let violation = Violation { what, key: hold.key, first: *first, second, at: hold.entered };
            found.push((violation, other.clone(), hold.clone()));
        }
        if self.last.as_ref().is_none_or(|(_, other)| hold.end() > other.end()) {
            self.last = Some((second, hold.clone()));
        }
    }

    /// Before [`overlaps`](Self::overlaps), which remembers who was inside last.
    fn idles(
        &self,
        second: Name,
        hold: &Hold,
        limit: Duration,
        slept: &VecDeque<(u64, u64)>,
        found: &mut Vec<Found>,
    ) {
        let Some((first, other)) = &self.last else {
            return;
        };
        let (from, to) = (other.end(), hold.entered);
        if hold.called.is_some_and(|called| called < from) {
            let lasted = Duration::from_nanos(to.saturating_sub(from).saturating_sub(stolen(
                slept,
                from.saturating_sub(JUST_BEFORE),
                to,
            )));
            if lasted > limit {
                let what = Mishap::Idle { lasted };
                let violation = Violation { what, key: hold.key, first: *first, second, at: from };
                found.push((violation, other.clone(), hold.clone()));
            }
        }
    }

    fn fences(&mut self, second: Name, hold: &Hold, found: &mut Vec<Found>) {
        let Some(fence) = hold.fence else {
            return;
        };
        if let Some((first, other)) = &self.fenced
            && let Some(by) = other.fence.and_then(|before| before.checked_sub(fence))
        {
            let what = Mishap::Fence { by };
            let violation = Violation { what, key: hold.key, first: *first, second, at: hold.entered };
            found.push((violation, other.clone(), hold.clone()));
        }
        self.fenced = Some((second, hold.clone()));
    }
}

impl Register {
    fn takes(&mut self, at: u64, number: u64, (writer, hold): Visitor, found: &mut Vec<Found>) -> bool {
        let fence = hold.fence.unwrap_or(0);
        let taken = fence >= self.largest;
        if taken
            && let Some((latest, (behind, other))) = &self.latest
            && number < *latest
        {
            let what = Mishap::StaleWrite;
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

impl Loss {
    /// Of what was done between then and now.
    pub(crate) fn now(keys: Option<Vec<u64>>, from: u64, told: Told) -> Self {
        Self { keys, from, to: now(), told }
    }

    /// `stolen`: for how long plain timers did not run meanwhile.
    fn excuses(&self, violation: &Violation, first: &Hold, second: &Hold, stolen: u64) -> bool {
        let here = self.keys.as_ref().is_none_or(|keys| keys.contains(&violation.key));
        // Either had a lock that was forgotten: the second may have been granted it long before it entered.
        let then = first.asked.min(second.asked) <= self.to && self.from <= second.entered;
        let promised = match violation.what {
            Mishap::Overlap { .. } => {
                let had_it = [first, second].into_iter().filter(|hold| hold.asked <= self.to);
                let known = had_it.map(|hold| self.told.until(self.to, hold)).max();
                first.end().min(second.end()) > known.unwrap_or(self.to).saturating_add(stolen)
            }
            Mishap::Idle { .. } => true,
            Mishap::Fence { .. } | Mishap::StaleWrite => second.asked >= first.entered,
        };
        here && then && !promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(fence: u64, entered: u64, deadline: u64, left: Option<u64>, writes: &[u64]) -> Hold {
        let (fence, writes) = (Some(fence), writes.to_vec());
        Hold {
            key: 1,
            called: Some(entered),
            fence,
            asked: entered,
            entered,
            seen: entered,
            deadline,
            lasts: deadline - entered,
            left,
            writes,
        }
    }

    fn check(holds: &[Hold]) -> Verdict {
        check_with(holds, &[])
    }

    /// At once, and one by one.
    fn check_with(holds: &[Hold], losses: &[Loss]) -> Verdict {
        let named = |number: usize| ((number, 0), holds[number].clone());
        let (mut at_once, mut stepwise) = (Checker::default(), Checker::default());
        at_once.look((0..holds.len()).map(named).collect(), u64::MAX, losses);
        for number in 0..holds.len() {
            let until = holds.get(number + 1).map_or(u64::MAX, |next| next.entered);
            stepwise.look(vec![named(number)], until, losses);
            stepwise.forget();
        }
        assert_eq!(at_once.verdict.writes, stepwise.verdict.writes);
        assert_eq!(at_once.verdict.refused, stepwise.verdict.refused);
        assert_eq!(at_once.verdict.violations.len(), stepwise.verdict.violations.len());
        at_once.verdict
    }

    #[test]
    fn one_after_the_other_is_well() {
        let verdict = check(&[hold(1, 10, 90, Some(20), &[15]), hold(2, 20, 90, Some(30), &[21, 25])]);
        assert_eq!(verdict.violations, []);
        assert_eq!((verdict.holds, verdict.writes, verdict.refused), (2, 3, 0));
    }

    #[test]
    fn two_inside_are_seen_also_behind_a_short_one() {
        let verdict = check(&[
            hold(1, 10, 90, Some(80), &[]),
            hold(2, 20, 90, Some(30), &[]),
            hold(3, 40, 90, Some(85), &[]),
        ]);
        assert_eq!((verdict.overlaps(), verdict.violations.len()), (2, 2));
    }

    #[test]
    fn nobody_is_inside_behind_a_deadline_or_after_the_last_sign_of_life() {
        let late = hold(1, 10, 30, Some(80), &[]);
        let killed = hold(2, 40, 90, None, &[]);
        assert_eq!(check(&[late, killed, hold(3, 41, 90, Some(50), &[])]).violations, []);
    }

    #[test]
    fn a_fence_that_does_not_grow_is_seen() {
        for second in [7, 6] {
            let verdict = check(&[hold(7, 10, 90, Some(20), &[]), hold(second, 30, 90, Some(40), &[])]);
            assert_eq!((verdict.fences(), verdict.violations.len()), (1, 1));
        }
    }

    #[test]
    fn a_late_write_is_refused_when_fences_grow_and_taken_when_they_do_not() {
        let next = |fence| hold(fence, 40, 90, Some(60), &[50]);
        let verdict = check(&[hold(7, 10, 30, Some(70), &[70]), next(8)]);
        assert_eq!((verdict.violations.len(), verdict.refused), (0, 1));
        let verdict = check(&[hold(7, 10, 30, Some(70), &[70]), next(7)]);
        assert_eq!((verdict.stale_writes(), verdict.fences(), verdict.refused), (1, 1, 0));
    }

    #[test]
    fn what_was_forgotten_excuses_two_inside_but_not_the_order_of_fencing_tokens() {
        let check = |fence, from, to| {
            let holds = [hold(7, 10, 90, Some(40), &[]), hold(fence, 30, 90, Some(60), &[])];
            check_with(&holds, &[Loss { keys: Some(vec![1]), from, to, told: Told::AtItsEnd }])
        };
        assert_eq!(check(8, 20, 21).excused, 1);
        assert_eq!(check(8, 20, 21).violations, []);
        assert_eq!(check(8, 1, 2).overlaps(), 1);
        assert_eq!(check(8, 70, 71).overlaps(), 1);
        let verdict = check(6, 20, 21);
        assert_eq!((verdict.excused, verdict.fences(), verdict.violations.len()), (1, 1, 1));
    }

    #[test]
    fn who_has_a_lock_that_was_forgotten_is_to_know_it_in_time() {
        const MS: u64 = 1_000_000;
        let overlaps = |told, entered: u64, until: u64| {
            // A ttl of three seconds, forgotten after one.
            let first = hold(7, entered * MS, until * MS, Some(9000 * MS), &[]);
            let first = Hold { lasts: 3000 * MS, ..first };
            let second = hold(8, 1001 * MS, 9900 * MS, Some(9900 * MS), &[]);
            let loss = Loss { keys: None, from: 1000 * MS, to: 1000 * MS, told };
            check_with(&[first, second], &[loss]).overlaps()
        };
        // The second: not watched yet, so at the next renewal.
        for (told, entered, known) in
            [(Told::Promptly, 700, 1250), (Told::Promptly, 900, 2250), (Told::AtItsEnd, 700, 4250)]
        {
            assert_eq!(overlaps(told, entered, known), 0, "{told:?}");
            assert_eq!(overlaps(told, entered, known + 1), 1, "{told:?}");
        }
        assert_eq!(overlaps(Told::Never, 0, 8999), 0);
    }

    #[test]
    fn a_lock_that_nobody_has_although_it_is_waited_for_is_seen() {
        const MS: u64 = 1_000_000;
        let idle = |called: u64, slept: &[(u64, u64)]| {
            let mut checker = Checker { hand_over: Some(Duration::from_millis(500)), ..Checker::default() };
            checker.slept.extend(slept.iter().map(|(due, at)| (due * MS, at * MS)));
            let first = hold(7, 1000 * MS, 9000 * MS, Some(2000 * MS), &[]);
            let second = hold(8, 2600 * MS, 9000 * MS, Some(3000 * MS), &[]);
            let second = Hold { called: Some(called * MS), ..second };
            checker.look(vec![((1, 1), first), ((2, 1), second)], u64::MAX, &[]);
            assert_eq!(checker.verdict.idle(), checker.verdict.violations.len());
            checker.verdict.idle()
        };
        assert_eq!(idle(1500, &[]), 1);
        // It came later; a plain timer was late, too, or just before.
        assert_eq!(idle(2100, &[]), 0);
        assert_eq!(idle(1500, &[(2200, 2310)]), 0);
        assert_eq!(idle(1500, &[(1500, 1610)]), 0);
        assert_eq!(idle(1500, &[(100, 900)]), 1);
    }

    /// Granted, frozen, forgotten; then somebody else comes and goes, and it enters.
    #[test]
    fn who_had_a_lock_that_was_forgotten_may_enter_late() {
        let holds = |second_asked| {
            let first = Hold { asked: 40, ..hold(9, 41, 90, Some(50), &[]) };
            [first, Hold { asked: second_asked, ..hold(7, 60, 90, Some(70), &[]) }]
        };
        let loss = [Loss { keys: None, from: 20, to: 21, told: Told::AtItsEnd }];
        assert_eq!(check_with(&holds(10), &loss).fences(), 0);
        assert_eq!(check_with(&holds(10), &loss).excused, 1);
        assert_eq!(check_with(&holds(30), &loss).fences(), 1);
        assert_eq!(check_with(&holds(10), &[]).fences(), 1);
    }

    #[test]
    fn what_another_lock_has_lost_excuses_nothing() {
        let holds = [hold(7, 10, 90, Some(40), &[]), hold(8, 30, 90, Some(60), &[])];
        let loss = |keys| [Loss { keys, from: 20, to: 21, told: Told::AtItsEnd }];
        assert_eq!(check_with(&holds, &loss(Some(vec![2, 3]))).overlaps(), 1);
        assert_eq!(check_with(&holds, &loss(None)).overlaps(), 0);
    }
}
