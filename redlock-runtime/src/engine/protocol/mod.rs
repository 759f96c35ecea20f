//! Requests to a node, its replies and its pushes: the same for Redis and for `memory://`.

mod counted;
mod leader;
mod once;
mod refusal;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Holder, LockError};
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::token::Token;

pub(crate) use counted::{Counted, takes_too_many};
pub(crate) use leader::{Announcement, Record};
pub(crate) use once::{NotRun, Once, OnceRequest, Run, RunRecord};
pub(crate) use refusal::{IN_THE_MIDDLE, Redirect, Refusal};
pub(crate) use tick::{LastTick, TickEffect, TickRequest};

/// A waiter that is granted a lock must renew it within this time: a stuck one delays the others by
/// no more.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// A queue on a server expires this long after a waiter has last asked.
pub(crate) const QUEUE_TTL: Duration = Duration::from_secs(60);

/// What a release needs beyond what the lock asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Releases {
    Usual,
    /// The process may end behind it, so no other request can follow.
    Last,
    /// An operator takes its place from one of several that hold the lock, and the server pushes that to the holder.
    AmongSeveral,
}

/// One script call. Each is idempotent by token, so a request whose reply was lost is repeated.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) action: Action,
    /// The key on the server, with its prefix.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    /// With the token it names a place in the queue, so each request of a waiter has the same.
    pub(crate) ttl: Duration,
    /// For so much longer than its holder relies on it the server keeps the lock. It is part of the
    /// place in the queue, too.
    pub(crate) keeps: Duration,
    /// A grant draws a fencing token. It is part of the place in the queue, too.
    pub(crate) fenced: bool,
    pub(crate) release: Releases,
    /// The number of releases for which a release counts. One in 128 leaves the lock free for foreign clients,
    /// and none where it counts for 0.
    pub(crate) releases: u32,
    /// What lets the lock expire leaves it to a ticket, and says so to those who look.
    pub(crate) to_ticket: bool,
    pub(crate) kind: Kind,
}

/// What the lock of a request is for. What few locks have is boxed, so that a request is moved by a
/// few instructions.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// One caller has it alone.
    Exclusive {
        /// By plain commands, without the queue: acquire takes a lock that does not exist, and
        /// release deletes one without a mark. Else [`Refusal::Contended`], or
        /// [`Refusal::NoFence`]. A node without such commands does what it does for other requests.
        direct: bool,
    },
    /// The process of the token has passed an exclusive lock on, and the server does not know that.
    PassedOn(Arc<PassedOn>),
    /// So many may hold the lock together with this token. It is part of the place in the queue,
    /// too. `phase`: the [phase](Verdict::Granted) in which this token has it; 0 before that.
    Counted { limit: Limit, phase: u64 },
    /// An acquire for one tick, or a release that says what becomes of it.
    Tick(Box<TickRequest>),
    /// Its body runs once. It is part of the place in the queue, too.
    Once(Box<OnceRequest>),
    /// The token of the ticket that is redeemed.
    Ticket(Box<Token>),
    /// What its leader announces.
    Leader(Box<Announcement>),
}

const _: () = assert!(size_of::<Kind>() <= 16);

impl Kind {
    /// One caller has the lock alone, and takes and releases it by scripts.
    pub(crate) const EXCLUSIVE: Self = Self::Exclusive { direct: false };

    /// The kind of a lock that so many may hold at once.
    pub(crate) fn of_limit(limit: Limit) -> Self {
        if limit.is_counted() { Self::Counted { limit, phase: 0 } } else { Self::EXCLUSIVE }
    }

    pub(crate) fn limit(&self) -> Limit {
        if let Self::Counted { limit, .. } = self { *limit } else { Limit::ONE }
    }

    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Self::Counted { .. })
    }

    /// The phase in which the token has the lock, if it has it beside others.
    pub(crate) fn phase(&self) -> Option<u64> {
        if let Self::Counted { phase: phase @ 1.., .. } = self { Some(*phase) } else { None }
    }

    /// A ticket is redeemed for it: that can be done once.
    pub(crate) fn has_ticket(&self) -> bool {
        matches!(self, Self::Ticket(_))
    }

    /// To whom its process has passed it on.
    pub(crate) fn passed_on(&self) -> Option<&PassedOn> {
        if let Self::PassedOn(passed_on) = self { Some(passed_on) } else { None }
    }

    pub(crate) fn tick(&self) -> Option<&TickRequest> {
        if let Self::Tick(tick) = self { Some(tick) } else { None }
    }

    pub(crate) fn announcement(&self) -> Option<&Announcement> {
        if let Self::Leader(announcement) = self { Some(announcement) } else { None }
    }

    /// True for a tick, or a body that runs once, which later callers find done.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self, Self::Tick(_) | Self::Once(_))
    }

    pub(crate) fn once(&self) -> Option<&OnceRequest> {
        if let Self::Once(once) = self { Some(once) } else { None }
    }
}

