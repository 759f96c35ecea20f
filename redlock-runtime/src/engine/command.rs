//! The commands of callers, and the channel for each outcome.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::protocol::{Action, Confirmation, Disconnected, Id, Kind, Reply, Request, Run};
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::lease::Lease;
use crate::base::outcome::ReleaseOutcome;
use crate::base::owner::Origin;
use crate::base::telemetry;
use crate::base::token::Token;
use crate::engine::hold_times::HoldKind;

/// The reason of errors after a shutdown.
pub(crate) const SHUT_DOWN: &str = "this lock manager has been shut down: connect a new one";

/// What is large is boxed: thousands may wait for the engine.
pub(crate) enum Command {
    /// Take a lock.
    Acquire {
        id: Id,
        ask: Box<Ask>,
        token: Token,
    },
    /// Take several locks in one call, each behind the one before it.
    AcquireAll {
        asks: Vec<NewAttempt>,
    },
    /// The caller stopped waiting.
    Abandon {
        id: Id,
    },
    Extend {
        id: Id,
        extension: Extension,
    },
    /// Let others in beside the holder of a lock that is held alone. Dropped without an answer when the lock is
    /// lost.
    Downgrade {
        id: Id,
        caller: oneshot::Sender<Result<(), LockError>>,
    },
    /// Draw a fencing token for a lock that is held without one. Dropped without an answer when
    /// there is none.
    Fence {
        id: Id,
        caller: oneshot::Sender<()>,
    },
    Release {
        id: Id,
        response: Option<Response>,
    },
    /// Release a lock whose body runs once, and say what has become of that.
    #[cfg_attr(not(feature = "once"), allow(dead_code, reason = "the feature makes it"))]
    Finish {
        id: Id,
        run: Run,
        response: Response,
    },
    /// Release a lock to whoever redeems its ticket: its key stays for so long.
    HandOver {
        id: Id,
        lasts: Duration,
        response: Response,
    },
    /// Answer when there is a connection, or why there is none.
    Connected {
        caller: oneshot::Sender<Result<Abilities, Disconnected>>,
    },
    /// The answer of the replicas about a granted lock.
    Confirmed {
        id: Id,
        token: Token,
        confirmation: Confirmation,
    },
    /// Inspect, list or force-release locks.
    Operator {
        id: Id,
        call: Box<OperatorRequest>,
    },
    /// The holder leads, and announces this; `None`: it steps down.
    Announce {
        id: Id,
        text: Option<Arc<str>>,
    },
    /// Tell this observer when another one may lead.
    Observe {
        name: Arc<str>,
        observer: Weak<Notify>,
    },
    /// Answer at this time.
    Sleep {
        id: Id,
        until: Moment,
        caller: oneshot::Sender<()>,
    },
    /// Refuse new attempts, and answer when everything is released. Leases that are held at `until`
    /// end then.
    Shutdown {
        until: Moment,
        caller: oneshot::Sender<Result<(), ShutdownIncomplete>>,
    },
}

/// The id of an attempt, its request, and its token.
pub(crate) type NewAttempt = (Id, Box<Ask>, Token);

/// The request of a caller for one lock.
pub(crate) struct Ask {
    /// The user's key, for errors.
    pub(crate) key: Arc<str>,
    /// The key on the server, with its prefix.
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) hold: HoldLimits,
    pub(crate) kind: Kind,
    /// Its caller can see the fencing token. Else none is drawn, which saves the server a script.
    pub(crate) fenced: bool,
    /// The key in front of it, in a request for several keys: it is tried in one call with that
    /// one, or skipped.
    pub(crate) after: Option<Id>,
    /// With so many waiters, no more may wait.
    pub(crate) max_waiters: u32,
    pub(crate) deadline: WaitDeadline,
    pub(crate) caller: Option<Caller>,
    /// The call that it is part of.
    pub(crate) call: telemetry::WaitReporter,
    pub(crate) origin: Origin,
    /// The kind of the origin, once the table has the request.
    pub(crate) hold_kind: HoldKind,
}

/// When an attempt began, and when its caller stops waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitDeadline {
    pub(crate) started: Moment,
    /// The caller does not wait for another holder: a busy lock is an error at once.
    pub(crate) one_try: bool,
    /// `None`: never.
    pub(crate) gives_up_at: Option<Moment>,
}

