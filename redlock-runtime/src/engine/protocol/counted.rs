//! Locks that several hold together.

use std::time::Duration;

use crate::base::limit::Limit;
use crate::base::token::Token;
use crate::engine::protocol::Refusal;

/// Those that have a [counted](Limit::is_counted) lock together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    /// The least of theirs, and how many permits they take together.
    pub(crate) limit: Limit,
    /// It is the central limit, in the place of theirs.
    pub(crate) is_central: bool,
    pub(crate) inside: u32,
    /// The first 100, by the end of their leases: the token of each, how many permits it takes, and what is left.
    pub(crate) holders: Vec<(Token, u32, Duration)>,
}

/// Why a caller gets no permits that takes more than the central limit allows.
pub(crate) fn takes_too_many(take: u32, central: u32) -> Refusal {
    let reason = format!(
        "it takes {take} permits, and `set_permits` allows {central} for this key: take fewer, or raise that number"
    );
    Refusal::Permanent(reason.into())
}
