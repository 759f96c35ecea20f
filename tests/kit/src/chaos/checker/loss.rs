//! When locks may have been forgotten, and which violations that excuses.

use super::{Hold, Violation, ViolationKind};
use crate::now;

/// Locks may have been forgotten: by a failover, a flush, or the clock of one node of a quorum that
/// jumped ahead. Two callers may be inside then; the only promise is that the later has the larger
/// fencing token if it asked later.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Which locks; `None` for all.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) detection: LossDetection,
    /// Whether the records of ticks and of results, and the central limits, may be forgotten, too. Who takes a lock away leaves
    /// them.
    pub(crate) of_records: bool,
}

/// When a holder notices that its lock was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// Within a round trip, once it has held the lock for a while; else at the next renewal.
    Promptly,
    /// When its lease is over: it cannot be renewed.
    AtLeaseEnd,
    /// Not while the run lasts.
    Never,
}

impl LossDetection {
    /// A lock that was held for this long is watched.
    const WATCHED: u64 = 250_000_000;

    /// A round trip, on a busy machine.
    const SOON: u64 = 250_000_000;

    fn until(self, forgotten: u64, hold: &Hold) -> u64 {
        let known = match self {
            Self::Promptly if hold.entered + Self::WATCHED < forgotten => 0,
            Self::Promptly => hold.lasts / 3,
            Self::AtLeaseEnd => hold.lasts,
            Self::Never => u64::MAX,
        };
        forgotten.saturating_add(known).saturating_add(Self::SOON)
    }
}

impl Loss {
    /// Locks were taken away between `from` and now.
    pub(crate) fn now(keys: Option<Vec<u64>>, from: u64, detection: LossDetection) -> Self {
        Self { keys, from, to: now(), detection, of_records: false }
    }

    pub(crate) fn is_of(&self, key: u64) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(&key))
    }

    /// Whether the record of what the first has run, who asked then, may have been gone for the second,
    /// who was inside at that time.
    pub(crate) fn excuses_a_second_run(&self, key: u64, first_asked: u64, second: u64) -> bool {
        self.of_records && self.is_of(key) && first_asked <= self.to && self.from <= second
    }

    /// `stolen`: for how long plain timers did not run meanwhile.
    pub(crate) fn excuses(&self, violation: &Violation, first: &Hold, second: &Hold, stolen: u64) -> bool {
        // One of them had a lock that was forgotten: the second may have been granted it long
        // before it entered.
        let until = if violation.what == ViolationKind::Changed { violation.at } else { second.entered };
        let then = first.asked.min(second.asked) <= self.to && self.from <= until;
        let promised = match violation.what {
            ViolationKind::Overlap { .. } => {
                let had_it = [first, second].into_iter().filter(|hold| hold.asked <= self.to);
                let known = had_it.map(|hold| self.detection.until(self.to, hold)).max();
                first.end().min(second.end()) > known.unwrap_or(self.to).saturating_add(stolen)
            }
            ViolationKind::Idle { .. } => true,
            ViolationKind::Changed => false,
            // One that joins those whom older data have inside has their fencing token.
            ViolationKind::Fence { .. } | ViolationKind::StaleWrite => {
                second.asked >= first.entered && second.allows.is_none()
            }
        };
        self.is_of(violation.key) && then && !promised
    }
}
