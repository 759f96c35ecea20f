//! An open stream to a server: TCP, TLS, a unix socket, or a simulated one; and why there is none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

use super::dns::Addresses;
use super::failure::Failure;
use super::hedged;
use crate::base::host::{self, world};

/// After so long, an idle connection sends a keep-alive probe: some firewalls forget a connection
/// after a minute. It ends after three more without an answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// It closes when it is dropped.
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<TlsStream<TcpStream>>),
    Simulated(Box<dyn world::Stream>),
}

/// Calls `$call` on the stream of any kind.
macro_rules! of_each {
    ($any:expr, $stream:ident => $call:expr) => {
        match $any {
            Stream::Tcp($stream) => $call,
            #[cfg(unix)]
            Stream::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Encrypted($stream) => $call,
            Stream::Simulated($stream) => $call,
        }
    };
}

impl Stream {
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_read(cx, into))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_flush(cx))
    }
}

/// Why there is no open connection.
pub(crate) enum ConnectError {
    TimedOut,
    Failed(Failure),
    /// Permanent, with the reason.
    Refused(String),
    /// The program's function gave no credentials, with the reason.
    NoCredentials(String),
}

/// Opens a stream to the first address of the host that accepts.
pub(crate) async fn tcp_stream(host: &str, port: u16, addresses: &Addresses) -> io::Result<TcpStream> {
    let in_order = addresses.in_order(host::addresses(host, port).await?);
    let stream = match in_order.as_slice() {
        [address] => TcpStream::connect(address).await?,
        several => {
            let connecting = several.iter().copied().map(TcpStream::connect);
            let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            hedged::first(connecting)
                .await
                .map_err(|errors| errors.into_iter().next().unwrap_or_else(none))?
        }
    };
    addresses.reached(stream.peer_addr()?);
    // A lock is many small writes, each waited for: Nagle's algorithm would hold them back.
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&keep_alive())?;
    Ok(stream)
}

fn keep_alive() -> TcpKeepalive {
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple", windows))]
    let keep_alive = keep_alive.with_interval(PROBE_AGAIN);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    let keep_alive = keep_alive.with_retries(3);
    keep_alive
}
