//! One open connection: requests to commands, and replies to the answers of each.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::{slice, vec};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::unconstrained;

use super::batch::{self, in_ms};
use super::decode::{is_of_another_type, nonsense, read, read_all, refusal};
use super::fence_floor::FenceFloor;
use super::handshake::LateRequests;
use super::keyspace::Keyspace;
use super::scripts::Script;
use super::server_identity::ClaimedIdentity;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::multi_key::calls;
use crate::engine::protocol::{Action, Disconnected, Id, Mode, Refusal, Reply, Request, ServerInfo};
use crate::token::Token;

/// What comes out of a batch: one reply per request, or a connection that broke.
pub(crate) type Replies = Pin<Box<dyn Future<Output = Result<Vec<Reply>, Disconnected>> + Send>>;

/// An open connection, of its own: never one that the application uses too.
pub(crate) struct RedisConnection {
    connection: MultiplexedConnection,
    session: Box<Session>,
    /// Which scripts this connection has not sent yet, in the order of [`Script::index`].
    unloaded: [bool; Script::COUNT],
    /// So many renewals are asked for one by one from now on.
    renewals_alone: usize,
    fences: FenceFloor,
    /// Of the requests that are written now.
    floor: Option<u64>,
}

/// What was settled when the connection was opened.
pub(super) struct Session {
    pub(super) keyspace: Keyspace,
    pub(super) inbox: Arc<str>,
    /// It is a sharded channel, too.
    pub(super) sharded: bool,
    pub(super) server_info: ServerInfo,
    pub(super) foreign_clients: bool,
    /// Locks have queues of waiters there.
    pub(super) queues: bool,
    pub(super) abilities: Abilities,
    pub(super) late_requests: LateRequests,
    /// In a quorum: kept while the connection is.
    pub(super) _identity: Option<ClaimedIdentity>,
}

impl RedisConnection {
    pub(super) fn new(connection: MultiplexedConnection, session: Session) -> Self {
        let fences = FenceFloor::new(session.server_info.clock, Moment::now());
        let (session, unloaded) = (Box::new(session), [true; Script::COUNT]);
        Self { connection, session, unloaded, renewals_alone: 0, fences, floor: None }
    }

    pub(crate) fn server_info(&self) -> ServerInfo {
        self.session.server_info
    }

