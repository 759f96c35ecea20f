//! What a workload asks of each contender, here and in the processes of other languages.

use std::time::Duration;

/// `--quick` is a look, in a few minutes; the figures to quote are those of the full run.
#[derive(Clone, Copy)]
pub struct Extent {
    pub quick: bool,
}

impl Extent {
    pub fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// How many wait, and how long it goes on. What counts is what happens after a third of that, when all wait, until shortly
/// before its end.
#[derive(Clone, Copy)]
pub struct Crowd {
    pub waiters: usize,
    pub holds: Duration,
    pub lasts: Duration,
}

impl Crowd {
    /// While the queue fills, nothing is counted.
    pub fn counts_from(&self) -> Duration {
        self.lasts / 3
    }

    /// When they begin to give up, neither.
    pub fn counts_to(&self) -> Duration {
        self.lasts * 19 / 20
    }
}

/// Requests for one item, each with a limit to its wait.
#[derive(Clone, Copy)]
pub struct Sale {
    pub requests: u32,
    pub at_a_time: u32,
    pub wait: Duration,
}

/// What came of a sale: how long it took in seconds, and each wait in milliseconds.
pub struct Day {
    pub lasted: f64,
    pub waits: Vec<f64>,
    pub failed: u32,
    pub overlaps: u32,
}
