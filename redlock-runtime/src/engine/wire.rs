//! Requests to commands, replies to answers: what goes over one open connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisError, RedisWrite, ServerError, Value};

use super::Id;
use super::denied;
use super::protocol::{
    Abilities, Action, Disconnected, Mode, Notice, Place, Refusal, Reply, Request, ServerTime, Standing, What,
};
use crate::error::Holder;
use crate::token::{self, Token};

/// What comes without being asked for.
pub(crate) enum Pushed {
    Notice(Notice),
    /// These locks have changed, or, with `None`, any may have.
    Changed(Option<Vec<Arc<str>>>),
    /// The connection has ended.
    Closed,
    /// Another server is the primary now.
    Superseded,
}

/// What comes out of a batch: one reply per request, or a connection that broke.
pub(super) type Replies = Pin<Box<dyn Future<Output = Result<Vec<Reply>, Disconnected>> + Send>>;

/// Behind the prefix: the clock of fencing tokens.
pub(super) const CLOCK: &str = "%clock";

/// Raises that clock.
pub(super) const RAISE: &str = concat!(include_str!("scripts/fence.lua"), include_str!("scripts/raise.lua"));

/// Behind a lock's key: its queue. A `%` from a value in a key is escaped, so no lock is called like this.
pub(super) const QUEUE: &str = "%queue";

/// An open connection, of its own: never one that the application uses too.
pub(super) struct RedisConnection {
    connection: MultiplexedConnection,
    inbox: Arc<str>,
    /// The key of the server's clock of fencing tokens.
    clock: Arc<str>,
    standing: Standing,
    /// The clock has been raised to the server's time since the connection was opened.
    raised: bool,
    foreign_clients: bool,
    /// Locks have queues of waiters there.
    queues: bool,
    abilities: Abilities,
    /// Which scripts this connection has not sent yet, in the order of [`Script::index`].
    unloaded: [bool; Script::COUNT],
}

