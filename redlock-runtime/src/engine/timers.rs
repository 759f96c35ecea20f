//! One timer for each attempt, or for each slot of a Cluster, removed with it: a service that takes a hundred thousand
//! locks a second with a ttl of 30 s must not collect three million stale timers.

use std::collections::BTreeSet;
use std::hash::Hash;

use crate::host::HashMap;

use super::protocol::Id;
use crate::clock::Moment;

pub(super) struct Timers<K = Id> {
    in_order: BTreeSet<(Moment, K)>,
    of: HashMap<K, Moment>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { in_order: BTreeSet::new(), of: HashMap::default() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// Replaces the timer of `id`; `None` removes it.
    pub(super) fn set(&mut self, id: K, at: Option<Moment>) {
        let before = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if before != at {
            if let Some(before) = before {
                self.in_order.remove(&(before, id));
            }
            self.in_order.extend(at.map(|at| (at, id)));
        }
    }

    /// Sets the timer of `id` unless it has an earlier one, which costs nothing: most are removed before that time. One that
    /// comes too early is to be set again.
    pub(super) fn set_by(&mut self, id: K, at: Moment) {
        if self.of.get(&id).is_none_or(|before| *before > at) {
            self.set(id, Some(at));
        }
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// An attempt whose time has come; its timer is removed.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        let &(at, id) = self.in_order.first()?;
        if at > now {
            return None;
        }
        self.in_order.pop_first();
        self.of.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_timer_each_in_order_of_time() {
        let start = Moment::now();
        let at = |seconds| Some(start.after(Duration::from_secs(seconds)));
        let mut timers = Timers::default();
        timers.set(1, at(5));
        timers.set(2, at(2));
        timers.set(1, at(1));
        // Setting the same time changes nothing.
        timers.set(1, at(1));
        timers.set(3, at(3));
        timers.set(3, None);
        assert_eq!(timers.next(), at(1));
        assert_eq!(timers.pop(start), None);
        let later = start.after(Duration::from_secs(9));
        assert_eq!([timers.pop(later), timers.pop(later), timers.pop(later)], [Some(1), Some(2), None]);
        assert!(timers.of.is_empty() && timers.in_order.is_empty());
    }

    #[test]
    fn an_earlier_timer_is_kept_and_a_later_one_replaced() {
        let start = Moment::now();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let mut timers = Timers::default();
        for (seconds, expected) in [(3, 3), (5, 3), (2, 2), (4, 2)] {
            timers.set_by(1, at(seconds));
            assert_eq!(timers.next(), Some(at(expected)));
        }
        assert_eq!([timers.pop(at(2)), timers.pop(at(9))], [Some(1), None]);
    }
}
