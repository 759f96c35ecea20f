//! Bodies that do not run for each caller that has the lock: one run for each tick, and one result for
//! all that ask while its record lasts. Here is also what the run has heard of them, and what is wrong
//! with that. A server that loses its data, or a failover, may forget a record, and then there may be
//! one run more; whoever takes a lock away leaves the record.

use std::collections::{BTreeMap, HashMap};
use std::iter::zip;
use std::time::{Duration, UNIX_EPOCH};

use redlocked::LockError;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::chaos::checker::{HoldId, Loss};
use crate::chaos::workload::caller::{Caller, key, look_for};
use crate::chaos::workload::report::{CallParams, CallReport, HoldReport};
use crate::{Line, between, now, say};

const TICK: Duration = Duration::from_secs(1);

/// So long a result is kept, in nanoseconds.
const LASTS: u64 = 700_000_000;

/// The server counts in milliseconds.
const ROUNDED: u64 = 2_000_000;

impl Caller {
    /// Comes again and again in each tick.
    pub(crate) async fn ticks(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            let (request, call_params) = self.request();
            let (stays, asked) = (Duration::from_millis(self.random.between(0, 60)), now());
            let request = request.min_hold(Duration::ZERO).tick(TICK);
            self.holds(request, call_params, async |guard, report| {
                if let Some(since) = guard.tick().and_then(|tick| tick.duration_since(UNIX_EPOCH).ok()) {
                    say("tick", &[call_params.hold, call_params.key, since.as_secs(), asked, now()]);
                }
                look_for(report, stays).await;
                say("write", &[call_params.hold, now()]);
            })
            .await;
            sleep(Duration::from_millis(self.random.between(0, 120))).await;
        }
    }

    /// Asks for the results of bodies that run once. Some leave, also in the body.
    pub(crate) async fn asks_for_results(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            if self.random.percent(10) {
                let patience = Duration::from_millis(self.random.between(0, 60));
                let _ = timeout(patience, self.asks_for_one()).await;
            } else {
                self.asks_for_one().await;
            }
            sleep(Duration::from_millis(self.random.between(0, 30))).await;
        }
    }

    async fn asks_for_one(&mut self) {
        let (_, call_params) = self.request();
        let CallParams { key: number, hold, ttl, wait, .. } = call_params;
        let stays = Duration::from_millis(self.random.between(0, 120));
        // One result is of one run.
        let result = u64::from(std::process::id()) << 32 | hold;
        let request = self.locks.lock(key(number)).ttl(ttl).wait(wait);
        let call = CallReport::begin(call_params, &self.ticker);
        let outcome = request.once(Duration::from_nanos(LASTS)).run(async |guard| {
            call.enters();
            let began = now();
            if let Some(report) = HoldReport::begin(guard, call_params) {
                look_for(&report, stays).await;
            }
            // Before it is stored: it is known also of a process that is killed then.
            say("ran", &[hold, number, result, began, now()]);
            call.leaves();
            Ok::<_, LockError>(result)
        });
        let outcome = outcome.await;
        if let Ok(once) = &outcome {
            say("result", &[hold, number, (*once).into_inner(), now()]);
        }
        call.comes_back(&outcome);
    }
}

/// What the workers have told of ticks and results.
#[derive(Default)]
pub struct Bodies {
    /// The runs of each tick, by its key and its time in seconds.
    ticks: BTreeMap<(u64, u64), Vec<Tick>>,
    ran: HashMap<u64, Run>,
    /// By key, what callers have got, and when the first of them had it.
    results: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// How many callers have got a result.
    pub returned: usize,
    /// All have told what they had to tell.
    pub(crate) is_over: bool,
}

/// A run of a tick: who has asked for it when, and was inside when.
struct Tick {
    by: HoldId,
    asked: u64,
    at: u64,
}

