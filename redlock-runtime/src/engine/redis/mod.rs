//! What is spoken with a server: connecting, the scripts, and the replies.

pub(crate) mod connect;
pub(crate) mod node;
pub(super) mod requests;
mod scripts;
pub(crate) mod wire;
