//! Requests to commands, replies to answers: what goes over one open connection.

use std::future::Future;
use std::iter::repeat;
use std::pin::Pin;
use std::slice;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::vec;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisError, ServerError, Value};

use super::Id;
use super::chain;
use super::denied;
use super::names::Names;
use super::protocol::{
    Abilities, Action, Disconnected, Mode, Notice, Place, Redirect, Refusal, Reply, Request, ServerTime,
    Standing, What,
};
use super::renewals;
use super::slots::Slot;
use super::voters::Vote;
use crate::error::Holder;
use crate::token::{self, Token};

/// What comes without being asked for.
pub(crate) enum Pushed {
    Notice(Notice),
    /// These locks have changed, or, with `None`, any may have.
    Changed(Option<Vec<Arc<str>>>),
    /// The inbox is at another node now.
    InboxMoved,
    /// The connection has ended.
    Closed,
    /// Another server is the primary now.
    Superseded,
}

/// What comes out of a batch: one reply per request, or a connection that broke.
pub(super) type Replies = Pin<Box<dyn Future<Output = Result<Vec<Reply>, Disconnected>> + Send>>;

/// Raises the clock of fencing tokens of a server of its own.
pub(super) const RAISE: &str = concat!(include_str!("scripts/fence.lua"), include_str!("scripts/raise.lua"));

/// An open connection, of its own: never one that the application uses too.
pub(super) struct RedisConnection {
    connection: MultiplexedConnection,
    setup: Box<Setup>,
    /// Which scripts this connection has not sent yet, in the order of [`Script::index`].
    unloaded: [bool; Script::COUNT],
    /// So many renewals are asked for one by one from now on.
    renewals_alone: usize,
}

/// What was settled when the connection was opened.
pub(super) struct Setup {
    pub(super) names: Names,
    pub(super) inbox: Arc<str>,
    /// It is a sharded channel, too.
    pub(super) sharded: bool,
    pub(super) standing: Standing,
    pub(super) foreign_clients: bool,
    /// Locks have queues of waiters there.
    pub(super) queues: bool,
    pub(super) abilities: Abilities,
    /// In a quorum: kept while the connection is.
    pub(super) _vote: Option<Vote>,
}

impl RedisConnection {
    pub(super) fn new(connection: MultiplexedConnection, setup: Setup) -> Self {
        Self { connection, setup: Box::new(setup), unloaded: [true; Script::COUNT], renewals_alone: 0 }
    }

    pub(super) fn standing(&self) -> Standing {
        self.setup.standing
    }

    /// All requests in one write. The first poll sends; dropping does not take anything back. `asking`: this node does
    /// not own their slots yet, but another one has sent us here.
    pub(super) fn submit(&mut self, requests: &[(Id, Request)], asking: bool) -> Replies {
        let mut connection = self.connection.clone();
        if let [(_, request)] = requests
            && !matches!(request.action, Action::Watch | Action::AcquireNext { .. })
            && !asking
        {
            // The common case, without what a pipeline costs.
            let (action, command, sharded) = (request.action, self.command(request), self.setup.sharded);
            return Box::pin(async move {
                match connection.send_packed_command(&command).await {
                    Ok(value) => {
                        in_step(slice::from_ref(&value)).map(|()| vec![read(action, value, sharded)])
                    }
                    Err(error) => Err(broke(&error)),
                }
            });
        }
        let mut pipeline = Pipeline::with_capacity(requests.len());
        let mut asked = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while let Some(call) = self.next_call(rest, asking) {
            rest = rest.get(call.len()..).unwrap_or_default();
            let [(_, request), next @ ..] = call else {
                break;
            };
            match request.action {
                Action::Renew if !next.is_empty() => {
                    let watches = self.setup.abilities.watches;
                    if watches {
                        pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
                    }
                    let actions = call.iter().map(|(_, request)| request.action).collect();
                    asked.push(Asked::Renewals { actions, watches });
                    asked.extend(next.iter().map(|_| Asked::Next));
                    pipeline.add_command(self.renew_all(call));
                    continue;
                }
                Action::AcquireNext { .. } => {
                    asked.extend(call.iter().map(|_| Asked::Next));
                    continue;
                }
                Action::Acquire(_) if !next.is_empty() => {
                    asked.push(Asked::All { locks: call.len() });
                    asked.extend(next.iter().map(|_| Asked::Next));
                    pipeline.add_command(self.acquire_all(call));
                    continue;
                }
                // Each is about the next command alone, so a lock that is on its way to this node is not watched.
                action if asking => {
                    pipeline.cmd("ASKING");
                    asked.push(match action {
                        Action::Watch => Asked::Watch(request.token.clone()),
                        action => Asked::Second(action),
                    });
                }
                Action::Watch => {
                    pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
                    asked.push(Asked::Watch(request.token.clone()));
                }
                action => asked.push(Asked::One(action)),
            }
            pipeline.add_command(self.command(request));
        }
        let sharded = self.setup.sharded;
        if pipeline.is_empty() {
            return Box::pin(std::future::ready(Ok(vec![Reply::NotAsked; requests.len()])));
        }
        Box::pin(async move {
            match connection.send_packed_commands(&pipeline, 0, pipeline.len()).await {
                Ok(values) => {
                    in_step(&values)?;
                    let mut values = values.into_iter();
                    let mut next = Vec::new().into_iter();
                    Ok(asked.iter().map(|asked| asked.read(&mut values, &mut next, sharded)).collect())
                }
                Err(error) => Err(broke(&error)),
            }
        })
    }

