//! All locks of a Cluster, node after node.

use std::sync::Arc;

use super::Cluster;
use super::member::{Course, Member};
use crate::clock::Moment;
use crate::engine::Id;
use crate::engine::protocol::{Action, Refusal, Reply, Request};

/// In a cursor, above the node's own: which node.
const CURSOR_BITS: u32 = 48;

impl Cluster {
    /// The primaries, in an order that stays while they do.
    fn walk(&self) -> Vec<usize> {
        let mut walk: Vec<usize> = self.owners.iter().filter_map(|(_, owner)| *owner).collect();
        walk.sort_unstable();
        walk.dedup();
        walk
    }

    pub(super) fn send_page(&mut self, now: Moment, id: Id, mut request: Request, cursor: u64) {
        let (nth, cursor) = (cursor >> CURSOR_BITS, cursor & ((1 << CURSOR_BITS) - 1));
        request.action = Action::List { cursor };
        let node = usize::try_from(nth).ok().and_then(|nth| self.walk().get(nth).copied());
        match node.and_then(|node| self.members.get_mut(node)?.as_mut()) {
            Some(member) if member.up => member.push(Course::Page { node: nth }, id, request),
            Some(Member { trouble: Some(trouble), .. }) => {
                let refusal = Refusal::Later(Arc::clone(&trouble.reason));
                self.answer(now, id, request, Reply::Refused(refusal));
            }
            _ => {
                let refusal = Refusal::Later("a node of the Cluster is not connected yet".into());
                self.answer(now, id, request, Reply::Refused(refusal));
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
            _ => {
                Reply::Refused(Refusal::Never("the server counts its keys in a way that is not known".into()))
            }
        }
    }
}
