//! The runtime of [`redlocked`](https://docs.rs/redlocked): policy and I/O behind `#[distributed_lock]`.
//!
//! Depend on `redlocked`, which re-exports everything here together with the attribute. The parts:
//!
//! * [`LockManager`] owns one engine thread and its connection; it is cheap to clone.
//! * [`LockRequest`] is what you ask for: key, ttl, wait. It is acquired, or runs a body.
//! * [`LockGuard`] is a held lock: it is renewed until it is released or dropped.
//! * [`LockError`] says what went wrong, with which key, and what to do.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire_all;
mod blocking;
mod builder;
mod capabilities;
mod clock;
mod ended;
mod engine;
mod error;
mod give_back;
mod guard;
mod guarded;
mod inspect;
mod key;
mod lease;
mod lost_reason;
mod manager;
mod memory;
mod nesting;
mod report;
mod request;
mod sync_return;
mod terms;
mod token;

pub use builder::LockManagerBuilder;
pub use capabilities::Capabilities;
pub use error::{FromLockError, Holder, LockError};
pub use guard::{LockGuard, ReleaseOutcome};
pub use inspect::LockInfo;
pub use lost_reason::LostReason;
pub use manager::LockManager;
pub use request::{Acquire, LockRequest, OnLost};

/// What the attribute's expansion calls. Not part of the public API: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::guarded::{Body, Locked, Ready, UntilLost, on_error, run, run_blocking, run_with_guard};
    pub use crate::key::{Escaped, KeyTemplate, KeyText, key};
    pub use crate::request::{lock, lock_all};
    pub use crate::sync_return::*;
}
