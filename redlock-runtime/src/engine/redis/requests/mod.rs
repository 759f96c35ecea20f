//! The requests of locks, written as commands, and their replies, read: one file for each kind of lock.

pub(super) mod batch;
pub(crate) mod connection;
mod counted;
pub(crate) mod decode;
pub(super) mod encode;
pub(super) mod fields;
mod leader;
mod once;
mod tick;
