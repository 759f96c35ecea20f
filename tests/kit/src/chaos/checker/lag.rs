//! The lag of the machine: when a plain timer was late, or the server itself. What happens meanwhile
//! is not judged, because a lock can be no quicker than a timer.

use std::collections::VecDeque;

/// Enough for some minutes.
const MOST: usize = 10_000;

/// What was late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LagOf {
    /// A thread that only waits, or the server: the machine gave it no time.
    Machine,
    /// A runtime: its callers, or the lock, had much to do.
    Runtime,
}

/// The times in which something was late: when it was due, and when it came.
#[derive(Clone, Default)]
pub(crate) struct Lag(VecDeque<(LagOf, u64, u64)>);

impl Lag {
    pub(crate) fn add(&mut self, late: LagOf, due: u64, at: u64) {
        self.0.push_back((late, due, at));
    }

    /// Returns for how much of that time the machine was late. What several processes lose at the
    /// same time counts once.
    pub(crate) fn of_machine(&self, from: u64, to: u64) -> u64 {
        self.union(from, to, |late| late == LagOf::Machine)
    }

    /// Returns for how much of that time the machine or some runtime was late.
    pub(crate) fn of_any(&self, from: u64, to: u64) -> u64 {
        self.union(from, to, |_| true)
    }

    fn union(&self, from: u64, to: u64, counts: impl Fn(LagOf) -> bool) -> u64 {
        let those = self.0.iter().filter(|(late, ..)| counts(*late));
        let mut parts: Vec<(u64, u64)> = those.map(|(_, due, at)| (from.max(*due), to.min(*at))).collect();
        parts.sort_unstable();
        let (mut sum, mut end) = (0, from);
        for (begins, ends) in parts {
            sum += ends.saturating_sub(begins.max(end));
            end = end.max(ends);
        }
        sum
    }

    /// Drops old times, so that memory stays bounded.
    pub(crate) fn forget(&mut self) {
        self.0.drain(..self.0.len().saturating_sub(MOST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_of_several_at_the_same_time_counts_once() {
        let mut lag = Lag::default();
        for (due, at) in [(30, 50), (10, 20), (15, 35), (60, 70)] {
            lag.add(LagOf::Machine, due, at);
        }
        lag.add(LagOf::Runtime, 65, 90);
        assert_eq!((lag.of_machine(0, 100), lag.of_any(0, 100)), (50, 70));
        assert_eq!((lag.of_machine(18, 64), lag.of_any(66, 80)), (36, 14));
        assert_eq!(lag.of_any(90, 200), 0);
    }
}
