//! The handshake finds out what a server can do, and what its access rules allow: in the middle of
//! a script it would be too late. Optional features degrade; a missing required one fails the
//! connection, and so does a replica or a server that may evict locks.
//!
//! All commands go out in one write, because a server that is far away would take a round trip for
//! each. A command that depends on an earlier one comes behind it.
//!
//! Among them is each command of the scripts once as it is: where access rules forbid it, or an
//! operator has renamed it, the server refuses it there with a code. In the middle of a script the
//! answer has no such code, and each version of the server has its own words.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::fence_floor::ABOVE_ALL;
use super::server_identity::ClaimedIdentity;
use super::stale_connection::Client;
use crate::base::capabilities::Abilities;
use crate::base::key::QUEUE;
use crate::base::owner;
use crate::engine::protocol::ServerInfo;
use crate::engine::redis::scripts::{Dialect, EVALUATED, Script};
use crate::engine::redis::wire::command::Pipeline;
use crate::engine::redis::wire::error_reply::{ErrorReply, is_unknown, shown};
use crate::engine::redis::wire::exchange::{Exchange, Interrupted};
use crate::engine::redis::wire::keyspace::Keyspace;
use crate::engine::redis::wire::seen_fences::SeenFences;
use crate::engine::redis::wire::value::Value;

/// An id that no client has.
const NO_CLIENT: &str = "9223372036854775807";

/// The errors of a server that loads its data or runs a script.
const NOT_YET: [&str; 2] = ["LOADING", "BUSY"];

/// Required: every lock needs these.
const NEEDED: [&str; 10] =
    ["EVAL", "EVALSHA", "GET", "SET", "DEL", "EXISTS", "PEXPIRE", "PTTL", "INCR", "TIME"];

/// A counted lock needs these.
const COUNTING: [&str; 5] = ["ZADD", "ZCARD", "ZRANGE", "ZREM", "ZSCORE"];

/// Reads a part of a value. A lock that is taken without a script needs it, and nothing else.
const READS_PARTS: &str = "GETRANGE";

/// No script has this digest.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// The advice for a server that does not know a command.
const RENAMED: &str = "remove its `rename-command`, or connect past the proxy that leaves it out";

/// A grant in a script needs both: to publish to the inbox, and to see that it has a subscriber.
const PLAIN: &str = "redis.call('PUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";

/// For a sharded channel.
const SHARDED: &str =
    "redis.call('SPUBLISH', ARGV[1], '') return redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])[2]";

/// The parameters of the commands.
pub(crate) struct HandshakeParams<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) inbox: &'a str,
    /// In a Cluster: a key in another slot of this node than the inbox.
    pub(crate) elsewhere: Option<&'a str>,
    pub(crate) allow_eviction: bool,
    pub(crate) one_of_several: bool,
    /// The connection speaks RESP3, so the server can push.
    pub(crate) pushes: bool,
    pub(crate) stale: Option<Client>,
}

/// The result.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the server")]
pub(crate) struct Handshake {
    pub(crate) abilities: Abilities,
    /// Access rules allow each command of the queues.
    pub(crate) allows_queues: bool,
    /// It refuses a command that counted locks need.
    pub(crate) may_not_count: bool,
    /// Access rules allow `GETRANGE`.
    pub(crate) reads_parts: bool,
    /// Hand-off goes through a sharded channel.
    pub(crate) sharded: bool,
    /// In microseconds.
    pub(crate) server_time: Option<u64>,
    pub(crate) server_info: ServerInfo,
    /// The run id of a node of a quorum: identifies its server.
    pub(crate) run_id: Option<String>,
    pub(crate) late_requests: LateRequests,
    pub(crate) native_delete: Option<NativeDelete>,
    /// Why it does not hand locks over, where it should.
    pub(crate) no_hand_over: Option<String>,
    /// Why it may evict locks, where it must not.
    pub(crate) may_evict: Option<Unsuitable>,
}

/// The command that deletes a key if it has a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NativeDelete {
    /// Valkey, from 9.0 on.
    DelIfEq,
    /// Redis, from 8.4 on.
    DelEx,
}

