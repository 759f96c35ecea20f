//! Several servers: a quorum, a Cluster, a primary with sentinels or replicas; and encrypted
//! connections.
//!
//! `subsets` has a quorum of three and of five in every state that its nodes can be in.
//!
//! `cargo test --test topologies quorum::` runs one module. `tls` needs its feature and `openssl`:
//! `cargo test --features tls --test topologies tls::`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod addresses;
#[cfg(feature = "redis")]
mod clients;
mod cluster;
mod credentials;
mod health;
mod leader;
mod quorum;
mod replicas;
mod sentinel;
mod subsets;
mod tickets;
mod ticks;
#[cfg(feature = "tls")]
mod tls;
