//! Without the feature `testing`, a node in memory never fails.

use std::sync::Arc;
use std::time::Duration;

use super::{Inbox, Lock, MemoryNode, Replies};
use crate::engine::protocol::{Disconnected, Id, Request};
use crate::ground::clock::Moment;
use crate::ground::host::HashMap;

#[derive(Clone)]
pub(super) enum Faults {}

impl Faults {
    pub(super) fn none() -> Option<Self> {
        None
    }

    pub(super) fn renew_elsewhere(&self, _: &mut HashMap<Arc<str>, Lock>, _: Moment) {
        match *self {}
    }

    pub(super) fn is_reachable(&self) -> bool {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "with the feature it waits")]
    pub(super) async fn connect(&self, _: Duration, _: &Inbox) -> Result<(), Disconnected> {
        match *self {}
    }

    pub(super) fn submit(&self, _: &MemoryNode, _: &[(Id, Request)], _: &Inbox) -> Replies {
        match *self {}
    }
}
