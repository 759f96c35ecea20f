//! What a server can do, and what its access rules let us do there: asked at each connect, because in the middle of a
//! script it would show too late. What they do not is done without, but for what every lock needs; and neither a replica
//! nor a server that may throw locks away is a place for one.
//!
//! All at once, in one write: where the server is far away, one round trip after the other would be too many. What
//! depends on an earlier question comes behind it on the same connection.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisError, Script, Value};

use super::fence_floor::ABOVE_ALL;
use super::keyspace::{Keyspace, QUEUE};
use super::scripts::RAISE;
use super::stale_connection::Client;
use crate::capabilities::Abilities;
use crate::engine::protocol::ServerInfo;

/// Tries each command of the scripts.
const COMMANDS: &str = include_str!("scripts/probe.lua");

/// Without these there are no locks.
const NEEDED: [&str; 8] = ["GET", "SET", "DEL", "EXISTS", "PEXPIRE", "PTTL", "INCR", "TIME"];

/// An id that no client has.
const NO_CLIENT: &str = "9223372036854775807";

/// What a server says to anything but a few commands: while it reads its data, or while a script is running.
const NOT_YET: [&str; 2] = ["LOADING", "BUSY"];

/// From inside a script, what a grant needs: that the inbox is seen to be listened to, and that something can be
/// published to it.
const PLAIN: &str = "redis.call('PUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";

/// The same for a sharded channel.
const SHARDED: &str =
    "redis.call('SPUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])[2]";

/// What the questions are about.
pub(super) struct HandshakeParams<'a> {
    pub(super) keyspace: &'a Keyspace,
    pub(super) inbox: &'a str,
    /// In a Cluster: a key in a slot of this node, other than the inbox's.
    pub(super) elsewhere: Option<&'a str>,
    pub(super) allow_eviction: bool,
    pub(super) one_of_several: bool,
    /// Over this connection, the server can tell something without being asked.
    pub(super) pushes: bool,
    pub(super) stale: Option<Client>,
}

/// What came out.
pub(super) struct Handshake {
    pub(super) abilities: Abilities,
    /// Hand-off goes through a sharded channel.
    pub(super) sharded: bool,
    pub(super) server_info: ServerInfo,
    /// Of a node with a vote: what tells its server from any other.
    pub(super) run_id: Option<String>,
    pub(super) late_requests: LateRequests,
}

/// Whether a request that was sent over this connection may arrive when there is another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LateRequests {
    Possible,
    /// The next connection begins by having the server close this one.
    Impossible,
}

/// Why a server is of no use; the words follow its name.
pub(super) struct Unsuitable {
    pub(super) words: String,
    /// Waiting does not help.
    pub(super) is_permanent: bool,
}

/// The questions, and at which place each answer will be.
pub(super) struct Questions {
    pipeline: Pipeline,
    kill: usize,
    client: usize,
    watching: Option<[usize; 2]>,
    role: usize,
    memory: Option<usize>,
    server: Option<[usize; 2]>,
    sharded: Option<usize>,
    plain: Option<usize>,
    /// On a key of this name.
    commands: Option<(String, [usize; 2])>,
    clock: Option<usize>,
}

