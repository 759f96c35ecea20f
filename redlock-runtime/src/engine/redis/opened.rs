//! An open stream to a server: TCP, TLS, a unix socket, or a simulated one; and why there is none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

use super::addresses::Addresses;
use super::failure::Failure;
use super::hedged;
use crate::ground::host::world;

/// It closes when it is dropped.
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<TlsStream<TcpStream>>),
    Simulated(Box<dyn world::Stream>),
}

/// What `$call` answers for the stream, whichever it is.
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
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_read(cx, into))
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_flush(cx))
    }
}

/// Why there is no open connection.
pub(super) enum ConnectError {
    TimedOut,
    Failed(Failure),
    /// Permanent, with the reason.
    Refused(String),
    /// The program's function gave no credentials, with the reason.
    NoCredentials(String),
}

/// Opens a stream to the first address of the host that accepts.
pub(super) async fn tcp_stream(
    host: &str,
    port: u16,
    addresses: &Addresses,
    settings: &TcpSettings,
) -> io::Result<TcpStream> {
    let in_order = addresses.in_order(lookup_host((host, port)).await?.collect());
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
    stream.set_nodelay(settings.nodelay())?;
    if let Some(keep_alive) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(keep_alive)?;
    }
    Ok(stream)
}
