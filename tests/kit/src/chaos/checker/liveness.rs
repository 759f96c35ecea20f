//! Liveness: no lock stays free while a caller waits for it, and no lock stays held by a process
//! that has no call for it.
//!
//! The checker sees it in samples of the keys on the server, taken while every worker can reach it.
//! After a missing or late sample it begins again. Each limit is one of the time that the machine
//! gave: the time in which a plain timer of some process was late, or the server, does not count.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::between;
use crate::chaos::checker::calls::Calls;
use crate::chaos::checker::{HoldId, Lag};
use crate::chaos::environment::Sample;
use crate::chaos::workload::many_callers::DROPPED;

/// The longest time, in sum, that a lock may be free during one call for it: the time that a waiter
/// has to claim it, and as much again for a busy machine. The sum begins again when an operator has
/// deleted the lock or its queue.
pub(crate) const LONGEST_FREE: Duration = Duration::from_secs(2);

/// A lock whose calls have all returned is released within this: the timeout of an answer, a new
/// connection, and an allowance for a busy machine.
pub(crate) const LONGEST_OWNED: Duration = Duration::from_secs(3);

/// The longest pause between two samples.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Locks and their waiters, as seen in the samples of a server.
#[derive(Default)]
pub struct Liveness {
    sampled: u64,
    free: HashMap<u64, Free>,
    /// By name: the value, and since when.
    owned: HashMap<String, (String, u64)>,
    /// By key: since when no caller has used it, although callers want it.
    unused: HashMap<u64, u64>,
    /// How soon it must be used.
    pub used_within: Option<Duration>,
    /// An operator, or a server without room, is the reason why locks are free.
    is_excused: bool,
    /// The stalls, each once.
    pub found: Vec<Stall>,
}

/// A lock that is free, or was.
#[derive(Default)]
struct Free {
    /// Since when it is free, if it is.
    since: Option<u64>,
    /// How long it was free in sum.
    sum: Duration,
    /// The sum when a call began to wait.
    waiters: HashMap<HoldId, Duration>,
}

/// A lock that made no progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    pub(crate) what: StallKind,
    pub(crate) at: u64,
    pub(crate) lasted: Duration,
}

/// The kind of stall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StallKind {
    /// No caller had it although callers waited all the time.
    Free {
        /// The number of its key.
        key: u64,
        /// How many waited.
        waiters: usize,
    },
    /// No caller was inside, free or not, although callers waited or were refused all the time.
    Unused {
        /// The number of its key.
        key: u64,
    },
    /// A worker had it without a call for it.
    Ownerless {
        /// The name on the server.
        name: String,
        /// The number of the worker.
        worker: usize,
    },
}

impl Liveness {
    /// `keys`: the keys whose waiters are known. `worker_of`: the living worker of that process id.
    pub(crate) fn look(
        &mut self,
        sample: Option<&Sample>,
        keys: &[u64],
        calls: &Calls,
        lag: &Lag,
        worker_of: impl Fn(u32) -> Option<usize>,
    ) {
        let Some(sample) = sample else {
            (self.sampled, self.free, self.owned) = (0, HashMap::new(), HashMap::new());
            self.unused.clear();
            return;
        };
        if between(self.sampled, sample.to) > LONGEST_PAUSE {
            (self.free, self.owned) = (HashMap::new(), HashMap::new());
            self.unused.clear();
        }
        self.sampled = sample.to;
        for key in keys {
            self.look_at_key(sample, *key, calls, lag);
            self.look_whether_used(sample, *key, calls, lag);
        }
        self.is_excused = false;
        self.owned.retain(|name, (value, _)| sample.locks.get(name) == Some(value));
        for (name, value) in &sample.locks {
            self.look_at_lock(sample, name, value, calls, lag, &worker_of);
        }
    }

