//! The calls of the workers: how each ended, and whether it returned in time.
//!
//! A call has its `wait` to enter and the time of its body to return, each plus `prompt`. The call
//! itself reports how late it was when it returns, without the time in which a plain timer of
//! its process was late. A call that does not return within `PATIENCE` hangs; the time in which its
//! process was frozen does not count.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use crate::chaos::checker::HoldId;
use crate::chaos::workload::caller::SEVERAL;
use crate::chaos::workload::refused::ENDS;
use crate::chaos::workload::report::IO_TIMEOUT;
use crate::{Line, between};

/// The time by which a busy machine may delay a call.
const SLACK: Duration = Duration::from_millis(100);

/// A call hangs after this: a try may last for the timeout of one answer, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How a call ended, as a number on the wire.
pub(crate) const OUTCOMES: [&str; 6] =
    ["cancelled", "granted", "busy or timed out", "lost", "unavailable", "failed otherwise"];

/// The number of one that others kept from the lock.
const BUSY: u64 = 2;

/// Every call of every worker, and how late it returned.
pub struct Calls {
    /// How much later than its limit a call may return. A waiter at its limit awaits an answer for a
    /// quarter of the time for one answer.
    pub prompt: Duration,
    open: HashMap<HoldId, Call>,
    /// When a worker was frozen; the last time may not be over.
    frozen: HashMap<usize, Vec<(u64, u64)>>,
    /// By key.
    entered: HashMap<u64, u64>,
    /// By key: when a call was last refused it.
    refused: HashMap<u64, u64>,
    pub(crate) outcomes: [u64; OUTCOMES.len()],
    /// The calls that returned later than their limit, and than a plain timer.
    pub late: BTreeMap<HoldId, Late>,
    /// The managers that have ended after the server had refused all that they asked for.
    pub ends: u64,
    /// The largest lateness of a call.
    pub latest: Duration,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            prompt: IO_TIMEOUT / 4 + SLACK,
            open: HashMap::new(),
            frozen: HashMap::new(),
            entered: HashMap::new(),
            refused: HashMap::new(),
            outcomes: [0; OUTCOMES.len()],
            late: BTreeMap::new(),
            ends: 0,
            latest: Duration::ZERO,
        }
    }
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

/// A call that did not return in time, or has not yet.
#[derive(Clone, Debug)]
pub struct Late {
    key: u64,
    at: u64,
    by: Duration,
    doing: String,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, at, by, doing } = self;
        write!(f, "a call for k{key}, {by:.1?} late when it was {at}: {doing}")
    }
}

impl Calls {
    /// Allows calls to return later, because a waiter at its limit awaits a slow answer for longer.
    pub(crate) fn expect_delays(&mut self) {
        self.prompt = IO_TIMEOUT + SLACK;
    }

    pub(crate) fn stands_still(&mut self, worker: usize, from: u64) {
        self.frozen.entry(worker).or_default().push((from, u64::MAX));
    }

    pub(crate) fn goes_on(&mut self, worker: usize, at: u64) {
        if let Some(last) = self.frozen.get_mut(&worker).and_then(|times| times.last_mut()) {
            last.1 = at;
        }
    }

    /// The worker reports nothing more: it was killed, or has ended.
    pub(crate) fn on_gone(&mut self, worker: usize) {
        self.open.retain(|(number, _), _| *number != worker);
        self.frozen.remove(&worker);
    }

