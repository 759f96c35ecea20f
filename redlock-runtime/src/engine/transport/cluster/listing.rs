//! All locks of a Cluster, node after node.

use std::sync::Arc;

use super::Cluster;
use super::member::{Member, Route};
use crate::clock::Moment;
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request};

/// In a cursor, above the node's own: which node.
const CURSOR_BITS: u32 = 48;

impl Cluster {
    /// The primaries, in an order that stays while they do.
    fn walk(&self) -> Vec<usize> {
        let mut walk: Vec<usize> = self.slot_map.iter().filter_map(|(_, owner)| *owner).collect();
        walk.sort_unstable();
        walk.dedup();
        walk
    }

    pub(super) fn send_page(&mut self, now: Moment, id: Id, request: &Request, cursor: u64) {
        let (nth, cursor) = (cursor >> CURSOR_BITS, cursor & ((1 << CURSOR_BITS) - 1));
        let question = Request { action: Action::List { cursor }, ..request.clone() };
        let node = usize::try_from(nth).ok().and_then(|nth| self.walk().get(nth).copied());
        match node.and_then(|node| self.members.get_mut(node)?.as_mut()) {
            Some(member) if member.up => member.push(Route::Page { node: nth }, id, question),
            Some(Member { trouble: Some(trouble), .. }) => {
                let refusal = Refusal::Transient(Arc::clone(&trouble.reason));
                self.answer(now, id, question, Reply::Refused(refusal));
            }
            // It is being connected to, which ends one way or the other.
            Some(_) => self.listings.push((id, request.clone())),
            None => {
                let refusal = Refusal::Transient("a node of the Cluster is not there any more".into());
                self.answer(now, id, question, Reply::Refused(refusal));
            }
        }
    }

    /// Connecting to a node has ended, or a node is none any more: what waited for that goes, or is refused.
    pub(super) fn send_pages(&mut self, now: Moment) {
        for (id, request) in std::mem::take(&mut self.listings) {
            if let Action::List { cursor } = request.action {
                self.send_page(now, id, &request, cursor);
            }
        }
    }

    /// Behind the last page of a node comes the first of the next.
    pub(super) fn next_page(&self, nth: u64, reply: Reply) -> Reply {
        let Reply::Page { cursor, names } = reply else {
            return reply;
        };
        let nodes = u64::try_from(self.walk().len()).unwrap_or(0);
        match cursor {
            0 if nth + 1 < nodes => Reply::Page { cursor: (nth + 1) << CURSOR_BITS, names },
            0 => Reply::Page { cursor: 0, names },
            cursor if cursor >> CURSOR_BITS == 0 => {
                Reply::Page { cursor: nth << CURSOR_BITS | cursor, names }
            }
            _ => Reply::Refused(Refusal::Permanent(
                "the server counts its keys in a way that is not known".into(),
            )),
        }
    }
}
