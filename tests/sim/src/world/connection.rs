//! A connection as a process sees it: a stream of bytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use redlock_runtime::simulation::{Connecting, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::World;
use super::network::ConnectionId;

/// The client's end. Dropping it closes the connection, behind what it has sent.
struct Connection(ConnectionId);

/// Connects to the server with that port; the host does not matter.
pub(super) fn connect(world: &World, _host: &str, port: u16) -> Connecting {
    let connection = Connection(world.open_connection(world.place.get().process, port));
    Box::pin(async move {
        poll_fn(|cx| World::here().poll_open(connection.0, cx)).await?;
        let stream: Box<dyn Stream> = Box::new(connection);
        Ok(stream)
    })
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        World::here().poll_read(self.0, cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(World::here().write(self.0, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(world) = World::here_if_any() {
            world.close(self.0);
        }
    }
}
