//! An attempt that does not have the lock yet.

use std::sync::Arc;
use std::time::Duration;

use super::releasing::Releasing;
use crate::clock::Moment;
use crate::engine::backoff::{Backoff, full_jitter, jittered};
use crate::engine::command::Ask;
use crate::engine::protocol::{Action, Claimant, Mode, Place, PushKind, Request, ServerTime};
use crate::error::Holder;
use crate::token::Token;

/// What a waiting attempt waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaits {
    /// The attempts of this process in front of it: only the first of them asks.
    LocalTurn,
    /// Its turn in the queue on the server: a push tells it.
    ServerTurn,
    /// The reply to the request that was sent then.
    Reply { sent: Moment },
    /// The time to ask again.
    Retry { until: Moment },
    /// A connection.
    Connection,
}

/// What the server said last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LastAnswer {
    Nothing,
    Busy(Holder),
    Refused(Arc<str>),
}

pub(super) struct Waiting {
    pub(super) ask: Ask,
    pub(super) token: Token,
    pub(super) awaits: Awaits,
    pub(super) last_answer: LastAnswer,
    /// How many requests were made since the last answer "busy": the server may have granted each.
    pub(super) unanswered: u32,
    /// How often it has been asked for.
    pub(super) asks: u32,
    /// The lock was released here after the pending ask was sent.
    pub(super) ask_again: bool,
    /// Its place in the queue on the server, and when what told it was sent.
    place: Option<(Place, Moment)>,
    /// When the claim in front will be over, and whose it is, as it was told last.
    overdue: Option<(Moment, Claimant)>,
    /// What the server pushed before the answer to the pending ask was read.
    pub(super) told_early: Option<PushKind>,
    /// The server tells when the lock is no longer its holder's.
    tracks_changes: bool,
    /// How often in a row it has been refused.
    refusals: u32,
    /// How often in a row nobody has had a quorum of votes.
    pub(super) elections: u32,
}

impl Waiting {
    pub(super) fn new(ask: Ask, token: Token) -> Self {
        Self {
            ask,
            token,
            awaits: Awaits::LocalTurn,
            last_answer: LastAnswer::Nothing,
            unanswered: 0,
            asks: 0,
            ask_again: false,
            place: None,
            overdue: None,
            told_early: None,
            tracks_changes: false,
            refusals: 0,
            elections: 0,
        }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let again = match self.awaits {
            Awaits::Retry { until } => Some(until),
            Awaits::LocalTurn | Awaits::ServerTurn | Awaits::Reply { .. } | Awaits::Connection => None,
        };
        again.into_iter().chain(self.ask.gives_up_at).min()
    }

    pub(super) fn gives_up(&self, now: Moment) -> bool {
        self.ask.gives_up_at.is_some_and(|at| at <= now)
    }

    pub(super) fn request(&self, action: Action) -> Request {
        Request { action, name: Arc::clone(&self.ask.name), token: self.token.clone(), ttl: self.ask.ttl }
    }

    /// `with_all`: all others of this process ask, too.
    pub(super) fn mode(&self, now: Moment, with_all: bool) -> Mode {
        match self.place {
            _ if self.ask.one_try => Mode::OneTry,
            None => Mode::Join { at_most: self.ask.max_waiters },
            Some(_) if with_all => Mode::Rejoin,
            Some(_) => match self.overdue {
                Some((over, claimant)) if over <= now => Mode::Overdue { claimant },
                _ => Mode::Again,
            },
        }
    }

    pub(super) fn asking(&mut self, now: Moment) {
        self.awaits = Awaits::Reply { sent: now };
        self.unanswered = self.unanswered.saturating_add(1);
        self.asks = self.asks.saturating_add(1);
        self.ask_again = false;
        self.overdue = None;
        self.told_early = None;
        self.tracks_changes = false;
    }

    pub(super) fn unanswered_for(&self, now: Moment, limit: Duration) -> bool {
        matches!(self.awaits, Awaits::Reply { sent } if now.since(sent) > limit)
    }

    pub(super) fn is_asking(&self) -> bool {
        matches!(self.awaits, Awaits::Reply { .. })
    }

