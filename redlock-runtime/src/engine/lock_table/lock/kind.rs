//! What a request, a grant, an end and a ticket are for each kind of lock.

use std::sync::Arc;

use crate::base::lease::Lease;
use crate::base::limit::Limit;
use crate::engine::protocol::{Action, Kind, OnceRequest, Push, PushKind, Run, TickEffect};

/// Why a reader, or the holder of a permit, gives no ticket.
const NOT_FOR_ONE: &str = "a ticket gives a lock from one holder to another, and this one may have several: let the other caller take it \
                                       `shared`, or with `permits`, itself";

/// Why a permit is no reader's lock.
const NOT_OF_PERMITS: &str =
    "a permit does not become a shared lock: a downgrade is for a lock that is held alone";

/// Why a tick, or a body that runs once, is no reader.
const ALONE_TO_ITS_END: &str = "the body of a tick, or one that runs once, has its lock alone to its end";

/// Why the holder whose body runs once gives no ticket.
const NOT_WHILE_ONCE: &str = "the body of this lock runs once, and its result is stored when its holder releases the lock: a \
                              ticket would give the lock away without one";

impl Kind {
    /// Describes such a lock in its lease.
    pub(crate) fn describe(&self, lease: &mut Lease) {
        lease.set_limit(self.limit());
        if let Some(at_ms) = self.tick().and_then(|of| of.tick.at_ms) {
            lease.set_tick(at_ms);
        }
        if self.is_run() {
            lease.set_run();
        }
    }

    /// The server looks at the record of ticks before it gives such a lock, so that it is neither asked
    /// for directly nor passed on: each grant draws a fencing token.
    pub(super) fn is_always_fenced(&self) -> bool {
        self.tick().is_some()
    }

    /// The limits of this lock and of another caller's, if they differ by mistake. A reader and a
    /// writer differ, too, as they should.
    pub(super) fn differing_limits(&self, other: Option<Limit>) -> Option<(Limit, Limit)> {
        let (own, other) = (self.limit(), other?);
        (own.is_counted() && other.is_counted() && own.number() != other.number()).then_some((own, other))
    }

    /// True when there may be room for such a lock where there is none for the other one.
    pub(super) fn fits_sooner_than(&self, other: &Self) -> bool {
        self.limit().allows_more_than(other.limit())
    }

    /// Returns what a push says to a waiter. A grant whose fencing token may have been given before
    /// has none: its waiter asks for one. The phase of a counted lock is older than the numbers
    /// that were given since it began.
    pub(super) fn read_push(&self, push: &Push) -> PushKind {
        match push.kind {
            PushKind::Granted { at, marked, .. } if push.is_undercut && !self.is_counted() => {
                PushKind::Granted { fence: 0, at, marked }
            }
            kind => kind,
        }
    }

    /// True when a grant by a push, with this fencing token, is enough to begin. Else the server is
    /// asked: for a fencing token; for a place among several, if a client that knows no counted locks
    /// has granted the lock; or for the record of a tick, or of a body that runs once, at which no
    /// grant looks, and which another one may have run.
    pub(super) fn may_begin_by_push(&self, fence: u64, is_fenced: bool) -> bool {
        let lacks_fence = fence == 0 && (is_fenced || self.is_counted());
        !lacks_fence && !self.is_run()
    }

    /// True when the server writes the time of each grant behind the token, so that a plain command does
    /// not find the token: a ticket is redeemed in such a lock.
    pub(super) fn notes_its_grant(&self) -> bool {
        self.has_ticket()
    }

    /// True when the request of such a kind takes a free lock only if nobody waits for it.
    pub(super) fn finds_waiters(&self) -> bool {
        !matches!(self, Self::Exclusive { direct: true } | Self::Counted { .. })
    }

    /// The kind of a request that a waiter sends.
    pub(super) fn waiting(&self, action: Action) -> Self {
        match self {
            Self::Tick(_) | Self::Ticket(_) if !action.takes() => Self::EXCLUSIVE,
            kind => kind.clone(),
        }
    }

