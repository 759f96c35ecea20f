//! An open connection, and the driver that moves its bytes.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc::UnboundedSender;

use super::hedged;
use super::until_closed::until_closed;
use crate::engine::protocol::ConnectionEvent;
use crate::engine::when_woken::WhenWoken;
use crate::host;

/// Moves the bytes of a connection. Dropping it closes the connection at once, also with answers pending.
pub(super) struct ConnectionDriver {
    /// `None` once the connection has ended.
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    when_woken: WhenWoken,
}

impl ConnectionDriver {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), when_woken: WhenWoken::default() }
    }

    /// Writes what was sent, and reads answers and pushes. Costs nothing when there is nothing to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(());
        };
        ready!(self.when_woken.poll(cx, |cx| work.as_mut().poll(cx)));
        self.work = None;
        Poll::Ready(())
    }
}

/// An open connection, which goes on only while its driver is polled.
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: ConnectionDriver,
}

impl Opened {
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        info: &ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, RedisError> {
        let opening = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
        let (connection, driver) = opening.await?;
        Ok(Self { connection, driver: ConnectionDriver::new(driver) })
    }

    /// From now on a task drives it, for as long as `pushes` has a receiver.
    pub(super) fn in_background(self, pushes: UnboundedSender<ConnectionEvent>) -> MultiplexedConnection {
        let Self { connection, mut driver } = self;
        host::spawn(async move { until_closed(&pushes, poll_fn(|cx| driver.poll(cx))).await });
        connection
    }

    /// The outcome of `work`, which uses the connection.
    pub(super) async fn drive<T>(&mut self, work: impl AsyncFnOnce(&mut MultiplexedConnection) -> T) -> T {
        let Self { connection, driver } = self;
        let mut work = pin!(work(connection));
        poll_fn(|cx| {
            // The end of the driver fails what waits for an answer.
            let _ = driver.poll(cx);
            let outcome = work.as_mut().poll(cx);
            if outcome.is_pending() {
                // What the work has just sent.
                let _ = driver.poll(cx);
            }
            outcome
        })
        .await
    }
}

/// To the first address of the host that accepts.
pub(super) async fn tcp_stream(host: &str, port: u16, settings: &TcpSettings) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let stream = match addresses.as_slice() {
        [address] => TcpStream::connect(address).await?,
        several => {
            let connecting = several.iter().copied().map(TcpStream::connect);
            let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            hedged::first(connecting)
                .await
                .map_err(|errors| errors.into_iter().next().unwrap_or_else(none))?
        }
    };
    stream.set_nodelay(settings.nodelay())?;
    if let Some(keep_alive) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(keep_alive)?;
    }
    Ok(stream)
}
