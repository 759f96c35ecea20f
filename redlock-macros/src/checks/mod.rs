//! Mistakes of options that are right one by one, and of a function that outlives its lock.

pub(crate) mod conflicts;
pub(crate) mod features;
pub(crate) mod global;
pub(crate) mod hand_over;
pub(crate) mod transaction;
