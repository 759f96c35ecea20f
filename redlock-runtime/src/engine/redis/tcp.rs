//! Opening a TCP stream.

use std::io;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use tokio::net::{TcpStream, lookup_host};

use super::addresses::Addresses;
use super::hedged;

/// To the first address of the host that accepts.
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
