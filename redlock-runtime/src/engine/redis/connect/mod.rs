//! Opening a connection, plain or encrypted, and logging in, within a limit.

pub(crate) mod fence_floor;
pub(crate) mod handshake;
pub(crate) mod login;
pub(crate) mod server_address;
pub(crate) mod server_identity;
pub(crate) mod stale_connection;
#[cfg(feature = "tls")]
pub(crate) mod tls;

/// Without the feature `tls`, there are no encrypted connections.
#[cfg(not(feature = "tls"))]
pub(crate) mod tls {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::server_address::Place;
    use crate::engine::redis::wire::dns::Addresses;
    use crate::engine::redis::wire::stream::{ConnectError, Stream};

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
        pub(crate) async fn open(&self, _: &Place, _: &Addresses) -> Result<Encrypted, ConnectError> {
            match *self {}
        }
    }

    pub(crate) struct Encrypted {
        pub(crate) stream: Stream,
        pub(crate) wants_certificate: Arc<AtomicBool>,
    }
}

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::wire::dns::Addresses;
use super::wire::exchange::Exchange;
use super::wire::failure::Failure;
use super::wire::stream::ConnectError;
use super::wire::stream::Stream;
use super::wire::stream::tcp_stream;
use crate::base::host::simulated_connection;
use login::{Speak, log_in};
use server_address::{Place, ServerAddress};
use tls::Tls;

/// In a box: it is awaited in many places, and would be in the program once for each.
pub(crate) type Opening<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Opens a connection, and logs in.
pub(crate) fn open<'a>(
    address: &'a ServerAddress,
    addresses: &'a Addresses,
    tls: Option<&'a Tls>,
    speak: Speak,
    timeout: Duration,
) -> Opening<'a, Exchange, ConnectError> {
    let opening = async move {
        let (stream, wants_certificate) = match tls {
            Some(tls) => {
                let opened = tls.open(&address.place, addresses).await?;
                (opened.stream, opened.wants_certificate)
            }
            None => (plain(&address.place, addresses).await?, Arc::default()),
        };
        let mut exchange = Exchange::over(stream, address.place.to_string().into());
        match log_in(&mut exchange, address, speak).await {
            Ok(()) => Ok(exchange),
            Err(Failure::Broke(_) | Failure::Closed { .. }) if wants_certificate.load(Ordering::Relaxed) => {
                Err(ConnectError::Refused("it wants a certificate of ours: see `tls_client`".to_owned()))
            }
            Err(failure) => Err(ConnectError::Failed(failure)),
        }
    };
    Box::pin(
        async move { tokio::time::timeout(timeout, opening).await.unwrap_or(Err(ConnectError::TimedOut)) },
    )
}

async fn plain(place: &Place, addresses: &Addresses) -> Result<Stream, ConnectError> {
    // The words of the system, as they are: no stream has ended.
    let broke = |error: io::Error| ConnectError::Failed(Failure::Broke(error.to_string().into()));
    match place {
        #[cfg(unix)]
        Place::Unix(path) => tokio::net::UnixStream::connect(path).await.map(Stream::Unix).map_err(broke),
        Place::Tcp(host, port) => {
            if let Some(connecting) = simulated_connection(host, *port) {
                return connecting.await.map(Stream::Simulated).map_err(broke);
            }
            let opened = tcp_stream(host, *port, addresses).await;
            opened.map(Stream::Tcp).map_err(broke)
        }
        #[cfg(not(unix))]
        Place::Unix(_) => Err(ConnectError::Refused("this system has no unix sockets".to_owned())),
    }
}