    /// The last request was not sent, and will not be.
    pub(super) fn taken_back(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.awaits = Awaits::LocalTurn;
    }

    /// True when the server may hold something for this attempt: the lock, or a place in the queue. `was_sent`: the last
    /// request was.
    pub(super) fn must_release(&self, was_sent: bool) -> bool {
        self.unanswered > u32::from(!was_sent) || self.place.is_some()
    }

    /// How many waited in front of it when that was last told.
    pub(super) fn in_front(&self) -> Option<u32> {
        self.place.map(|(place, _)| place.in_front)
    }

    /// True when a push is applied only once the pending ask is answered: the answers of a batch are read together, so
    /// a push may overtake them. A grant needs the place that the answer tells, a hint would be undone by the answer.
    pub(super) fn keeps_for_its_answer(&mut self, kind: PushKind) -> bool {
        let asks = matches!(self.awaits, Awaits::Reply { .. });
        let is_kept = asks && !(matches!(kind, PushKind::Granted { .. }) && self.is_queued());
        if is_kept {
            self.told_early = Some(kind);
        }
        is_kept
    }

    pub(super) fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// Somebody has it. The first of this process asks again when the lock expires, or sooner, at a jittered
    /// interval; the others wait to be told, or for their turn to be first. `can_watch`: the server would tell the
    /// first of this process when the lock changes. True when it should.
    pub(super) fn busy(
        &mut self,
        now: Moment,
        sent: Moment,
        holder: Holder,
        place: Option<Place>,
        first: bool,
        can_watch: bool,
    ) -> bool {
        (self.unanswered, self.refusals) = (0, 0);
        self.place = place.map(|place| (place, sent));
        let expires_in = holder.expires_in;
        self.last_answer = LastAnswer::Busy(holder);
        // Where a release wakes nobody: without a queue, or when the holder is of another kind. In a queue the head
        // alone looks.
        let wakes_nobody = place.is_none_or(|place| place.in_front == 0 && self.behind_a_foreign_holder());
        self.tracks_changes = first && can_watch && wakes_nobody;
        self.awaits = match (first, place) {
            (true, _) if self.ask_again && place.is_none() => Awaits::Retry { until: now },
            (true, _) => {
                let interval = self.interval();
                let pause = expires_in.map_or(interval, |left| interval.min(left + MILLISECOND));
                Awaits::Retry { until: now.after(pause) }
            }
            (false, Some(_)) => Awaits::ServerTurn,
            (false, None) => Awaits::LocalTurn,
        };
        self.tracks_changes && matches!(self.awaits, Awaits::Retry { .. })
    }

    /// The lock is free for clients that know nothing of the queue; after that, it is our turn.
    pub(super) fn stand_back(&mut self, now: Moment) {
        self.overdue = None;
        self.awaits = Awaits::Retry { until: now.after(jittered(2 * MILLISECOND)) };
    }

    /// It looks when the claim in front may be over.
    pub(super) fn is_next(&mut self, now: Moment, claim: Duration, claimant: Claimant) {
        if let Awaits::ServerTurn | Awaits::Retry { .. } = self.awaits {
            let until = now.after(claim + MILLISECOND);
            self.overdue = Some((until, claimant));
            self.awaits = Awaits::Retry { until };
        }
    }

