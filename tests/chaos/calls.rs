//! The calls that the workers make: how each ended, and whether it came back in time.
//!
//! A call has its `wait` to get in, then as long as its body lasts, then comes back; with [`PATIENCE`] for either,
//! and the time in which its process stood still does not count.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use super::checker::Name;
use super::support::{Line, between};

/// How much later than its `wait` a call may come back, on a busy machine: a try may last for the timeout of one answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How a call ended, as a number on the wire.
pub(crate) const OUTCOMES: [&str; 6] =
    ["cancelled", "granted", "busy or timed out", "lost", "unavailable", "failed otherwise"];

#[derive(Default)]
pub(crate) struct Calls {
    open: HashMap<Name, Call>,
    /// When a worker stood still; the last time may not be over.
    frozen: HashMap<usize, Vec<(u64, u64)>>,
    pub(crate) outcomes: [u64; OUTCOMES.len()],
    pub(crate) late: BTreeMap<Name, Late>,
    /// How much later than it had to that any came back.
    pub(crate) latest: Duration,
}

struct Call {
    key: u64,
    since: u64,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Waits(Duration),
    IsInside,
    ComesBack,
}

/// It did not come back in time, or has not yet.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    key: u64,
    at: u64,
    by: Duration,
    doing: &'static str,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, at, by, doing } = self;
        write!(f, "on k{key} {doing}, {by:.1?} late when it was {at}")
    }
}

impl Calls {
    pub(crate) fn stands_still(&mut self, worker: usize, from: u64) {
        self.frozen.entry(worker).or_default().push((from, u64::MAX));
    }

    pub(crate) fn goes_on(&mut self, worker: usize, at: u64) {
        if let Some(last) = self.frozen.get_mut(&worker).and_then(|times| times.last_mut()) {
            last.1 = at;
        }
    }

    /// It will say nothing more: it was killed, or has ended.
    pub(crate) fn is_gone(&mut self, worker: usize) {
        self.open.retain(|(number, _), _| *number != worker);
        self.frozen.remove(&worker);
    }

    /// What a worker said, if it is about calls.
    pub(crate) fn hear(&mut self, worker: usize, line: &Line) {
        let numbers = &line.numbers[..];
        let name = (worker, numbers[0]);
        let (at, next) = match (line.word.as_str(), numbers) {
            ("call", &[_, key, wait, at]) => {
                let step = Step::Waits(Duration::from_millis(wait));
                self.open.insert(name, Call { key, since: at, step });
                return;
            }
            ("entered", &[_, _, _, _, at, _]) => (at, Step::IsInside),
            ("left", &[_, at]) => (at, Step::ComesBack),
            ("back", &[_, outcome, at]) => {
                self.outcomes[usize::try_from(outcome).unwrap()] += 1;
                self.look(name, at);
                self.open.remove(&name);
                return;
            }
            _ => return,
        };
        self.look(name, at);
        if let Some(call) = self.open.get_mut(&name) {
            (call.since, call.step) = (at, next);
        }
    }

    /// Whether any that has not come back is late by now.
    pub(crate) fn look_at_all(&mut self, now: u64) {
        /// Nobody calls for that long.
        const LONG: u64 = 60_000_000_000;
        for name in self.open.keys().copied().collect::<Vec<_>>() {
            self.look(name, now);
        }
        for times in self.frozen.values_mut() {
            times.retain(|(_, to)| to.saturating_add(LONG) > now);
        }
    }

    /// Whether it has a call that seems to hang. Such a worker is not killed: that would be the end of the evidence.
    pub(crate) fn may_hang(&self, worker: usize, now: u64) -> bool {
        let calls = self.open.keys().filter(|(number, _)| *number == worker);
        calls.filter_map(|name| self.lateness(*name, now)).any(|(by, _)| by > PATIENCE / 5)
    }

    fn look(&mut self, name: Name, at: u64) {
        let Some((by, doing)) = self.lateness(name, at) else {
            return;
        };
        self.latest = self.latest.max(by);
        if by > PATIENCE {
            let key = self.open[&name].key;
            self.late.insert(name, Late { key, at, by, doing });
        }
    }

    /// How much later than it had to it comes back, if that is now.
    fn lateness(&self, name: Name, at: u64) -> Option<(Duration, &'static str)> {
        let Call { since, step, .. } = self.open.get(&name)?;
        let (allowed, doing) = match step {
            Step::Waits(wait) => (*wait, "it waits"),
            Step::ComesBack => (Duration::ZERO, "it has left"),
            Step::IsInside => return None,
        };
        let times = self.frozen.get(&name.0).into_iter().flatten();
        let frozen = times.map(|(from, to)| between(*from.max(since), *to.min(&at))).sum();
        Some((between(*since, at).saturating_sub(allowed).saturating_sub(frozen), doing))
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.outcomes.iter().sum::<u64>())?;
        for (number, (count, outcome)) in self.outcomes.iter().zip(OUTCOMES).enumerate() {
            write!(f, "{} {count} {outcome}", if number == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn say(calls: &mut Calls, word: &str, numbers: &[u64]) {
        calls.hear(1, &Line { word: word.to_owned(), numbers: numbers.to_vec() });
    }

    #[test]
    fn who_comes_back_in_time_is_not_late() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 0, 2000, SECOND]);
        say(&mut calls, "entered", &[7, 0, 0, 0, 3 * SECOND, 0]);
        say(&mut calls, "left", &[7, 60 * SECOND]);
        say(&mut calls, "back", &[7, 1, 61 * SECOND]);
        calls.look_at_all(900 * SECOND);
        assert!(calls.late.is_empty() && calls.outcomes == [0, 1, 0, 0, 0, 0]);
        assert_eq!(calls.latest, Duration::from_secs(1));
    }

    #[test]
    fn who_waits_or_leaves_for_too_long_is_late() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 0, 2000, 0]);
        assert!(!calls.may_hang(1, 2 * SECOND));
        calls.look_at_all(6 * SECOND);
        assert!(calls.late.is_empty() && calls.may_hang(1, 6 * SECOND) && !calls.may_hang(2, 6 * SECOND));
        calls.look_at_all(9 * SECOND);
        assert_eq!(calls.late[&(1, 7)].by, Duration::from_secs(7));
        say(&mut calls, "call", &[8, 0, 0, 0]);
        say(&mut calls, "left", &[8, SECOND]);
        say(&mut calls, "back", &[8, 1, 9 * SECOND]);
        assert_eq!(calls.late[&(1, 8)].by, Duration::from_secs(8));
    }

    #[test]
    fn the_time_in_which_a_process_stood_still_does_not_count() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 0, 0, 0]);
        calls.stands_still(1, 2 * SECOND);
        calls.look_at_all(30 * SECOND);
        calls.goes_on(1, 30 * SECOND);
        say(&mut calls, "back", &[7, 1, 32 * SECOND]);
        assert!(calls.late.is_empty());
        assert_eq!(calls.latest, Duration::from_secs(4));
        say(&mut calls, "call", &[8, 0, 0, 31 * SECOND]);
        calls.is_gone(1);
        calls.look_at_all(90 * SECOND);
        assert!(calls.late.is_empty());
    }
}