    fn look_at_key(&mut self, sample: &Sample, key: u64, calls: &Calls, lag: &Lag) {
        let free = self.free.entry(key).or_default();
        let since = std::mem::take(&mut free.since);
        if !sample.locks.contains_key(&format!("lock:k{key}")) {
            free.since = Some(sample.to);
            // A caller that entered in between had the lock for a part of the time.
            if let Some(since) = since.filter(|since| calls.entered(key) < *since) {
                free.sum += given(since, sample.from, lag);
            }
        }
        let waiting: HashSet<HoldId> = calls.waiting(key, sample.from).collect();
        free.waiters.retain(|name, _| waiting.contains(name));
        let sum = free.sum;
        let waited = waiting.iter().map(|name| sum.saturating_sub(*free.waiters.entry(*name).or_insert(sum)));
        let longest = self.used_within.unwrap_or_default().max(LONGEST_FREE);
        let waited: Vec<Duration> = waited.filter(|time| *time > longest).collect();
        if let Some(lasted) = waited.iter().max().copied() {
            // The sum begins again, so that a stall is found once.
            let what = StallKind::Free { key, waiters: waited.len() };
            free.waiters.clear();
            self.found.push(Stall { what, at: sample.from, lasted });
        }
    }

    fn look_whether_used(&mut self, sample: &Sample, key: u64, calls: &Calls, lag: &Lag) {
        let Some(limit) = self.used_within else { return };
        let value = sample.locks.get(&format!("lock:k{key}"));
        let (is_free, is_foreign) = (value.is_none(), value.is_some_and(|value| !value.contains('@')));
        let since = self.unused.entry(key).or_insert(sample.to);
        if calls.is_used(key)
            || calls.entered(key) >= *since
            || !calls.is_wanted(key, sample.from)
            || is_free && self.is_excused
            || is_foreign
        {
            *since = sample.to;
        }
        let lasted = given(*since, sample.from, lag);
        if lasted > limit {
            *since = sample.to;
            self.found.push(Stall { what: StallKind::Unused { key }, at: sample.from, lasted });
        }
    }

    /// An operator has deleted these locks or their queues, or, with `None`, all.
    pub(crate) fn disturbed(&mut self, keys: Option<&[u64]>) {
        self.is_excused |= keys.is_none();
        self.free.retain(|key, _| keys.is_some_and(|keys| !keys.contains(key)));
    }

    fn look_at_lock(
        &mut self,
        sample: &Sample,
        name: &str,
        value: &str,
        calls: &Calls,
        lag: &Lag,
        worker_of: impl Fn(u32) -> Option<usize>,
    ) {
        // `<secret>@<host>:<pid>`, and perhaps `/<time>/<function>` or a mark.
        let process = value
            .split_once(':')
            .and_then(|(_, rest)| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok());
        let Some(worker) = process.and_then(worker_of) else {
            return;
        };
        let number = name.strip_prefix("lock:k").and_then(|number| number.parse().ok());
        if number.is_none() && !name.contains(DROPPED) {
            return;
        }
        let (_, since) = self.owned.entry(name.to_owned()).or_insert((value.to_owned(), sample.to));
        let has_it = number.is_some_and(|key| calls.has_one(worker, key));
        match calls.runs_since(worker) {
            Some(runs) if !has_it => *since = runs.max(*since),
            _ => *since = sample.to,
        }
        let lasted = given(*since, sample.from, lag);
        if lasted > LONGEST_OWNED {
            let what = StallKind::Ownerless { name: name.to_owned(), worker };
            // So that it is found once.
            *since = u64::MAX;
            self.found.push(Stall { what, at: sample.from, lasted });
        }
    }

    /// How many locks were free while a call waited.
    pub fn free(&self) -> usize {
        self.found.iter().filter(|stall| matches!(stall.what, StallKind::Free { .. })).count()
    }

    /// How many locks belonged to a process without a call for them.
    pub fn ownerless(&self) -> usize {
        self.found.len() - self.free() - self.unused()
    }

    /// How many locks nobody used although callers wanted them.
    pub fn unused(&self) -> usize {
        self.found.iter().filter(|stall| matches!(stall.what, StallKind::Unused { .. })).count()
    }
}

