//! When a long wait is reported: after the limit, then each time it is four times as long.

use std::time::Duration;

use crate::ground::clock::Moment;

/// A wait is reported again when it is so many times as long.
const AGAIN_AFTER: u32 = 4;

/// The reports of one wait.
#[derive(Clone, Copy)]
pub(super) struct Reports {
    pub(super) since: Moment,
    pub(super) due: Moment,
    pub(super) is_reported: bool,
}

impl Reports {
    pub(super) fn new(since: Moment, limit: Duration) -> Self {
        // Four times zero would be due at once, again and again.
        let due = since.after(limit.max(Duration::from_millis(1)));
        Self { since, due, is_reported: false }
    }

    pub(super) fn postpone(&mut self) {
        self.due = self.since.after(self.due.since(self.since).saturating_mul(AGAIN_AFTER));
    }
}