    /// Takes a report of a worker, if it is about calls.
    pub(crate) fn hear(&mut self, worker: usize, line: &Line) {
        let numbers = &line.numbers[..];
        let name = (worker, numbers[0]);
        let (at, next) = match (line.word.as_str(), numbers) {
            ("call", &[_, key, wait, at]) => {
                let step = Step::Waits(Duration::from_millis(wait));
                self.open.insert(name, Call { key, since: at, step });
                return;
            }
            ("entered", &[_, key, _, _, at, _, ..]) => {
                let last = self.entered.entry(key).or_default();
                *last = at.max(*last);
                (at, Step::IsInside)
            }
            ("left", &[_, at]) => (at, Step::ComesBack),
            ("back", &[_, outcome, at, late]) => {
                self.ends += u64::from(self.open.get(&name).is_some_and(|call| call.key == ENDS));
                self.outcomes[usize::try_from(outcome).unwrap()] += 1;
                self.look(name, at);
                if let Some(call) = self.open.remove(&name) {
                    if outcome == BUSY {
                        self.refused.insert(call.key, at);
                    }
                    let outcome = OUTCOMES[usize::try_from(outcome).unwrap()];
                    let doing = match call.step {
                        Step::Waits(wait) => format!("{outcome}, with a wait of {wait:?}"),
                        _ => outcome.to_owned(),
                    };
                    self.note_late(name, call.key, at, Duration::from_micros(late), doing);
                }
                return;
            }
            _ => return,
        };
        self.look(name, at);
        if let Some(call) = self.open.get_mut(&name) {
            (call.since, call.step) = (at, next);
        }
    }

    /// How many have ended.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Looks for calls that have not returned and are late by now.
    pub(crate) fn look_at_all(&mut self, now: u64) {
        /// No call lasts longer.
        const LONG: u64 = 60_000_000_000;
        for name in self.open.keys().copied().collect::<Vec<_>>() {
            self.look(name, now);
        }
        for times in self.frozen.values_mut() {
            times.retain(|(_, to)| to.saturating_add(LONG) > now);
        }
    }

    /// Whether the worker has a call that seems to hang. Such a worker is not killed: that would
    /// destroy the evidence.
    pub(crate) fn may_hang(&self, worker: usize, now: u64) -> bool {
        let calls = self.open.keys().filter(|(number, _)| *number == worker);
        calls.filter_map(|name| self.lateness(*name, now)).any(|(by, _)| by > PATIENCE / 5)
    }

    fn look(&mut self, name: HoldId, at: u64) {
        if let Some((by, doing)) = self.lateness(name, at).filter(|(by, _)| *by > PATIENCE) {
            self.note_late(name, self.open[&name].key, at, by, doing.to_owned());
        }
    }

    fn note_late(&mut self, name: HoldId, key: u64, at: u64, by: Duration, doing: String) {
        self.latest = self.latest.max(by);
        if by > self.prompt {
            self.late.insert(name, Late { key, at, by, doing });
        }
    }

    /// The calls that wait for that lock, have time left, and run.
    pub(crate) fn waiting(&self, key: u64, now: u64) -> impl Iterator<Item = HoldId> {
        let open = self.open.iter().filter(move |(_, call)| call.key == key);
        let waits = open.filter(
            move |(_, call)| matches!(call.step, Step::Waits(wait) if between(call.since, now) < wait),
        );
        waits.map(|(name, _)| *name).filter(|name| self.runs_since(name.0).is_some())
    }

    /// How many calls of that worker wait.
    pub(crate) fn waiting_of(&self, worker: usize) -> usize {
        let waits = |(name, call): &(&HoldId, &Call)| name.0 == worker && matches!(call.step, Step::Waits(_));
        self.open.iter().filter(waits).count()
    }

    /// `None` while its worker is frozen.
    pub(crate) fn runs_since(&self, worker: usize) -> Option<u64> {
        let last = self.frozen.get(&worker).and_then(|times| times.last()).map_or(0, |(_, to)| *to);
        (last < u64::MAX).then_some(last)
    }

    /// Whether the worker has a call that may hold this lock.
    pub(crate) fn has_one(&self, worker: usize, key: u64) -> bool {
        let open = self.open.iter().filter(|((number, _), _)| *number == worker);
        open.map(|(_, call)| call.key).any(|other| other == key || other == SEVERAL)
    }

    /// Since when a call waits, or did until it entered.
    pub(crate) fn since(&self, name: HoldId) -> Option<u64> {
        self.open.get(&name).map(|call| call.since)
    }

    /// The key of a call that has not entered, and since when it waits.
    pub(crate) fn waits(&self, name: HoldId) -> Option<(u64, u64)> {
        let waiting = self.open.get(&name).filter(|call| matches!(call.step, Step::Waits(_)));
        waiting.map(|call| (call.key, call.since))
    }

