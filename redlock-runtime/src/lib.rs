//! The runtime of [`redlocked`](https://docs.rs/redlocked): policy and I/O behind
//! `#[distributed_lock]`.
//!
//! Depend on `redlocked`, which re-exports everything here together with the attribute. The parts:
//!
//! * [`LockManager`] owns one engine and its connection; it is cheap to clone.
//! * [`LockRequest`] holds the key, the TTL and the wait. It is acquired, or runs a body.
//! * [`LockGuard`] is a held lock: it is renewed until the guard is released or dropped.
//! * [`Election`] has one process of many lead.
//! * [`LockError`] says what went wrong, with which key, and what to do.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Rustdoc shows the methods of a type in the order of these lines: `LockManager::lock` first.
mod request;

mod acquire;
mod address;
mod base;
mod block_on;
mod builder;
mod current;
mod defaults;
mod election;
mod engine;
#[cfg(feature = "redis")]
mod fenced_redis;
mod global;
mod guard;
mod inspect;
mod lock_key;
mod manager;
#[cfg(feature = "once")]
mod once;
mod once_record;
mod options;
mod permits;
mod redeem;
mod reentrancy;
mod run;
#[cfg(feature = "serde")]
mod serialize;
mod survey;
mod sync_return;
#[cfg(feature = "testing")]
mod testing;
mod tick_result;
mod ticket;
mod unwind;
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
mod web;

pub use acquire::Acquire;
pub use address::Address;
pub use base::capabilities::Capabilities;
pub use base::credentials::Credentials;
pub use base::error::LockErrorKind;
pub use base::error::{FromLockError, Holder, LockError};
pub use base::fence::Fence;
pub use base::outcome::LostReason;
pub use base::outcome::ReleaseOutcome;
pub use base::store_error::StoreError;
pub use base::telemetry::{LockEvent, TermEnd};
pub use base::tick::{NominalTime, TickMissed};
pub use builder::LockManagerBuilder;
pub use current::{CurrentLock, current};
#[cfg(feature = "stream")]
pub use election::LeaderStream;
pub use election::{Election, LeadError, Leader, Observer, Term};
#[cfg(feature = "redis")]
pub use fenced_redis::FencedRedis;
pub use guard::{HandOver, LockGuard, Lost};
pub use inspect::{LastTick, LockInfo, Waiter};
pub use lock_key::LockKey;
pub use manager::LockManager;
#[cfg(feature = "once")]
pub use once::{Json, OnInterrupted, OnUndecodable, Once, OnceRequest, ResultCodec};
pub use once_record::OnceRecord;
pub use options::OnLost;
pub use request::LockRequest;
pub use survey::{KeyInfo, NodeInfo};
#[cfg(feature = "testing")]
pub use testing::{Calls, GlobalHere, HeldElsewhere, Testing};
pub use ticket::{ParseTicketError, Ticket};

/// For the package `redlocked-sim`. Not part of the public API.
#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub mod simulation {
    pub use crate::base::host::world::{Connecting, RuntimeNumber, Stream, Work, World, set_world};

    /// The request of an attribute whose body cannot see the guard.
    pub fn unfenced(mut request: crate::LockRequest) -> crate::LockRequest {
        request.options.fenced = false;
        request
    }
}

/// For the tests of this repository. Not part of the public API.
#[cfg(feature = "__names")]
#[doc(hidden)]
pub mod names {
    pub use crate::base::host::names::set_addresses;
}

/// The attribute's expansion calls these. Not part of the public API: they change without notice.
#[doc(hidden)]
pub mod __private {
    pub use std::sync::Arc;

    pub use crate::base::key::{Escaped, KeyTemplate, KeyText, RequestText, key, once_fingerprint};
    pub use crate::base::owner::{CallSite, ConstOption};
    #[cfg(feature = "once")]
    pub use crate::once::{ReturnsResult, once, run_once, run_once_blocking, run_once_with_guard};
    pub use crate::request::{CallRequest, SiteRequest, lock, lock_all, lock_all_with, lock_with};
    pub use crate::run::{
        NoOutput, OutputIsKeptUntilReleased, ReleasedInBackground, Start, Started, call, on_error, run,
        run_blocking, run_in_background, run_with_guard, run_with_guard_in_background,
    };
    pub use crate::sync_return::*;
    pub use crate::tick_result::*;
}