impl Request {
    /// Returns how long the node keeps the lock: for so much longer than its holder relies on it
    /// that a body which begins at the very end of its lease has its `min_hold`, also where its
    /// process dies.
    pub(crate) fn lasts(&self) -> Duration {
        if self.action == Action::ExpireLater { self.ttl } else { self.ttl.saturating_add(self.keeps) }
    }

    /// It releases the lock of a body that runs once, with the result of that.
    pub(crate) fn has_result(&self) -> bool {
        self.kind.once().is_some_and(|of| matches!(of.run, Run::Done(_)))
    }

    /// It stores the result of a body, or that a tick is over, together with the release.
    pub(crate) fn keeps_a_record(&self) -> bool {
        let ends_a_tick = |tick: &TickRequest| tick.effect == TickEffect::Record;
        self.action == Action::Release && (self.has_result() || self.kind.tick().is_some_and(ends_a_tick))
    }

    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::Exclusive { direct: true })
    }

    /// Plain commands do for it, if its lock is an exclusive one.
    pub(crate) fn use_commands(&mut self) {
        self.set_direct(true);
    }

    /// The server may have executed it, or it needs the queue: it is sent as a script from now on.
    pub(crate) fn use_script(&mut self) {
        self.set_direct(false);
    }

    fn set_direct(&mut self, is_direct: bool) {
        if let Kind::Exclusive { direct } = &mut self.kind {
            *direct = is_direct;
        }
    }

    pub(crate) fn set_passed_on(&mut self, to: Option<Arc<PassedOn>>) {
        if let Some(to) = to {
            self.kind = Kind::PassedOn(to);
        }
    }

    /// The server may have the lock under each of these, too.
    pub(crate) fn other_tokens(&self) -> &[Token] {
        match &self.kind {
            Kind::PassedOn(passed_on) => &passed_on.to,
            Kind::Ticket(token) => std::slice::from_ref(token),
            _ => &[],
        }
    }

    /// Under this token the server has the lock once it has executed the request.
    pub(crate) fn holder(&self) -> &Token {
        self.kind.passed_on().and_then(|passed_on| passed_on.to.last()).unwrap_or(&self.token)
    }

    /// True when an operator means the holder of a lock with a value that has this name.
    pub(crate) fn takes_from(&self, value: &Token) -> bool {
        self.token == Token::empty() || self.token == *value
    }

    /// A fenced one, through a script, for an exclusive lock.
    pub(crate) fn new(action: Action, name: Arc<str>, token: Token, ttl: Duration) -> Self {
        Self {
            action,
            name,
            token,
            ttl,
            keeps: Duration::ZERO,
            fenced: true,
            release: Releases::Usual,
            releases: 1,
            to_ticket: false,
            kind: Kind::EXCLUSIVE,
        }
    }

    /// Returns this request once more: the server may have executed it.
    pub(crate) fn repeated(mut self) -> Self {
        self.use_script();
        if let Action::Acquire(mode) | Action::AcquireNext { mode, .. } = &mut self.action
            && let Mode::Join { at_most } = *mode
        {
            *mode = Mode::JoinAgain { at_most };
        }
        self
    }
}

/// To whom a process has passed a lock on. The server may have it under the token of the request or
/// under each of these.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct PassedOn {
    /// One after the other; the last one has the lock now. With a renewal, the server has it under
    /// this token.
    pub(crate) to: Box<[Token]>,
    /// [Followers](Push::followers) have places in the queue, with this ttl, and leave it.
    pub(crate) place_ttl: Option<Duration>,
}

