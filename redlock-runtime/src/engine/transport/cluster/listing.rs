//! The requests for a page of all locks: each goes to one primary, or waits until connecting to it
//! has ended.

use std::sync::Arc;

use super::Cluster;
use super::member::{Member, Route};
use crate::engine::protocol::{Id, Refusal, Reply, Request};
use crate::engine::transport::listing;
use crate::ground::clock::Moment;

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
}