impl RedisConnection {
    pub(super) fn new(
        connection: MultiplexedConnection,
        (inbox, clock): (Arc<str>, Arc<str>),
        foreign_clients: bool,
        queues: bool,
        (abilities, standing): (Abilities, Standing),
    ) -> Self {
        let (raised, unloaded) = (standing.clock > 0, [true; Script::COUNT]);
        Self { connection, inbox, clock, standing, raised, foreign_clients, queues, abilities, unloaded }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// All requests in one write. The first poll sends; dropping does not take anything back.
    pub(super) fn submit(&mut self, requests: &[(Id, Request)]) -> Replies {
        let mut connection = self.connection.clone();
        if let [(_, request)] = requests
            && request.action != Action::Watch
        {
            // The common case, without what a pipeline costs.
            let (action, command) = (request.action, self.command(request));
            return Box::pin(async move {
                match connection.send_packed_command(&command).await {
                    Ok(value) => Ok(vec![read(action, value)]),
                    Err(error) => Err(broke(&error)),
                }
            });
        }
        let mut pipeline = Pipeline::with_capacity(requests.len());
        let mut asked = Vec::with_capacity(requests.len());
        for (_, request) in requests {
            if request.action == Action::Watch {
                pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
                asked.push(Asked::Watch(request.token.clone()));
            } else {
                asked.push(Asked::One(request.action));
            }
            pipeline.add_command(self.command(request));
        }
        Box::pin(async move {
            match connection.send_packed_commands(&pipeline, 0, pipeline.len()).await {
                Ok(values) => {
                    let mut values = values.into_iter();
                    Ok(asked.iter().map(|asked| asked.read(&mut values)).collect())
                }
                Err(error) => Err(broke(&error)),
            }
        })
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The server has forgotten a script (SCRIPT FLUSH, failover): the next request carries its source.
    pub(super) fn forget(&mut self, action: Action) {
        if let Some(script) = self.script(action) {
            self.unloaded[script.index()] = true;
        }
    }

    fn script(&self, action: Action) -> Option<Script> {
        match action {
            Action::Release if !self.queues => Some(Script::GiveUp),
            action => Script::of(action),
        }
    }

    fn command(&mut self, request: &Request) -> Cmd {
        let Some(script) = self.script(request.action) else {
            let mut command = Cmd::new();
            match request.action {
                Action::List { cursor } => {
                    command.arg("SCAN").arg(cursor).arg("MATCH").arg(&*request.name);
                    command.arg("COUNT").arg(1000).arg("TYPE").arg("string")
                }
                _ => command.arg("GET").arg(&*request.name),
            };
            return command;
        };
        let unloaded = &mut self.unloaded[script.index()];
        // As much as a request takes, so that nothing grows.
        let names =
            2 * request.name.len() + self.clock.len() + self.inbox.len() + request.token.value().len();
        let mut command = Cmd::with_capacity(12, 160 + names);
        if *unloaded {
            *unloaded = false;
            command.arg("EVAL").arg(script.source());
        } else {
            command.arg("EVALSHA").arg(script.hash());
        }
        let ttl = u64::try_from(request.ttl.as_millis()).unwrap_or(u64::MAX);
        match request.action {
            Action::Inspect => {
                command.arg(2).arg(&*request.name).write_arg_fmt(format_args!("{}{QUEUE}", request.name));
            }
            Action::Renew | Action::Keep | Action::Mend | Action::Watch | Action::List { .. } => {
                command.arg(1).arg(&*request.name).arg(request.token.value()).arg(ttl);
            }
            Action::Vote { fence } => {
                command.arg(2).arg(&*request.name).arg(&*self.clock);
                command.arg(request.token.value()).arg(ttl).arg(fence);
            }
            Action::Release if !self.queues => {
                command.arg(1).arg(&*request.name).arg(request.token.value());
            }
            Action::Confirm { fence } => {
                command.arg(2).arg(&*request.name).arg(&*self.clock).arg(request.token.value()).arg(fence);
            }
            Action::Acquire(_) | Action::Release | Action::ForceRelease => {
                command.arg(3).arg(&*request.name).write_arg_fmt(format_args!("{}{QUEUE}", request.name));
                command.arg(&*self.clock).arg(request.token.value()).arg(ttl);
                let (how, inbox, at_most) = match request.action {
                    Action::Acquire(Mode::Join { at_most }) if self.abilities.hands_off => {
                        ("join", Some(&*self.inbox), Some(at_most))
                    }
                    Action::Acquire(Mode::Again) if self.abilities.hands_off => {
                        ("again", Some(&*self.inbox), None)
                    }
                    Action::Release if self.foreign_clients => ("1", Some(&*self.inbox), None),
                    Action::Release => ("0", Some(&*self.inbox), None),
                    _ => ("0", None, None),
                };
                if self.raised {
                    command.arg(how).arg(inbox).arg(at_most);
                } else {
                    command
                        .arg(how)
                        .arg(inbox.unwrap_or_default())
                        .arg(at_most.unwrap_or_default())
                        .arg("time");
                }
            }
        }
        command
    }
}

fn broke(error: &RedisError) -> Disconnected {
    Disconnected { reason: format!("the connection to Redis broke: {error}").into(), turned_away: false }
}

/// What a request expects to read.
enum Asked {
    One(Action),
    /// Two replies: to the wish to be told, and the lock's value.
    Watch(Token),
}

impl Asked {
    /// An answer that the server cannot give is refused, never guessed at.
    fn read(&self, values: &mut impl Iterator<Item = Value>) -> Reply {
        match (self, values.next()) {
            (Self::Watch(_), Some(Value::ServerError(error))) => {
                values.next();
                Reply::Refused(refusal(&error))
            }
            (Self::Watch(token), Some(_)) => match values.next() {
                Some(Value::BulkString(value)) if value == token.value().as_bytes() => Reply::Done,
                Some(Value::BulkString(_)) => Reply::NotMine,
                Some(Value::Nil) => Reply::Nobodys,
                Some(Value::ServerError(error)) => Reply::Refused(refusal(&error)),
                other => nonsense(&other.unwrap_or(Value::Nil)),
            },
            (Self::One(action), Some(value)) => read(*action, value),
            (_, None) => nonsense(&Value::Nil),
        }
    }
}

#[derive(Clone, Copy)]
enum Script {
    Acquire,
    Renew,
    Release,
    Inspect,
    ForceRelease,
    Vote,
    Confirm,
    Mend,
    GiveUp,
}

impl Script {
    const COUNT: usize = 9;

    /// In the order of [`Script::index`].
    const ALL: [Self; Self::COUNT] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Inspect,
        Self::ForceRelease,
        Self::Vote,
        Self::Confirm,
        Self::Mend,
        Self::GiveUp,
    ];

    fn of(action: Action) -> Option<Self> {
        match action {
            Action::Acquire(_) => Some(Self::Acquire),
            Action::Renew | Action::Keep => Some(Self::Renew),
            Action::Release => Some(Self::Release),
            Action::Inspect => Some(Self::Inspect),
            Action::ForceRelease => Some(Self::ForceRelease),
            Action::Vote { .. } => Some(Self::Vote),
            Action::Confirm { .. } => Some(Self::Confirm),
            Action::Mend => Some(Self::Mend),
            Action::Watch | Action::List { .. } => None,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Acquire => 0,
            Self::Renew => 1,
            Self::Release => 2,
            Self::Inspect => 3,
            Self::ForceRelease => 4,
            Self::Vote => 5,
            Self::Confirm => 6,
            Self::Mend => 7,
            Self::GiveUp => 8,
        }
    }

    fn source(self) -> &'static str {
        macro_rules! parts {
            ($($name:literal)*) => { concat!($(include_str!(concat!("scripts/", $name, ".lua"))),*) };
        }
        match self {
            Self::Acquire => parts!("fence" "take" "grant" "acquire"),
            Self::Renew => parts!("renew"),
            Self::Release => parts!("free" "fence" "grant" "release"),
            Self::Inspect => parts!("inspect"),
            Self::ForceRelease => parts!("fence" "grant" "force_release"),
            Self::Vote => parts!("vote"),
            Self::Confirm => parts!("confirm"),
            Self::Mend => parts!("mend"),
            Self::GiveUp => parts!("give_up"),
        }
    }

