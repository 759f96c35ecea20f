//! One Redis node: where it is, how to get there, and what it can do.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo, RedisError, Value,
};
use tokio::sync::mpsc::UnboundedSender;

use super::protocol::{Abilities, Disconnected, Standing};
use super::wire::{CLOCK, Pushed, RAISE, RedisConnection, is_passing, read_push};

/// What a manager's settings say about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    /// What all names on the server start with.
    pub(crate) prefix: String,
    /// What makes the names that are ours alone unique.
    pub(crate) instance: String,
    /// Clients of another kind use the keys too.
    pub(crate) foreign_clients: bool,
    /// A server that may evict locks is accepted.
    pub(crate) allow_eviction: bool,
}

/// Where a node is, how to get there, and what our side keys and channels are called there.
#[derive(Clone)]
pub(crate) struct RedisNode {
    info: ConnectionInfo,
    clock: Arc<str>,
    inbox: Arc<str>,
    foreign_clients: bool,
    allow_eviction: bool,
    /// Locks have queues of waiters there.
    queues: bool,
}

impl RedisNode {
    pub(crate) fn new(info: ConnectionInfo, settings: &NodeSettings) -> Self {
        let NodeSettings { prefix, instance, foreign_clients, allow_eviction } = settings;
        // A lock is many small writes, each waited for: Nagle's algorithm would hold them back.
        let tcp = TcpSettings::default().set_nodelay(true);
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("redlocked", env!("CARGO_PKG_VERSION"));
        let info = info.set_tcp_settings(tcp).set_redis_settings(redis);
        let (clock, inbox) = (format!("{prefix}{CLOCK}").into(), format!("{prefix}%inbox:{instance}").into());
        let (foreign_clients, allow_eviction) = (*foreign_clients, *allow_eviction);
        Self { info, clock, inbox, foreign_clients, allow_eviction, queues: true }
    }

    /// As one of several.
    pub(super) fn without_queues(self) -> Self {
        Self { queues: false, ..self }
    }

    /// Connects, and subscribes to the inbox, if there are queues, on the same connection, so that both live and die together. What is
    /// pushed goes to `pushes`, the end of the connection too, even when nothing is in flight.
    pub(super) async fn connect(
        self,
        timeout: Duration,
        pushes: UnboundedSender<Pushed>,
    ) -> Result<RedisConnection, Disconnected> {
        let push = move |push: PushInfo| {
            if let Some(pushed) = read_push(&push) {
                let _ = pushes.send(pushed);
            }
            Ok::<(), redis::aio::SendError>(())
        };
        // Timeouts are the engine's: redis' own would need its timer for each request.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let resp3 = open(self.info.clone(), config.clone().set_push_sender(push), timeout).await;
        let connection = match resp3 {
            Err(Attempt::TimedOut) => return Err(self.no_answer(timeout)),
            Err(Attempt::Failed(error)) if speaks_no_resp3(&error) => {
                let settings = self.info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
                open(self.info.clone().set_redis_settings(settings), config, timeout).await
            }
            other => other,
        };
        match connection {
            Ok(mut connection) => match tokio::time::timeout(timeout, self.prepare(&mut connection)).await {
                Ok(prepared) => {
                    let Self { inbox, clock, foreign_clients, queues, .. } = self;
                    let names = (inbox, clock);
                    Ok(RedisConnection::new(connection, names, foreign_clients, queues, prepared?))
                }
                Err(_) => Err(self.no_answer(timeout)),
            },
            Err(Attempt::TimedOut) => Err(self.no_answer(timeout)),
            Err(Attempt::Failed(error)) => Err(self.failed(&error)),
        }
    }

    /// What the server can do, and what it says of itself.
    async fn prepare(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(Abilities, Standing), Disconnected> {
        let abilities = self.probe(connection).await?;
        let clock = raise(connection, &self.clock).await.unwrap_or(0);
        let (up_for, durable) = memory_of(connection).await;
        Ok((abilities, Standing { clock, up_for, durable }))
    }

    /// Finds out what the server and its access rules allow. What they do not is done without, but for two things:
    /// a replica, which is no place for a lock, and a server that may throw locks away.
    async fn probe(&self, connection: &mut MultiplexedConnection) -> Result<Abilities, Disconnected> {
        let watches = tells_of_changes(connection).await;
        if let Ok(Value::Array(role)) = redis::cmd("ROLE").query_async(connection).await
            && !matches!(role.first(), Some(Value::BulkString(role)) if role == b"master")
        {
            let reason =
                format!("Redis at {} is a replica; locks are taken on its primary", self.info.addr());
            return Err(Disconnected { reason: reason.into(), turned_away: false });
        }
        if let Ok(memory) = redis::cmd("INFO").arg("memory").query_async::<String>(connection).await
            && !self.allow_eviction
            && let Some(policy) = evicts(&memory)
        {
            let reason = format!(
                "Redis at {} may throw locks away when it is full (maxmemory-policy {policy}): set it to noeviction, \
                 or accept that with `allow_eviction(true)`",
                self.info.addr()
            );
            return Err(Disconnected { reason: reason.into(), turned_away: true });
        }
        let hands_off = self.queues && listens(connection, &self.inbox).await;
        Ok(Abilities { hands_off, watches, votes: false })
    }

    fn no_answer(&self, timeout: Duration) -> Disconnected {
        let reason =
            format!("cannot connect: Redis at {} does not answer within {timeout:?}", self.info.addr())
                .into();
        Disconnected { reason, turned_away: false }
    }

    fn failed(&self, error: &RedisError) -> Disconnected {
        let turned_away = match error.code() {
            Some(code) => !is_passing(code),
            None => matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig),
        };
        let words = match error.code() {
            Some("NOAUTH") => "it wants a password (NOAUTH): redis://:password@host/".to_owned(),
            Some("WRONGPASS") => "user or password is wrong (WRONGPASS)".to_owned(),
            _ => error.to_string(),
        };
        Disconnected {
            reason: format!("cannot connect to Redis at {}: {words}", self.info.addr()).into(),
            turned_away,
        }
    }
}

