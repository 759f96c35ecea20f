//! One timer for each attempt, or for each slot of a Cluster.
//!
//! A timer is a time in a map. A heap lists the times at which to look at the map, the soonest
//! first: an entry of it costs little, because a new timer is seldom the soonest, and it is not
//! searched for when its timer moves or goes. So the heap also has entries that no timer needs any
//! more. Those that come first are dropped when their time has come, and the others as soon as they
//! are the larger part: a service that takes a hundred thousand locks a second with a ttl of 30 s
//! must not collect three million of them.
//!
//! Pauses before the next try are of random length, so that many processes do not ask in step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::time::Duration;

use super::protocol::Id;
use crate::base::clock::Moment;
use crate::base::host::{self, HashMap};

/// So many entries that no timer needs are kept.
const KEPT: usize = 256;

pub(super) struct Timers<K = Id> {
    /// For each timer an entry at its time or before.
    listed: BinaryHeap<Reverse<(Moment, K)>>,
    of: HashMap<K, Timer>,
}

/// A timer that is put off keeps its entry, and gets another one when that time has come: most are
/// removed before.
struct Timer {
    at: Moment,
    listed: Moment,
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self { listed: BinaryHeap::new(), of: HashMap::default() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// Replaces the timer of `id`; `None` removes it.
    pub(super) fn set(&mut self, id: K, at: Option<Moment>) {
        let Some(at) = at else {
            self.of.remove(&id);
            self.drop_unneeded();
            return;
        };
        match self.of.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert(Timer { at, listed: at });
            }
            Entry::Occupied(mut timer) => {
                let timer = timer.get_mut();
                timer.at = at;
                if at >= timer.listed {
                    return;
                }
                timer.listed = at;
            }
        }
        self.listed.push(Reverse((at, id)));
        self.drop_unneeded();
    }

    fn drop_unneeded(&mut self) {
        if self.of.is_empty() {
            self.listed.clear();
        } else if self.listed.len() > 2 * self.of.len() + KEPT {
            let mut listed = std::mem::take(&mut self.listed).into_vec();
            listed.retain(|Reverse((at, id))| self.of.get(id).is_some_and(|timer| timer.listed == *at));
            // A timer that is removed and set to the same time again has an entry for each.
            if listed.len() > self.of.len() {
                listed = BinaryHeap::from(listed).into_sorted_vec();
                listed.dedup();
            }
            self.listed = listed.into();
        }
    }

    /// The time of the next timer, or before: of one that was put off or removed.
    pub(super) fn next(&self) -> Option<Moment> {
        self.listed.peek().map(|Reverse((at, _))| *at)
    }

    /// An attempt whose time has come; its timer is removed.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        while let Some(&Reverse((listed, id))) = self.listed.peek()
            && listed <= now
        {
            self.listed.pop();
            let Some(timer) = self.of.get_mut(&id).filter(|timer| timer.listed == listed) else {
                continue;
            };
            if timer.at > listed {
                timer.listed = timer.at;
                self.listed.push(Reverse((timer.at, id)));
            } else {
                self.of.remove(&id);
                return Some(id);
            }
        }
        None
    }
}

/// Pauses that double with each failure, up to the longest.
pub(crate) struct Backoff {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pause after so many failures and one more.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        jittered(self.window(failures))
    }

    /// Returns the pause without jitter.
    pub(crate) fn window(&self, failures: u32) -> Duration {
        self.shortest.saturating_mul(2_u32.saturating_pow(failures)).min(self.longest)
    }
}

/// Between zero and `window`.
pub(crate) fn full_jitter(window: Duration) -> Duration {
    let mut random = [0; 4];
    let random = host::random(&mut random).map_or(u32::MAX / 2, |()| u32::from_ne_bytes(random));
    window.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Between half and one and a half times `interval`.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval / 2 + full_jitter(interval)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn entries_that_no_timer_needs_are_few() {
        let start = Moment::now();
        let at = |seconds| Some(start.after(Duration::from_secs(seconds)));
        let mut timers = Timers::default();
        timers.set(0, at(1));
        for id in 1..10_000 {
            timers.set(id, at(30 + id));
            timers.set(id, None);
            // Sets one timer again for the same time, and moves another one.
            timers.set(10_000, at(30));
            timers.set(10_000, None);
            timers.set(10_001, at(30_000 - id));
            assert!(timers.listed.len() <= 2 * timers.of.len() + KEPT, "{}", timers.listed.len());
        }
        assert_eq!(timers.next(), at(1));
        let later = start.after(Duration::from_secs(30_000));
        assert_eq!([timers.pop(later), timers.pop(later), timers.pop(later)], [Some(0), Some(10_001), None]);
        assert!(timers.of.is_empty() && timers.listed.is_empty());
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { shortest: Duration::from_millis(20), longest: Duration::from_millis(500) };
        let windows = [0, 1, 4, 5, u32::MAX].map(|failures| backoff.window(failures).as_millis());
        assert_eq!(windows, [20, 40, 320, 500, 500]);
    }
}
