//! One Redis node: where it is, how to get there, and what it can do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo,
    RedisError, Value,
};
use tokio::sync::mpsc::UnboundedSender;

use super::names::{Names, clock_in};
use super::protocol::{Abilities, Disconnected};
use super::slots::Slot;
use super::wire::{INBOX_MOVED, Pushed, RAISE, RedisConnection, Setup, is_passing, read_push};

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
    names: Names,
    inbox: Arc<str>,
    /// In a Cluster: a key in a slot of this node, other than the inbox's if there is one.
    elsewhere: Option<Arc<str>>,
    foreign_clients: bool,
    allow_eviction: bool,
}

impl RedisNode {
    /// A server of its own.
    pub(crate) fn new(info: ConnectionInfo, settings: &NodeSettings) -> Self {
        let NodeSettings { prefix, instance, foreign_clients, allow_eviction } = settings;
        Self {
            info: ours(info),
            names: Names::on_a_server(prefix),
            inbox: format!("{prefix}%inbox:{instance}").into(),
            elsewhere: None,
            foreign_clients: *foreign_clients,
            allow_eviction: *allow_eviction,
        }
    }

    /// A node of a Cluster. Of its slots, if it has any, the inbox lives in the first named; the other one is for a look
    /// at whether that does.
    ///
    /// There is one inbox for all its slots: a sharded channel lives in a slot, but a script may publish to any that
    /// lives on its node. So there is nothing to subscribe to before each wait, and nothing to count.
    pub(super) fn in_a_cluster(
        info: ConnectionInfo,
        settings: &NodeSettings,
        slots: Option<(Slot, Slot)>,
    ) -> Self {
        let NodeSettings { prefix, instance, foreign_clients, allow_eviction } = settings;
        let inbox = match slots {
            Some((home, _)) => format!("{prefix}%inbox:{instance}{{{}}}", home.tag()),
            None => format!("{prefix}%inbox:{instance}"),
        };
        Self {
            info: ours(info),
            names: Names::in_a_cluster(prefix),
            inbox: inbox.into(),
            elsewhere: slots.map(|(_, other)| clock_in(prefix, other).to_string().into()),
            foreign_clients: *foreign_clients,
            allow_eviction: *allow_eviction,
        }
    }

    /// Connects, and subscribes to the inbox on the same connection, so that both live and die together. What is
    /// pushed goes to `pushes`, the end of the connection too, even when nothing is in flight.
    pub(super) async fn connect(
        self,
        timeout: Duration,
        pushes: UnboundedSender<Pushed>,
    ) -> Result<RedisConnection, Disconnected> {
        let inbox_moved = Arc::new(AtomicBool::new(false));
        let moved = Arc::clone(&inbox_moved);
        let push = move |push: PushInfo| {
            if let Some(pushed) = read_push(&push) {
                moved.fetch_or(matches!(pushed, Pushed::InboxMoved), Ordering::SeqCst);
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
                    let (abilities, sharded, raised) = prepared?;
                    // The client has taken that push for a reply: the next one would be the one before.
                    if inbox_moved.load(Ordering::SeqCst) {
                        return Err(Disconnected { reason: INBOX_MOVED.into(), turned_away: false });
                    }
                    let Self { names, inbox, foreign_clients, .. } = self;
                    let setup = Setup { names, inbox, sharded, raised, foreign_clients, abilities };
                    Ok(RedisConnection::new(connection, setup))
                }
                Err(_) => Err(self.no_answer(timeout)),
            },
            Err(Attempt::TimedOut) => Err(self.no_answer(timeout)),
            Err(Attempt::Failed(error)) => Err(self.failed(&error)),
        }
    }

    /// Asks one question, on a connection for it alone.
    pub(super) async fn ask(&self, question: &redis::Cmd, timeout: Duration) -> Result<Value, Disconnected> {
        let settings = self.info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let asked = async {
            let mut connection =
                open(self.info.clone().set_redis_settings(settings), config, timeout).await?;
            connection.send_packed_command(question).await.map_err(Attempt::Failed)
        };
        match tokio::time::timeout(timeout, asked).await {
            Ok(Ok(Value::ServerError(error))) => Err(self.failed(&error.into())),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Attempt::Failed(error))) => Err(self.failed(&error)),
            Ok(Err(Attempt::TimedOut)) | Err(_) => Err(self.no_answer(timeout)),
        }
    }

    pub(super) fn address(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    pub(super) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "localhost",
        }
    }

    /// What the server can do, whether it does that through a sharded channel, and whether the clock of fencing tokens
    /// is raised: in a Cluster there are many, and each grant does that.
    async fn prepare(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(Abilities, bool, bool), Disconnected> {
        let (abilities, sharded) = self.probe(connection).await?;
        let raised = match &self.names {
            Names::Server { clock } => raise(connection, clock).await,
            Names::Cluster { .. } => false,
        };
        Ok((abilities, sharded, raised))
    }

    /// Finds out what the server and its access rules allow. What they do not is done without, but for two things:
    /// a replica, which is no place for a lock, and a server that may throw locks away.
    async fn probe(&self, connection: &mut MultiplexedConnection) -> Result<(Abilities, bool), Disconnected> {
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
        let sharded = match &self.elsewhere {
            Some(key) => listens_sharded(connection, &self.inbox, key).await,
            None => false,
        };
        // In a Cluster, what is published without shards goes to every node: a way out for servers before 7.0.
        let hands_off = listens(connection, &self.inbox).await || sharded;
        Ok((Abilities { hands_off, watches }, sharded))
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
            _ if error.detail().is_some_and(|words| words.contains("cluster support disabled")) => {
                "it is not part of a Cluster: its address starts with redis://".to_owned()
            }
            _ => error.to_string(),
        };
        Disconnected {
            reason: format!("cannot connect to Redis at {}: {words}", self.info.addr()).into(),
            turned_away,
        }
    }
}

/// As we connect to it.
fn ours(info: ConnectionInfo) -> ConnectionInfo {
    // A lock is many small writes, each waited for: Nagle's algorithm would hold them back.
    let tcp = TcpSettings::default().set_nodelay(true);
    let redis = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("redlocked", env!("CARGO_PKG_VERSION"));
    info.set_tcp_settings(tcp).set_redis_settings(redis)
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
async fn raise(connection: &mut MultiplexedConnection, clock: &str) -> bool {
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
    raise.exec_async(connection).await.is_ok()
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

/// The same for a sharded channel, from a script with a key in another slot of the node.
async fn listens_sharded(connection: &mut MultiplexedConnection, inbox: &str, key: &str) -> bool {
    const PROBE: &str =
        "redis.call('SPUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])[2]";
    let mut subscribe = redis::cmd("SSUBSCRIBE");
    if subscribe.arg(inbox).exec_async(connection).await.is_err() {
        return false;
    }
    let mut probe = redis::cmd("EVAL");
    let listeners = probe.arg(PROBE).arg(1).arg(key).arg(inbox).query_async::<i64>(connection).await;
    listeners.is_ok_and(|listeners| listeners > 0)
}

/// The policy by which a full server throws keys with an expiry away, if it does.
fn evicts(memory: &str) -> Option<&str> {
    let value = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let policy = value("maxmemory_policy:")?;
    (value("maxmemory:")? != "0" && policy != "noeviction").then_some(policy)
}
