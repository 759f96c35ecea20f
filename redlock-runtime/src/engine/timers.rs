//! One timer for each attempt, or for each slot of a Cluster, removed with it: a service that takes a hundred thousand
//! locks a second with a ttl of 30 s must not collect three million stale timers.

use std::collections::BTreeSet;
use std::hash::Hash;

use crate::host::HashMap;

use super::protocol::Id;
use crate::clock::Moment;

pub(super) struct Timers<K = Id> {
    due: BTreeSet<(Moment, K)>,
    of: HashMap<K, Moment>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { due: BTreeSet::new(), of: HashMap::default() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// Replaces the timer of `id`; `None` removes it.
    pub(super) fn set(&mut self, id: K, at: Option<Moment>) {
        let old = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.due.remove(&(old, id));
        }
        if let Some(at) = at {
            self.due.insert((at, id));
        }
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// An attempt whose time has come; its timer is removed.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        let &(at, id) = self.due.first()?;
        if at > now {
            return None;
        }
        self.set(id, None);
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
        assert!(timers.of.is_empty());
    }
}
