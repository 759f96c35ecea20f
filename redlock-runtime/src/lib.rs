//! The runtime of [`redlocked`](https://docs.rs/redlocked): policy and I/O behind `#[distributed_lock]`.
//!
//! Depend on `redlocked`, which re-exports everything here together with the attribute. The parts:
//!
//! * [`LockManager`] owns one engine and its connection; it is cheap to clone.
//! * [`LockRequest`] holds the key, the ttl and the wait. It is acquired, or runs a body.
//! * [`LockGuard`] is a held lock: it is renewed until the guard is released or dropped.
//! * [`LockError`] says what went wrong, with which key, and what to do.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod alarm;
mod block_on;
mod builder;
mod capabilities;
mod clock;
mod credentials;
mod current;
mod defaults;
mod engine;
mod error;
mod error_kind;
mod global;
mod guard;
mod host;
mod inspect;
mod key;
mod lease;
mod lease_end;
mod lost_reason;
mod manager;
mod one_or_many;
mod options;
mod origin;
mod outcome;
mod owner;
mod reentrancy;
mod request;
mod run;
mod sync_return;
mod telemetry;
#[cfg(feature = "testing")]
mod testing;
mod token;
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
mod web;

pub use acquire::Acquire;
pub use builder::LockManagerBuilder;
pub use capabilities::Capabilities;
pub use credentials::Credentials;
pub use current::{CurrentLock, current};
pub use error::{FromLockError, Holder, LockError};
pub use error_kind::LockErrorKind;
pub use guard::LockGuard;
pub use inspect::{LockInfo, Waiter};
pub use lost_reason::LostReason;
pub use manager::LockManager;
pub use options::OnLost;
pub use outcome::ReleaseOutcome;
pub use request::LockRequest;
pub use telemetry::LockEvent;
#[cfg(feature = "testing")]
pub use testing::{Calls, GlobalHere, HeldElsewhere, Testing};

/// For the package `redlocked-sim`. Not part of the public API.
#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub mod simulation {
    pub use crate::host::world::{Connecting, RuntimeNumber, Stream, Work, World, set_world};

    /// The request of an attribute whose body cannot see the guard.
    pub fn unfenced(mut request: crate::LockRequest) -> crate::LockRequest {
        request.options.fenced = false;
        request
    }
}

/// The attribute's expansion calls these. Not part of the public API: they change without notice.
#[doc(hidden)]
pub mod __private {
    pub use std::sync::Arc;

    pub use crate::key::{Escaped, KeyTemplate, KeyText, key};
    pub use crate::origin::{Given, Site};
    pub use crate::request::{Asked, SiteRequest, lock, lock_all, lock_all_with, lock_with};
    pub use crate::run::{
        NoOutput, OutputIsKeptUntilReleased, Start, Started, call, on_error, run, run_blocking,
        run_with_guard,
    };
    pub use crate::sync_return::*;
}