/// The fate of a late request: whether it may arrive when there is another connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateRequests {
    Possible,
    /// The next connection begins by having the server close this one.
    Impossible,
}

/// Why a server cannot be used. The words follow its name in the message.
pub(crate) struct Unsuitable {
    pub(crate) words: String,
    /// Waiting does not help.
    pub(crate) is_permanent: bool,
}

/// The commands, and the place of each answer.
pub(crate) struct HandshakeCommands {
    pipeline: Pipeline,
    kill: usize,
    client: usize,
    watching: Option<[usize; 2]>,
    role: usize,
    memory: Option<usize>,
    server: Option<[usize; 2]>,
    /// The script that publishes; the subscription stands before it.
    sharded: Option<usize>,
    plain: Option<usize>,
    inbox: String,
    commands: Option<TriedCommands>,
    native_delete: Option<[(usize, NativeDelete); 2]>,
    clock: Option<usize>,
}

/// The key that the commands of the scripts are tried on, and each with its place.
type TriedCommands = (String, Vec<(&'static str, usize)>);

impl HandshakeCommands {
    pub(crate) fn new(params: &HandshakeParams<'_>) -> Self {
        let HandshakeParams { keyspace, inbox, elsewhere, .. } = *params;
        let mut pipeline = Pipeline::default();
        let kill = add_end_of(&mut pipeline, params.stale.as_ref());
        let mut add = |words: &[&str]| pipeline.add(words);
        let client = add(&["CLIENT", "INFO"]);
        // For operators. Access rules may forbid it, and nothing needs it.
        add(&["CLIENT", "SETNAME", &format!("redlocked:{}", owner::process_name())]);
        // To watch only the keys that a request names. The second command would watch the keys of
        // the next one: `ROLE` has none.
        let watching = params.pushes.then(|| {
            [add(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]), add(&["CLIENT", "CACHING", "YES"])]
        });
        let role = add(&["ROLE"]);
        let memory = (!params.allow_eviction).then(|| add(&["INFO", "memory"]));
        // Only in a quorum does a lock survive the restart of a server.
        let server =
            params.one_of_several.then(|| [add(&["INFO", "server"]), add(&["CONFIG", "GET", "append*"])]);
        let sharded = elsewhere.filter(|_| params.pushes).map(|key| {
            add(&["SSUBSCRIBE", inbox]);
            add(&["EVAL", SHARDED, "1", key, inbox])
        });
        // Nodes of a quorum have no queues. In a Cluster, a plain channel sends each message to all
        // nodes: only servers before 7.0 need it.
        let plain = (params.pushes && !params.one_of_several).then(|| {
            add(&["SUBSCRIBE", inbox]);
            add(&["EVAL", PLAIN, "0", inbox])
        });
        let (try_on, clock) = match keyspace {
            Keyspace::Server { clock } => (Some(&**clock), Some(clock)),
            // Each slot has a clock, and each acquire raises its own.
            Keyspace::Cluster { .. } => (elsewhere, None),
        };
        let commands = try_on.map(|name| add_tried_commands(&mut pipeline, format!("{name}{QUEUE}"), inbox));
        let native_delete = commands.as_ref().filter(|_| !params.one_of_several);
        let native_delete = native_delete.map(|(unused, _)| add_native_deletes(&mut pipeline, unused));
        let clock = clock.map(|clock| add_raise(&mut pipeline, clock));
        Self {
            pipeline,
            kill,
            client,
            watching,
            role,
            memory,
            server,
            sharded,
            plain,
            inbox: inbox.to_owned(),
            commands,
            native_delete,
            clock,
        }
    }

    pub(crate) async fn send(&self, exchange: &mut Exchange) -> Result<Answers, Interrupted> {
        exchange.ask(&self.pipeline).await.map(Answers)
    }

    /// Returns how the server identifies this connection.
    pub(crate) fn client(&self, answers: &Answers) -> Option<Client> {
        Client::read(answers.at(self.client).text()?)
    }

    /// Why the server hands no lock over. `missing`: the optional commands that it refuses.
    fn no_hand_over(&self, answers: &Answers, missing: &[&str]) -> String {
        let Some((subscribe, publishes)) =
            self.plain.map(|at| ("SUBSCRIBE", at)).or_else(|| self.sharded.map(|at| ("SSUBSCRIBE", at)))
        else {
            return "it speaks no RESP3".to_owned();
        };
        if !missing.is_empty() {
            return format!("it refuses {}", missing.join(", "));
        }
        let said = |at: usize| match answers.at(at) {
            Value::ServerError(error) => Some(ErrorReply::of(error).to_string().replace(&self.inbox, "…")),
            _ => None,
        };
        if let Some(words) = said(publishes - 1) {
            return format!("it refuses {subscribe}: {words}");
        }
        match said(publishes) {
            Some(words) => {
                format!("it refuses EVAL of a script that calls PUBLISH and PUBSUB NUMSUB: {words}")
            }
            None => "PUBSUB NUMSUB in a script does not find the subscriber".to_owned(),
        }
    }

    /// The server's time, in microseconds.
    fn server_time(&self, answers: &Answers) -> Option<u64> {
        let (_, commands) = self.commands.as_ref()?;
        let (_, at) = commands.iter().find(|(command, _)| *command == "TIME")?;
        let Value::Array(parts) = answers.at(*at) else { return None };
        let [seconds, micros] = parts.as_slice() else { return None };
        let [seconds, micros] = [seconds, micros].map(|part| part.text()?.parse::<u64>().ok());
        seconds?.checked_mul(1_000_000)?.checked_add(micros?)
    }

    /// `round_trip`: how long the server took to answer.
    pub(crate) fn read(&self, answers: &Answers, round_trip: Duration) -> Result<Handshake, Unsuitable> {
        answers.are_complete()?;
        answers.are_of_a_primary(self.role)?;
        let missing = match &self.commands {
            Some((unused, commands)) => answers.missing(commands, unused)?,
            None => Vec::new(),
        };
        // Without it, values are read as a whole.
        let reads_parts = !missing.contains(&READS_PARTS);
        let missing: Vec<_> = missing.into_iter().filter(|command| *command != READS_PARTS).collect();
        let listens =
            |at: Option<usize>| at.and_then(|at| answers.at(at).number()).is_some_and(|number| number > 0);
        let sharded = listens(self.sharded);
        // With sharded channels, PUBLISH only tells waiters whose lock has moved, and these ask
        // again anyway.
        let is_needed = |command: &&str| !sharded || *command != "PUBLISH";
        let missing: Vec<_> = missing.into_iter().filter(is_needed).collect();
        let hands_over = (sharded || listens(self.plain)) && missing.is_empty();
        let clock = self
            .clock
            .and_then(|at| answers.at(at).number())
            .map_or(0, |clock| u64::try_from(clock).unwrap_or(0));
        let tracks_changes = self.watching.is_some_and(|both| both.iter().all(|&at| answers.is_ok(at)));
        let (up_for, durable) = self.server.map_or((Duration::ZERO, false), |[info, config]| {
            (answers.up_for(info), answers.is_durable(config))
        });
        let native_delete = self.native_delete.into_iter().flatten();
        let native_delete = native_delete.filter(|(at, _)| answers.at(*at).number().is_some());
        let may_evict = self.memory.and_then(|memory| answers.may_evict(memory));
        Ok(Handshake {
            native_delete: native_delete.map(|(_, command)| command).next(),
            no_hand_over: (!hands_over && self.commands.is_some())
                .then(|| self.no_hand_over(answers, &missing)),
            abilities: Abilities { hands_over, tracks_changes, votes: false, may_evict: may_evict.is_some() },
            may_evict,
            allows_queues: missing.is_empty(),
            may_not_count: COUNTING.iter().any(|command| missing.contains(command)),
            reads_parts,
            sharded,
            server_time: self.server_time(answers),
            server_info: ServerInfo { clock, up_for, durable, round_trip },
            run_id: self.server.and_then(|[info, _]| answers.run_id(info)),
            late_requests: match (answers.at(self.kill).number(), self.client(answers)) {
                (Some(_), Some(_)) => LateRequests::Impossible,
                _ => LateRequests::Possible,
            },
        })
    }
}

pub(crate) struct Answers(Vec<Value>);

impl Answers {
    fn at(&self, at: usize) -> &Value {
        self.0.get(at).unwrap_or(&Value::Nil)
    }

    fn is_ok(&self, at: usize) -> bool {
        matches!(self.at(at), Value::Okay)
    }

    /// A server that is not ready would be taken for one with few features, as long as the
    /// connection lasts.
    fn are_complete(&self) -> Result<(), Unsuitable> {
        let not_ready = self.0.iter().find_map(|answer| match answer {
            Value::ServerError(error) if NOT_YET.contains(&error.code()) => Some(error),
            _ => None,
        });
        match not_ready {
            Some(error) => {
                let words = format!("is not ready: {}", ErrorReply::of(error));
                Err(Unsuitable { words, is_permanent: false })
            }
            None => Ok(()),
        }
    }

    /// Why a command cannot be used: an access rule forbids it, or the server does not know it.
    fn refusal(&self, at: usize) -> Option<Refused<'_>> {
        let Value::ServerError(error) = self.at(at) else {
            return None;
        };
        let words = error.details().unwrap_or_default();
        match error.code() {
            "NOPERM" => Some(Refused::Forbidden(words)),
            // The server repeats the arguments, and one of them may be the secret inbox.
            "ERR" if is_unknown(words) => Some(Refused::Unknown),
            // Envoy has no code in front of `unsupported command 'ROLE'`.
            code if is_unknown(&format!("{code} {words}")) => Some(Refused::Unknown),
            _ => None,
        }
    }

    fn are_of_a_primary(&self, role: usize) -> Result<(), Unsuitable> {
        if let Some(refused) = self.refusal(role) {
            return Err(refused.must_be_allowed("ROLE", "it is no replica", ""));
        }
        match self.at(role) {
            Value::Array(role) if matches!(role.first(), Some(Value::BulkString(role)) if role == b"sentinel") =>
            {
                let words = "is a sentinel: its address is redis+sentinel://host:26379/name, with the name of the primary";
                Err(Unsuitable { words: words.to_owned(), is_permanent: true })
            }
            Value::Array(role) if !matches!(role.first(), Some(Value::BulkString(role)) if role == b"master") =>
            {
                let words = "is a replica; locks are taken on its primary".to_owned();
                Err(Unsuitable { words, is_permanent: false })
            }
            _ => Ok(()),
        }
    }

    /// Why the server may evict locks, or does not say whether it may.
    fn may_evict(&self, memory: usize) -> Option<Unsuitable> {
        if let Some(refused) = self.refusal(memory) {
            let or = ", or accept any with `allow_eviction`";
            return Some(refused.must_be_allowed("INFO", "it evicts no locks", or));
        }
        let policy = self.at(memory).text().and_then(evicts)?;
        let words = format!(
            "may evict locks when it is full (maxmemory-policy {policy}): set it to noeviction, or accept that \
             with `allow_eviction`"
        );
        Some(Unsuitable { words, is_permanent: true })
    }

    /// The optional commands that cannot be used. The error names the required ones. A command that
    /// could not be tried, for example because a slot of the Cluster is moving, fails when it is
    /// needed.
    fn missing(
        &self,
        commands: &[(&'static str, usize)],
        key: &str,
    ) -> Result<Vec<&'static str>, Unsuitable> {
        let missing = commands.iter().filter_map(|&(command, at)| Some((command, self.refusal(at)?)));
        let missing: Vec<_> = missing.collect();
        optional_commands(&missing, key).map_err(|words| Unsuitable { words, is_permanent: true })
    }

    /// A server that does not tell counts as just started.
    fn up_for(&self, info: usize) -> Duration {
        up_for(self.at(info).text().unwrap_or_default())
    }

    fn run_id(&self, info: usize) -> Option<String> {
        self.at(info)
            .text()?
            .lines()
            .find_map(|line| line.strip_prefix("run_id:"))
            .map(|id| id.trim().to_owned())
    }

    /// True when the server loses no answered write in a restart. A server that does not tell may
    /// lose some.
    fn is_durable(&self, config: usize) -> bool {
        let settings = self.at(config).entries();
        settings.contains(&("appendonly", "yes")) && settings.contains(&("appendfsync", "always"))
    }
}

/// Why a command cannot be used.
#[derive(Clone, Copy)]
enum Refused<'a> {
    /// In the words of the server.
    Forbidden(&'a str),
    Unknown,
}

impl Refused<'_> {
    /// The error for a command that tells something of the server.
    fn must_be_allowed(self, command: &str, checked: &str, or: &str) -> Unsuitable {
        match self {
            Self::Forbidden(_) => must_allow(command, checked, or),
            Self::Unknown => {
                let words = format!("does not know {command}, which tells whether {checked}: {RENAMED}{or}");
                Unsuitable { words, is_permanent: true }
            }
        }
    }
}

