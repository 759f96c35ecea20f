//! The locks of leaders: what they announce.

use std::sync::Arc;
use std::time::Duration;

/// What a leader writes beside its lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// The fencing token of its lock.
    pub(crate) term: u64,
    pub(crate) led_for: Duration,
    /// How long the node keeps it.
    pub(crate) lasts: Duration,
    pub(crate) text: Arc<str>,
}

/// What it has written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) term: u64,
    /// Since 1970, by the clock of the server.
    pub(crate) since: Duration,
    pub(crate) text: String,
}
