//! What the workers reported, and the violations that the checker found in it, each with the events
//! around it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::chaos::checker::calls::Calls;
use crate::chaos::checker::liveness::{Liveness, Stall};
use crate::chaos::checker::{CheckResult, Checker, Hold, HoldId, LagOf, Loss, LossDetection};
use crate::chaos::environment::Sample;
use crate::chaos::event_log::EventLog;
use crate::chaos::workload::bodies::{Bodies, BodiesResult};
use crate::chaos::workload::tickets::Tickets;
use crate::{Line, between, now};

/// A violation is reported with the events this long before and after it.
const AROUND: u64 = 250_000_000;

/// Where servers are stopped, a request without an answer may be executed this much later, in
/// nanoseconds.
const UNANSWERED: u64 = 5_000_000_000;

/// A server that takes longer for a plain command is busy.
const SLOW: Duration = Duration::from_millis(20);

/// Further violations are only counted.
const MOST_STORIES: usize = 10;

/// Every hold and call, checked as soon as its end is known.
#[derive(Default)]
pub struct History {
    /// Holds that the checker has not settled.
    holds: HashMap<HoldId, Hold>,
    /// Unsettled calls that returned without the lock; recorded only where locks are handed over at
    /// once.
    vain_waits: HashMap<HoldId, Hold>,
    checker: Checker,
    pub(crate) losses: Vec<Loss>,
    detection: Option<LossDetection>,
    /// Losses by workers that took a lock away from themselves: each with the key and its worker,
    /// until it is over.
    forces: HashMap<HoldId, usize>,
    forced: Vec<Loss>,
    /// How often an operator has set a central limit, or cleared it.
    pub limits_set: usize,
    /// How each call ended, and how late.
    pub calls: Calls,
    /// The locks that were given away and redeemed.
    pub tickets: Tickets,
    /// The ticks that were run, and the results that callers have got.
    pub bodies: Bodies,
    /// Which locks were free or owned by no call.
    pub liveness: Liveness,
    /// The text of each finding: the log and calls around it.
    pub stories: Vec<String>,
    /// How many have entered, by the tenth of a second.
    entered: HashMap<u64, usize>,
}

impl History {
    pub(crate) fn record(&mut self, worker: usize, lines: Vec<Line>) {
        for line in lines {
            if self.tickets.hear(&line) || self.bodies.hear(worker, &line) {
                continue;
            }
            let name = (worker, line.numbers[0]);
            let (called, waited) = (self.calls.since(name), self.calls.waits(name));
            self.calls.hear(worker, &line);
            let Line { word, numbers } = line;
            if let ("entered", &[_, key, fence, asked, entered, deadline, ref allows @ ..]) =
                (word.as_str(), &numbers[..])
            {
                let fence = Some(fence);
                self.add(
                    name,
                    Hold {
                        key,
                        called,
                        fence,
                        asked,
                        entered,
                        seen: entered,
                        deadline,
                        lasts: deadline.saturating_sub(asked),
                        allows: allows.first().copied(),
                        ..Hold::default()
                    },
                );
                continue;
            }
            match (word.as_str(), &numbers[..]) {
                ("back", &[_, _, at, _]) => {
                    if let Some((key, called)) = waited.filter(|_| self.checker.hand_over.is_some()) {
                        self.vain_waits.insert(name, Hold::of_a_vain_wait(key, called, at));
                    }
                    continue;
                }
                ("call", _) => continue,
                ("slept", &[due, at]) => {
                    self.checker.lag.add(LagOf::Machine, due, at);
                    continue;
                }
                ("busy", &[due, at]) => {
                    self.checker.lag.add(LagOf::Runtime, due, at);
                    continue;
                }
                ("limits", &[_, key, permits, at]) => {
                    self.limits_set += 1;
                    self.checker.limits.begins(name, key, (permits > 0).then_some(permits), at);
                    continue;
                }
                ("limited", &[_, at, done]) => {
                    if done == 1 {
                        self.checker.limits.is_set(name, at);
                    } else {
                        self.checker.limits.is_in_doubt(name, at + UNANSWERED);
                    }
                    continue;
                }
                ("forces", &[key, from]) => {
                    self.forces.insert((worker, key), self.forced.len());
                    let detection = self.detection.unwrap_or(LossDetection::AtLeaseEnd);
                    let (keys, to) = (Some(vec![key]), u64::MAX);
                    self.forced.push(Loss { keys, from, to, detection, of_records: false });
                    continue;
                }
                ("forced", &[key, to, done]) => {
                    // Without an answer the request may still be executed.
                    let to = if done == 1 { to } else { to + UNANSWERED };
                    self.on_forced((worker, key), to);
                    continue;
                }
                _ => {}
            }
            let hold = self.holds.get_mut(&name).unwrap_or_else(|| panic!("{name:?} has not entered"));
            match (word.as_str(), &numbers[..]) {
                ("seen", &[_, at, deadline]) => hold.on_seen(at, deadline),
                ("asks", &[_, at, until]) => hold.asked_for = Some((at, until)),
                // Before the deadline that it had seen: it learned of a loss, or shortened the
                // lease.
                ("over", &[_, at]) if at < hold.deadline => hold.deadline = hold.seen,
                ("over", _) => {}
                ("write", &[_, at]) => hold.writes.push(at),
                ("left", &[_, at]) => hold.left = Some(at),
                other => panic!("a worker said {other:?}"),
            }
        }
    }

