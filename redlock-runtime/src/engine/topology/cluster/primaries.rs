//! Requests for each primary in turn: the pages of a list of all locks, and whether the Cluster
//! takes locks.
//!
//! A page goes to one primary, or waits until connecting to it has ended. A ping is for a key in a
//! slot of a primary, and its answer names the next one.

use std::sync::Arc;

use super::Cluster;
use super::member::{Member, Route};
use crate::base::clock::Moment;
use crate::base::key::QUEUE;
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request};
use crate::engine::slots::hash_tag;
use crate::engine::topology::listing;

/// No primary comes after this one.
const LAST: u64 = u64::MAX;

impl Cluster {
    /// The primaries, in an order that stays while they do.
    pub(super) fn primaries(&self) -> Vec<usize> {
        let mut primaries: Vec<usize> = self.slot_map.iter().filter_map(|(_, owner)| *owner).collect();
        primaries.sort_unstable();
        primaries.dedup();
        primaries
    }

    pub(super) fn send_page(&mut self, now: Moment, id: Id, request: &Request) {
        let Some((nth, page)) = listing::for_node(request) else {
            return;
        };
        let node = self.primaries().get(nth).copied();
        match node.and_then(|node| self.members.get_mut(node)?.as_mut()) {
            Some(member) if member.up => member.push(Route::Page { nth }, id, page),
            Some(Member { trouble: Some(trouble), .. }) => {
                let refusal = Refusal::Transient(Arc::clone(&trouble.reason));
                self.answer(now, id, page, Reply::Refused(refusal));
            }
            // Connecting to it will succeed or fail.
            Some(_) => self.pages.push((id, request.clone())),
            None => {
                let refusal = Refusal::Transient("a node of the Cluster is not there any more".into());
                self.answer(now, id, page, Reply::Refused(refusal));
            }
        }
    }

    /// A connection was opened or failed, or the slots have moved: pages that waited for that are
    /// sent or refused.
    pub(super) fn send_pages(&mut self, now: Moment) {
        for (id, request) in std::mem::take(&mut self.pages) {
            self.send_page(now, id, &request);
        }
    }

    pub(super) fn page(&self, nth: usize, reply: Reply) -> Reply {
        listing::page(nth, self.primaries().len(), reply)
    }

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