/// The time between the two in which the machine was not late.
fn given(from: u64, to: u64, lag: &Lag) -> Duration {
    between(from, to).saturating_sub(Duration::from_nanos(lag.of_machine(from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Line;
    use crate::chaos::checker::LagOf;

    const MS: u64 = 1_000_000;

    fn hear(calls: &mut Calls, word: &str, numbers: &[u64]) {
        calls.hear(1, &Line { word: word.to_owned(), numbers: numbers.to_vec() });
    }

    /// One each hundred milliseconds, until `to`: the lock of that name has that value.
    fn watch(liveness: &mut Liveness, calls: &Calls, from: u64, to: u64, lock: Option<(&str, &str)>) {
        watch_with(&Lag::default(), liveness, calls, from, to, lock);
    }

    fn watch_with(
        lag: &Lag,
        liveness: &mut Liveness,
        calls: &Calls,
        from: u64,
        to: u64,
        lock: Option<(&str, &str)>,
    ) {
        for at in (from..=to).step_by(100) {
            let locks = lock.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let sample = Sample { from: at * MS, to: at * MS, locks };
            liveness.look(Some(&sample), &[7], calls, lag, |process| (process == 42).then_some(1));
        }
    }

    #[test]
    fn a_lock_that_is_free_while_a_call_waits_is_found() {
        let (mut calls, mut liveness) = (Calls::default(), Liveness::default());
        watch(&mut liveness, &calls, 0, 9000, None);
        hear(&mut calls, "call", &[1, 7, 10_000, 9000 * MS]);
        watch(&mut liveness, &calls, 9100, 11_000, None);
        assert_eq!(liveness.found, []);
        watch(&mut liveness, &calls, 11_100, 12_000, None);
        assert_eq!((liveness.free(), liveness.found.len()), (1, 1), "once");
    }

    #[test]
    fn the_time_in_which_the_machine_was_late_does_not_count() {
        let stalls = |lag: &Lag, until: u64| {
            let (mut calls, mut liveness) = (
                Calls::default(),
                Liveness { used_within: Some(Duration::from_secs(2)), ..Liveness::default() },
            );
            hear(&mut calls, "call", &[1, 7, 60_000, 0]);
            watch_with(lag, &mut liveness, &calls, 0, until, None);
            let mut owned = Liveness::default();
            hear(&mut calls, "back", &[1, 0, 0, 0]);
            watch_with(lag, &mut owned, &calls, 0, until, Some(("lock:k7", "token@host:42")));
            (liveness.free(), liveness.unused(), owned.ownerless())
        };
        let mut lag = Lag::default();
        // Two processes are late for half of the time, at the same time.
        for due in (0..60_000).step_by(200) {
            lag.add(LagOf::Machine, due * MS, (due + 100) * MS);
            lag.add(LagOf::Machine, (due + 10) * MS, (due + 90) * MS);
        }
        assert_eq!(stalls(&lag, 3900), (0, 0, 0));
        assert_eq!(stalls(&lag, 6400), (1, 1, 1));
        assert_eq!(stalls(&Lag::default(), 3200), (1, 1, 1));
    }

    /// As when each waiter of a forgotten queue finds out by itself.
    #[test]
    fn a_lock_that_is_free_most_of_the_time_while_a_call_waits_is_found() {
        let (mut calls, mut liveness) = (Calls::default(), Liveness::default());
        hear(&mut calls, "call", &[1, 7, 60_000, 0]);
        for from in (0..6000).step_by(600) {
            hear(&mut calls, "entered", &[2 + from, 7, 0, 0, from * MS, 0]);
            watch(&mut liveness, &calls, from + 100, from + 600, None);
        }
        assert_eq!(liveness.free(), 2, "{:?}", liveness.found);
    }

    #[test]
    fn a_lock_that_is_used_or_not_waited_for_is_well() {
        let mut liveness = Liveness::default();
        let mut calls = Calls::default();
        // Another key; then one that is free for a moment, entered between two samples, and not
        // seen for a while.
        hear(&mut calls, "call", &[1, 8, 60_000, 0]);
        watch(&mut liveness, &calls, 0, 3000, None);
        hear(&mut calls, "call", &[2, 7, 60_000, 3000 * MS]);
        watch(&mut liveness, &calls, 3100, 4500, None);
        watch(&mut liveness, &calls, 4600, 8900, Some(("lock:k7", "squatter")));
        hear(&mut calls, "entered", &[3, 7, 0, 0, 8950 * MS, 0]);
        watch(&mut liveness, &calls, 9000, 9400, None);
        watch(&mut liveness, &calls, 9900, 11_800, None);
        liveness.disturbed(Some(&[7]));
        watch(&mut liveness, &calls, 11_900, 13_800, None);
        assert_eq!(liveness.found, []);
    }

    #[test]
    fn a_lock_of_a_call_that_has_come_back_is_found() {
        let (mut calls, mut liveness) = (Calls::default(), Liveness::default());
        hear(&mut calls, "call", &[1, 7, 10_000, 0]);
        let lock = Some(("lock:k7", "token@host:42/1795349588/shop::buy"));
        watch(&mut liveness, &calls, 0, 9000, lock);
        hear(&mut calls, "back", &[1, 0, 9000 * MS, 0]);
        watch(&mut liveness, &calls, 9100, 12_000, lock);
        assert_eq!(liveness.found, []);
        watch(&mut liveness, &calls, 12_100, 12_500, lock);
        assert_eq!((liveness.ownerless(), liveness.found.len()), (1, 1), "once");
    }

    #[test]
    fn a_lock_of_a_process_that_is_dead_frozen_or_takes_another_has_its_owner() {
        let (mut calls, mut liveness) = (Calls::default(), Liveness::default());
        watch(&mut liveness, &calls, 0, 9000, Some(("lock:k7", "token@host:43")));
        calls.stands_still(1, 9000 * MS);
        watch(&mut liveness, &calls, 9100, 15_000, Some(("lock:k7", "token@host:42")));
        calls.goes_on(1, 15_000 * MS);
        for (from, token) in [(15_100, "a@host:42"), (17_100, "b@host:42"), (19_100, "c@host:42")] {
            watch(&mut liveness, &calls, from, from + 1900, Some(("lock:dropped:1", token)));
        }
        assert_eq!(liveness.found, []);
    }

    #[test]
    fn a_lock_that_nobody_uses_although_callers_are_refused_is_found() {
        let limit = Some(Duration::from_secs(3));
        let (mut calls, mut liveness) =
            (Calls::default(), Liveness { used_within: limit, ..Liveness::default() });
        let stuck = Some(("lock:k7", "token@host:43"));
        let refuse = |calls: &mut Calls, at: u64| {
            hear(calls, "call", &[at, 7, 0, at * MS]);
            hear(calls, "back", &[at, 2, at * MS, 0]);
        };
        // Nobody wants it.
        watch(&mut liveness, &calls, 0, 9000, stuck);
        for at in (9000..12_000).step_by(500) {
            refuse(&mut calls, at);
            watch(&mut liveness, &calls, at + 100, at + 500, stuck);
        }
        assert_eq!(liveness.found, []);
        // It is free in between, and nobody enters.
        refuse(&mut calls, 12_000);
        watch(&mut liveness, &calls, 12_100, 12_500, None);
        assert_eq!((liveness.unused(), liveness.found.len()), (1, 1));
        // A caller is inside.
        hear(&mut calls, "entered", &[1, 7, 0, 0, 12_600 * MS, 0]);
        hear(&mut calls, "call", &[2, 7, 60_000, 12_600 * MS]);
        watch(&mut liveness, &calls, 12_600, 15_000, stuck);
        assert_eq!(liveness.unused(), 1);
    }
}
