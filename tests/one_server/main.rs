//! What callers, waiters and holders see of one Redis server, of `memory://`, and wherever else the same must hold.
//!
//! | module | question |
//! | --- | --- |
//! | `behaviour` | does every backend do the same: `memory://`, Redis with and without cohorts, a quorum, a Cluster |
//! | `exclusion` | is there ever more than one holder, or a lock that no call owns |
//! | `waiters`, `hand_off` | is each waiter served, in turn, at once, and at a constant number of commands |
//! | `cohort` | does a process that has a lock pass it on among its own callers |
//! | `isolation` | does one caller, one key or one node cost the others anything |
//! | `faults` | what happens when Redis, the network or another client misbehaves |
//! | `connecting`, `ending` | from far away, to a busy or older server, after a broken connection; how programs and managers end |
//! | `processes` | holders and waiters in processes of their own, killed and frozen; fairness |
//! | `renewals` | many locks that are renewed together, and one of them that is lost |
//! | `one_call`, `many_keys` | several keys in one call, and several keys as one lock |
//! | `acl` | what stops working without each access rule |
//! | `peer_bugs` | what other libraries get wrong, and the test for each |
//!
//! `cargo test --test one_server faults::` runs one of them. They run side by side in one process: each takes a server of its
//! own, or keys that no other test uses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test may panic"
)]

mod acl;
mod behaviour;
mod cohort;
mod connecting;
mod ending;
mod exclusion;
mod faults;
mod hand_off;
mod isolation;
mod many_keys;
mod one_call;
mod peer_bugs;
#[cfg(unix)]
mod processes;
mod renewals;
mod waiters;
