//! One open connection: a batch of requests goes out in one write, and each request gets its reply.

use std::task::{Context, Poll};
use std::vec;

use super::batch::{self, SharedCall};
use super::decode::{read, read_direct, read_direct_fenced, refusal};
use super::encode::{CLIENT_CACHING, Encoding};
use super::fields::{Encoder, nonsense};
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::multi_key::calls;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request, ServerInfo, Verdict};
use crate::engine::redis::connect::fence_floor::FenceFloor;
use crate::engine::redis::connect::handshake::Session;
use crate::engine::redis::scripts::{Dialect, Script};
use crate::engine::redis::wire::command::write_command;
use crate::engine::redis::wire::error_reply::without;
use crate::engine::redis::wire::exchange::Exchange;
pub(crate) use crate::engine::redis::wire::exchange::UNREAD;
use crate::engine::redis::wire::keyspace::Keyspace;
use crate::engine::redis::wire::value::Value;

/// The engine's own connection: the application never uses it.
pub(crate) struct RedisConnection {
    exchange: Exchange,
    encoder: Encoder,
    /// How many of the next renewals are sent one by one.
    renewals_alone: usize,
    fences: FenceFloor,
}

impl RedisConnection {
    pub(crate) fn new(exchange: Exchange, session: Session) -> Self {
        let fences = FenceFloor::new(session.server_info.clock, session.server_time, Moment::now());
        Self { exchange, encoder: Encoder::new(session), renewals_alone: 0, fences }
    }

    pub(crate) fn server_info(&self) -> ServerInfo {
        self.encoder.session.server_info
    }

