//! Opening a connection, plain or encrypted, and logging in, within a limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::addresses::Addresses;
use super::exchange::Exchange;
use super::failure::Failure;
use super::login::{Speak, log_in};
use super::opened::ConnectError;
use super::opened::Stream;
use super::opened::tcp_stream;
use super::server_address::{Place, ServerAddress};
use super::tls::Tls;
use crate::ground::host::simulated_connection;

/// In a box: it is awaited in many places, and would be in the program once for each.
pub(super) type Opening<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Opens a connection, and logs in.
pub(super) fn open<'a>(
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