/// The results of the handshake, and the settings of the node.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the connection")]
pub(crate) struct Session {
    pub(crate) keyspace: Keyspace,
    pub(crate) inbox: Arc<str>,
    /// The inbox is a sharded channel.
    pub(crate) sharded: bool,
    pub(crate) server_info: ServerInfo,
    /// Other lock clients use the keys, too.
    pub(crate) foreign_clients: bool,
    /// Locks have queues of waiters: the node is none of a quorum, and access rules allow what a
    /// queue needs.
    pub(crate) queues: bool,
    /// A command that counted locks need was refused when the connection began. Each request for one
    /// tries it first, because access rules may change.
    pub(crate) may_not_count: bool,
    /// Access rules allow `GETRANGE`, as far as is known.
    pub(crate) reads_parts: bool,
    /// When the connection began, in microseconds.
    pub(crate) server_time: Option<u64>,
    pub(crate) abilities: Abilities,
    pub(crate) late_requests: LateRequests,
    pub(crate) native_delete: Option<NativeDelete>,
    pub(crate) seen: SeenFences,
    /// In a quorum, held as long as the connection lasts.
    pub(crate) _identity: Option<ClaimedIdentity>,
}

impl Session {
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect { sharded: self.sharded, reads_parts: self.reads_parts }
    }
}

