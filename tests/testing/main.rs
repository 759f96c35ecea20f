//! The feature `testing`: what it promises to the tests of a user.
//!
//! | module | question |
//! | --- | --- |
//! | `paused` | do leases, waits, renewals and ttls of `memory://` follow a paused clock |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod paused;
