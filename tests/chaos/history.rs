//! What the workers said that they did, and what of it was found wrong, told with what happened around it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::calls::Calls;
use super::checker::{Checker, Hold, Loss, Name, Verdict};
use super::deeds::Deeds;
use super::support::Line;

/// A violation is told with what happened this long before and after it.
const AROUND: u64 = 250_000_000;

/// So many are told, the others counted.
const MOST_STORIES: usize = 10;

#[derive(Default)]
pub(crate) struct History {
    /// Those that were not looked at for good.
    holds: HashMap<Name, Hold>,
    checker: Checker,
    pub(crate) losses: Vec<Loss>,
    pub(crate) calls: Calls,
    pub(crate) stories: Vec<String>,
    /// How many have entered, by the tenth of a second.
    entered: HashMap<u64, usize>,
}

impl History {
    pub(crate) fn record(&mut self, worker: usize, lines: Vec<Line>) {
        for line in lines {
            self.calls.hear(worker, &line);
            let Line { word, numbers } = line;
            let name = (worker, numbers[0]);
            if let ("entered", &[_, key, fence, asked, entered, deadline]) = (word.as_str(), &numbers[..]) {
                let fence = Some(fence);
                self.add(
                    name,
                    Hold { key, fence, asked, entered, seen: entered, deadline, ..Hold::default() },
                );
                continue;
            }
            if matches!(word.as_str(), "call" | "back") {
                continue;
            }
            let hold = self.holds.get_mut(&name).unwrap_or_else(|| panic!("{name:?} has not entered"));
            match (word.as_str(), &numbers[..]) {
                ("seen", &[_, at, deadline]) => (hold.seen, hold.deadline) = (at, deadline),
                ("write", &[_, at]) => hold.writes.push(at),
                ("left", &[_, at]) => hold.left = Some(at),
                other => panic!("a worker said {other:?}"),
            }
        }
    }

    pub(crate) fn add(&mut self, name: Name, hold: Hold) {
        *self.entered.entry(hold.entered / 100_000_000).or_default() += 1;
        assert!(self.holds.insert(name, hold).is_none(), "{name:?} enters twice");
    }

    /// How many have entered.
    pub(crate) fn len(&self) -> usize {
        self.checker.verdict.holds + self.checker.verdict.foreign + self.holds.len()
    }

    /// What is found by now.
    pub(crate) fn check(&self) -> Verdict {
        let mut checker = self.checker.clone();
        checker.look(in_order(self.holds.clone()), u64::MAX, &self.losses);
        checker.verdict
    }

    /// What was found in all that is settled.
    pub(crate) fn verdict(&self) -> &Verdict {
        &self.checker.verdict
    }

    /// Looks at all that entered before `until` for good. Nothing about them is heard afterwards.
    pub(crate) fn settle(&mut self, until: u64, deeds: &Deeds) {
        let before = self.checker.verdict.violations.len();
        let holds = self.holds.extract_if(|_, hold| hold.entered < until).collect();
        self.checker.look(in_order(holds), until, &self.losses);
        for number in before..self.checker.verdict.violations.len() {
            if self.stories.len() < MOST_STORIES {
                self.stories.push(self.tell(number, deeds));
            }
        }
        self.checker.forget();
    }

    fn tell(&self, number: usize, deeds: &Deeds) -> String {
        let violation = &self.checker.verdict.violations[number];
        let (from, to) = (violation.at.saturating_sub(AROUND), violation.at + AROUND);
        let relative = |at: u64| {
            let ms = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e3;
            if at < violation.at {
                format!("-{:.3}", ms(violation.at - at))
            } else {
                format!("+{:.3}", ms(at - violation.at))
            }
        };
        let (first, second) = (violation.first, violation.second);
        let mut text =
            format!("k{}: {:?}: {first:?}, then {second:?}. In ms around it:", violation.key, violation.what);
        for ((worker, visit), hold) in self.checker.around(violation.key, from, to) {
            let fence = hold.fence.map_or_else(|| "none".to_owned(), |fence| fence.to_string());
            let left = hold.left.map_or_else(|| "-".to_owned(), relative);
            let _ = write!(
                text,
                "\n  ({worker}, {visit}) asked {} entered {} left {left} deadline {} fencing token {fence}",
                relative(hold.asked),
                relative(hold.entered),
                relative(hold.deadline)
            );
        }
        for (at, deed) in deeds.between(from.saturating_sub(10 * AROUND), to) {
            let _ = write!(text, "\n  {} {deed}", relative(*at));
        }
        for loss in self.losses.iter().filter(|loss| loss.from <= to && from <= loss.known) {
            let _ = write!(
                text,
                "\n  {} to {} forgotten: {:?}",
                relative(loss.from),
                relative(loss.to),
                loss.keys
            );
        }
        text
    }

    /// How many have entered in each of so many equal parts of the time.
    pub(crate) fn entered_over_time(&self, parts: u64) -> Vec<usize> {
        let times = || self.entered.keys();
        let (first, last) = (times().min().unwrap_or(&0), times().max().unwrap_or(&0));
        let part = (last - first) / parts + 1;
        let count = |at| {
            let those = self.entered.iter().filter(|(time, _)| (*time - first) / part == at);
            those.map(|(_, count)| count).sum()
        };
        (0..parts).map(count).collect()
    }
}

fn in_order(holds: HashMap<Name, Hold>) -> Vec<(Name, Hold)> {
    let mut holds: Vec<_> = holds.into_iter().collect();
    holds.sort_by_key(|(name, hold)| (hold.entered, *name));
    holds
}
