//! An open stream to a server: TCP, TLS, a unix socket, or a simulated one; and why there is none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};

use super::addresses::Addresses;
use super::failure::Failure;
use super::hedged;

/// It closes when it is dropped.
pub(super) struct Stream(Pin<Box<dyn BothWays>>);

trait BothWays: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> BothWays for S {}

impl Stream {
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
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