    /// The lock is free on a quorum of nodes, and others may see that too. Who asks first shall have asked all nodes
    /// before the second does: the more attempts have split the votes, the further apart they are.
    pub(super) fn stands_for_election(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(full_jitter(VOTE_AGAIN.window(self.elections))) };
        self.elections = self.elections.saturating_add(1);
    }

    /// The server does not tell of changes after all.
    pub(super) fn cannot_watch(&mut self, now: Moment) {
        self.tracks_changes = false;
        if let Awaits::Retry { .. } = self.awaits {
            self.keep_asking(now);
        }
    }

    /// It is now the first of this process, which makes sure that nothing was missed.
    pub(super) fn keep_asking(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(self.interval()) };
    }

    fn behind_a_foreign_holder(&self) -> bool {
        matches!(&self.last_answer, LastAnswer::Busy(holder) if holder.name().is_none())
    }

    fn interval(&self) -> Duration {
        jittered(match self.place {
            _ if self.tracks_changes => ASK_AGAIN_QUEUED,
            // A client of another kind releases without telling.
            Some((place, _)) if place.in_front == 0 && self.behind_a_foreign_holder() => ASK_AGAIN_AFTER,
            Some((place, _)) => (ASK_AGAIN_QUEUED * (2 + place.in_front.min(100)) / 2).min(ASK_AGAIN_AT_LAST),
            None => ASK_AGAIN_AFTER,
        })
    }

    /// Since when the lock has been this waiter's, in the worst case; `None` when nobody can tell.
    ///
    /// A pushed grant has no start of its own: this process may have slept over it. The server's clock tells how
    /// long after the last answer it was given, and that answer came after its request was sent. A thousandth
    /// allows for clocks of different speed.
    pub(super) fn granted_since(&self, now: Moment, at: ServerTime) -> Option<Moment> {
        let (place, sent) = self.place?;
        let later = Duration::from_micros(at.0.checked_sub(place.at.0)?);
        Some(sent.after(later.saturating_sub(later / 1000)).min(now))
    }

    /// True when the server has refused it with other words than before, or for the first time.
    pub(super) fn is_refused_anew(&self, reason: &Arc<str>) -> bool {
        !matches!(&self.last_answer, LastAnswer::Refused(before) if before == reason)
    }

    pub(super) fn refused(&mut self, now: Moment, reason: Arc<str>) {
        self.last_answer = LastAnswer::Refused(reason);
        self.awaits = Awaits::Retry { until: now.after(REFUSED.pause(self.refusals)) };
        self.refusals = self.refusals.saturating_add(1);
    }

    /// The server refuses the first waiter of this process, too: only that one asks again.
    pub(super) fn refused_behind(&mut self, reason: Arc<str>) {
        self.last_answer = LastAnswer::Refused(reason);
        self.refusals = self.refusals.max(1);
        self.awaits = Awaits::LocalTurn;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// Takes over what the waiter in front, which gives up, has learnt. False when it has to ask by itself.
    pub(super) fn inherit(&mut self, front: &Self) -> bool {
        if let Awaits::LocalTurn | Awaits::ServerTurn = self.awaits {
            self.last_answer = front.last_answer.clone();
            if let Awaits::Retry { .. } | Awaits::Connection = front.awaits {
                self.awaits = front.awaits;
            }
        }
        !matches!(self.awaits, Awaits::LocalTurn | Awaits::ServerTurn)
    }

    /// Its queue may be on another server now, with another clock: a grant that is pushed from there has no start until
    /// that server has answered.
    pub(super) fn moved(&mut self) {
        if let Some((place, _)) = &mut self.place {
            place.at = ServerTime(u64::MAX);
        }
    }

    pub(super) fn disconnected(&mut self) {
        // The next connection may lead to another server, after a failover.
        self.moved();
        self.overdue = None;
        self.told_early = None;
        if self.awaits != Awaits::LocalTurn {
            self.awaits = Awaits::Connection;
        }
    }

    /// Gives back what was asked for and may have been granted.
    pub(super) fn release(&self, now: Moment) -> Releasing {
        Releasing::new(now, Arc::clone(&self.ask.key), self.request(Action::Release), self.ask.ttl)
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// How often the first waiter of a process asks again where the server tells of no release.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Before a waiter asks a server again that refused: ten thousand waiters must not keep it busy.
const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: Duration::from_secs(1) };

/// Before a waiter asks the nodes of a quorum again after a split vote.
const VOTE_AGAIN: Backoff = Backoff { shortest: MILLISECOND, longest: Duration::from_millis(128) };

/// How often the first waiter of a process makes sure that it has missed nothing, when it is next in the queue:
/// less than a claim, so that a waiter that was granted the lock and is stuck costs no more than its claim.
const ASK_AGAIN_QUEUED: Duration = Duration::from_millis(600);

/// And far behind in the queue; less than the queue's own time to live.
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(10);