    /// Call this when a worker was killed or has ended: it reports nothing more.
    pub(crate) fn on_gone(&mut self, worker: usize) {
        self.calls.on_gone(worker);
        self.checker.limits.on_gone(worker, now() + UNANSWERED);
        let forces: Vec<HoldId> =
            self.forces.keys().copied().filter(|(number, _)| *number == worker).collect();
        for name in forces {
            self.on_forced(name, now() + UNANSWERED);
        }
    }

    fn on_forced(&mut self, name: HoldId, to: u64) {
        if let Some(number) = self.forces.remove(&name) {
            self.forced[number].to = to;
        }
    }

    fn losses(&self) -> Vec<Loss> {
        self.losses.iter().chain(&self.forced).cloned().collect()
    }

    pub(crate) fn add(&mut self, name: HoldId, hold: Hold) {
        *self.entered.entry(hold.entered / 100_000_000).or_default() += 1;
        assert!(self.holds.insert(name, hold).is_none(), "{name:?} enters twice");
    }

    /// When a holder notices that its lock was taken away, and how soon a lock is handed over.
    pub(crate) fn expect(&mut self, detection: LossDetection, hand_over: Option<Duration>) {
        self.detection = Some(detection);
        self.checker.hand_over = hand_over;
    }

    /// How many have entered.
    pub fn count(&self) -> usize {
        self.checker.result.holds + self.checker.result.foreign + self.holds.len()
    }

    /// The findings so far.
    pub fn check(&self) -> CheckResult {
        let mut checker = self.checker.clone();
        let (holds, vain_waits) = (in_order(self.holds.clone()), in_order(self.vain_waits.clone()));
        checker.look(holds, vain_waits, u64::MAX, &self.losses());
        checker.result
    }

    /// The findings so far, in a few words each.
    pub fn found(&self) -> Vec<String> {
        let violations = self.check().violations;
        let violations =
            violations.iter().map(|violation| format!("k{} {:?}", violation.key, violation.what));
        let stalls = self.liveness.found.iter().map(|stall| format!("{:?}", stall.what));
        let late = self.calls.late.iter().map(|(name, late)| format!("{name:?}: {late}"));
        violations.chain(stalls).chain(late).chain(self.check_bodies().violations).collect()
    }

    /// The findings so far in ticks and results.
    pub fn check_bodies(&self) -> BodiesResult {
        self.bodies.check(&self.losses())
    }