/// What [`Action::List`] lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    /// The names of locks: of strings that are not beside a lock.
    Locks,
    /// The names of keys of all types, also of those beside a lock.
    Keys,
    /// For each node, what its `INFO` says: one text, and no other page.
    Nodes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Take the lock if it is free or this token holds it; it expires after the ttl, or after the
    /// [`CLAIM`] for a waiter that asks again. Else join its queue, unless the attempt has one try.
    Acquire(Mode),
    /// Acquire, if the request right before it, of the attempt `after`, takes its lock. Else
    /// [`Verdict::Skipped`].
    AcquireNext { mode: Mode, after: Id },
    /// If this token holds the lock, it expires after the ttl, but no sooner than before; with
    /// `shortens`, exactly then. `nth`: the number of ttl changes of its holder so far.
    Renew { nth: u32, shortens: bool },
    /// If this token holds the lock, grant it to the next waiter, or free it. Else the token leaves
    /// the queue.
    Release,
    /// A release before `min_hold` is over, or for a ticket, with `to_ticket`: if this token holds the
    /// lock, it expires after the ttl.
    ExpireLater,
    /// If this token holds the lock, reserve so many fencing tokens for it.
    Reserve { count: u32 },
    /// If this token holds the lock, draw the fencing token that it was taken without.
    Draw,
    /// If this token has the lock alone, it has the lock beside others from now on, in the phase of
    /// its fencing token, and those in front of the queue that have room enter. It may have a place
    /// in the queue, with this ttl.
    Downgrade { place_ttl: Duration },
    /// If this token holds the lock, write the [`Announcement`] of its leader; without one, delete it.
    Announce,
    /// Who holds the lock, and what has it announced?
    Leader,
    /// From now on, the node tells when what a leader has announced changes.
    WatchLeader,
    /// Which tick was the last one, and who has run it?
    LastTick,
    /// Forget that.
    ClearTick,
    /// From now on, so many permits count for the lock, in the place of those of its callers; `None`:
    /// those of the callers count again. Waiters that have room then enter.
    SetPermits { permits: Option<u32> },
    /// Which number is that?
    Permits,
    /// Who holds the lock, and how many wait?
    Inspect,
    /// Inspect, then release it for its holder, if it has the value that the token of this request
    /// [names](Token::naming); the empty token names each. A quorum asks its nodes to inspect, then
    /// to take the lock away.
    ForceRelease,
    /// If the lock has the value that the token of this request [names](Token::naming), release it
    /// for its holder.
    TakeAway,
    /// List what the nodes have; the name is a pattern.
    List { cursor: u64, what: Listed },
    /// A write that changes nothing: does the node take locks? In a Cluster the cursor is the
    /// number of the primary.
    Ping { cursor: u64 },
    /// Does this token still hold the lock? From now on, the node tells when that changes.
    Watch,
    /// A waiter watches the lock: is it free? The reply is out of date once the waiter has been
    /// granted it.
    WatchHolder,
    /// Take the lock on one node of a quorum if it is free or this token holds it; `fence` is the
    /// fencing token that the client proposes; `late`: its caller has asked before.
    Vote { fence: u64, late: bool },
    /// If this token holds the lock, the node gives no fencing token below this one from now on.
    RaiseFence { fence: u64 },
    /// Renew; if the lock is free, take it.
    Repair { shortens: bool },
    /// If the lock is held under the token of the ticket, this token holds it from now on, for the
    /// ttl. Past its queue: to those who wait, it was held all the time.
    Redeem,
    /// What is known of the body of this lock that runs once?
    Record,
    /// Forget that.
    ClearRecord,
}

impl Action {
    /// True when the node may have taken the lock for the token of the request.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Self::Acquire(_) | Self::AcquireNext { .. } | Self::Redeem)
    }
}

/// How an attempt asks for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    OneTry,
    /// Join the queue, unless so many wait there already.
    Join {
        at_most: u32,
    },
    /// As `Join`, when an earlier request may have joined it: a waiter passes no other.
    JoinAgain {
        at_most: u32,
    },
    /// The waiter had a place in the queue. If that is gone, the server pushes
    /// [`PushKind::PlaceLost`].
    Again,
    /// As `Again`, when all waiters of this process ask: the server pushes nothing.
    Rejoin,
}

impl Mode {
    pub(crate) fn has_waited(self) -> bool {
        matches!(self, Self::Again | Self::Rejoin)
    }