    /// The requests at the start of these that are one call.
    fn next_call<'a>(&mut self, requests: &'a [(Id, Request)], asking: bool) -> Option<&'a [(Id, Request)]> {
        if asking {
            // What asks at a node that does not own the slot yet, asks for one lock.
            return requests.chunks(1).next();
        }
        let of_a_server = matches!(self.setup.names, Names::Server { .. });
        if self.renewals_alone == 0 && of_a_server {
            let renewals = renewals::at_the_start(requests);
            if !renewals.is_empty() {
                return Some(renewals);
            }
        }
        let call = chain::calls(requests).next()?;
        if matches!(call, [(_, Request { action: Action::Renew, .. }), ..]) {
            self.renewals_alone = self.renewals_alone.saturating_sub(1);
        }
        Some(call)
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.setup.abilities
    }

    /// The server has forgotten a script (SCRIPT FLUSH, failover): the next request carries its source.
    pub(super) fn forget(&mut self, action: Action) {
        if let Some(script) = self.script(action) {
            self.unloaded[script.index()] = true;
        }
        if action == Action::Renew {
            // It may have been one call of many; whatever was wrong with that, each is asked for again alone.
            self.unloaded[Script::RenewAll.index()] = true;
            self.renewals_alone += 1;
        }
    }

    fn script(&self, action: Action) -> Option<Script> {
        match action {
            Action::Release if !self.setup.queues => Some(Script::GiveUp),
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
        // As much as a request takes, so that nothing grows.
        let long = 2 * request.name.len() + 2 * self.setup.inbox.len() + request.token.value().len();
        let mut command = self.call(script, 12, 160 + long);
        let Setup { names, inbox, abilities, .. } = &*self.setup;
        let ttl = in_ms(request.ttl);
        match request.action {
            Action::Inspect => {
                command.arg(2).arg(&*request.name);
                names.write_queue(&mut command, &request.name);
            }
            Action::Renew | Action::Keep | Action::Mend | Action::Watch | Action::List { .. } => {
                command.arg(1).arg(&*request.name).arg(request.token.value()).arg(ttl);
            }
            Action::Vote { fence } => {
                command.arg(2).arg(&*request.name);
                names.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(ttl).arg(fence);
            }
            Action::Release if !self.setup.queues => {
                command.arg(1).arg(&*request.name).arg(request.token.value());
            }
            Action::Confirm { fence } => {
                command.arg(2).arg(&*request.name);
                names.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(fence);
            }
            Action::Reserve { count } => {
                command.arg(2).arg(&*request.name);
                names.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(count);
            }
            Action::Acquire(_) | Action::AcquireNext { .. } | Action::Release | Action::ForceRelease => {
                command.arg(3).arg(&*request.name);
                names.write_queue(&mut command, &request.name);
                names.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(ttl);
                let (how, inbox, at_most) = match request.action {
                    Action::Acquire(Mode::Join { at_most }) if abilities.hands_off => {
                        ("join", Some(&**inbox), Some(at_most))
                    }
                    Action::Acquire(Mode::Again) if abilities.hands_off => ("again", Some(&**inbox), None),
                    Action::Release if self.setup.foreign_clients => ("1", Some(&**inbox), None),
                    Action::Release => ("0", Some(&**inbox), None),
                    _ => ("0", None, None),
                };
                // The clock has been raised to the server's time since the connection was opened.
                if self.setup.standing.clock > 0 {
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

impl RedisConnection {
    /// Several locks, one after the other.
    fn acquire_all(&mut self, requests: &[(Id, Request)]) -> Cmd {
        let long = |(_, request): &(Id, Request)| 2 * request.name.len() + request.token.value().len() + 80;
        let long = requests.iter().map(long).sum::<usize>() + self.setup.inbox.len() + 160;
        let mut command = self.call(Script::AcquireAll, 6 + 6 * requests.len(), long);
        let Setup { names, inbox, abilities, standing, .. } = &*self.setup;
        command.arg(2 * requests.len() + 1);
        for (_, request) in requests {
            command.arg(&*request.name);
            names.write_queue(&mut command, &request.name);
        }
        for (_, request) in requests.iter().take(1) {
            names.write_clock(&mut command, &request.name);
        }
        command.arg(&**inbox).arg(if standing.clock > 0 { "" } else { "time" });
        for (_, request) in requests {
            let (how, at_most) = match request.action {
                Action::Acquire(mode) | Action::AcquireNext { mode, .. } if abilities.hands_off => match mode
                {
                    Mode::Join { at_most } => ("join", at_most),
                    Mode::Again => ("again", 0),
                    Mode::OneTry => ("0", 0),
                },
                _ => ("0", 0),
            };
            command.arg(request.token.value()).arg(in_ms(request.ttl)).arg(how).arg(at_most);
        }
        command
    }

    fn renew_all(&mut self, requests: &[(Id, Request)]) -> Cmd {
        let (words, bytes) = renewals::size(requests);
        let mut command = self.call(Script::RenewAll, words, bytes);
        renewals::write(&mut command, requests);
        command
    }

    /// The start of a call.
    fn call(&mut self, script: Script, words: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(words, bytes);
        if std::mem::take(&mut self.unloaded[script.index()]) {
            command.arg("EVAL").arg(script.source(self.setup.sharded));
        } else {
            command.arg("EVALSHA").arg(script.hash(self.setup.sharded));
        }
        command
    }
}

pub(super) fn in_ms(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// A sharded channel that has moved is unsubscribed by the server. The client takes that push for a reply, and every
/// later reply for the one before: from then on, the connection is of no use.
fn in_step(values: &[Value]) -> Result<(), Disconnected> {
    if values.iter().any(|value| matches!(value, Value::Push { .. })) {
        return Err(Disconnected { reason: INBOX_MOVED.into(), turned_away: false });
    }
    Ok(())
}

pub(super) const INBOX_MOVED: &str = "the inbox is at another node of the Cluster now";

fn broke(error: &RedisError) -> Disconnected {
    Disconnected { reason: format!("the connection to Redis broke: {error}").into(), turned_away: false }
}

/// What a request expects to read.
enum Asked {
    One(Action),
    /// Two replies, the first of which is to what prepares the second.
    Second(Action),
    /// The same, and the second is the lock's value.
    Watch(Token),
    /// One reply for this request and those that are next.
    All {
        locks: usize,
    },
    /// The same, behind what prepares it if they are to be watched.
    Renewals {
        actions: Vec<Action>,
        watches: bool,
    },
    /// No reply of its own.
    Next,
}

impl Asked {
    /// An answer that the server cannot give is refused, never guessed at.
    fn read(
        &self,
        values: &mut impl Iterator<Item = Value>,
        next: &mut vec::IntoIter<Reply>,
        sharded: bool,
    ) -> Reply {
        let value = if let Self::Next = self { None } else { values.next() };
        match (self, value) {
            (Self::Next, _) => next.next().unwrap_or(Reply::NotAsked),
            (Self::All { locks }, Some(value)) => {
                *next = read_all(value, *locks, sharded).into_iter();
                next.next().unwrap_or(Reply::NotAsked)
            }
            (Self::Renewals { actions, watches }, Some(value)) => {
                let (watching, answer) =
                    if *watches { (Some(value), values.next().unwrap_or(Value::Nil)) } else { (None, value) };
                *next = renewals::answers(actions, watching, answer).into_iter();
                next.next().unwrap_or_else(|| nonsense(&Value::Nil))
            }
            (Self::Watch(_) | Self::Second(_), Some(Value::ServerError(error))) => {
                values.next();
                Reply::Refused(refusal(&error))
            }
            (Self::Second(action), Some(_)) => read(*action, values.next().unwrap_or(Value::Nil), sharded),
            (Self::Watch(token), Some(_)) => match values.next() {
                Some(Value::BulkString(value)) if value == token.value().as_bytes() => Reply::Done,
                Some(Value::BulkString(_)) => Reply::NotMine,
                Some(Value::Nil) => Reply::Nobodys,
                Some(Value::ServerError(error)) => Reply::Refused(refusal(&error)),
                other => nonsense(&other.unwrap_or(Value::Nil)),
            },
            (Self::One(action), Some(value)) => read(*action, value, sharded),
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
    Reserve,
    AcquireAll,
    RenewAll,
}

impl Script {
    const COUNT: usize = 12;

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
        Self::Reserve,
        Self::AcquireAll,
        Self::RenewAll,
    ];

    fn of(action: Action) -> Option<Self> {
        match action {
            Action::Acquire(_) => Some(Self::Acquire),
            Action::AcquireNext { .. } => Some(Self::AcquireAll),
            Action::Renew | Action::Keep => Some(Self::Renew),
            Action::Release => Some(Self::Release),
            Action::Inspect => Some(Self::Inspect),
            Action::ForceRelease => Some(Self::ForceRelease),
            Action::Vote { .. } => Some(Self::Vote),
            Action::Confirm { .. } => Some(Self::Confirm),
            Action::Mend => Some(Self::Mend),
            Action::Reserve { .. } => Some(Self::Reserve),
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
            Self::Reserve => 9,
            Self::AcquireAll => 10,
            Self::RenewAll => 11,
        }
    }

    /// `sharded`: for a Cluster, where inboxes are sharded channels.
    fn source(self, sharded: bool) -> &'static str {
        static SHARDED: LazyLock<[String; Script::COUNT]> =
            LazyLock::new(|| Script::ALL.map(|script| on_sharded_channels(script.plain())));
        if sharded { &SHARDED[self.index()] } else { self.plain() }
    }

    fn plain(self) -> &'static str {
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
            Self::Reserve => parts!("reserve"),
            Self::RenewAll => parts!("renew_all"),
            Self::AcquireAll => concat!(
                "local function acquire(KEYS, ARGV)\n",
                parts!("fence" "take" "grant" "acquire"),
                "end\n",
                parts!("acquire_all")
            ),
        }
    }

    fn hash(self, sharded: bool) -> &'static str {
        static HASHES: LazyLock<[[String; Script::COUNT]; 2]> = LazyLock::new(|| {
            [false, true].map(|sharded| {
                Script::ALL.map(|script| redis::Script::new(script.source(sharded)).get_hash().to_owned())
            })
        });
        &HASHES[usize::from(sharded)][self.index()]
    }
}

/// The same script, for inboxes that are sharded channels.
fn on_sharded_channels(script: &str) -> String {
    if !script.contains("'PUBLISH'") {
        return script.to_owned();
    }
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.pcall('PUBLISH', ", "notify(");
    format!("{}{script}", include_str!("scripts/sharded.lua"))
}

/// `sharded`: which of the two scripts was run.
fn read(action: Action, value: Value, sharded: bool) -> Reply {
    match (action, value) {
        (_, Value::ServerError(error)) => Reply::Refused(match (refusal(&error), Script::of(action)) {
            (Refusal::Never(words), Some(script)) => {
                Refusal::Never(denied::named(&words, script.source(sharded)).map_or(words, Arc::from))
            }
            (refusal, _) => refusal,
        }),
        (
            Action::Renew | Action::Keep | Action::Release | Action::Mend | Action::Confirm { .. },
            Value::Int(1),
        ) => Reply::Done,
        (
            Action::Renew
            | Action::Keep
            | Action::Release
            | Action::Reserve { .. }
            | Action::Mend
            | Action::Confirm { .. },
            Value::Int(0),
        ) => Reply::NotMine,
        (Action::Mend, Value::Int(2)) => Reply::Nobodys,
        (Action::Reserve { .. }, Value::Int(last)) if last > 0 => {
            Reply::Reserved { last: last.unsigned_abs() }
        }
        (Action::Vote { .. }, Value::Int(clock)) if clock > 0 => Reply::Voted { clock: clock.unsigned_abs() },
        (Action::Acquire(_), Value::Int(fence)) if fence > 0 => Reply::Held { fence: fence.unsigned_abs() },
        (Action::Acquire(_) | Action::Vote { .. }, Value::Array(parts)) => read_busy(&parts),
        (Action::Inspect | Action::ForceRelease, Value::Array(parts)) => read_found(&parts),
        (Action::List { .. }, Value::Array(parts)) => read_page(&parts),
        (_, other) => nonsense(&other),
    }
}

/// One answer for each lock that the script came to; the others were not asked for.
fn read_all(value: Value, locks: usize, sharded: bool) -> Vec<Reply> {
    let answer = |value| read(Action::Acquire(Mode::OneTry), value, sharded);
    match value {
        Value::Array(values) => {
            values.into_iter().map(answer).chain(repeat(Reply::NotAsked)).take(locks).collect()
        }
        Value::ServerError(error) => chain::refused(&Reply::Refused(refusal(&error)), locks),
        other => chain::refused(&nonsense(&other), locks),
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
                let names = names.iter().filter_map(text).filter(|name| !Names::is_clock(name));
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

pub(super) fn nonsense(value: &Value) -> Reply {
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

const IN_A_CLUSTER: &str = "this server is part of a Cluster (CROSSSLOT): its address starts with redis+cluster:// instead of redis://";

pub(super) fn refusal(error: &ServerError) -> Refusal {
    let words = || -> Arc<str> {
        match error.details() {
            Some(details) => format!("{} {details}", error.code()).into(),
            None => error.code().into(),
        }
    };
    match error.code() {
        "NOSCRIPT" => Refusal::Unloaded,
        code @ ("MOVED" | "ASK") => match redirect(code == "ASK", error.details().unwrap_or_default()) {
            Some(redirect) => Refusal::Elsewhere(redirect),
            None => Refusal::Later(words()),
        },
        code if is_passing(code) => Refusal::Later(words()),
        "CROSSSLOT" => Refusal::Never(IN_A_CLUSTER.into()),
        _ => Refusal::Never(words()),
    }
}

/// `slot host:port`
fn redirect(once: bool, details: &str) -> Option<Redirect> {
    let (slot, to) = details.split_once(' ')?;
    Some(Redirect { slot: Slot::new(slot.parse().ok()?)?, to: to.into(), once })
}

pub(super) fn read_push(push: &PushInfo) -> Option<Pushed> {
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Disconnection, _) => Some(Pushed::Closed),
        (PushKind::SUnsubscribe, _) => Some(Pushed::InboxMoved),
        (PushKind::Message | PushKind::SMessage, [_, payload]) => {
            read_notice(text(payload)?).map(Pushed::Notice)
        }
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
    matches!(code, "LOADING" | "BUSY" | "MASTERDOWN" | "READONLY" | "TRYAGAIN" | "CLUSTERDOWN" | "NOREPLICAS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_nothing_but_a_hint_is_published_everywhere() {
        for script in Script::ALL {
            let source = script.source(true);
            let script = source.strip_prefix(include_str!("scripts/sharded.lua")).unwrap_or(source);
            assert!(!script.contains("'PUBLISH'") && !script.contains("'NUMSUB'"), "{script}");
        }
        for script in [Script::Acquire, Script::Release, Script::ForceRelease, Script::AcquireAll] {
            assert!(script.source(true).contains("if listeners(next_inbox, next_token, lock) > 0 then"));
        }
    }
}
