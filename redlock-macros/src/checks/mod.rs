//! What is wrong although each option by itself is right.

pub(crate) mod conflicts;
pub(crate) mod global;
mod variables;