/// The findings in ticks and results.
#[derive(Default)]
pub struct BodiesResult {
    /// What no loss excuses.
    pub violations: Vec<String>,
    /// For each two bodies that should have been one: the time when the caller of the first one asked, or
    /// its body began, and the time when the second body began.
    pub second_runs: Vec<(u64, u64)>,
    /// How many runs there were more, because their records were forgotten.
    pub excused: usize,
}

#[derive(Clone, Copy)]
struct Run {
    key: u64,
    began: u64,
    ended: u64,
}

impl Bodies {
    /// True when the report is about a tick or a result.
    pub(crate) fn hear(&mut self, worker: usize, line: &Line) -> bool {
        match (line.word.as_str(), &line.numbers[..]) {
            ("tick", &[hold, key, tick, asked, at]) => {
                self.ticks.entry((key, tick)).or_default().push(Tick { by: (worker, hold), asked, at });
            }
            ("ran", &[_, key, result, began, ended]) => {
                self.ran.insert(result, Run { key, began, ended });
            }
            ("result", &[_, key, result, at]) => {
                self.returned += 1;
                let first = self.results.entry(key).or_default().entry(result).or_insert(at);
                *first = at.min(*first);
            }
            _ => return false,
        }
        true
    }

    /// How many ticks were run.
    pub fn ticks(&self) -> usize {
        self.ticks.len()
    }

    /// How many bodies have run to their end.
    pub fn runs(&self) -> usize {
        self.ran.len()
    }

    /// What is wrong, and what these losses excuse.
    pub(crate) fn check(&self, losses: &[Loss]) -> BodiesResult {
        let mut result = BodiesResult::default();
        for ((key, tick), runs) in &self.ticks {
            let mut runs: Vec<&Tick> = runs.iter().collect();
            runs.sort_by_key(|run| run.at);
            for (first, second) in zip(&runs, runs.iter().skip(1)) {
                let what = format!("the tick {tick} is run by {:?} and {:?}", first.by, second.by);
                result.add(*key, &what, (first.asked, second.at), losses);
            }
        }
        for (key, results) in &self.results {
            self.check_results(*key, results, losses, &mut result);
        }
        result
    }

    /// Callers have got two results where the record of one lasted, one of another key, or one that
    /// nobody has made.
    fn check_results(
        &self,
        key: u64,
        results: &BTreeMap<u64, u64>,
        losses: &[Loss],
        found: &mut BodiesResult,
    ) {
        let mut runs = Vec::new();
        for (result, first) in results {
            match self.ran.get(result) {
                Some(run) if run.key == key => runs.push(((result, first), run)),
                Some(run) => found.violations.push(format!("k{key}: {result} is of k{}", run.key)),
                // Its process may tell it in a moment.
                None if !self.is_over => {}
                None => found.violations.push(format!("k{key}: {result} is of nobody")),
            }
        }
        runs.sort_by_key(|(_, run)| run.began);
        for (((first, got), before), ((second, _), after)) in zip(&runs, runs.iter().skip(1)) {
            // The second one has found no record.
            if after.began + ROUNDED < before.ended + LASTS {
                let [ran_for, got_after, began_after] =
                    [before.ended, **got, after.began].map(|at| between(before.began, at));
                let what = format!(
                    "callers have the results {first} and {second} at one time: the first body ran for {ran_for:.1?}, \
                     a caller had its result {got_after:.1?} after its begin, and the second one began \
                     {began_after:.1?} after it"
                );
                found.add(key, &what, (before.began, after.began), losses);
            }
        }
    }
}

