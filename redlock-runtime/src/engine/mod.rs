//! The engine: one thread per manager that owns the connection, every timer and every renewal.
//!
//! Callers on any executor, callers without one and `Drop` all send it a command; it answers through the
//! channel that came with the command. So no caller needs a runtime, and a starved or dropped runtime of the
//! user's cannot stop a renewal or a release. Commands of one caller are handled in the order in which they
//! were sent, and requests leave on one connection in that order.

mod backoff;
pub(crate) mod command;
mod driver;
mod fifo;
pub(crate) mod handle;
pub(crate) mod multi_key;
mod outbox;
pub(crate) mod protocol;
pub(crate) mod redis;
pub(crate) mod settings;
mod slots;
mod table;
mod timers;
pub(crate) mod transport;
