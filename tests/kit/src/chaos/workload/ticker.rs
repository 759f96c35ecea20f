//! How late a plain timer is in this process: lateness of a call that the lock did not cause.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crate::{between, now, say};

const TICK_MS: u64 = 5;
const TICK: Duration = Duration::from_millis(TICK_MS);

/// A tick that is later than this is recorded.
const LATE: u64 = 3_000_000;

/// A machine that was busy a moment ago is still busy: the lateness of a plain timer just before
/// counts, too.
const JUST_BEFORE: u64 = 1_000_000_000;

/// A tick that is later than this is reported: for checks that compare two processes.
const VERY_LATE: u64 = 50_000_000;

/// Enough for several seconds.
const MOST: usize = 2048;

/// Two timers: one of a thread of its own, one of the runtime of the callers.
#[derive(Default)]
pub struct Ticker {
    started: u64,
    timers: [Mutex<Timer>; 2],
}

#[derive(Default)]
struct Timer {
    /// When it last ticked.
    ticked: u64,
    /// The late ticks: when each was due, and when it came.
    late: VecDeque<(u64, u64)>,
}

/// The pause between two ticks, in nanoseconds.
const DUE: u64 = TICK_MS * 1_000_000;

impl Timer {
    /// When it was due, if it was very late.
    fn tick(&mut self, at: u64) -> Option<u64> {
        let due = self.ticked + DUE;
        if self.ticked > 0 && at > due + LATE {
            self.late.push_back((due, at));
            if self.late.len() > MOST {
                self.late.pop_front();
            }
        }
        let was_due = (self.ticked > 0 && at > due + VERY_LATE).then_some(due);
        self.ticked = at;
        was_due
    }

    fn stolen(&self, from: u64, to: u64) -> Duration {
        let under_way = [(self.ticked + DUE, to)];
        let late = self.late.iter().chain(&under_way);
        late.map(|(due, at)| between(from.max(*due), to.min(*at))).sum()
    }
}

impl Ticker {
    /// Runs the timer of the thread. It ends with the last owner.
    pub(crate) fn start() -> Arc<Self> {
        let ticker = Arc::new(Self { started: now(), ..Self::default() });
        let weak = Arc::downgrade(&ticker);
        thread::spawn(move || {
            while let Some(ticker) = Weak::upgrade(&weak) {
                if let Some(due) = ticker.tick(0) {
                    say("slept", &[due, now()]);
                }
                drop(ticker);
                thread::sleep(TICK);
            }
        });
        ticker
    }

    /// Runs the timer of this runtime, as long as it is polled.
    pub(crate) async fn ticks(&self) {
        loop {
            if let Some(due) = self.tick(1) {
                say("busy", &[due, now()]);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    fn tick(&self, timer: usize) -> Option<u64> {
        self.timers[timer].lock().unwrap().tick(now())
    }

    /// From then on its promises count: on a busy machine a process takes its time to start.
    pub(crate) fn has_started(&self) -> u64 {
        self.started + JUST_BEFORE
    }

    /// How much of that time, and just before, a plain timer did not run.
    pub(crate) fn stolen(&self, from: u64, to: u64) -> Duration {
        let from = from.saturating_sub(JUST_BEFORE);
        self.timers.iter().map(|timer| timer.lock().unwrap().stolen(from, to)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_a_timer_did_not_run_is_what_was_stolen() {
        const MS: u64 = 1_000_000;
        let mut timer = Timer::default();
        for at in [100, 106, 112, 212, 217] {
            timer.tick(at * MS);
        }
        // Due at 117.
        assert_eq!(timer.stolen(100 * MS, 217 * MS), Duration::from_millis(95));
        assert_eq!(timer.stolen(150 * MS, 160 * MS), Duration::from_millis(10));
        assert_eq!(timer.stolen(212 * MS, 217 * MS), Duration::ZERO);
        // It has not ticked since 217.
        assert_eq!(timer.stolen(217 * MS, 300 * MS), Duration::from_millis(78));
    }
}
