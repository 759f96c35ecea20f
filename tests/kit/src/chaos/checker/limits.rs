//! The central limits of the keys: which number an operator has set, and when it may have counted.

use std::collections::BTreeMap;

use super::{HoldId, Loss};

/// No call waits longer, in nanoseconds, also if its process is frozen meanwhile.
const LONGEST_WAIT: u64 = 60_000_000_000;

/// How many permits an operator has set for a key.
#[derive(Clone, Debug)]
struct CentralLimit {
    by: HoldId,
    /// `None` where the numbers of the callers count.
    permits: Option<u64>,
    /// It may count from then on.
    began: u64,
    /// It is not executed later.
    done: Option<u64>,
    /// The server has answered then, so it has counted.
    answered: Option<u64>,
    /// Another one counts since then.
    until: Option<u64>,
}

/// By key, each number that was set.
#[derive(Clone, Default)]
pub(crate) struct Limits {
    keys: BTreeMap<u64, Vec<CentralLimit>>,
}

impl Limits {
    /// An operator sets a number, or clears it.
    pub(crate) fn begins(&mut self, by: HoldId, key: u64, permits: Option<u64>, began: u64) {
        let limit = CentralLimit { by, permits, began, done: None, answered: None, until: None };
        self.keys.entry(key).or_default().push(limit);
    }

    /// The server has answered: what was done when this one began counts no more.
    pub(crate) fn is_set(&mut self, by: HoldId, at: u64) {
        for limits in self.keys.values_mut() {
            let Some(began) = limits.iter().find(|limit| limit.by == by).map(|limit| limit.began) else {
                continue;
            };
            for limit in limits {
                if limit.by == by {
                    (limit.done, limit.answered) = (Some(at), Some(at));
                } else if limit.done.is_some_and(|done| done <= began) {
                    limit.until = limit.until.or(Some(at));
                }
            }
        }
    }

    /// The operator has no answer: its number may count, or may not, and is not executed after `at`.
    pub(crate) fn is_in_doubt(&mut self, by: HoldId, at: u64) {
        for limit in self.keys.values_mut().flatten().filter(|limit| limit.by == by) {
            limit.done = limit.done.or(Some(at));
        }
    }

    /// The worker has no answer to any of its calls.
    pub(crate) fn on_gone(&mut self, worker: usize, at: u64) {
        for limit in self.keys.values_mut().flatten().filter(|limit| limit.by.0 == worker) {
            limit.done = limit.done.or(Some(at));
        }
    }

    /// The numbers that may have counted for a key at a time of these.
    pub(crate) fn within(&self, key: u64, from: u64, to: u64, losses: &[Loss]) -> Vec<Option<u64>> {
        let set = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        // A server that has forgotten its records has forgotten this number, or remembers an older one, until an
        // operator sets another one.
        let has_counted = |limit: &CentralLimit| limit.answered.is_some_and(|answered| answered <= from);
        let is_set_again = |loss: &Loss| set.iter().any(|limit| limit.began > loss.to && has_counted(limit));
        let is_lost = losses
            .iter()
            .any(|loss| loss.of_records && loss.is_of(key) && loss.from <= to && !is_set_again(loss));
        let may_count = |limit: &&CentralLimit| {
            limit.began <= to && (is_lost || limit.until.is_none_or(|until| from <= until))
        };
        // Before the first one, none was set.
        let is_unset = !set.iter().any(has_counted);
        let numbers = set.iter().filter(may_count).map(|limit| limit.permits);
        numbers.chain((is_unset || is_lost).then_some(None)).collect()
    }

    /// The numbers that may have counted between those times: when each was set, and when the server answered.
    pub(crate) fn around(
        &self,
        key: u64,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (u64, Option<u64>, Option<u64>)> {
        let set = self.keys.get(&key).into_iter().flatten();
        let counts =
            move |limit: &&CentralLimit| limit.began <= to && limit.until.is_none_or(|until| from <= until);
        set.filter(counts).map(|limit| (limit.began, limit.answered, limit.permits))
    }

    /// Drops the numbers that have counted for no hold which enters from then on, so that memory stays bounded.
    pub(crate) fn forget(&mut self, before: u64) {
        let counts = |limit: &CentralLimit| {
            limit.until.is_none_or(|until| until.saturating_add(LONGEST_WAIT) > before)
        };
        self.keys.values_mut().for_each(|limits| limits.retain(counts));
    }
    /// How many numbers it knows.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }
}