    /// Goes on writing, and reads replies and at most so many pushes. Costs nothing when there is
    /// nothing to do.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>, pushes: usize) {
        self.exchange.drive(cx, pushes);
    }

    /// Writes what was submitted, as far as the stream takes it now.
    pub(crate) fn write_left(&mut self, cx: &mut Context<'_>) {
        self.exchange.write(cx);
    }

    /// Sends all requests in one write, behind the batches before. `asking`: another node has
    /// redirected the requests here, and this one does not own their slots yet. Reads at most so
    /// many pushes.
    pub(crate) fn submit(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        requests: &[(Id, Request)],
        asking: bool,
        pushes: usize,
    ) -> ExpectedBatch {
        self.exchange.listen(cx, pushes);
        let session = &self.encoder.session;
        if session.seen.take_undercut() {
            self.fences.on_undercut_push();
        }
        let seen = Seen::before(session, requests);
        let least = self.fences.least(now, session.seen.on_a_server());
        self.encoder.set_floor(&self.fences, now, least.is_some());
        let mut expected = self.write(requests, asking, least.unwrap_or_default());
        expected.seen = seen;
        self.exchange.write(cx);
        expected
    }

    /// `least`: of the fencing tokens that need no script.
    fn write(&mut self, requests: &[(Id, Request)], asking: bool, least: u64) -> ExpectedBatch {
        if let [(_, request)] = requests
            && !matches!(
                request.action,
                Action::Watch | Action::WatchHolder | Action::WatchLeader | Action::AcquireNext { .. }
            )
            && !asking
        {
            // The common case.
            return ExpectedBatch::one(self.write_one(request, least));
        }
        let mut expected = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while let Some(call) = self.next_call(rest, asking) {
            rest = rest.get(call.len()..).unwrap_or_default();
            let [(_, request), next @ ..] = call else {
                break;
            };
            match request.action {
                // The lock before it is asked for elsewhere.
                Action::AcquireNext { .. } => {
                    expected.extend(call.iter().map(|_| Expected::Next));
                }
                _ if !next.is_empty() => {
                    let together = SharedCall::new(&self.encoder, call);
                    together.write(&mut self.encoder, call, &mut self.exchange);
                    expected.push(Expected::Shared(together));
                    expected.extend(next.iter().map(|_| Expected::Next));
                }
                // `ASKING` and `CLIENT CACHING` each apply to the next command only: a lock whose
                // slot is on its way to this node is not watched.
                _ if asking => expected.push(self.write_behind(&["ASKING"], request)),
                Action::Watch | Action::WatchHolder | Action::WatchLeader => {
                    expected.push(self.write_behind(&CLIENT_CACHING, request));
                }
                _ => expected.push(self.write_one(request, least)),
            }
        }
        ExpectedBatch::several(expected)
    }

    fn write_one(&mut self, request: &Request, least: u64) -> Expected {
        let encoding = self.encoder.encoding(request);
        self.encoder.write(request, encoding, self.exchange.commands(encoding.commands()));
        match encoding {
            Encoding::DirectFenced | Encoding::DirectCompared => Expected::Fenced(Fenced {
                action: self.encoder.action(request.action),
                token: request.token.clone(),
                // Compared with the floor, any number is good enough, as that of a script.
                least: if encoding == Encoding::DirectFenced { least } else { 0 },
            }),
            Encoding::Direct | Encoding::Script => Expected::One(self.answer_to(request, encoding)),
        }
    }

    /// Behind a command that applies to the next one only. `ASKING` is no part of the plain commands
    /// for a fencing token: in a Cluster, the script draws it.
    fn write_behind(&mut self, first: &[&str], request: &Request) -> Expected {
        let encoding = if self.encoder.encoding(request) == Encoding::Direct {
            Encoding::Direct
        } else {
            Encoding::Script
        };
        write_command(self.exchange.commands(1), first);
        self.encoder.write(request, encoding, self.exchange.commands(1));
        Expected::Second(self.answer_to(request, encoding))
    }

    /// The replies to the oldest batch that has none yet.
    pub(crate) fn poll_replies(
        &mut self,
        expected: &ExpectedBatch,
    ) -> Poll<Result<Vec<Reply>, Disconnected>> {
        let dialect = self.encoder.session.dialect();
        let failure = match self.exchange.replies(expected.values) {
            Poll::Ready(Ok(mut values)) => return Poll::Ready(Ok(expected.read(&mut values, dialect))),
            Poll::Ready(Err(failure)) => failure,
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(Err(Disconnected::passing(self.exchange.reason(&failure))))
    }

    fn answer_to(&self, request: &Request, encoding: Encoding) -> Answer {
        Answer {
            action: self.encoder.action(request.action),
            script: self.encoder.script(request),
            direct: encoding == Encoding::Direct,
        }
    }

    /// The requests at the start of `requests` that share a script call.
    fn next_call<'a>(&mut self, requests: &'a [(Id, Request)], asking: bool) -> Option<&'a [(Id, Request)]> {
        if asking {
            // `ASKING` applies to one command.
            return requests.chunks(1).next();
        }
        let of_a_server = matches!(self.encoder.session.keyspace, Keyspace::Server { .. });
        if self.renewals_alone == 0 && of_a_server {
            let renewals = batch::renewals(requests);
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

    pub(crate) fn abilities(&self) -> Abilities {
        self.encoder.session.abilities
    }

    /// Compares the fencing tokens of the replies. One that the server cannot have drawn is the answer
    /// to another request. One that is not above each that was known when its request was sent is
    /// none: the server has older data, and is asked again.
    pub(crate) fn doubt(
        &mut self,
        now: Moment,
        expected: &ExpectedBatch,
        requests: &[(Id, Request)],
        replies: &mut [Reply],
    ) {
        for (at, ((_, request), reply)) in requests.iter().zip(replies).enumerate() {
            let (fence, before) = match (&*reply, request.action) {
                (Reply::Acquire(verdict), _) => match verdict.fence() {
                    Some(fence) => (fence, fence),
                    None => continue,
                },
                // The first one of them is above the clock.
                (Reply::Reserved { last }, Action::Reserve { count }) => {
                    (*last, (last + 1).saturating_sub(count.into()))
                }
                (Reply::Reserved { last }, _) => (*last, *last),
                _ => continue,
            };
            let is_none = fence == 0 && !request.fenced;
            if is_none {
                continue;
            }
            if !self.fences.may_be(fence) {
                *reply = nonsense(&Value::Int(0));
            } else if before <= expected.seen.at(at) && !request.kind.is_counted() {
                self.fences.on_undercut(now, fence);
                *reply = match request.action {
                    Action::Reserve { .. } => Reply::NotHeld,
                    _ => Reply::Refused(Refusal::NoFence),
                };
            }
        }
    }

    /// Learns from the replies to a batch.
    pub(crate) fn answered(
        &mut self,
        sent: Moment,
        now: Moment,
        requests: &[(Id, Request)],
        replies: &mut [Reply],
    ) {
        for ((_, request), reply) in requests.iter().zip(replies) {
            match reply {
                Reply::Refused(Refusal::Permanent(words)) if forbids_hashes(words) => {
                    self.encoder.send_sources();
                    *reply = Reply::Refused(Refusal::NoScript);
                }
                Reply::Refused(Refusal::Transient(words) | Refusal::Permanent(words)) => {
                    // One error may be about all requests of a call, and repeat what any of them
                    // has sent.
                    for (_, request) in requests {
                        for token in std::iter::once(&request.token).chain(request.other_tokens()) {
                            *words = without(words, token.secret()).into();
                        }
                    }
                }
                Reply::Refused(Refusal::NoScript) => self.forget(request),
                Reply::Refused(Refusal::NoFence) => {
                    self.fences.on_below();
                    // The server may have lost the script that draws it.
                    self.encoder.sent.forget(Script::Raise);
                }
                Reply::Refused(Refusal::NoLook) => {
                    self.fences.on_below();
                    self.encoder.reads_no_parts();
                }
                Reply::Refused(Refusal::Unfinished) => self.encoder.may_be_counted(&request.name),
                Reply::Acquire(verdict) if request.fenced => {
                    if let Some(fence) = verdict.fence() {
                        // A caller that enters a counted lock gets the fencing token of its phase, which may be old.
                        if !request.kind.is_counted() {
                            self.fences.learn(sent, now, fence);
                        }
                        self.see(request, fence);
                    }
                }
                Reply::Reserved { last } => self.see(request, *last),
                _ => {}
            }
        }
    }

    fn see(&self, request: &Request, fence: u64) {
        let session = &self.encoder.session;
        session.seen.learn(&session.keyspace, &request.name, fence);
    }

    fn forget(&mut self, request: &Request) {
        self.encoder.forget(request);
        if let Action::Renew { .. } = request.action {
            // It may have shared a call that failed because of another renewal.
            self.renewals_alone += 1;
        }
    }
}