    /// All requests in one write. The first poll sends; dropping does not take anything back. `asking`: this node does
    /// not own their slots yet, but another one has sent us here.
    pub(crate) fn submit(&mut self, requests: &[(Id, Request)], asking: bool) -> Replies {
        let mut connection = self.connection.clone();
        self.floor = self.fences.at(Moment::now());
        if let [(_, request)] = requests
            && !matches!(request.action, Action::Watch | Action::WatchHolder | Action::AcquireNext { .. })
            && !asking
        {
            // The common case, without what a pipeline costs.
            let action = self.as_written(request.action);
            let (command, sharded) = (self.command(request), self.session.sharded);
            return in_order(async move {
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
                Action::Renew { .. } if !next.is_empty() => {
                    let tracks_changes = self.session.abilities.tracks_changes;
                    if tracks_changes {
                        pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
                    }
                    let actions = call.iter().map(|(_, request)| request.action).collect();
                    asked.push(Expected::Renewals { actions, tracks_changes });
                    asked.extend(next.iter().map(|_| Expected::Next));
                    pipeline.add_command(self.renew_all(call));
                    continue;
                }
                Action::AcquireNext { .. } => {
                    asked.extend(call.iter().map(|_| Expected::Next));
                    continue;
                }
                Action::Acquire(_) if !next.is_empty() => {
                    let modes = call.iter().map(|(_, request)| self.mode_of(request.action)).collect();
                    asked.push(Expected::All { modes });
                    asked.extend(next.iter().map(|_| Expected::Next));
                    pipeline.add_command(self.acquire_all(call));
                    continue;
                }
                // Each is about the next command alone, so a lock that is on its way to this node is not watched.
                action if asking => {
                    pipeline.cmd("ASKING");
                    asked.push(match action {
                        Action::Watch | Action::WatchHolder => Expected::Watch(request.token.clone()),
                        action => Expected::Second(self.as_written(action)),
                    });
                }
                Action::Watch | Action::WatchHolder => {
                    pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
                    asked.push(Expected::Watch(request.token.clone()));
                }
                action => asked.push(Expected::One(self.as_written(action))),
            }
            pipeline.add_command(self.command(request));
        }
        let sharded = self.session.sharded;
        if pipeline.is_empty() {
            return Box::pin(std::future::ready(Ok(vec![Reply::Skipped; requests.len()])));
        }
        in_order(async move {
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
        let of_a_server = matches!(self.session.keyspace, Keyspace::Server { .. });
        if self.renewals_alone == 0 && of_a_server {
            let renewals = batch::at_the_start(requests);
            if !renewals.is_empty() {
                return Some(renewals);
            }
        }
        let call = calls(requests).next()?;
        if matches!(call, [(_, Request { action: Action::Renew { .. }, .. }), ..]) {
            self.renewals_alone = self.renewals_alone.saturating_sub(1);
        }
        Some(call)
    }

    /// What is asked for over this connection: without hand-off, a place in a queue is of no use.
    fn as_written(&self, action: Action) -> Action {
        match action {
            Action::Acquire(mode) => Action::Acquire(self.mode_there(mode)),
            action => action,
        }
    }

    fn mode_there(&self, mode: Mode) -> Mode {
        if self.session.abilities.hands_over { mode } else { Mode::OneTry }
    }

    /// How a call for several asks for one of them.
    fn mode_of(&self, action: Action) -> Mode {
        match action {
            Action::Acquire(mode) | Action::AcquireNext { mode, .. } => self.mode_there(mode),
            _ => Mode::OneTry,
        }
    }

    pub(crate) fn abilities(&self) -> Abilities {
        self.session.abilities
    }

    /// What the server has answered to requests of a batch.
    pub(crate) fn answered(
        &mut self,
        sent: Moment,
        now: Moment,
        requests: &[(Id, Request)],
        replies: &[Reply],
    ) {
        for ((_, request), reply) in requests.iter().zip(replies) {
            match reply {
                Reply::Refused(Refusal::NoScript) => self.forget(request.action),
                Reply::Granted { fence } | Reply::Claimed { fence } => self.fences.learn(sent, now, *fence),
                _ => {}
            }
        }
    }

    /// The server has forgotten a script (SCRIPT FLUSH, failover): the next request carries its source.
    fn forget(&mut self, action: Action) {
        if let Some(script) = self.script(action) {
            self.unloaded[script.index()] = true;
        }
        if let Action::Renew { .. } = action {
            // It may have been one call of many; whatever was wrong with that, each is asked for again alone.
            self.unloaded[Script::RenewAll.index()] = true;
            self.renewals_alone += 1;
        }
    }

    fn script(&self, action: Action) -> Option<Script> {
        match action {
            Action::Release if !self.session.queues => Some(Script::GiveUp),
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
        let long = 2 * request.name.len() + 2 * self.session.inbox.len() + request.token.value().len();
        let mut command = self.call(script, 12, 160 + long);
        let Session { keyspace, inbox, .. } = &*self.session;
        let ttl = in_ms(request.ttl);
        match request.action {
            Action::Inspect => {
                command.arg(2).arg(&*request.name);
                keyspace.write_queue(&mut command, &request.name);
            }
            Action::Renew { shortens, .. } | Action::Repair { shortens } => {
                command.arg(1).arg(&*request.name).arg(request.token.value()).arg(ttl);
                // Where requests may arrive late, none may shorten the lock: the server keeps it for longer than the
                // holder counts on.
                let exactly = shortens && self.session.late_requests == LateRequests::Impossible;
                command.arg(exactly.then_some(EXACTLY));
            }
            Action::ExpireLater => {
                command.arg(1).arg(&*request.name).arg(request.token.value()).arg(ttl).arg(EXACTLY);
            }
            Action::Watch | Action::WatchHolder | Action::List { .. } => {
                command.arg(1).arg(&*request.name).arg(request.token.value()).arg(ttl);
            }
            Action::Vote { fence } => {
                command.arg(2).arg(&*request.name);
                keyspace.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(ttl).arg(fence);
            }
            Action::Release if !self.session.queues => {
                command.arg(1).arg(&*request.name).arg(request.token.value());
            }
            Action::RaiseFence { fence } => {
                command.arg(2).arg(&*request.name);
                keyspace.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(fence);
            }
            Action::Reserve { count } => {
                command.arg(2).arg(&*request.name);
                keyspace.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(count);
            }
            Action::Acquire(_) | Action::AcquireNext { .. } | Action::Release | Action::ForceRelease => {
                command.arg(3).arg(&*request.name);
                keyspace.write_queue(&mut command, &request.name);
                keyspace.write_clock(&mut command, &request.name);
                command.arg(request.token.value()).arg(ttl);
                let (how, inbox, at_most) = match self.as_written(request.action) {
                    Action::Acquire(Mode::Join { at_most }) => ("join", Some(&**inbox), Some(at_most)),
                    Action::Acquire(Mode::Again) => ("again", Some(&**inbox), None),
                    Action::Acquire(Mode::Rejoin) => ("rejoin", Some(&**inbox), None),
                    Action::Acquire(Mode::Overdue { claimant }) => {
                        ("overdue", Some(&**inbox), Some(claimant.0))
                    }
                    Action::Release if self.session.foreign_clients => ("1", Some(&**inbox), None),
                    Action::Release => ("0", Some(&**inbox), None),
                    _ => ("0", None, None),
                };
                match self.floor.filter(|_| request.action != Action::Release) {
                    None => command.arg(how).arg(inbox).arg(at_most),
                    Some(floor) => {
                        let (inbox, at_most) = (inbox.unwrap_or_default(), at_most.unwrap_or_default());
                        command.arg(how).arg(inbox).arg(at_most).arg(floor)
                    }
                };
            }
        }
        command
    }
}

impl RedisConnection {
    /// Several locks, one after the other.
    fn acquire_all(&mut self, requests: &[(Id, Request)]) -> Cmd {
        let long = |(_, request): &(Id, Request)| 2 * request.name.len() + request.token.value().len() + 80;
        let long = requests.iter().map(long).sum::<usize>() + self.session.inbox.len() + 160;
        let mut command = self.call(Script::AcquireAll, 6 + 6 * requests.len(), long);
        let Session { keyspace, inbox, .. } = &*self.session;
        command.arg(2 * requests.len() + 1);
        for (_, request) in requests {
            command.arg(&*request.name);
            keyspace.write_queue(&mut command, &request.name);
        }
        for (_, request) in requests.iter().take(1) {
            keyspace.write_clock(&mut command, &request.name);
        }
        command.arg(&**inbox);
        match self.floor {
            Some(floor) => command.arg(floor),
            None => command.arg(""),
        };
        for (_, request) in requests {
            let (how, at_most) = match self.mode_of(request.action) {
                Mode::Join { at_most } => ("join", at_most),
                Mode::Again | Mode::Overdue { .. } => ("again", 0),
                Mode::Rejoin => ("rejoin", 0),
                Mode::OneTry => ("0", 0),
            };
            command.arg(request.token.value()).arg(in_ms(request.ttl)).arg(how).arg(at_most);
        }
        command
    }

    fn renew_all(&mut self, requests: &[(Id, Request)]) -> Cmd {
        let (words, bytes) = batch::size(requests);
        let mut command = self.call(Script::RenewAll, words, bytes);
        batch::write(&mut command, requests);
        command
    }

    /// The start of a call.
    fn call(&mut self, script: Script, words: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(words, bytes);
        // An operator's call must not be refused for want of its script: it would be sent again behind what came after it.
        let carries_source = matches!(script, Script::ForceRelease);
        if std::mem::take(&mut self.unloaded[script.index()]) || carries_source {
            command.arg("EVAL").arg(script.source(self.session.sharded));
        } else {
            command.arg("EVALSHA").arg(script.hash(self.session.sharded));
        }
        command
    }
}

/// A batch that its first poll sends, whatever else the task has done before: without that, tokio answers "pending" to
/// everything once a task has used its budget, and a later batch overtakes this one.
fn in_order(batch: impl Future<Output = Result<Vec<Reply>, Disconnected>> + Send + 'static) -> Replies {
    Box::pin(unconstrained(batch))
}

/// What makes renew.lua and mend.lua shorten a lock.
const EXACTLY: &str = "exactly";

/// A sharded channel that has moved is unsubscribed by the server. The client takes that push for a reply, and every
/// later reply for the one before: from then on, the connection is of no use.
fn in_step(values: &[Value]) -> Result<(), Disconnected> {
    if values.iter().any(|value| matches!(value, Value::Push { .. })) {
        return Err(Disconnected { reason: INBOX_MOVED.into(), is_permanent: false });
    }
    Ok(())
}

pub(crate) const INBOX_MOVED: &str = "the inbox is at another node of the Cluster now";

fn broke(error: &RedisError) -> Disconnected {
    Disconnected { reason: format!("the connection to Redis broke: {error}").into(), is_permanent: false }
}

/// What a request expects to read.
enum Expected {
    One(Action),
    /// Two replies, the first of which is to what prepares the second.
    Second(Action),
    /// The same, and the second is the lock's value.
    Watch(Token),
    /// One reply for this request and those that are next.
    All {
        modes: Vec<Mode>,
    },
    /// The same, behind what prepares it if they are to be watched.
    Renewals {
        actions: Vec<Action>,
        tracks_changes: bool,
    },
    /// No reply of its own.
    Next,
}

impl Expected {
    /// An answer that the server cannot give is refused, never guessed at.
    fn read(
        &self,
        values: &mut impl Iterator<Item = Value>,
        next: &mut vec::IntoIter<Reply>,
        sharded: bool,
    ) -> Reply {
        let value = if let Self::Next = self { None } else { values.next() };
        match (self, value) {
            (Self::Next, _) => next.next().unwrap_or(Reply::Skipped),
            (Self::All { modes }, Some(value)) => {
                *next = read_all(value, modes, sharded).into_iter();
                next.next().unwrap_or(Reply::Skipped)
            }
            (Self::Renewals { actions, tracks_changes }, Some(value)) => {
                let (watching, answer) = if *tracks_changes {
                    (Some(value), values.next().unwrap_or(Value::Nil))
                } else {
                    (None, value)
                };
                *next = batch::answers(actions, watching, answer).into_iter();
                next.next().unwrap_or_else(|| nonsense(&Value::Nil))
            }
            (Self::Watch(_) | Self::Second(_), Some(Value::ServerError(error))) => {
                values.next();
                Reply::Refused(refusal(&error))
            }
            (Self::Second(action), Some(_)) => read(*action, values.next().unwrap_or(Value::Nil), sharded),
            (Self::Watch(token), Some(_)) => match values.next() {
                Some(Value::BulkString(value)) if value == token.value().as_bytes() => Reply::Done,
                Some(Value::BulkString(_)) => Reply::NotHeld,
                Some(Value::Nil) => Reply::Free,
                Some(Value::ServerError(error)) if is_of_another_type(&error) => Reply::NotHeld,
                Some(Value::ServerError(error)) => Reply::Refused(refusal(&error)),
                other => nonsense(&other.unwrap_or(Value::Nil)),
            },
            (Self::One(action), Some(value)) => read(*action, value, sharded),
            (_, None) => nonsense(&Value::Nil),
        }
    }
}

#[cfg(test)]
mod tests;