    fn hash(self) -> &'static str {
        use std::sync::LazyLock;
        static HASHES: LazyLock<[String; Script::COUNT]> = LazyLock::new(|| {
            Script::ALL.map(|script| redis::Script::new(script.source()).get_hash().to_owned())
        });
        &HASHES[self.index()]
    }
}

fn read(action: Action, value: Value) -> Reply {
    match (action, value) {
        (_, Value::ServerError(error)) => Reply::Refused(match (refusal(&error), Script::of(action)) {
            (Refusal::Never(words), Some(script)) => {
                Refusal::Never(denied::named(&words, script.source()).map_or(words, Arc::from))
            }
            (refusal, _) => refusal,
        }),
        (
            Action::Renew | Action::Keep | Action::Release | Action::Mend | Action::Confirm { .. },
            Value::Int(1),
        ) => Reply::Done,
        (
            Action::Renew | Action::Keep | Action::Release | Action::Mend | Action::Confirm { .. },
            Value::Int(0),
        ) => Reply::NotMine,
        (Action::Mend, Value::Int(2)) => Reply::Nobodys,
        (Action::Vote { .. }, Value::Int(clock)) if clock > 0 => Reply::Voted { clock: clock.unsigned_abs() },
        (Action::Acquire(_), Value::Int(fence)) if fence > 0 => Reply::Held { fence: fence.unsigned_abs() },
        (Action::Acquire(_) | Action::Vote { .. }, Value::Array(parts)) => read_busy(&parts),
        (Action::Inspect | Action::ForceRelease, Value::Array(parts)) => read_found(&parts),
        (Action::List { .. }, Value::Array(parts)) => read_page(&parts),
        (_, other) => nonsense(&other),
    }
}