#[cfg(test)]
impl Session {
    pub(crate) fn for_a_test() -> Self {
        let up_for = Duration::ZERO;
        Self {
            keyspace: Keyspace::on_a_server("lock:"),
            inbox: "lock:%inbox:1".into(),
            sharded: false,
            server_info: ServerInfo { clock: 1, up_for, durable: false, round_trip: up_for },
            foreign_clients: false,
            queues: true,
            may_not_count: false,
            reads_parts: true,
            server_time: None,
            abilities: Abilities { hands_over: true, tracks_changes: false, votes: false, may_evict: false },
            late_requests: LateRequests::Impossible,
            native_delete: None,
            seen: SeenFences::default(),
            _identity: None,
        }
    }
}

/// The error unless this answer to `ROLE` is that of a primary.
pub(crate) fn is_of_a_primary(role: Value) -> Result<(), Unsuitable> {
    Answers(vec![role]).are_of_a_primary(0)
}

/// The error when an access rule forbids a command that tells something of the server.
pub(crate) fn must_allow(command: &str, checked: &str, or: &str) -> Unsuitable {
    let words =
        format!("forbids {command}, which tells whether {checked}: allow +{}{or}", command.to_lowercase());
    Unsuitable { words, is_permanent: true }
}

/// At least how long the server has been running. It subtracts two times in whole seconds, so its
/// figure may be almost a second too much.
fn up_for(info: &str) -> Duration {
    let reported =
        info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse::<u64>().ok());
    Duration::from_secs(reported.unwrap_or(0).saturating_sub(1))
}

