//! The parameters of a workload for each contender, here and in the processes of other languages.

use std::time::Duration;

/// `--quick` gives rough figures in a few minutes; quote those of the full run.
#[derive(Clone, Copy)]
pub struct Extent {
    pub quick: bool,
}

impl Extent {
    pub fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// How many callers wait, and for how long. Hand-overs count from a third of that time, when all wait, until shortly
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

    /// When the waiters begin to give up, nothing is counted.
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

/// The result of a sale: how long it took in seconds, and each wait in milliseconds.
pub struct Day {
    pub lasted: f64,
    pub waits: Vec<f64>,
    pub failed: u32,
    pub overlaps: u32,
}
