//! The requests of locks, written as commands, and their replies, read.

pub(super) mod batch;
pub(crate) mod connection;
pub(crate) mod decode;
pub(super) mod encode;