fn read_found(parts: &[Value]) -> Reply {
    match parts {
        [Value::Nil, ..] => Reply::Found(None),
        [Value::BulkString(value), Value::Int(pttl), Value::Int(waiters)] => {
            Reply::Found(Some((holder(value, *pttl), u32::try_from(*waiters).unwrap_or(u32::MAX))))
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

fn read_page(parts: &[Value]) -> Reply {
    match parts {
        [cursor, Value::Array(names)] => match number(cursor) {
            Some(cursor) => {
                let names = names.iter().filter_map(text).filter(|name| !name.ends_with(CLOCK));
                Reply::Page { cursor, names: names.map(str::to_owned).collect() }
            }
            None => nonsense(cursor),
        },
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// Of whom the server tells only a value and how long it lives.
fn holder(value: &[u8], pttl: i64) -> Holder {
    Holder {
        name: std::str::from_utf8(value).ok().and_then(token::owner_of).map(Arc::from),
        free_in: u64::try_from(pttl).ok().map(Duration::from_millis),
    }
}

fn read_busy(parts: &[Value]) -> Reply {
    match parts {
        [Value::Int(0), Value::BulkString(value), Value::Int(pttl), now, Value::Int(in_front)] => {
            let holder = holder(value, *pttl);
            let place = u32::try_from(*in_front).ok().zip(number(now));
            Reply::Busy {
                holder,
                place: place.map(|(in_front, now)| Place { in_front, at: ServerTime(now) }),
            }
        }
        [Value::Int(2), Value::Int(waiters)] => {
            Reply::QueueFull { waiters: u32::try_from(*waiters).unwrap_or(u32::MAX) }
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// Numbers above 2^53 would lose digits in Lua; ours travel as text.
fn number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

fn nonsense(value: &Value) -> Reply {
    // The value itself may hold a token: only its kind is told.
    let kind = match value {
        Value::Array(_) => "an array",
        Value::BulkString(_) | Value::SimpleString(_) => "a string",
        Value::Int(_) => "a number",
        Value::Nil => "nil",
        _ => "a value",
    };
    Reply::Refused(Refusal::Never(
        format!("the server answered a lock script with {kind} that the script cannot return").into(),
    ))
}

fn refusal(error: &ServerError) -> Refusal {
    let words = || -> Arc<str> {
        match error.details() {
            Some(details) => format!("{} {details}", error.code()).into(),
            None => error.code().into(),
        }
    };
    match error.code() {
        "NOSCRIPT" => Refusal::Unloaded,
        code if is_passing(code) => Refusal::Later(words()),
        _ => Refusal::Never(words()),
    }
}

pub(super) fn read_push(push: &PushInfo) -> Option<Pushed> {
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Disconnection, _) => Some(Pushed::Closed),
        (PushKind::Message, [_, payload]) => read_notice(text(payload)?).map(Pushed::Notice),
        (PushKind::Invalidate, [Value::Array(keys)]) => {
            Some(Pushed::Changed(Some(keys.iter().filter_map(text).map(Arc::from).collect())))
        }
        (PushKind::Invalidate, _) => Some(Pushed::Changed(None)),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// `granted|token|fencing token|server time|lock` and the like, as grant.lua and release.lua publish it.
fn read_notice(text: &str) -> Option<Notice> {
    let mut parts = text.splitn(5, '|');
    let (kind, token) = (parts.next()?, Token::from_value(parts.next()?));
    let (first, second) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let what = match kind {
        "granted" => What::Granted { fence: first, at: ServerTime(second) },
        "next" => What::Next { claim: Duration::from_millis(first) },
        "free" => What::LeftFree,
        _ => return None,
    };
    Some(Notice { token, name: parts.next()?.into(), what })
}

/// Errors of a server that is starting, failing over or busy: the same request may succeed soon.
pub(super) fn is_passing(code: &str) -> bool {
    matches!(
        code,
        "LOADING"
            | "BUSY"
            | "MASTERDOWN"
            | "READONLY"
            | "TRYAGAIN"
            | "CLUSTERDOWN"
            | "MOVED"
            | "ASK"
            | "NOREPLICAS"
    )
}
