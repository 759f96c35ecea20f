//! The only place that names the `redis` crate: connecting, the scripts, and the replies of a server.

mod addresses;
pub(super) mod batch;
mod command;
pub(crate) mod connect;
pub(super) mod connection;
pub(super) mod decode;
pub(super) mod discovery;
mod encode;
mod error_reply;
mod exchange;
mod failure;
mod fence_floor;
mod handshake;
pub(super) mod hedged;
pub(crate) mod keyspace;
pub(crate) mod login;
pub(crate) mod node;
mod opened;
mod resp;
mod scripts;
pub(super) mod sentinel;
pub(super) mod server_identity;
pub(super) mod stale_connection;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub(crate) mod tls;
pub(super) mod wait_replicas;
