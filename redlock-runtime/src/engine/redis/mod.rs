//! What is spoken with a server: connecting, the scripts, and the replies.

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
mod pipeline;
mod resp;
mod scripts;
pub(crate) mod seen_fences;
pub(super) mod sentinel;
pub(super) mod server_address;
pub(super) mod server_identity;
pub(super) mod stale_connection;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod value;
pub(super) mod wait_replicas;

/// Without the feature `tls`, there are no encrypted connections.
#[cfg(not(feature = "tls"))]
pub(crate) mod tls {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::addresses::Addresses;
    use super::opened::{ConnectError, Stream};
    use super::server_address::Place;

    #[derive(Clone, Default)]
    pub(crate) struct TlsSettings {}

    impl TlsSettings {
        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(crate) fn is_set(&self) -> bool {
            false
        }
    }

    #[derive(Clone)]
    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn new(_: &TlsSettings) -> Result<Self, String> {
            Err("it is encrypted, and that needs the feature `tls` of redlocked: run `cargo add redlocked --features tls`"
                .to_owned())
        }

        #[expect(clippy::unused_async, reason = "as with the feature")]
        pub(super) async fn open(&self, _: &Place, _: &Addresses) -> Result<Encrypted, ConnectError> {
            match *self {}
        }
    }

    pub(super) struct Encrypted {
        pub(super) stream: Stream,
        pub(super) wants_certificate: Arc<AtomicBool>,
    }
}
