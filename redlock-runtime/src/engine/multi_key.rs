//! A call for several keys: the server takes them in their order in one script, up to the first
//! that it cannot have.
//!
//! Each key is an attempt of its own, with its token and its caller, and gets its own reply. Keys
//! after the first busy one are skipped: the caller asks for them again when it holds that one. No
//! caller may hold a later key while it waits for an earlier one. So when a call fails or its reply
//! is lost or late, only its first key is asked for again alone. The other keys go behind it in the
//! same batch again, or are skipped, and released if the server may have taken them.

use super::protocol::{Action, Id, Mode, Refusal, Reply, Request};
use super::slots::Slot;

/// Keys in one call at most: other clients wait for the server meanwhile.
pub(crate) const MAX_KEYS: usize = 64;

/// Which keys may be in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MultiKey {
    Any,
    /// A Cluster runs a script in one slot.
    SameSlot,
    /// A quorum decides each key by its own votes.
    Never,
}

impl MultiKey {
    /// True over a quorum.
    pub(crate) fn is_by_votes(self) -> bool {
        matches!(self, Self::Never)
    }

    /// By their names on the server.
    pub(crate) fn allows(self, one: &str, next: &str) -> bool {
        match self {
            Self::Any => true,
            Self::SameSlot => Slot::of(one) == Slot::of(next),
            Self::Never => false,
        }
    }
}

/// The action for a key behind `after`, whose request must be the last one in the outbox.
pub(super) fn next(last: Option<&(Id, Request)>, mode: Mode, after: Id) -> Option<Action> {
    let next = Action::AcquireNext { mode, after };
    last.is_some_and(|before| is_same_call(before, next)).then_some(next)
}

/// True when `next` belongs to the same call as the request before it.
fn is_same_call((id, before): &(Id, Request), next: Action) -> bool {
    matches!(next, Action::AcquireNext { after, .. } if after == *id)
        && matches!(before.action, Action::Acquire(_) | Action::AcquireNext { .. })
}

/// The requests of a batch, split into calls.
pub(super) fn calls(requests: &[(Id, Request)]) -> impl Iterator<Item = &[(Id, Request)]> {
    requests.chunk_by(|before, next| is_same_call(before, next.1.action))
}

/// The answers when the server refused a call as a whole, perhaps in the middle. A permanent
/// refusal does not tell which key it is about: the first key is asked for again alone, and is
/// refused again if it is that one.
pub(super) fn refuse_all(reply: &Reply, keys: usize) -> Vec<Reply> {
    let mut replies = vec![reply.clone(); keys];
    if let [Reply::Refused(first @ Refusal::Permanent(_)), ..] = replies.as_mut_slice() {
        *first = if first.has_done_nothing(true) { Refusal::NoScript } else { Refusal::Unfinished };
    }
    replies
}