impl Questions {
    pub(super) fn new(params: &HandshakeParams<'_>) -> Self {
        let HandshakeParams { keyspace, inbox, elsewhere, .. } = *params;
        let mut pipeline = Pipeline::new();
        let mut ask = |words: &[&str]| {
            let mut question = Cmd::new();
            for word in words {
                question.arg(word);
            }
            pipeline.add_command(question);
            pipeline.len() - 1
        };
        // Before anything else. Without an earlier connection it closes none, and shows whether the next one may.
        let (id, address) = match &params.stale {
            Some(Client { id, address }) => (&**id, &**address),
            None => (NO_CLIENT, "0.0.0.0:0"),
        };
        let kill = ask(&["CLIENT", "KILL", "ID", id, "ADDR", address]);
        let client = ask(&["CLIENT", "INFO"]);
        // To be told of what others do to the keys that we name, and of nothing else. The second one names those of
        // whatever comes next: that is `ROLE`, which has none.
        let watching = params.pushes.then(|| {
            [ask(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]), ask(&["CLIENT", "CACHING", "YES"])]
        });
        let role = ask(&["ROLE"]);
        let memory = (!params.allow_eviction).then(|| ask(&["INFO", "memory"]));
        // It matters only where a restart is not the end of the lock anyway.
        let server =
            params.one_of_several.then(|| [ask(&["INFO", "server"]), ask(&["CONFIG", "GET", "append*"])]);
        let sharded = elsewhere.filter(|_| params.pushes).map(|key| {
            ask(&["SSUBSCRIBE", inbox]);
            ask(&["EVAL", SHARDED, "1", key, inbox])
        });
        // In a quorum nobody waits in a node's queue. In a Cluster, what is published without shards goes to every node:
        // a way out for servers before 7.0.
        let plain = (params.pushes && !params.one_of_several).then(|| {
            ask(&["SUBSCRIBE", inbox]);
            ask(&["EVAL", PLAIN, "0", inbox])
        });
        let (try_on, clock) = match keyspace {
            Keyspace::Server { clock } => (Some(&**clock), Some(clock)),
            // There are many clocks, and each grant raises its own.
            Keyspace::Cluster { .. } => (elsewhere, None),
        };
        let commands = try_on.map(|name| {
            let (script, unused) = (Script::new(COMMANDS), format!("{name}{QUEUE}"));
            let both = [
                ask(&["EVAL", COMMANDS, "1", &unused, inbox]),
                ask(&["EVALSHA", script.get_hash(), "1", &unused, inbox]),
            ];
            (unused, both)
        });
        // Raises the clock of fencing tokens to the server's time. Where that fails, each grant will.
        let above_all = ABOVE_ALL.to_string();
        let clock = clock
            .map(|clock| ask(&["EVAL", RAISE, "3", clock, clock, clock, "", "", "", "", "", &above_all]));
        Self { pipeline, kill, client, watching, role, memory, server, sharded, plain, commands, clock }
    }

    pub(super) async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Answers, RedisError> {
        connection.send_packed_commands(&self.pipeline, 0, self.pipeline.len()).await.map(Answers)
    }

    /// What the server calls this connection.
    pub(super) fn client(&self, answers: &Answers) -> Option<Client> {
        Client::read(&answers.read::<String>(self.client)?)
    }

    /// `round_trip`: how long the answers took.
    pub(super) fn read(&self, answers: &Answers, round_trip: Duration) -> Result<Handshake, Unsuitable> {
        answers.are_complete()?;
        answers.are_of_a_primary(self.role)?;
        if let Some(memory) = self.memory {
            answers.are_of_one_that_keeps_locks(memory)?;
        }
        let missing = match &self.commands {
            Some((unused, commands)) => answers.missing(*commands, unused)?,
            None => Vec::new(),
        };
        let listens = |question: Option<usize>| {
            question.and_then(|question| answers.read::<i64>(question)).is_some_and(|number| number > 0)
        };
        let sharded = listens(self.sharded);
        // Where notices go through shards, this is for waiters whose lock has moved; they ask again anyway.
        let spared = |command: &str| sharded && command == "PUBLISH";
        let hands_over = (sharded || listens(self.plain)) && missing.iter().all(|command| spared(command));
        let clock = self.clock.and_then(|question| answers.read(question)).unwrap_or(0);
        let tracks_changes =
            self.watching.is_some_and(|both| both.iter().all(|&question| answers.granted(question)));
        let (up_for, durable) = self.server.map_or((Duration::ZERO, false), |[info, config]| {
            (answers.up_for(info), answers.is_durable(config))
        });
        Ok(Handshake {
            abilities: Abilities { hands_over, tracks_changes, votes: false },
            sharded,
            server_info: ServerInfo { clock, up_for, durable, round_trip },
            run_id: self.server.and_then(|[info, _]| answers.run_id(info)),
            late_requests: match (answers.read::<i64>(self.kill), self.client(answers)) {
                (Some(_), Some(_)) => LateRequests::Impossible,
                _ => LateRequests::Possible,
            },
        })
    }
}

pub(super) struct Answers(Vec<Value>);

impl Answers {
    fn to(&self, question: usize) -> &Value {
        self.0.get(question).unwrap_or(&Value::Nil)
    }

    fn read<T: FromRedisValue>(&self, question: usize) -> Option<T> {
        redis::from_redis_value_ref(self.to(question)).ok()
    }

    fn granted(&self, question: usize) -> bool {
        matches!(self.to(question), Value::Okay)
    }

    /// A server that cannot answer yet would be taken for one that can do little, for as long as the connection lasts.
    fn are_complete(&self) -> Result<(), Unsuitable> {
        let later = self.0.iter().find_map(|answer| match answer {
            Value::ServerError(error) if NOT_YET.contains(&error.code()) => Some(error),
            _ => None,
        });
        match later {
            Some(error) => {
                let words = format!("is not ready: {} {}", error.code(), error.details().unwrap_or_default());
                Err(Unsuitable { words, is_permanent: false })
            }
            None => Ok(()),
        }
    }

