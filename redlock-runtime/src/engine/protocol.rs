//! What the engine asks of a node, and what a node answers. The same for Redis and for `memory://`.

use std::sync::Arc;
use std::time::Duration;

use super::slots::Slot;
use crate::error::{Holder, LockError};
use crate::token::Token;

/// A granted waiter has this long to claim its lock by a renewal; a stuck one costs the others no more.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// One script call. Each is idempotent by token: a lost reply is answered by asking again.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) action: Action,
    /// The key on the server, with its prefix.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    /// What the lock is held for; with the token it names a place in the queue, so it is the same in every
    /// request of a waiter.
    pub(crate) ttl: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Take the lock if it is free, or if it is this token's already; then it expires after the ttl, or after
    /// the [`CLAIM`] for a waiter that asks again. Else wait in its queue, unless it is for one try.
    Acquire(Mode),
    /// The same, if the request right before this one, of that attempt, is answered with [`Reply::Granted`].
    AcquireNext { mode: Mode, after: Id },
    /// If the lock is this token's, it expires after the ttl, and no sooner than it would have; with `shortens`, exactly
    /// then. `nth`: which ttl of its holder that is.
    Renew { nth: u32, shortens: bool },
    /// If the lock is this token's, it is the next waiter's, or free. If not, the token leaves the queue.
    Release,
    /// Release with a `min_hold` that is not over: if the lock is this token's, it expires after the ttl.
    ExpireLater,
    /// If the lock is this token's, so many fencing tokens are given to nobody else.
    Reserve { count: u32 },
    /// Whose is the lock, and how many wait? It need not be ours.
    Inspect,
    /// The same, and it is the next waiter's, or free.
    ForceRelease,
    /// Which locks are there? The name is a pattern.
    List { cursor: u64 },
    /// Is the lock still this token's? And from now on, tell when that changes.
    Watch,
    /// The same, asked by a waiter: what it says is out of date once the lock has been granted to it.
    WatchHolder,
    /// Take the lock on one node of a quorum if it is free, or this token's already; the client would like this
    /// fencing token.
    Vote { fence: u64 },
    /// If the lock is this token's, no fencing token below this one is given here any more.
    RaiseFence { fence: u64 },
    /// Renew, and if the lock is nobody's, it is this token's.
    Repair { shortens: bool },
}

/// How the lock is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    OneTry,
    /// Into the queue, unless so many wait there already.
    Join {
        at_most: u32,
    },
    /// The waiter had a place in the queue. Should that be gone, the server tells: see [`PushKind::PlaceLost`].
    Again,
    /// The same, and all others of this process do so, too: there is nothing to tell.
    Rejoin,
    /// As [`Mode::Again`], and this one had a claim that is over by now: if the lock is free, it is stuck.
    Overdue {
        claimant: Claimant,
    },
}

impl Mode {
    pub(crate) fn has_waited(self) -> bool {
        matches!(self, Self::Again | Self::Rejoin | Self::Overdue { .. })
    }
}

/// The inbox of a process that was granted a lock, in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claimant(pub(crate) u32);

impl Claimant {
    /// As `acquire.lua` counts it, too.
    pub(crate) fn of(inbox: &str) -> Self {
        Self(inbox.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Acquire: the lock is this token's for the ttl, and this is its fencing token.
    Granted { fence: u64 },
    /// Acquire: the same, but for the [`CLAIM`], as the waiter has asked again.
    Claimed { fence: u64 },
    /// Acquire: it is somebody else's.
    Busy { holder: Holder, place: Option<Place> },
    /// Acquire: it is somebody else's, and so many wait for it that no more may.
    QueueFull { waiters: u32 },
    /// Acquire next: the key in front is not held, so this one was not tried.
    Skipped,
    /// Vote: the lock is this token's on that node. The clock is the wish, if that was above every fencing token that
    /// the node has seen; else it is above the wish and not below those.
    Voted { clock: u64 },
    /// Reserve: the last of the fencing tokens; all are above every one that was ever given.
    Reserved { last: u64 },
    /// Renew, mend, watch, confirm: it still is this token's. Release: it was.
    Done,
    /// Renew, reserve, mend, watch, confirm, release: it is not this token's. Reserve: or there are none now.
    NotHeld,
    /// Watch: it is nobody's. Mend: it was.
    Free,
    /// Inspect, force release: what was found.
    Found(Option<Inspection>),
    /// List: some names, and where to go on; zero at the end.
    Page { cursor: u64, names: Vec<String> },
    /// The server did not do it.
    Refused(Refusal),
}

/// Who holds a lock, and how many wait for it.
pub(crate) type Inspection = (Holder, u32);

/// A place in a queue on the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) in_front: u32,
    pub(crate) at: ServerTime,
}

/// The server's clock, in microseconds. Only differences of it are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerTime(pub(crate) u64);

/// What the node tells a waiter, without being asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Push {
    pub(crate) token: Token,
    pub(crate) name: Arc<str>,
    pub(crate) kind: PushKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushKind {
    /// The lock is its own since then, for a [`CLAIM`].
    Granted { fence: u64, at: ServerTime },
    /// It is the head of the queue now, or the first behind those of the claimant, whose claim lasts so long.
    Next { claim: Duration, claimant: Claimant },
    /// The lock was left free for a moment, for clients that know nothing of its queue.
    LeftFree,
    /// It is not this token's any more. Only `memory://` tells a holder like this: a server tells who watches.
    TakenAway,
    /// It asked again and had no place in the queue any more: the others of this process may have lost theirs, too.
    PlaceLost,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server does not know the script yet: the same request again carries its source.
    NoScript,
    /// More dead waiters are in front than one call clears away: the same request again goes on.
    Unfinished,
    /// Loading, failing over, busy with a script …: it passes.
    Transient(Arc<str>),
    /// There was no answer, and now there is no way to ask again: it may have been done. It passes.
    OutcomeUnknown(Arc<str>),
    /// Another node of a Cluster has the slot.
    Moved(Redirect),
    /// No permission, out of memory, a key of another type …: it stays until somebody acts.
    Permanent(Arc<str>),
}

impl Refusal {
    /// The same request is sent again, at once.
    pub(crate) fn is_asked_again(&self) -> bool {
        matches!(self, Self::NoScript | Self::Unfinished)
    }

