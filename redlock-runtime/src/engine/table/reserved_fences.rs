//! Fencing tokens that the server has set aside for one process, so that they grow with each grant, wherever it is made.

use crate::engine::protocol::Reply;

/// The fencing tokens of those who may follow on a holder.
#[derive(Clone, Copy, Default)]
pub(super) enum ReservedFences {
    /// Nobody has waited for it here so far.
    #[default]
    Unreserved,
    /// Asked for. That is done once, because other processes wait too.
    Reserving,
    /// Those that are left.
    Reserved { next: u64, last: u64 },
}

impl ReservedFences {
    /// What the server says of `count` of them.
    pub(super) fn answered(&mut self, reply: &Reply, count: u32) {
        *self = match reply {
            Reply::Reserved { last } => {
                Self::Reserved { next: last.saturating_sub(u64::from(count)).saturating_add(1), last: *last }
            }
            _ => Self::Reserved { next: 1, last: 0 },
        };
    }

    /// The fencing token of the next one, which nobody else has or will have.
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
