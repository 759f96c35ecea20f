//! The shutdown of a manager: at its time limit every held lease ends, then releases have a grace
//! period.
//!
//! The end of its lease drops an async body, and its guard releases the lock. A sync body cannot be
//! stopped: its key is not deleted while the body may run, but expires.

use std::time::Duration;

use tokio::sync::oneshot;

use super::LockTable;
use crate::base::clock::Moment;
use crate::engine::command::ShutdownIncomplete;

/// A caller of shutdown, until it is answered.
pub(crate) struct Closing {
    /// The time limit: the leases that are held then end.
    until: Moment,
    /// The number of those leases; `None` before the limit.
    stopped: Option<usize>,
    /// The time for releases after the limit.
    grace: Duration,
    caller: oneshot::Sender<Result<(), ShutdownIncomplete>>,
}

impl Closing {
    pub(crate) fn new(
        until: Moment,
        grace: Duration,
        caller: oneshot::Sender<Result<(), ShutdownIncomplete>>,
    ) -> Self {
        Self { until, stopped: None, grace, caller }
    }

    pub(crate) fn due(&self) -> Moment {
        if self.stopped.is_none() { self.until } else { self.over() }
    }

    fn over(&self) -> Moment {
        self.until.after(self.grace)
    }

    /// `None` once the caller is answered. `is_idle`: everything is released.
    pub(crate) fn look(
        mut self,
        now: Moment,
        table: &mut LockTable,
        is_idle: impl Fn(&LockTable) -> bool,
    ) -> Option<Self> {
        if self.until <= now && self.stopped.is_none() && !is_idle(table) {
            self.stopped = Some(table.end_all_leases(now));
        }
        let stopped = self.stopped.unwrap_or(0);
        if !is_idle(table) && now < self.due() {
            return Some(self);
        }
        let outcome = match (stopped, table.attempts_left()) {
            (0, 0) => Ok(()),
            (stopped, unreleased) => Err(ShutdownIncomplete { stopped, unreleased }),
        };
        // A caller that has gone does not mind.
        let _ = self.caller.send(outcome);
        None
    }
}
