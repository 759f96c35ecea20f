//! Whether a Cluster takes locks: each primary that has slots is asked for a key in one of them,
//! one after the other.

use super::Cluster;
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request};
use crate::engine::slots::hash_tag;
use crate::ground::clock::Moment;
use crate::ground::key::QUEUE;

/// No primary comes after this one.
const LAST: u64 = u64::MAX;

impl Cluster {
    /// A ping is for a key in a slot of a primary, any other request for its own key. `None` where
    /// no node has a slot: the ping is refused.
    pub(super) fn addressed(&mut self, now: Moment, id: Id, request: Request) -> Option<Request> {
        let Action::Ping { cursor } = request.action else {
            return Some(request);
        };
        let ping = self.ping_of_primary(cursor, &request);
        if ping.is_none() {
            let refusal = Refusal::Transient("no node of the Cluster has a slot".into());
            self.answer(now, id, request, Reply::Refused(refusal));
        }
        ping
    }

    /// The ping for a key in a slot of the primary with this number. `None` when no node has a
    /// slot.
    fn ping_of_primary(&self, cursor: u64, request: &Request) -> Option<Request> {
        // A prefix with a hash tag: all locks are in one slot.
        if hash_tag(&request.name).is_some() {
            return Some(Request { action: Action::Ping { cursor: LAST }, ..request.clone() });
        }
        let primary = *self.primaries().get(usize::try_from(cursor).ok()?)?;
        let (slot, _) = self.slot_map.iter().find(|(_, owner)| **owner == Some(primary))?;
        let prefix = request.name.strip_suffix(QUEUE)?;
        Some(Request { name: format!("{prefix}{{{}}}{QUEUE}", slot.tag()).into(), ..request.clone() })
    }

    /// The primary with this number is well: the next one is asked.
    pub(super) fn pinged(&self, cursor: u64) -> Reply {
        let next = cursor.saturating_add(1);
        match usize::try_from(next) {
            Ok(number) if number < self.primaries().len() => Reply::Page { cursor: next, names: Vec::new() },
            _ => Reply::Done,
        }
    }
}