    /// The time in the token may not be that of its grant.
    pub(crate) fn is_late(self) -> bool {
        !matches!(self, Self::OneTry | Self::Join { .. })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Acquire, acquire next, redeem. Vote: another token holds the lock on that node.
    Acquire(Verdict),
    /// Vote: this token holds the lock on that node. The clock is the proposed fencing token if
    /// that is above each one that the node has seen; else it is above the proposed one and not
    /// below those.
    Voted { clock: u64 },
    /// Reserve, draw: the last of the reserved fencing tokens, or the one that was drawn; all are
    /// above each one given before. Downgrade: the [phase](Verdict::Granted).
    Reserved { last: u64 },
    /// Renew, repair, raise fence: this token holds it. Watch: the same, as the renewal in the same
    /// call has found. Release, take away: this token held it. Ping: the node takes locks.
    Done,
    /// Watch: this token holds it, and the key lasts for so long.
    HeldFor { left: Duration },
    /// This token does not hold it. Reserve: or no fencing tokens can be reserved now.
    NotHeld,
    /// Watch: the lock is free. Repair: it was free.
    Free,
    /// Inspect, force release: the lock, if it is held.
    Found(Option<Inspection>),
    /// Last tick: that one, if any is over.
    LastTick(Option<LastTick>),
    /// Permits: the central limit. Set permits: the one before.
    Permits(Option<u32>),
    /// Record: what is known, if anything is.
    Recorded(Option<RunRecord>),
    /// List: some names, and the cursor of the next page; zero at the end.
    Page { cursor: u64, names: Vec<String> },
    /// The server did not execute it.
    Refused(Refusal),
}

/// The answer to a request for a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// This token holds the lock for the ttl. The fencing token is 0 for a request that is not
    /// fenced.
    ///
    /// A counted lock has a fencing token in any case, the same for all that have it: the number of
    /// the *phase* from the first that took the free lock to the last that leaves it.
    Granted { fence: u64 },
    /// To a waiter that asked again: this token holds the lock for the [`CLAIM`].
    Claimed { fence: u64 },
    /// Another token holds it.
    Busy { holder: Holder, place: Option<Place> },
    /// Another token holds it, and no more may wait.
    QueueFull { waiters: u32 },
    /// The key in front is not held, so this one was not tried.
    Skipped,
    /// Redeem: the lock is not held under the token of the ticket. `is_free`: nobody has it.
    NoTicket { is_free: bool },
    /// For a request with a tick: which one it is, in ms since 1970, and the answer for the lock.
    OfTick { at_ms: u64, verdict: Box<Verdict> },
    /// The tick is over, or a later one is. `by`: the one that has run the last one.
    TickTaken { last_ms: u64, by: Option<Owner> },
    /// The tick is so old that nobody knows whether it is over, or too far ahead.
    TickUnknown { is_ahead: bool },
    /// The body of this lock, which runs once, does not run. `kept`: the token has the lock or a
    /// place, which are to be released.
    NotRun { why: NotRun, kept: bool },
}

impl Verdict {
    /// The fencing token of a grant.
    pub(crate) fn fence(&self) -> Option<u64> {
        match self {
            Self::Granted { fence } | Self::Claimed { fence } => Some(*fence),
            Self::OfTick { verdict, .. } => verdict.fence(),
            _ => None,
        }
    }
}

impl Reply {
    /// The answer to a question who holds a lock.
    pub(crate) fn found(self) -> Result<Option<Inspection>, Refusal> {
        match self {
            Self::Found(found) => Ok(found),
            Self::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::Permanent("the server gave an answer of another kind".into())),
        }
    }
}

/// Who holds a lock, and who waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inspection {
    pub(crate) holder: Holder,
    /// [Names](Token::naming) the value of the key, without a mark.
    pub(crate) value: Token,
    pub(crate) waiters: u32,
    /// The owners of the first waiters, in order; `None` for a malformed member.
    pub(crate) queue: Vec<Option<Owner>>,
    /// Only for the question who leads, which asks for no queue.
    pub(crate) record: Option<Box<Record>>,
    pub(crate) counted: Option<Box<Counted>>,
}

/// A place in a queue on the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) in_front: u32,
    pub(crate) at: ServerTime,
}

