//! The only place that names the `redis` crate: connecting, the scripts, and the replies of a server.

mod addresses;
pub(super) mod batch;
mod command;
pub(crate) mod connect;
mod connect_error;
pub(super) mod connection;
pub(crate) mod credential_source;
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
mod login;
pub(crate) mod node;
mod permissions;
mod resp;
mod scripts;
pub(super) mod sentinel;
pub(super) mod server_identity;
mod session;
pub(super) mod stale_connection;
mod stream;
mod tcp;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub(crate) mod tls;
mod until_closed;
pub(super) mod wait_replicas;
mod wire;
