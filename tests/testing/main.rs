//! The feature `testing`: what it promises to the tests of a user.
//!
//! | module | question |
//! | --- | --- |
//! | `controls` | what does each control of `testing()` do, in async and in sync code
//! | `paused` | do leases, waits, renewals and ttls of `memory://` follow a paused clock |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod controls;
mod paused;
mod same_as_redis;
