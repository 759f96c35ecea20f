//! The central limits of the keys: which number an operator has set, and when it may have counted.

use std::collections::BTreeMap;

use super::{HoldId, Loss};

/// How many numbers of a key are kept that count no more.
const KEPT: usize = 256;

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

    /// Drops old numbers, so that memory stays bounded.
    pub(crate) fn forget(&mut self) {
        for limits in self.keys.values_mut() {
            let mut surplus =
                limits.iter().filter(|limit| limit.until.is_some()).count().saturating_sub(KEPT);
            limits.retain(|limit| {
                let is_kept = limit.until.is_none() || surplus == 0;
                surplus -= usize::from(!is_kept);
                is_kept
            });
        }
    }
}