    /// A caller waits for that lock, or was refused it a moment before.
    pub(crate) fn is_wanted(&self, key: u64, now: u64) -> bool {
        let refused = self.refused.get(&key).is_some_and(|at| between(*at, now) < Duration::from_millis(700));
        refused || self.waiting(key, now).next().is_some()
    }

    /// A caller whose process runs is inside of that lock, or of several.
    pub(crate) fn is_used(&self, key: u64) -> bool {
        let is_inside = |worker: usize, call: &Call| {
            matches!(call.step, Step::IsInside) && self.runs_since(worker).is_some()
        };
        let mut inside = self.open.iter().filter(|((worker, _), call)| is_inside(*worker, call));
        inside.any(|(_, call)| call.key == key || call.key == SEVERAL)
    }

    /// When a caller last entered.
    pub(crate) fn entered(&self, key: u64) -> u64 {
        self.entered.get(&key).copied().unwrap_or(0)
    }

    /// How late the call would be if it returned now.
    fn lateness(&self, name: HoldId, at: u64) -> Option<(Duration, &'static str)> {
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
        if self.ends > 0 {
            write!(f, " ({} are ends of managers)", self.ends)?;
        }
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
        say(&mut calls, "back", &[7, 1, 61 * SECOND, 200_000]);
        calls.look_at_all(900 * SECOND);
        assert!(calls.late.is_empty() && calls.outcomes == [0, 1, 0, 0, 0, 0]);
        assert_eq!(calls.latest, Duration::from_millis(200));
    }

    #[test]
    fn who_says_that_it_is_late_is_late() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 3, 2000, 0]);
        say(&mut calls, "back", &[7, 2, 2 * SECOND + 300_000_000, 300_000]);
        assert_eq!(calls.late[&(1, 7)].by, Duration::from_millis(300));
    }

    #[test]
    fn a_fault_that_delays_answers_excuses_a_late_call_up_to_the_limit_of_one_answer() {
        for (late, is_late) in [(300_000, false), (800_000, true)] {
            let mut calls = Calls::default();
            calls.expect_delays();
            say(&mut calls, "call", &[7, 3, 2000, 0]);
            say(&mut calls, "back", &[7, 2, 3 * SECOND, late]);
            assert_eq!(!calls.late.is_empty(), is_late, "{late} us");
        }
    }

    #[test]
    fn who_waits_is_known_until_its_time_is_over_and_while_its_process_runs() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 3, 2000, SECOND]);
        let waiting = |calls: &Calls, now| calls.waiting(3, now).collect::<Vec<_>>();
        assert_eq!(waiting(&calls, 2 * SECOND), [(1, 7)]);
        assert_eq!(waiting(&calls, 4 * SECOND), []);
        calls.stands_still(1, SECOND);
        assert_eq!(waiting(&calls, 2 * SECOND), []);
        calls.goes_on(1, 2 * SECOND);
        assert_eq!(waiting(&calls, 2 * SECOND), [(1, 7)]);
        assert!(calls.has_one(1, 3) && !calls.has_one(1, 4) && !calls.has_one(2, 3));
        say(&mut calls, "entered", &[7, 3, 0, 0, 2 * SECOND, 0]);
        assert_eq!(waiting(&calls, 2 * SECOND), []);
        assert_eq!(calls.entered(3), 2 * SECOND);
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
        say(&mut calls, "back", &[8, 1, 9 * SECOND, 0]);
        assert_eq!(calls.late[&(1, 8)].by, Duration::from_secs(8));
    }

    #[test]
    fn the_time_in_which_a_process_stood_still_does_not_count() {
        let mut calls = Calls::default();
        say(&mut calls, "call", &[7, 0, 0, 0]);
        calls.stands_still(1, 2 * SECOND);
        calls.look_at_all(30 * SECOND);
        calls.goes_on(1, 30 * SECOND);
        say(&mut calls, "back", &[7, 1, 32 * SECOND, 0]);
        assert!(calls.late.is_empty());
        say(&mut calls, "call", &[8, 0, 0, 31 * SECOND]);
        calls.on_gone(1);
        calls.look_at_all(90 * SECOND);
        assert!(calls.late.is_empty());
    }
}