    /// The server's words, when an access rule forbids it. One that does not know a command is another matter.
    fn forbidden(&self, question: usize) -> Option<&str> {
        match self.to(question) {
            Value::ServerError(error) if error.code() == "NOPERM" => {
                Some(error.details().unwrap_or("NOPERM"))
            }
            _ => None,
        }
    }

    fn are_of_a_primary(&self, role: usize) -> Result<(), Unsuitable> {
        if self.forbidden(role).is_some() {
            return Err(must_allow("ROLE", "it is no replica", ""));
        }
        match self.to(role) {
            Value::Array(role) if !matches!(role.first(), Some(Value::BulkString(role)) if role == b"master") =>
            {
                let words = "is a replica; locks are taken on its primary".to_owned();
                Err(Unsuitable { words, is_permanent: false })
            }
            _ => Ok(()),
        }
    }

    fn are_of_one_that_keeps_locks(&self, memory: usize) -> Result<(), Unsuitable> {
        if self.forbidden(memory).is_some() {
            let or = ", or accept any with `allow_eviction(true)`";
            return Err(must_allow("INFO", "it throws no locks away", or));
        }
        match self.read::<String>(memory).as_deref().and_then(evicts) {
            Some(policy) => {
                let words = format!(
                    "may throw locks away when it is full (maxmemory-policy {policy}): set it to noeviction, or \
                     accept that with `allow_eviction(true)`"
                );
                Err(Unsuitable { words, is_permanent: true })
            }
            None => Ok(()),
        }
    }

    /// The commands of hand-off that access rules forbid; the error names what every lock needs and is forbidden. What
    /// could not be tried, for one because a slot of the Cluster is on its way elsewhere, shows when it is needed.
    fn missing(&self, commands: [usize; 2], key: &str) -> Result<Vec<String>, Unsuitable> {
        let too_little = |what: &str| Unsuitable {
            words: format!("forbids what every lock needs: {what}"),
            is_permanent: true,
        };
        if let Some(words) = commands.iter().find_map(|&question| self.forbidden(question)) {
            return Err(too_little(&format!("{words} (a key like `{key}`)")));
        }
        let [tried, _] = commands;
        let missing: Vec<String> = self.read(tried).unwrap_or_default();
        let needed: Vec<_> =
            NEEDED.into_iter().filter(|needed| missing.iter().any(|it| it == needed)).collect();
        if needed.is_empty() { Ok(missing) } else { Err(too_little(&needed.join(", "))) }
    }

    /// How long the server has been running. Who does not say has just started.
    fn up_for(&self, info: usize) -> Duration {
        up_for(&self.read::<String>(info).unwrap_or_default())
    }

    fn run_id(&self, info: usize) -> Option<String> {
        let info: String = self.read(info)?;
        info.lines().find_map(|line| line.strip_prefix("run_id:")).map(|id| id.trim().to_owned())
    }

    /// Whether a restart forgets nothing that it has answered. Who does not say forgets.
    fn is_durable(&self, config: usize) -> bool {
        let settings: Vec<(String, String)> = self.read(config).unwrap_or_default();
        let is =
            |name: &str, wanted: &str| settings.iter().any(|(key, value)| key == name && value == wanted);
        is("appendonly", "yes") && is("appendfsync", "always")
    }
}

/// What is checked at each connect must be allowed.
fn must_allow(command: &str, checked: &str, or: &str) -> Unsuitable {
    let words =
        format!("forbids {command}, which tells whether {checked}: allow +{}{or}", command.to_lowercase());
    Unsuitable { words, is_permanent: true }
}

/// At least this long. The server subtracts two times of which each was cut to whole seconds: what it says may be almost
/// a second too much.
fn up_for(info: &str) -> Duration {
    let says =
        info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse::<u64>().ok());
    Duration::from_secs(says.unwrap_or(0).saturating_sub(1))
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
    fn a_server_that_says_one_second_may_have_been_up_for_a_moment() {
        let info = |seconds| format!("# Server\r\nuptime_in_seconds:{seconds}\r\nuptime_in_days:0\r\n");
        let up_for = |seconds| up_for(&info(seconds)).as_secs();
        assert_eq!([up_for(0), up_for(1), up_for(2), up_for(3600)], [0, 0, 1, 3599]);
        assert_eq!(super::up_for("# Server\r\n"), Duration::ZERO);
    }
}