    /// Lists the faults that were injected around that time, and the times when locks were forgotten.
    pub fn faults_around(&self, (from, to): (u64, u64), log: &EventLog) -> String {
        let (begins, ends) = (from.saturating_sub(10 * AROUND), to + AROUND);
        let relative = |at: u64| {
            if at < from { -between(at, from).as_secs_f64() } else { between(from, at).as_secs_f64() }
        };
        let mut text = String::from("In seconds since the first one:");
        for (at, event) in log.between(begins, ends) {
            let _ = write!(text, "\n  {:+.3} {event}", relative(*at));
        }
        for loss in self.losses().iter().filter(|loss| loss.from <= ends && begins <= loss.to) {
            let (began, ended) = (relative(loss.from), relative(loss.to));
            let _ = write!(text, "\n  {began:+.3} to {ended:+.3} forgotten: {:?}", loss.keys);
        }
        text
    }

    /// The findings in all that is settled.
    pub fn result(&self) -> &CheckResult {
        &self.checker.result
    }

    /// Checks liveness on a sample of the servers.
    pub(crate) fn watch(
        &mut self,
        sample: Option<&Sample>,
        keys: &[u64],
        worker_of: impl Fn(u32) -> Option<usize>,
        log: &EventLog,
    ) {
        let before = self.liveness.found.len();
        // The server itself was this slow for a plain command.
        if let Some(sample) = sample.filter(|sample| between(sample.from, sample.to) > SLOW) {
            self.checker.lag.add(LagOf::Machine, sample.from, sample.to);
        }
        self.liveness.look(sample, keys, &self.calls, &self.checker.lag, worker_of);
        for stall in &self.liveness.found[before..] {
            if self.stories.len() < MOST_STORIES {
                self.stories.push(tell_stall(stall, log));
            }
        }
    }

    /// Checks the holds that began before `until` for the last time. Later reports must not name
    /// them.
    pub(crate) fn settle(&mut self, until: u64, log: &EventLog) {
        self.bodies.is_over = until == u64::MAX;
        let before = self.checker.result.violations.len();
        let [holds, vain_waits] = [&mut self.holds, &mut self.vain_waits]
            .map(|holds| in_order(holds.extract_if(|_, hold| hold.entered < until).collect()));
        let losses = self.losses();
        self.checker.look(holds, vain_waits, until, &losses);
        for number in before..self.checker.result.violations.len() {
            if self.stories.len() < MOST_STORIES {
                self.stories.push(self.tell(number, log));
            }
        }
        self.checker.forget(until);
    }

    fn tell(&self, number: usize, log: &EventLog) -> String {
        let violation = &self.checker.result.violations[number];
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
                "\n  ({worker}, {visit}) asked {} entered {} left {left} deadline {} fencing token {fence} allows {:?}",
                relative(hold.asked),
                relative(hold.entered),
                relative(hold.deadline),
                hold.allows
            );
        }
        for (began, answered, permits) in self.checker.limits.around(violation.key, from, to) {
            let answered = answered.map_or_else(|| "-".to_owned(), relative);
            let _ =
                write!(text, "\n  central limit {permits:?}: set {} answered {answered}", relative(began));
        }
        for stall in self.liveness.found.iter().filter(|stall| (from..=to).contains(&stall.at)) {
            let _ = write!(text, "\n  {} {stall:?}", relative(stall.at));
        }
        for (at, event) in log.between(from.saturating_sub(10 * AROUND), to) {
            let _ = write!(text, "\n  {} {event}", relative(*at));
        }
        for loss in self.losses().iter().filter(|loss| loss.from <= to && from <= loss.to) {
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

    /// How many have entered in each of this many equal parts of the time.
    pub fn entered_over_time(&self, parts: u64) -> Vec<usize> {
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

fn tell_stall(stall: &Stall, log: &EventLog) -> String {
    let lasted = u64::try_from(stall.lasted.as_nanos()).unwrap();
    let mut text = format!("{:?} for {:.1?}. In ms before it was seen:", stall.what, stall.lasted);
    for (at, event) in log.between(stall.at.saturating_sub(lasted + 10 * AROUND), stall.at) {
        let _ = write!(text, "\n  -{:.3} {event}", between(*at, stall.at).as_secs_f64() * 1e3);
    }
    text
}

fn in_order(holds: HashMap<HoldId, Hold>) -> Vec<(HoldId, Hold)> {
    let mut holds: Vec<_> = holds.into_iter().collect();
    holds.sort_by_key(|(name, hold)| (hold.entered, *name));
    holds
}
