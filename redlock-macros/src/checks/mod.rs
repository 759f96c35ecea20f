//! Mistakes of options that are right one by one.

pub(crate) mod conflicts;
pub(crate) mod global;