    /// The node has become a replica: no place for a lock, and nothing that it says of one counts.
    pub(crate) fn is_of_a_replica(&self) -> bool {
        matches!(self, Self::Transient(words) if words.starts_with("READONLY"))
    }

    /// The server says that it cannot do this now, and not for how long: no failover, at the end of which another one may.
    pub(crate) fn lasts(&self) -> bool {
        let lasting = ["MISCONF", "LOADING", "NOREPLICAS"];
        matches!(self, Self::Transient(words) if lasting.iter().any(|code| words.starts_with(code)))
    }

    /// For the caller: an outage passes, the rest stays until the settings are changed.
    pub(crate) fn error(self, key: Option<Arc<str>>) -> LockError {
        match self {
            Self::NoScript | Self::Unfinished | Self::Transient(_) | Self::OutcomeUnknown(_) => {
                LockError::Unavailable { key, reason: self.words() }
            }
            Self::Moved(_) | Self::Permanent(_) => LockError::Misconfigured { key, reason: self.words() },
        }
    }

    pub(crate) fn words(self) -> Arc<str> {
        match self {
            Self::NoScript => "the server has forgotten a script".into(),
            Self::Unfinished => "the server is still clearing away dead waiters".into(),
            Self::Transient(words) | Self::OutcomeUnknown(words) | Self::Permanent(words) => words,
            Self::Moved(redirect) => redirect.words(),
        }
    }
}

/// Where a node of a Cluster sends us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Redirect {
    pub(super) slot: Slot,
    /// `host:port`; without a host, it is the host that said so.
    pub(super) to: Arc<str>,
    /// The slot is on its way there: this request alone.
    pub(super) once: bool,
}

impl Redirect {
    pub(super) fn words(&self) -> Arc<str> {
        let (slot, to) = (self.slot.index(), &self.to);
        format!("slot {slot} is at {to}: an address that starts with redis+cluster:// finds it there").into()
    }
}

/// What a node says of itself when a connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerInfo {
    /// Its clock of fencing tokens.
    pub(crate) clock: u64,
    /// How long it has been running; zero when it does not say.
    pub(crate) up_for: Duration,
    /// What it has answered survives a restart.
    pub(crate) durable: bool,
    /// How long its answers take.
    pub(crate) round_trip: Duration,
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disconnected {
    pub(crate) reason: Arc<str>,
    /// The server answered and turned us away (wrong password …): waiting does not help.
    pub(crate) is_permanent: bool,
}

impl Disconnected {
    /// Waiting may help.
    pub(crate) fn passing(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into(), is_permanent: false }
    }

    /// For a caller, who asked for this key.
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

/// What comes without being asked for.
pub(crate) enum ConnectionEvent {
    Push(Push),
    /// These locks have changed, or, with `None`, any may have.
    Changed(Option<Vec<Arc<str>>>),
    /// The inbox is at another node now.
    InboxMoved,
    /// The connection has ended.
    Closed,
    /// Another server is the primary now.
    Superseded,
}

/// A lock that has been granted and not yet delivered. The request renews it.
pub(crate) struct Unconfirmed {
    pub(crate) id: Id,
    pub(crate) request: Request,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Confirmation {
    /// So many replicas have it.
    Reached(u32),
    /// It is not this token's any more.
    NotHeld,
    /// The server gave no answer, or refused.
    Unknown(Disconnected),
}
