//! Replaces `tls.rs` in a build without the feature `tls`: there are no encrypted connections.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redis::ConnectionInfo;
use redis::io::tcp::TcpSettings;

use super::addresses::Addresses;
use super::opened::ConnectError;
use super::opened::Stream;

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
        Err("it is encrypted: that needs the feature `tls` of redlocked, which is off by default".to_owned())
    }

    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub(super) async fn open(
        &self,
        _: &ConnectionInfo,
        _: &Addresses,
        _: &TcpSettings,
    ) -> Result<Encrypted, ConnectError> {
        match *self {}
    }
}

pub(super) struct Encrypted {
    pub(super) stream: Stream,
    pub(super) wants_certificate: Arc<AtomicBool>,
}