/// Access rules forbid `EVALSHA` since the handshake. What is held is given back with `EVAL`.
fn forbids_hashes(words: &str) -> bool {
    words.starts_with("NOPERM") && words.contains("'evalsha'")
}

pub(crate) const INBOX_MOVED: &str = "the inbox is at another node of the Cluster now";

/// The parameters for reading the reply to a request.
#[derive(Clone, Copy)]
struct Answer {
    action: Action,
    script: Option<Script>,
    direct: bool,
}

impl Answer {
    fn read(self, value: Value, dialect: Dialect) -> Reply {
        if self.direct {
            return read_direct(self.action, value);
        }
        read(self.action, self.script, value, dialect)
    }
}

/// The parameters for reading the replies to the plain commands that take a lock with a fencing
/// token.
struct Fenced {
    action: Action,
    token: Token,
    /// The least fencing token that is good enough.
    least: u64,
}

/// The replies to a batch, as its requests expect them.
pub(crate) struct ExpectedBatch {
    /// How many values the server answers.
    values: usize,
    replies: ExpectedReplies,
    seen: Seen,
}

/// The largest fencing tokens that were known when a batch was sent.
enum Seen {
    OfAll(u64),
    /// In a Cluster, of each request.
    OfEach(Vec<u64>),
}

impl Seen {
    fn before(session: &Session, requests: &[(Id, Request)]) -> Self {
        let Session { keyspace, seen, .. } = session;
        match keyspace {
            Keyspace::Server { .. } => Self::OfAll(seen.on_a_server()),
            Keyspace::Cluster { .. } => {
                let largest = |(_, request): &(Id, Request)| seen.largest(keyspace, &request.name);
                Self::OfEach(requests.iter().map(largest).collect())
            }
        }
    }