/// The server's clock in microseconds. Only its differences are used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ServerTime(pub(crate) u64);

/// A message of the node to a waiter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Push {
    pub(crate) token: Token,
    pub(crate) name: Arc<str>,
    pub(crate) kind: PushKind,
    /// The waiters that come next behind a grant, as far as they are of the same process, have the
    /// same ttl and draw no fencing token. The process passes the lock on to them in this order.
    /// The [secret](Token::secret) of each, one behind the other.
    pub(crate) followers: Box<str>,
    /// True for a grant whose fencing token is not above each one that may have been given before. The
    /// [phase](Verdict::Granted) of a counted lock may be older than those.
    pub(crate) is_undercut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushKind {
    /// The waiter holds the lock since `at`, for a [`CLAIM`]. `marked`: others wait behind it.
    /// The phase of a counted lock, as in [`Verdict::Granted`]; 0 when an older client has granted
    /// it: then the waiter has it alone, and asks, so that it is one of several.
    Granted { fence: u64, at: ServerTime, marked: bool },
    /// The waiter is one of the first two in the queue, or the first behind those of one process.
    /// `claim`: the time left, at `at`, to the holder.
    Next { claim: Duration, at: ServerTime },
    /// The lock is free for a moment, for clients that do not use its queue.
    LeftFree,
    /// The token no longer holds the lock. Only `memory://` pushes this to a holder: servers tell
    /// connections that watch.
    TakenAway,
    /// An operator has taken its place from the token, which held the lock beside others.
    Revoked,
    /// The waiter asked again and had lost its place in the queue: others of this process may have
    /// lost theirs, too.
    PlaceLost,
    /// The body of this lock, which runs once, is done: the waiter has left the queue, and asks for
    /// the result.
    Done,
}

/// The state of a node at the start of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerInfo {
    /// Its clock of fencing tokens.
    pub(crate) clock: u64,
    /// Its uptime; zero when it is not known.
    pub(crate) up_for: Duration,
    /// A restart loses nothing that it has answered.
    pub(crate) durable: bool,
    /// The time from a request to its reply.
    pub(crate) round_trip: Duration,
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disconnected {
    pub(crate) reason: Arc<str>,
    /// The server refused the client (wrong password …): waiting does not help.
    pub(crate) is_permanent: bool,
}

impl Disconnected {
    /// Waiting may help.
    pub(crate) fn passing(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into(), is_permanent: false }
    }

    /// The error of the caller that asked for this key.
    pub(crate) fn error(&self, key: Option<Arc<str>>) -> LockError {
        let reason = Arc::clone(&self.reason);
        if self.is_permanent {
            LockError::Misconfigured { key, reason }
        } else {
            LockError::Unavailable { key, reason }
        }
    }
}

/// Names one attempt within its engine.
pub(crate) type Id = u64;

/// An event of a connection that is no reply.
pub(crate) enum ConnectionEvent {
    Push(Push),
    /// These locks have changed, or, with `None`, any may have.
    Changed(Option<Vec<Arc<str>>>),
    /// Another node has the inbox now.
    InboxMoved,
    /// The connection has ended, for this reason.
    Closed(Arc<str>),
    /// Another server is the primary now.
    Superseded,
}

/// What the replicas of a server say of a lock or a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Confirmation {
    /// So many replicas have it.
    Reached(u32),
    /// The token no longer holds the lock.
    NotHeld,
    /// The server did not answer, or refused.
    Unknown(Disconnected),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_passes_no_waiter_and_leaves_no_queue_aside() {
        let (join, again) = (Mode::Join { at_most: 3 }, Mode::JoinAgain { at_most: 3 });
        for (action, expected) in [
            (Action::Acquire(join), Action::Acquire(again)),
            (Action::AcquireNext { mode: join, after: 7 }, Action::AcquireNext { mode: again, after: 7 }),
            (Action::Acquire(Mode::Again), Action::Acquire(Mode::Again)),
            (Action::Release, Action::Release),
        ] {
            let (name, token, ttl) = ("lock:k".into(), Token::empty(), CLAIM);
            let kind = Kind::Exclusive { direct: true };
            let request = Request { kind, ..Request::new(action, name, token, ttl) }.repeated();
            assert_eq!((request.action, request.is_direct()), (expected, false));
        }
    }
}