/// For how long a caller has its lock, at most and at least.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct HoldLimits {
    pub(crate) max: Option<Duration>,
    pub(crate) min: Option<Duration>,
    /// The minimum limits how many bodies begin in that time, over all processes: the server keeps the
    /// lock for so long whatever becomes of its holder.
    pub(crate) limits_rate: bool,
    /// For a rate: so many bodies start in the minimum, and its caller holds nothing.
    pub(crate) starts: Option<u32>,
}

impl HoldLimits {
    /// For how long the server keeps the lock in any case.
    pub(crate) fn keeps(self) -> Duration {
        self.min.filter(|_| self.limits_rate).unwrap_or_default()
    }

    /// Returns when a lock that is held since then ends at the latest.
    fn ends(self, since: Moment) -> Option<Moment> {
        self.max.map(|max| since.after(max))
    }
}

/// The end of an attempt for its caller.
pub(crate) enum AcquireOutcome {
    /// With the ask, for the caller to free: it has allocated it, and if the loop freed it on
    /// another thread, that thread and the caller's would wait for each other in the allocator.
    Held(Arc<Lease>, Option<Box<Ask>>),
    /// Boxed: each waiter has room for its outcome, and few fail.
    Failed(Box<LockError>),
    /// The key in front of it, in a request for several keys, is not held yet: this one was not
    /// tried.
    Skipped,
    /// Its body, which runs once, is done: the [result](Once::result) is where the ask has it.
    Replayed,
}

impl From<LockError> for AcquireOutcome {
    fn from(error: LockError) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// The channel for the outcome. If it is dropped without one, the engine has ended.
pub(crate) type Caller = oneshot::Sender<AcquireOutcome>;

impl Ask {
    /// `deadline`, or the end of `max_hold` if that is earlier.
    pub(crate) fn capped(&self, since: Moment, deadline: Moment) -> Moment {
        self.hold.ends(since).into_iter().fold(deadline, Ord::min)
    }

    /// The lease of a lock that is held since `since`.
    pub(crate) fn lease(&self, fence: u64, since: Moment, deadline: Moment) -> Lease {
        let mut lease = Lease::new(Arc::clone(&self.key), fence, deadline, self.hold.ends(since));
        self.kind.describe(&mut lease);
        if self.hold.min.is_some() {
            lease.notes_begin();
        }
        if self.hold.starts.is_some() {
            lease.set_start();
        }
        lease
    }

    /// True when it waits behind others. One with a single try does not, nor does one with a
    /// ticket.
    pub(crate) fn queues(&self) -> bool {
        !self.deadline.one_try && !self.kind.has_ticket()
    }

    /// True without a time limit: not even a wrong password ends it, because an operator may
    /// correct that.
    pub(crate) fn waits_for_ever(&self) -> bool {
        !self.deadline.one_try && self.deadline.gives_up_at.is_none()
    }

    /// True when a failure to connect ends it before its time limit.
    pub(crate) fn is_ended_by(&self, trouble: &Disconnected) -> bool {
        self.deadline.one_try || (trouble.is_permanent && !self.waits_for_ever())
    }

    /// True when its caller has gone before the engine has read it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_closed)
    }

    /// Ends it without the lock. A caller that has gone is not told.
    pub(crate) fn end(&mut self, outcome: AcquireOutcome) {
        if let Some(caller) = self.caller.take() {
            let _ = caller.send(outcome);
        }
    }

    pub(crate) fn fail(&mut self, error: LockError) {
        self.end(error.into());
    }
}

#[cfg(test)]
impl Ask {
    /// A request for an exclusive lock that is renewed, has a fencing token, and waits without a limit.
    pub(crate) fn for_a_test(name: &str, ttl: Duration, started: Moment, caller: Option<Caller>) -> Self {
        Self {
            key: name.into(),
            name: name.into(),
            ttl,
            renew: true,
            hold: HoldLimits::default(),
            kind: Kind::EXCLUSIVE,
            fenced: true,
            after: None,
            max_waiters: 10,
            deadline: WaitDeadline { started, one_try: false, gives_up_at: None },
            caller,
            call: telemetry::WaitReporter::default(),
            origin: Origin::Unnamed,
            hold_kind: None,
        }
    }
}

/// A guard asks for another ttl. Dropped without an answer when the lock is lost.
pub(crate) struct Extension {
    pub(crate) ttl: Duration,
    pub(crate) caller: oneshot::Sender<Result<(), LockError>>,
}