    fn at(&self, request: usize) -> u64 {
        match self {
            Self::OfAll(seen) => *seen,
            Self::OfEach(seen) => seen.get(request).copied().unwrap_or(0),
        }
    }
}

enum ExpectedReplies {
    One(Expected),
    Several(Vec<Expected>),
}

impl ExpectedBatch {
    fn one(expected: Expected) -> Self {
        let values = expected.values();
        Self { values, replies: ExpectedReplies::One(expected), seen: Seen::OfAll(0) }
    }

    fn several(all: Vec<Expected>) -> Self {
        let values = all.iter().map(Expected::values).sum();
        Self { values, replies: ExpectedReplies::Several(all), seen: Seen::OfAll(0) }
    }

    /// True when the server is asked for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.values == 0
    }

    fn read(&self, values: &mut impl Iterator<Item = Value>, dialect: Dialect) -> Vec<Reply> {
        let mut next = Vec::new().into_iter();
        match &self.replies {
            ExpectedReplies::One(one) => vec![one.read(values, &mut next, dialect)],
            ExpectedReplies::Several(all) => {
                all.iter().map(|each| each.read(values, &mut next, dialect)).collect()
            }
        }
    }
}

/// The reply that a request expects.
enum Expected {
    One(Answer),
    /// Two replies, the first of them to `ASKING` or `CLIENT CACHING`.
    Second(Answer),
    /// Three replies.
    Fenced(Fenced),
    /// One reply for this request and those that follow.
    Shared(SharedCall),
    /// Part of the shared reply before it.
    Next,
}

impl Expected {
    fn values(&self) -> usize {
        match self {
            Self::Next => 0,
            Self::One(_) => 1,
            Self::Second(_) => 2,
            Self::Fenced(_) => Encoding::DirectFenced.commands(),
            Self::Shared(call) => call.values(),
        }
    }

    /// A reply that no script gives is refused, never guessed.
    fn read(
        &self,
        values: &mut impl Iterator<Item = Value>,
        next: &mut vec::IntoIter<Reply>,
        dialect: Dialect,
    ) -> Reply {
        let value = if let Self::Next = self { None } else { values.next() };
        match (self, value) {
            (Self::Next, _) => next.next().unwrap_or(Reply::Acquire(Verdict::Skipped)),
            (Self::Shared(call), Some(value)) => {
                *next = call.replies(value, values, dialect).into_iter();
                next.next().unwrap_or_else(|| nonsense(&Value::Nil))
            }
            (Self::Second(_), Some(Value::ServerError(error))) => {
                values.next();
                Reply::Refused(refusal(&error))
            }
            // Both commands that come first confirm, and return nothing else.
            (Self::Second(answer), Some(Value::Okay)) => {
                answer.read(values.next().unwrap_or(Value::Nil), dialect)
            }
            (Self::One(answer), Some(value)) => answer.read(value, dialect),
            (Self::Fenced(fenced), Some(taken)) => {
                let [number, value] = [(); 2].map(|()| values.next().unwrap_or(Value::Nil));
                read_direct_fenced(fenced.action, [taken, number, value], &fenced.token, fenced.least)
            }
            (Self::Second(_), Some(other)) => {
                values.next();
                nonsense(&other)
            }
            (_, None) => nonsense(&Value::Nil),
        }
    }
}

#[cfg(test)]
mod tests;
