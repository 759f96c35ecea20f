//! What the nodes have told so far: their clocks of fencing tokens, and which locks have changed.
//!
//! The votes make it safe, not this. The clocks follow the time in microseconds, so the highest
//! that was seen, plus the time since, is above the other clocks, unless a fencing token was given
//! just now: most locks need one round of votes and not two. A lock has changed once so many nodes
//! have told of it that no quorum may be left that holds it.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::host::HashMap;
use crate::engine::protocol::ServerInfo;

/// Each node has a bit.
type Nodes = u64;

pub(crate) const MOST_NODES: usize = Nodes::BITS as usize;

/// Locks that are remembered at most. A change that is forgotten delays a waiter, which asks again
/// from time to time.
pub(super) const MOST_CHANGES: usize = 10_000;

pub(super) struct Changes {
    /// How many nodes must tell.
    needed: usize,
    told: HashMap<Arc<str>, Nodes>,
}

impl Changes {
    pub(super) fn new(needed: usize) -> Self {
        Self { needed, told: HashMap::default() }
    }

    pub(super) fn forget(&mut self, name: &Arc<str>) {
        self.told.remove(name);
    }

    /// Returns the locks that have changed, among those that a node reports.
    pub(super) fn learn(&mut self, node: usize, names: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let mut changed = Vec::new();
        for name in names {
            if self.told.len() >= MOST_CHANGES {
                self.told.clear();
            }
            let told = self.told.entry(Arc::clone(&name)).or_default();
            *told |= 1 << node;
            if told.count_ones() as usize >= self.needed {
                self.told.remove(&name);
                changed.push(name);
            }
        }
        changed
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.told.len()
    }
}

/// The fencing token to request from the nodes.
pub(super) struct FenceEstimate {
    highest: u64,
    at: Moment,
}

impl FenceEstimate {
    pub(super) fn new(now: Moment) -> Self {
        Self { highest: 0, at: now }
    }

    fn estimate(&self, now: Moment) -> u64 {
        let since = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX);
        self.highest.saturating_add(since)
    }

    pub(super) fn learn(&mut self, now: Moment, clock: u64) {
        if clock > self.estimate(now) {
            *self = Self { highest: clock, at: now };
        }
    }

    /// Above all known clocks, and not ahead of the time: a node that has lost its data begins
    /// again at its own time.
    pub(super) fn next(&mut self, now: Moment) -> u64 {
        let estimate = self.estimate(now).max(self.highest.saturating_add(1));
        *self = Self { highest: estimate, at: now };
        estimate
    }

    pub(super) fn server_info(&self) -> ServerInfo {
        ServerInfo { clock: self.highest, up_for: Duration::MAX, durable: true, round_trip: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_estimate_is_above_the_last_and_above_what_was_learnt() {
        let now = Moment::now();
        let mut estimate = FenceEstimate::new(now);
        estimate.learn(now, 1000);
        assert_eq!([estimate.next(now), estimate.next(now)], [1001, 1002]);
        estimate.learn(now, 500);
        assert_eq!(estimate.next(now), 1003);
        assert_eq!(estimate.next(now.after(Duration::from_micros(50))), 1053);
    }

    #[test]
    fn many_estimates_do_not_run_ahead_of_the_time() {
        let start = Moment::now();
        let mut estimate = FenceEstimate::new(start);
        estimate.learn(start, 1_000_000);
        let last = (1..=1000).map(|tick| estimate.next(start.after(Duration::from_micros(10 * tick)))).last();
        assert_eq!(last, Some(1_010_000));
    }
}
