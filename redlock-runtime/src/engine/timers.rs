//! One timer for each attempt, or for each slot of a Cluster, removed with it: a service that takes
//! a hundred thousand locks a second with a ttl of 30 s must not collect three million stale
//! timers.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::ground::host::HashMap;

use super::protocol::Id;
use crate::ground::clock::Moment;

pub(super) struct Timers<K = Id> {
    /// Each timer, at its time or before.
    listed: BTreeSet<(Moment, K)>,
    of: HashMap<K, Timer>,
}

/// A timer that is put off stays in the list where it is, and moves when that time has come: most
/// are removed before.
struct Timer {
    at: Moment,
    listed: Moment,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { listed: BTreeSet::new(), of: HashMap::default() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// Replaces the timer of `id`; `None` removes it.
    pub(super) fn set(&mut self, id: K, at: Option<Moment>) {
        let Some(at) = at else {
            if let Some(timer) = self.of.remove(&id) {
                self.listed.remove(&(timer.listed, id));
            }
            return;
        };
        match self.of.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert(Timer { at, listed: at });
                self.listed.insert((at, id));
            }
            Entry::Occupied(mut timer) => {
                let timer = timer.get_mut();
                timer.at = at;
                if at < timer.listed {
                    let before = std::mem::replace(&mut timer.listed, at);
                    self.listed.remove(&(before, id));
                    self.listed.insert((at, id));
                }
            }
        }
    }

    /// The time of the next timer, or a little before: of one that was put off.
    pub(super) fn next(&self) -> Option<Moment> {
        self.listed.first().map(|(at, _)| *at)
    }

    /// An attempt whose time has come; its timer is removed.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        loop {
            let &(listed, id) = self.listed.first()?;
            if listed > now {
                return None;
            }
            self.listed.pop_first();
            match self.of.get_mut(&id) {
                Some(timer) if timer.at > listed => {
                    timer.listed = timer.at;
                    self.listed.insert((timer.at, id));
                }
                _ => {
                    self.of.remove(&id);
                    return Some(id);
                }
            }
        }
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
        assert!(timers.of.is_empty() && timers.listed.is_empty());
    }

    #[test]
    fn a_timer_that_is_put_off_rings_at_its_new_time_once() {
        let start = Moment::now();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let mut timers = Timers::default();
        timers.set(1, Some(at(1)));
        timers.set(1, Some(at(5)));
        timers.set(2, Some(at(3)));
        assert_eq!(timers.pop(at(2)), None, "it was put off");
        assert_eq!(timers.next(), Some(at(3)));
        // Sooner again, and put off once more.
        timers.set(1, Some(at(2)));
        timers.set(1, Some(at(4)));
        let rings: Vec<_> = std::iter::from_fn(|| timers.pop(at(9))).collect();
        assert_eq!(rings, [2, 1]);
        timers.set(3, Some(at(1)));
        timers.set(3, Some(at(2)));
        timers.set(3, None);
        assert!(timers.of.is_empty() && timers.listed.is_empty());
    }
}
