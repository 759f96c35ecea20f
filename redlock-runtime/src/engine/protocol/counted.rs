//! Locks that several hold together.

use std::time::Duration;

use crate::base::limit::Limit;
use crate::base::token::Token;

/// Those that have a [counted](Limit::is_counted) lock together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    /// The least of theirs, and how many permits they take together.
    pub(crate) limit: Limit,
    pub(crate) inside: u32,
    /// The first 100, by the end of their leases: the token of each, how many permits it takes, and what is left.
    pub(crate) holders: Vec<(Token, u32, Duration)>,
}