/// The policy by which a full server evicts keys with an expiry, if it does.
fn evicts(memory: &str) -> Option<&str> {
    let value = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let policy = value("maxmemory_policy:")?;
    (value("maxmemory:")? != "0" && policy != "noeviction").then_some(policy)
}

/// Closes the connection before this one, first of all: a late request over it could take a lock
/// that no caller waits for. Without one the command closes none, and shows whether the next
/// connection may close this one.
fn add_end_of(pipeline: &mut Pipeline, stale: Option<&Client>) -> usize {
    let (id, address) = stale.map_or((NO_CLIENT, "0.0.0.0:0"), |Client { id, address }| (id, address));
    pipeline.add(&["CLIENT", "KILL", "ID", id, "ADDR", address])
}

fn add_tried_commands(pipeline: &mut Pipeline, key: String, inbox: &str) -> TriedCommands {
    let tried = tried_commands(&key, inbox).map(|(command, arguments)| {
        let words: Vec<_> = iter::once(command).chain(arguments).collect();
        (command, pipeline.add(&words))
    });
    let tried = tried.to_vec();
    (key, tried)
}

/// An unknown command is an error as any other.
fn add_native_deletes(pipeline: &mut Pipeline, unused: &str) -> [(usize, NativeDelete); 2] {
    [
        (pipeline.add(&["DELIFEQ", unused, ""]), NativeDelete::DelIfEq),
        (pipeline.add(&["DELEX", unused, "IFEQ", ""]), NativeDelete::DelEx),
    ]
}

