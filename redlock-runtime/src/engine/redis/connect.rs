//! Opening a connection, plain or encrypted, and logging in, within a limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ConnectionAddr, ConnectionInfo};

use super::addresses::Addresses;
use super::exchange::Exchange;
use super::failure::Failure;
use super::login::{Speak, log_in};
use super::opened::ConnectError;
use super::opened::Stream;
use super::opened::tcp_stream;
use super::tls::Tls;
use crate::ground::host::simulated_connection;

/// After so long, an idle connection sends a keep-alive probe: some firewalls forget a connection
/// after a minute. It ends after three more without an answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// For every connection, encrypted or not.
pub(super) fn tcp_settings() -> TcpSettings {
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple", windows))]
    let keep_alive = keep_alive.with_interval(PROBE_AGAIN);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    let keep_alive = keep_alive.with_retries(3);
    // A lock is many small writes, each waited for: Nagle's algorithm would hold them back.
    TcpSettings::default().set_nodelay(true).set_keepalive(keep_alive)
}

/// Opens a connection, and logs in.
pub(super) async fn open(
    info: &ConnectionInfo,
    addresses: &Addresses,
    tls: Option<&Tls>,
    speak: Speak,
    timeout: Duration,
) -> Result<Exchange, ConnectError> {
    let opening = async {
        let (stream, wants_certificate) = match tls {
            Some(tls) => {
                let opened = tls.open(info, addresses, &tcp_settings()).await?;
                (opened.stream, opened.wants_certificate)
            }
            None => (plain(info.addr(), addresses).await?, Arc::default()),
        };
        let mut exchange = Exchange::over(stream);
        match log_in(&mut exchange, info.redis_settings(), speak).await {
            Ok(()) => Ok(exchange),
            Err(Failure::Broke(_) | Failure::Closed { .. }) if wants_certificate.load(Ordering::Relaxed) => {
                Err(ConnectError::Refused("it wants a certificate of ours: see `tls_client`".to_owned()))
            }
            Err(failure) => Err(ConnectError::Failed(failure)),
        }
    };
    tokio::time::timeout(timeout, opening).await.unwrap_or(Err(ConnectError::TimedOut))
}

async fn plain(address: &ConnectionAddr, addresses: &Addresses) -> Result<Stream, ConnectError> {
    // The words of the system, as they are: no stream has ended.
    let broke = |error: io::Error| ConnectError::Failed(Failure::Broke(error.to_string().into()));
    match address {
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            tokio::net::UnixStream::connect(path).await.map(Stream::Unix).map_err(broke)
        }
        ConnectionAddr::Tcp(host, port) => {
            if let Some(connecting) = simulated_connection(host, *port) {
                return connecting.await.map(Stream::Simulated).map_err(broke);
            }
            let opened = tcp_stream(host, *port, addresses, &tcp_settings()).await;
            opened.map(Stream::Tcp).map_err(broke)
        }
        other => Err(ConnectError::Refused(format!("there is no such connection: {other}"))),
    }
}
