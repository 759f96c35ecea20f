//! What happened under the locks, and what of it must not have happened.
//!
//! A holder is inside from when it had the lock and knew it until it left, until its own deadline as it last saw
//! it, or until it was last heard of, whichever comes first: what it does after its deadline is not the lock's
//! fault. The resource is a register per key that remembers the largest fencing token it has seen and refuses a
//! smaller one.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Somebody inside. Times in nanoseconds of one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    pub(crate) key: u64,
    /// Clients of another kind have none.
    pub(crate) fence: Option<u64>,
    /// Not later than when it was asked for.
    pub(crate) asked: u64,
    pub(crate) entered: u64,
    /// When it was last seen inside, and until when it had the lock as it saw it then.
    pub(crate) seen: u64,
    pub(crate) deadline: u64,
    pub(crate) left: Option<u64>,
    /// When it wrote, whether it still had the lock or not.
    pub(crate) writes: Vec<u64>,
}

impl Hold {
    fn end(&self) -> u64 {
        self.left.unwrap_or(self.seen).min(self.deadline)
    }
}

/// Who: a worker, and which of its holds.
pub(crate) type Name = (usize, u64);

#[derive(Default)]
pub(crate) struct History {
    pub(crate) holds: HashMap<Name, Hold>,
    /// When the clock of one node of a quorum jumped ahead, from and to. Its locks have ended then, before their time:
    /// two may be inside if one had it by the vote of that node, and nothing is promised but that the later has the
    /// larger fencing token if it asked later.
    pub(crate) steps: Vec<(u64, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Violation {
    /// Both were inside.
    Overlap { key: u64, first: Name, second: Name, lasted: Duration },
    /// The later grant has not the larger fencing token.
    Fence { key: u64, first: Name, second: Name, by: u64 },
    /// The register took a write although somebody who came later had written.
    StaleWrite { key: u64, writer: Name, behind: Name },
}

#[derive(Default, Debug)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// What would be one, had no clock jumped at that time.
    pub(crate) excused: usize,
    pub(crate) holds: usize,
    pub(crate) foreign: usize,
    pub(crate) writes: usize,
    pub(crate) refused: usize,
}

impl Verdict {
    pub(crate) fn overlaps(&self) -> usize {
        self.count(|violation| matches!(violation, Violation::Overlap { .. }))
    }

    pub(crate) fn fences(&self) -> usize {
        self.count(|violation| matches!(violation, Violation::Fence { .. }))
    }

    pub(crate) fn stale_writes(&self) -> usize {
        self.count(|violation| matches!(violation, Violation::StaleWrite { .. }))
    }

    fn count(&self, kind: impl Fn(&Violation) -> bool) -> usize {
        self.violations.iter().filter(|violation| kind(violation)).count()
    }
}

impl History {
    pub(crate) fn check(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut keys: BTreeMap<u64, Vec<(Name, &Hold)>> = BTreeMap::new();
        for (&name, hold) in &self.holds {
            keys.entry(hold.key).or_default().push((name, hold));
            match hold.fence {
                Some(_) => verdict.holds += 1,
                None => verdict.foreign += 1,
            }
        }
        for (key, mut holds) in keys {
            holds.sort_by_key(|(name, hold)| (hold.entered, *name));
            overlaps(key, &holds, &mut verdict);
            fences(key, &holds, &mut verdict);
            register(key, &holds, &mut verdict);
        }
        let found = std::mem::take(&mut verdict.violations);
        let (excused, violations): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| self.excuses(it));
        (verdict.excused, verdict.violations) = (excused.len(), violations);
        verdict
    }

    fn excuses(&self, violation: &Violation) -> bool {
        let (first, second) = match violation {
            Violation::Overlap { first, second, .. } => (first, second),
            Violation::Fence { first, second, .. }
                if self.holds[second].asked < self.holds[first].entered =>
            {
                (first, second)
            }
            Violation::StaleWrite { writer, behind, .. }
                if self.holds[behind].asked < self.holds[writer].entered =>
            {
                (writer, behind)
            }
            _ => return false,
        };
        let (since, until) = (self.holds[first].asked, self.holds[second].entered);
        self.steps.iter().any(|(from, to)| since <= *to && *from <= until)
    }

