//! A connection that has logged in.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc::UnboundedSender;

use super::hedged;
use super::stream::Stream;
use super::until_closed::until_closed;
use crate::engine::protocol::ConnectionEvent;
use crate::host;

/// A connection that has logged in, and goes on only while it is driven.
pub(super) struct Opened {
    connection: MultiplexedConnection,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    stream: Stream,
}

impl Opened {
    /// Logs in.
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        info: &ConnectionInfo,
    ) -> Result<Self, RedisError> {
        let stream = Stream::new(stream);
        // The engine has its own timeouts: the `redis` crate would set a timer for each request.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opening = MultiplexedConnection::new_with_config(info.redis_settings(), stream.clone(), config);
        let (connection, driver) = opening.await?;
        Ok(Self { connection, driver: Box::pin(driver), stream })
    }

    /// The stream alone. The login is answered, and the server sends nothing else unasked, so the `redis` crate has read
    /// nothing that the caller will miss.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// From now on a task drives it, for as long as `pushes` has a receiver.
    pub(super) fn in_background(self, pushes: UnboundedSender<ConnectionEvent>) -> MultiplexedConnection {
        let Self { connection, driver, .. } = self;
        host::spawn(async move { until_closed(&pushes, driver).await });
        connection
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