impl BodiesResult {
    fn add(&mut self, key: u64, what: &str, (first, second): (u64, u64), losses: &[Loss]) {
        if losses.iter().any(|loss| loss.excuses_a_second_run(key, first, second)) {
            self.excused += 1;
        } else {
            self.violations.push(format!("k{key}: {what}"));
            self.second_runs.push((first, second));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bodies, BodiesResult, LASTS};
    use crate::Line;
    use crate::chaos::checker::{Loss, LossDetection};

    fn heard_with(lines: &[(&str, &[u64])], losses: &[Loss]) -> BodiesResult {
        let mut bodies = Bodies { is_over: true, ..Bodies::default() };
        for (worker, (word, numbers)) in lines.iter().enumerate() {
            let line = Line { word: (*word).to_owned(), numbers: numbers.to_vec() };
            assert!(bodies.hear(worker, &line), "{line:?}");
        }
        bodies.check(losses)
    }

    fn heard(lines: &[(&str, &[u64])]) -> Vec<String> {
        heard_with(lines, &[]).violations
    }

    /// The key 7, from 20 to 30.
    fn loss(of_records: bool) -> Loss {
        Loss { keys: Some(vec![7]), from: 20, to: 30, detection: LossDetection::AtLeaseEnd, of_records }
    }

    #[test]
    fn a_tick_that_two_have_run_is_found() {
        let ticks: [(&str, &[u64]); 3] =
            [("tick", &[1, 7, 100, 1, 2]), ("tick", &[2, 7, 101, 3, 4]), ("tick", &[3, 8, 100, 5, 6])];
        assert!(heard(&ticks).is_empty());
        assert_eq!(heard(&[("tick", &[1, 7, 100, 1, 2]), ("tick", &[1, 7, 100, 3, 4])]).len(), 1);
    }

    #[test]
    fn a_record_that_was_forgotten_excuses_a_second_run() {
        let found = |key: u64, (asked, second): (u64, u64), loss: &Loss| {
            let (first, second) = ([1, key, 100, asked, asked], [2, key, 100, second, second]);
            let lines: [(&str, &[u64]); 2] = [("tick", &first), ("tick", &second)];
            let result = heard_with(&lines, std::slice::from_ref(loss));
            (result.violations.len(), result.excused)
        };
        assert_eq!(found(7, (10, 40), &loss(true)), (0, 1));
        assert_eq!(found(7, (10, 40), &loss(false)), (1, 0), "the lock was taken away, the record is there");
        assert_eq!(found(8, (10, 40), &loss(true)), (1, 0), "another key");
        assert_eq!(found(7, (10, 19), &loss(true)), (1, 0), "it is forgotten later");
        assert_eq!(found(7, (31, 40), &loss(true)), (1, 0), "it was forgotten before");
    }

    #[test]
    fn two_results_at_one_time_are_found() {
        let runs =
            |second: u64| [("ran", vec![1, 7, 21, 10, 2000]), ("ran", vec![1, 7, 22, second, second + 1000])];
        let heard_with = |second: u64, results: &[(&str, &[u64])], losses: &[Loss]| {
            let runs = runs(second);
            let runs: Vec<_> = runs.iter().map(|(word, numbers)| (*word, &numbers[..])).collect();
            heard_with(&[&runs[..], results].concat(), losses)
        };
        let heard = |second, results: &[(&str, &[u64])]| heard_with(second, results, &[]).violations;
        let both: [(&str, &[u64]); 3] =
            [("result", &[1, 7, 21, 0]), ("result", &[2, 7, 21, 0]), ("result", &[1, 7, 22, 0])];
        assert_eq!(heard(LASTS / 2, &both).len(), 1);
        assert!(heard(LASTS / 2, &both[..2]).is_empty(), "nobody has the result of the second run");
        assert!(heard(LASTS + 2000, &both).is_empty(), "that of the first was over");
        assert_eq!(heard(LASTS + 2000, &[("result", &[1, 8, 21, 0])]).len(), 1, "it is of another key");
        assert_eq!(heard(LASTS + 2000, &[("result", &[1, 7, 23, 0])]).len(), 1, "nobody has made it");
        let forgotten = |of_records| {
            let result = heard_with(LASTS / 2, &both, &[loss(of_records)]);
            (result.violations.len(), result.excused)
        };
        assert_eq!((forgotten(true), forgotten(false)), ((0, 1), (1, 0)));
    }
}
