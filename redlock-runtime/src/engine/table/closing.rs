//! The shutdown of a manager: what is held by its limit is given up, then there is a short time for the releases.
//!
//! A lock that is given up ends for its holder at once. An async body is dropped by that, and its guard gives the lock
//! back. A sync body cannot be stopped: its key is not deleted while it may be inside, it is left to expire.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::command::{AcquireOutcome, Unfinished};
use crate::error::LockError;

pub(super) const SHUT_DOWN: &str = "this lock manager has been shut down: connect a new one";

/// A caller who waits for the end.
pub(crate) struct Closing {
    /// What is held then is given up.
    until: Moment,
    /// How much that was.
    stopped: Option<usize>,
    /// How long the releases may take after that.
    grace: Duration,
    caller: oneshot::Sender<Result<(), Unfinished>>,
}

impl Closing {
    pub(crate) fn new(
        until: Moment,
        grace: Duration,
        caller: oneshot::Sender<Result<(), Unfinished>>,
    ) -> Self {
        Self { until, stopped: None, grace, caller }
    }

    /// When something is to be done, whatever happens.
    pub(crate) fn due(&self) -> Moment {
        if self.stopped.is_none() { self.until } else { self.over() }
    }

    fn over(&self) -> Moment {
        self.until.after(self.grace)
    }

    /// `None` once its caller has been answered. `is_idle`: nothing is owed to the server.
    pub(crate) fn look(
        mut self,
        now: Moment,
        table: &mut LockTable,
        is_idle: impl Fn(&LockTable) -> bool,
    ) -> Option<Self> {
        if self.until <= now && self.stopped.is_none() && !is_idle(table) {
            self.stopped = Some(table.give_all_up(now));
        }
        let stopped = self.stopped.unwrap_or(0);
        if !is_idle(table) && now < self.due() {
            return Some(self);
        }
        let outcome = match (stopped, table.busy_with()) {
            (0, 0) => Ok(()),
            (stopped, unreleased) => Err(Unfinished { stopped, unreleased }),
        };
        // A caller that has gone does not mind.
        let _ = self.caller.send(outcome);
        None
    }
}

impl LockTable {
    /// Begins nothing new from now on, and tells everybody who waits.
    pub(crate) fn close(&mut self, now: Moment) {
        self.closed = true;
        for id in self.ids() {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) {
                let error = LockError::closed(&waiting.ask.key, SHUT_DOWN);
                self.fail(now, id, error);
            }
        }
    }

    /// Gives up whatever is held; how much that is.
    fn give_all_up(&mut self, now: Moment) -> usize {
        let mut stopped = 0;
        for id in self.ids() {
            let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
                continue;
            };
            if let Some(caller) = held.deliver_to.take() {
                let error = LockError::closed(held.lease.key(), SHUT_DOWN);
                let _ = caller.send(AcquireOutcome::Failed(error));
                self.abandon(now, id);
            } else if held.closes(now) {
                stopped += 1;
                self.schedule(id);
            }
        }
        stopped
    }
}
