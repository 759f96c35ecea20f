//! Replaces `tls.rs` in a build without the feature `tls`: there are no encrypted connections.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo};
use tokio::sync::mpsc::UnboundedSender;

use super::connect_error::ConnectError;
use crate::engine::protocol::ConnectionEvent;

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
    pub(crate) async fn open(
        &self,
        _: &ConnectionInfo,
        _: AsyncConnectionConfig,
        _: UnboundedSender<ConnectionEvent>,
    ) -> Result<MultiplexedConnection, ConnectError> {
        match *self {}
    }
}
