//! Opening a connection, plain or encrypted, within a limit.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError};
use tokio::sync::mpsc::UnboundedSender;

use super::connect_error::ConnectError;
use super::opened::{Opened, tcp_stream};
use super::tls::Tls;
use crate::engine::protocol::ConnectionEvent;
use crate::host::simulated_connection;

/// After so long, an idle connection sends a keep-alive probe: some firewalls forget a connection after a minute. It ends
/// after three more without an answer.
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

/// Opens a connection.
pub(super) async fn open(
    info: ConnectionInfo,
    tls: Option<&Tls>,
    timeout: Duration,
) -> Result<Opened, ConnectError> {
    let info = info.set_tcp_settings(tcp_settings());
    let opening = async {
        if let Some(tls) = tls {
            return tls.open(&info).await;
        }
        let opened = match info.addr() {
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(RedisError::from);
                Opened::over(stream.map_err(ConnectError::Failed)?, &info).await
            }
            ConnectionAddr::Tcp(host, port) => {
                if let Some(connecting) = simulated_connection(host, *port) {
                    let stream = connecting.await.map_err(RedisError::from);
                    return Opened::over(stream.map_err(ConnectError::Failed)?, &info)
                        .await
                        .map_err(ConnectError::Failed);
                }
                let stream = tcp_stream(host, *port, info.tcp_settings()).await.map_err(RedisError::from);
                Opened::over(stream.map_err(ConnectError::Failed)?, &info).await
            }
            other => Err((ErrorKind::InvalidClientConfig, "no such connection", other.to_string()).into()),
        };
        opened.map_err(ConnectError::Failed)
    };
    tokio::time::timeout(timeout, opening).await.unwrap_or(Err(ConnectError::TimedOut))
}

/// Opens a connection that a task drives, for as long as `pushes` has a receiver.
pub(super) async fn open_in_background(
    info: ConnectionInfo,
    tls: Option<&Tls>,
    pushes: UnboundedSender<ConnectionEvent>,
    timeout: Duration,
) -> Result<MultiplexedConnection, ConnectError> {
    Ok(open(info, tls, timeout).await?.in_background(pushes))
}

/// The server refuses `HELLO 3`: `NOPROTO`, or the `ERR` of an unknown command, which older servers and proxies word in many
/// ways. The other `ERR` at this point comes before `HELLO` is read: a server that has too many clients.
pub(super) fn speaks_no_resp3(error: &RedisError) -> bool {
    match error.code() {
        Some("NOPROTO") => true,
        Some("ERR") => !has_too_many_clients(error),
        _ => error.kind() == ErrorKind::RESP3NotSupported,
    }
}

/// The one error of a server that passes and has no code of its own.
pub(super) fn has_too_many_clients(error: &RedisError) -> bool {
    error.code() == Some("ERR") && error.detail().is_some_and(|words| words.contains("max number of clients"))
}

#[cfg(test)]
mod tests {
    use redis::{RedisError, Value};

    use super::{has_too_many_clients, speaks_no_resp3};

    #[track_caller]
    fn error(words: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{words}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error.into(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn an_older_protocol_is_spoken_where_hello_is_refused_in_any_words() {
        for refused in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command 'HELLO'",
            "ERR unsupported command 'HELLO'",
            "NOPROTO unsupported protocol version",
        ] {
            assert!(speaks_no_resp3(&error(refused)), "{refused}");
        }
        for other in [
            "ERR max number of clients reached",
            "ERR max number of clients + cluster connections reached",
            "NOAUTH HELLO must be called with the client already authenticated",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'select' command",
            "LOADING Redis is loading the dataset in memory",
        ] {
            assert!(!speaks_no_resp3(&error(other)), "{other}");
            assert_eq!(has_too_many_clients(&error(other)), other.contains("clients "), "{other}");
        }
    }
}
