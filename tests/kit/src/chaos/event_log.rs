//! The faults that were injected: their counts, and the latest with their times, to be read beside
//! a violation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::now;

/// Enough for several minutes.
const MOST: usize = 4096;

/// Counts by kind, and the latest log with their times.
#[derive(Default)]
pub struct EventLog {
    counts: BTreeMap<&'static str, u32>,
    latest: VecDeque<(u64, String)>,
}

impl EventLog {
    pub(crate) fn add(&mut self, what: &'static str, whom: impl fmt::Display) {
        *self.counts.entry(what).or_default() += 1;
        if self.latest.len() == MOST {
            self.latest.pop_front();
        }
        self.latest.push_back((now(), format!("{what}: {whom}")));
    }

    /// How many of that kind.
    pub fn count(&self, what: &str) -> u32 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Those of that time.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &(u64, String)> {
        self.latest.iter().filter(move |(at, _)| (from..=to).contains(at))
    }
}

impl fmt::Display for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (what, count)) in self.counts.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}
