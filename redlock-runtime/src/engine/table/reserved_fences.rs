//! Fencing tokens that the server has reserved for the local hand-overs of one process, so they grow with each grant.

use crate::engine::protocol::Reply;

/// The fencing tokens of the next local holders.
#[derive(Clone, Copy, Default)]
pub(super) enum ReservedFences {
    /// No local waiter so far.
    #[default]
    Unreserved,
    /// Requested. That is done once per grant, because other processes wait, too.
    Reserving,
    /// The tokens that are left.
    Reserved { next: u64, last: u64 },
}

impl ReservedFences {
    /// The reply to a request for `count` tokens.
    pub(super) fn answered(&mut self, reply: &Reply, count: u32) {
        *self = match reply {
            Reply::Reserved { last } => {
                Self::Reserved { next: last.saturating_sub(u64::from(count)).saturating_add(1), last: *last }
            }
            _ => Self::Reserved { next: 1, last: 0 },
        };
    }

    /// The fencing token of the next holder, which no other holder gets.
    pub(super) fn next(&mut self) -> Option<u64> {
        match self {
            Self::Reserved { next, last } if *next <= *last => {
                let fence = *next;
                *next += 1;
                Some(fence)
            }
            _ => None,
        }
    }
}