/// The locks that a shutdown did not see released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShutdownIncomplete {
    /// The leases that were held at the time limit, and ended.
    pub(crate) stopped: usize,
    /// The locks that are not released on the server, these or others.
    pub(crate) unreleased: usize,
}

/// A call of an operator, until it is answered.
pub(crate) struct OperatorRequest {
    /// The user's key, for errors; `None` for a listing.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) request: Request,
    pub(crate) by: Moment,
    pub(crate) caller: oneshot::Sender<Result<Reply, LockError>>,
}

impl OperatorRequest {
    /// True when it is sent again over the next connection, within its time limit: it changes
    /// nothing on the server.
    pub(crate) fn outlives_connections(&self) -> bool {
        matches!(
            self.request.action,
            Action::Ping { .. }
                | Action::Inspect
                | Action::List { .. }
                | Action::LastTick
                | Action::Permits
                | Action::Record
                | Action::Leader
                | Action::WatchLeader
        )
    }

    /// A caller that has gone is not told.
    pub(crate) fn answer(self, reply: Reply) {
        let _ = self.caller.send(Ok(reply));
    }

    pub(crate) fn fail(self, error: impl FnOnce(Option<Arc<str>>) -> LockError) {
        let _ = self.caller.send(Err(error(self.key)));
    }
}

/// The end of a release for its caller.
pub(crate) struct Released {
    /// Boxed, as for [`AcquireOutcome::Failed`].
    pub(crate) outcome: Result<ReleaseOutcome, Box<LockError>>,
    /// The name and the token of the lock, for a ticket, or for the caller to free, as the ask in
    /// [`AcquireOutcome::Held`].
    pub(crate) lock: Option<(Arc<str>, Token)>,
}

impl From<Result<ReleaseOutcome, LockError>> for Released {
    fn from(outcome: Result<ReleaseOutcome, LockError>) -> Self {
        Self { outcome: outcome.map_err(Box::new), lock: None }
    }
}

/// The caller of a release.
pub(crate) struct Response {
    caller: oneshot::Sender<Released>,
    /// The caller waits only while this connection lasts, and ignores the outcome.
    on_this_connection: bool,
}

impl Response {
    pub(crate) fn to(caller: oneshot::Sender<Released>) -> Self {
        Self { caller, on_this_connection: false }
    }

    /// For a guard that is dropped, perhaps at the end of its process.
    pub(crate) fn to_dropped(caller: oneshot::Sender<Released>) -> Self {
        Self { caller, on_this_connection: true }
    }

    pub(crate) fn is_to_dropped(&self) -> bool {
        self.on_this_connection
    }

    /// False when the caller has gone.
    pub(crate) fn send(self, outcome: Result<ReleaseOutcome, LockError>, request: Option<&Request>) -> bool {
        let lock = request.map(|request| (Arc::clone(&request.name), request.holder().clone()));
        self.caller.send(Released { outcome: outcome.map_err(Box::new), lock }).is_ok()
    }
}

/// A grant that replicas must confirm before its caller gets an answer.
pub(crate) struct Unconfirmed {
    pub(crate) id: Id,
    /// For a granted lock, the one that renews it. For a record, the one that has stored it.
    pub(crate) request: Request,
    /// When its caller stops waiting; `None`: never.
    pub(crate) gives_up_at: Option<Moment>,
    /// The record that a release writes.
    pub(crate) kept: Option<Kept>,
}

/// The caller of a release that has stored a record.
pub(crate) struct Kept {
    pub(crate) key: Arc<str>,
    pub(crate) response: Response,
}

impl Kept {
    /// `wanted`: so many replicas.
    pub(crate) fn confirmed(self, request: &Request, wanted: u32, confirmation: Confirmation) {
        let Self { key, response } = self;
        let outcome = match confirmation {
            Confirmation::Reached(reached) if reached >= wanted => Ok(ReleaseOutcome::Released),
            Confirmation::Reached(reached) => Err(LockError::NotReplicated { key, wanted, reached }),
            Confirmation::NotHeld => Err(LockError::unavailable(&key, NOT_KEPT)),
            Confirmation::Unknown(Disconnected { reason, is_permanent }) => {
                let reason = format!("its replicas could not be asked: {reason}").into();
                Err(Disconnected { reason, is_permanent }.error(Some(key)))
            }
        };
        response.send(outcome, Some(request));
    }
}

const NOT_KEPT: &str = "the server has stored what was done, and does not know it any more: it has lost data, or another server is the \
                        primary now";