enum Attempt {
    TimedOut,
    Failed(RedisError),
}

async fn open(
    info: ConnectionInfo,
    config: AsyncConnectionConfig,
    timeout: Duration,
) -> Result<MultiplexedConnection, Attempt> {
    let client = Client::open(info).map_err(Attempt::Failed)?;
    match tokio::time::timeout(timeout, client.get_multiplexed_async_connection_with_config(&config)).await {
        Ok(connection) => connection.map_err(Attempt::Failed),
        Err(_) => Err(Attempt::TimedOut),
    }
}

fn speaks_no_resp3(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::RESP3NotSupported)
}

/// Raises the clock of fencing tokens to the server's time. Where that fails, each grant will.
async fn raise(connection: &mut MultiplexedConnection, clock: &str) -> Option<u64> {
    let mut raise = redis::cmd("EVAL");
    raise
        .arg(RAISE)
        .arg(3)
        .arg(clock)
        .arg(clock)
        .arg(clock)
        .arg("")
        .arg("")
        .arg("")
        .arg("")
        .arg("")
        .arg("time");
    raise.query_async(connection).await.ok()
}

/// How long the server has been running, and whether a restart forgets nothing that it has answered. Who does not say
/// has just started, and forgets.
async fn memory_of(connection: &mut MultiplexedConnection) -> (Duration, bool) {
    let info = redis::cmd("INFO").arg("server").query_async::<String>(connection).await.unwrap_or_default();
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg("append*");
    let settings = config.query_async::<Vec<(String, String)>>(connection).await.unwrap_or_default();
    let is = |name: &str, wanted: &str| settings.iter().any(|(key, value)| key == name && value == wanted);
    let durable = is("appendonly", "yes") && is("appendfsync", "always");
    (up_for(&info), durable)
}

/// At least so long. The server subtracts two times that were cut to whole seconds: what it says may be one too many.
fn up_for(info: &str) -> Duration {
    let said =
        info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse::<u64>().ok());
    Duration::from_secs(said.unwrap_or(0).saturating_sub(1))
}

/// Asks to be told of what others do to the keys that we name, and of nothing else.
async fn tells_of_changes(connection: &mut MultiplexedConnection) -> bool {
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
    // Names the keys of whatever command is next.
    let mut caching = redis::cmd("CLIENT");
    caching.arg("CACHING").arg("YES");
    tracking.exec_async(connection).await.is_ok() && caching.exec_async(connection).await.is_ok()
}

/// Subscribes to the inbox, and tries from inside a script what a grant needs: that the inbox is seen to be
/// listened to, and that something can be published to it.
async fn listens(connection: &mut MultiplexedConnection, inbox: &str) -> bool {
    const PROBE: &str =
        "redis.call('PUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
    if connection.subscribe(inbox).await.is_err() {
        return false;
    }
    let mut probe = redis::cmd("EVAL");
    let listeners = probe.arg(PROBE).arg(0).arg(inbox).query_async::<i64>(connection).await;
    listeners.is_ok_and(|listeners| listeners > 0)
}

/// The policy by which a full server throws keys with an expiry away, if it does.
fn evicts(memory: &str) -> Option<&str> {
    let value = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let policy = value("maxmemory_policy:")?;
    (value("maxmemory:")? != "0" && policy != "noeviction").then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_been_up_for_a_second_less_than_it_says() {
        let says =
            |seconds: &str| up_for(&format!("redis_version:7.0.15\r\nuptime_in_seconds:{seconds}\r\n"));
        assert_eq!([says("0"), says("1"), says("9")], [0, 0, 8].map(Duration::from_secs));
        assert_eq!(up_for("it does not say"), Duration::ZERO);
    }
}
