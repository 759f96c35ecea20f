//! Mistakes of options that are right one by one, of a function that outlives its lock, and of a body that outlives its
//! caller.

pub(crate) mod conflicts;
pub(crate) mod constant_key;
pub(crate) mod features;
pub(crate) mod hand_over;
pub(crate) mod spawned;
pub(crate) mod transaction;
