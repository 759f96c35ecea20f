//! Bytes: what is written to a server and read from it. Knows no lock.

pub(crate) mod command;
pub(crate) mod dns;
pub(crate) mod error_reply;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod hedged;
pub(crate) mod keyspace;
pub(crate) mod push;
mod resp;
pub(crate) mod seen_fences;
pub(crate) mod stream;
pub(crate) mod value;
