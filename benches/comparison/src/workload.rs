//! The parameters of a workload for each contender, here and in the processes of other languages.

use std::time::Duration;

use kit::RedisServer;
pub use kit::sale::{Day, Sale};

/// The servers that the workloads run on.
pub struct Servers {
    /// The one on PATH.
    pub redis: RedisServer,
    /// One of another version, for the workloads that compare the two.
    pub second: Option<RedisServer>,
}

impl Servers {
    /// Both, the one on PATH first.
    pub fn all(&self) -> impl Iterator<Item = &RedisServer> {
        std::iter::once(&self.redis).chain(&self.second)
    }
}

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

/// How many callers wait, and for how long. Hand-overs count from a third of that time, when all
/// wait, until shortly before its end.
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