/// Raises the clock of fencing tokens to the server's time. If this fails, the acquires raise it.
fn add_raise(pipeline: &mut Pipeline, clock: &str) -> usize {
    let above_all = ABOVE_ALL.to_string();
    let source = Script::Raise.source(EVALUATED);
    pipeline.add(&["EVAL", source, "1", clock, &above_all])
}

/// Each command of the scripts, with arguments that change nothing. No lock uses the `key`, and it
/// does not exist afterwards: each of the three commands behind `INCR` removes it.
fn tried_commands<'a>(key: &'a str, inbox: &'a str) -> [(&'static str, Vec<&'a str>); 20] {
    [
        ("EVAL", vec!["return 0", "1", key]),
        ("EVALSHA", vec![NO_SCRIPT, "1", key]),
        ("GET", vec![key]),
        (READS_PARTS, vec![key, "0", "0"]),
        ("EXISTS", vec![key]),
        ("PTTL", vec![key]),
        ("TIME", vec![]),
        ("ZPOPMIN", vec![key]),
        ("ZREM", vec![key, ""]),
        ("ZSCORE", vec![key, ""]),
        ("ZRANK", vec![key, ""]),
        ("ZRANGE", vec![key, "0", "0"]),
        ("ZCARD", vec![key]),
        ("ZADD", vec![key, "XX", "0", ""]),
        ("PUBLISH", vec![inbox, ""]),
        ("PUBSUB", vec!["NUMSUB", inbox]),
        ("INCR", vec![key]),
        ("PEXPIRE", vec![key, "1"]),
        ("SET", vec![key, "", "XX", "PX", "1"]),
        ("DEL", vec![key]),
    ]
}

/// The commands that cannot be used, or what of them every lock needs.
fn optional_commands(
    missing: &[(&'static str, Refused<'_>)],
    key: &str,
) -> Result<Vec<&'static str>, String> {
    let needed = || missing.iter().filter(|(command, _)| NEEDED.contains(command));
    let names = |is_unknown| {
        let of_this_kind = needed().filter(|(_, refused)| matches!(refused, Refused::Unknown) == is_unknown);
        of_this_kind.map(|(command, _)| *command).collect::<Vec<_>>().join(", ")
    };
    let forbidden = needed().find_map(|(_, refused)| match refused {
        Refused::Forbidden(words) => Some(*words),
        Refused::Unknown => None,
    });
    match (forbidden, names(true)) {
        (Some(words), _) => Err(format!(
            "forbids what every lock needs: {}, tried on a key like `{key}` (NOPERM {})",
            names(false),
            shown(words)
        )),
        (None, unknown) if !unknown.is_empty() => {
            Err(format!("does not know what every lock needs: {unknown}: {RENAMED}"))
        }
        (None, _) => Ok(missing.iter().map(|(command, _)| *command).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_reports_one_second_may_have_been_up_for_a_moment() {
        let info = |seconds| format!("# Server\r\nuptime_in_seconds:{seconds}\r\nuptime_in_days:0\r\n");
        let up_for = |seconds| up_for(&info(seconds)).as_secs();
        assert_eq!([up_for(0), up_for(1), up_for(2), up_for(3600)], [0, 0, 1, 3599]);
        assert_eq!(super::up_for("# Server\r\n"), Duration::ZERO);
    }
}
