//! All locks of several nodes, listed node by node.
//!
//! A cursor holds the number of the node and that node's own cursor.

use crate::engine::protocol::{Action, Refusal, Reply, Request};

/// The bits of a node's own cursor: a server with fewer than 2^34 keys in each slot needs no more.
const NODE_CURSOR_BITS: u32 = 48;

/// The node that the request asks for a page, and the request as that node understands it. `None`
/// when it lists nothing.
pub(super) fn for_node(request: &Request) -> Option<(usize, Request)> {
    let Action::List { cursor, what } = request.action else {
        return None;
    };
    let action = Action::List { cursor: cursor & ((1 << NODE_CURSOR_BITS) - 1), what };
    Some((node_of(cursor), Request { action, ..request.clone() }))
}

/// The number of the node whose page the cursor asks for.
pub(super) fn node_of(cursor: u64) -> usize {
    usize::try_from(cursor >> NODE_CURSOR_BITS).unwrap_or(usize::MAX)
}

/// The page of one node of `nodes`, with the cursor that the caller goes on with: after the last
/// page of a node comes the first page of the next.
pub(super) fn page(node: usize, nodes: usize, reply: Reply) -> Reply {
    let Reply::Page { cursor, names } = reply else {
        return reply;
    };
    let next = match cursor {
        0 if node + 1 < nodes => join(node + 1, 0),
        0 => Some(0),
        cursor => join(node, cursor),
    };
    match next {
        Some(cursor) => Reply::Page { cursor, names },
        None => Reply::Refused(Refusal::Permanent(
            "the server's SCAN answered with a cursor that is too large".into(),
        )),
    }
}

fn join(node: usize, cursor: u64) -> Option<u64> {
    let node = u64::from(u16::try_from(node).ok()?);
    (cursor >> NODE_CURSOR_BITS == 0).then_some(node << NODE_CURSOR_BITS | cursor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;
    use crate::engine::protocol::Listed;

    fn next(node: usize, cursor: u64) -> Reply {
        page(node, 3, Reply::Page { cursor, names: Vec::new() })
    }

    fn asked(reply: &Reply) -> Option<(usize, u64)> {
        let Reply::Page { cursor, .. } = *reply else { return None };
        let (action, token, ttl) =
            (Action::List { cursor, what: Listed::Locks }, Token::empty(), Duration::ZERO);
        let (node, request) = for_node(&Request::new(action, "*".into(), token, ttl))?;
        let Action::List { cursor, .. } = request.action else { return None };
        Some((node, cursor))
    }

    #[test]
    fn the_last_page_of_a_node_leads_to_the_next_node() {
        assert_eq!(asked(&next(0, 7)), Some((0, 7)));
        assert_eq!(asked(&next(1, (1 << 48) - 1)), Some((1, (1 << 48) - 1)));
        assert_eq!(asked(&next(1, 0)), Some((2, 0)));
        assert_eq!(next(2, 0), Reply::Page { cursor: 0, names: Vec::new() });
        assert!(matches!(next(1, 1 << 48), Reply::Refused(Refusal::Permanent(_))));
    }
}