    /// The kind of a lock that was granted to such a waiter: from now on nobody knows how its body
    /// ends, until it does.
    pub(super) fn granted(&self) -> Self {
        match self {
            Self::Once(of) => OnceRequest::of(Arc::clone(&of.once), Run::Interrupted),
            Self::Ticket(_) => Self::EXCLUSIVE,
            kind => kind.clone(),
        }
    }

    /// The kind of a lock whose body has not begun, and will not: its tick is open again.
    pub(super) fn unrun(&self) -> Self {
        match self {
            Self::Tick(of) if of.effect == TickEffect::Record => of.with(TickEffect::Undo),
            Self::Tick(_) | Self::Ticket(_) => Self::EXCLUSIVE,
            Self::Once(of) => OnceRequest::of(Arc::clone(&of.once), Run::Undone),
            kind => kind.clone(),
        }
    }

    /// The kind of a request that the holder with this lease sends.
    pub(super) fn held(&self, lease: &Lease) -> Self {
        match self {
            Self::Counted { limit, .. } => Self::Counted { limit: *limit, phase: lease.fence() },
            Self::Once(_) => self.clone(),
            _ => Self::EXCLUSIVE,
        }
    }

    /// The kind of its release. A body that has ended well ends its tick, if the grant has not.
    /// `early`: its guard has released it before it was lost.
    pub(super) fn released(&self, lease: &Lease, early: bool) -> Self {
        match self {
            Self::Tick(of) if of.effect == TickEffect::Undo => self.clone(),
            Self::Tick(of) if of.effect == TickEffect::Look && early && lease.has_ended_well() => {
                of.with(TickEffect::Record)
            }
            kind => kind.held(lease),
        }
    }

    /// True when a grant leaves room for others: those that wait behind it ask at once.
    pub(super) fn lets_others_in(&self) -> bool {
        self.is_counted()
    }

    /// The kind of a lock after its downgrade.
    pub(super) const SHARED: Self = Self::Counted { limit: Limit::NONE, phase: 0 };

    /// True for a reader.
    pub(super) fn is_shared(&self) -> bool {
        self.is_counted() && self.limit() == Limit::NONE
    }

    /// Why its holder cannot let others in beside itself.
    pub(super) fn cannot_be_shared(&self) -> Option<&'static str> {
        match self {
            Self::Exclusive { .. } => None,
            Self::Counted { limit, .. } => (*limit != Limit::NONE).then_some(NOT_OF_PERMITS),
            _ => Some(ALONE_TO_ITS_END),
        }
    }

    /// True when an attempt that may have the lock can ask for it again: a ticket is redeemed once.
    pub(super) fn can_ask_again(&self) -> bool {
        !self.has_ticket()
    }

    /// True when nothing but its renewals tells its holder that the server has lost its place: a watch
    /// compares what all that have the lock have in common.
    pub(super) fn needs_renewals(&self) -> bool {
        self.is_counted()
    }

    /// The server has told which tick it is: it stays the same from then on.
    pub(super) fn set_tick(&mut self, at_ms: u64) {
        if let Self::Tick(of) = self {
            of.tick.at_ms = Some(at_ms);
        }
    }

    /// Sets what has become of its body, which runs once.
    pub(super) fn set_run(&mut self, run: Run) {
        if let Self::Once(of) = self {
            of.run = run;
        }
    }

    /// The result of its body, which was done before.
    pub(super) fn set_result(&self, result: Arc<[u8]>) {
        if let Self::Once(of) = self {
            // It is asked for once.
            let _ = of.once.result.set(result);
        }
    }

    /// Why its holder cannot leave it to whoever redeems a ticket.
    pub(super) fn gives_no_ticket(&self) -> Option<&'static str> {
        match self {
            Self::Counted { .. } => Some(NOT_FOR_ONE),
            Self::Once(_) => Some(NOT_WHILE_ONCE),
            _ => None,
        }
    }

    /// True when one holder may pass it on to the next one without the server: that does not let in
    /// those that come next, and keeps no record.
    pub(super) fn may_be_passed_on(&self) -> bool {
        matches!(self, Self::Exclusive { .. })
    }
}