    /// How many have entered in each of so many equal parts of the time.
    pub(crate) fn entered_over_time(&self, parts: u64) -> Vec<usize> {
        let times = || self.holds.values().map(|hold| hold.entered);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let part = (last - first) / parts + 1;
        (0..parts).map(|at| times().filter(|time| (time - first) / part == at).count()).collect()
    }
}

fn overlaps(key: u64, holds: &[(Name, &Hold)], verdict: &mut Verdict) {
    let mut last: Option<(Name, u64)> = None;
    for &(second, hold) in holds {
        if let Some((first, end)) = last
            && hold.entered < end
        {
            let lasted = Duration::from_nanos(end.min(hold.end()) - hold.entered);
            verdict.violations.push(Violation::Overlap { key, first, second, lasted });
        }
        if last.is_none_or(|(_, end)| hold.end() > end) {
            last = Some((second, hold.end()));
        }
    }
}

fn fences(key: u64, holds: &[(Name, &Hold)], verdict: &mut Verdict) {
    let mut last: Option<(Name, u64)> = None;
    for (second, hold) in holds {
        let Some(fence) = hold.fence else {
            continue;
        };
        if let Some((first, before)) = last
            && fence <= before
        {
            let by = before - fence;
            verdict.violations.push(Violation::Fence { key, first, second: *second, by });
        }
        last = Some((*second, fence));
    }
}

fn register(key: u64, holds: &[(Name, &Hold)], verdict: &mut Verdict) {
    let mut order: Vec<(u64, usize)> = Vec::new();
    for (number, (_, hold)) in holds.iter().enumerate() {
        order.extend(hold.writes.iter().map(|&at| (at, number)));
    }
    order.sort_unstable();
    verdict.writes += order.len();
    let (mut largest, mut latest) = (0, 0);
    for (_, number) in order {
        let (writer, hold) = holds[number];
        let fence = hold.fence.unwrap_or(0);
        if fence < largest {
            verdict.refused += 1;
        } else if number < latest {
            let behind = holds[latest].0;
            verdict.violations.push(Violation::StaleWrite { key, writer, behind });
        }
        largest = largest.max(fence);
        latest = latest.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(fence: u64, entered: u64, deadline: u64, left: Option<u64>, writes: &[u64]) -> Hold {
        let (fence, writes) = (Some(fence), writes.to_vec());
        Hold { key: 1, fence, asked: entered, entered, seen: entered, deadline, left, writes }
    }

    fn check(holds: &[Hold]) -> Verdict {
        let holds = holds.iter().cloned().enumerate().map(|(number, hold)| ((number, 0), hold));
        History { holds: holds.collect(), steps: Vec::new() }.check()
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
    fn a_clock_that_jumped_excuses_two_inside_but_not_the_order_of_fencing_tokens() {
        let check = |fence, steps: &[(u64, u64)]| {
            let holds = [hold(7, 10, 90, Some(40), &[]), hold(fence, 30, 90, Some(60), &[])];
            let holds = holds.into_iter().enumerate().map(|(number, hold)| ((number, 0), hold));
            History { holds: holds.collect(), steps: steps.to_vec() }.check()
        };
        assert_eq!(check(8, &[(20, 21)]).excused, 1);
        assert_eq!(check(8, &[(20, 21)]).violations, []);
        assert_eq!(check(8, &[(1, 2), (70, 71)]).overlaps(), 1);
        let verdict = check(6, &[(20, 21)]);
        assert_eq!((verdict.excused, verdict.fences(), verdict.violations.len()), (1, 1, 1));
    }

    #[test]
    fn a_time_without_holds_is_seen() {
        let at = |entered| hold(1, entered, 900, Some(entered), &[]);
        let holds = [0, 10, 20, 90, 99].map(at).into_iter().enumerate();
        let holds = holds.map(|(number, hold)| ((number, 0), hold)).collect();
        assert_eq!(History { holds, steps: Vec::new() }.entered_over_time(4), [3, 0, 0, 2]);
    }
}
