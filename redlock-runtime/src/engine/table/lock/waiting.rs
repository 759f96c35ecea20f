//! An attempt that does not hold the lock yet.

use std::sync::Arc;
use std::time::Duration;

use super::releasing::Releasing;
use crate::engine::backoff::{Backoff, full_jitter, jittered};
use crate::engine::command::Ask;
use crate::engine::protocol::{Action, Mode, Place, PushKind, QUEUE_TTL, Request, ServerTime};
use crate::engine::table::reports::Reports;
use crate::ground::clock::Moment;
use crate::ground::error::Holder;
use crate::ground::token::Token;

/// The event that a waiting attempt awaits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine::table) enum Awaits {
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

/// The last answer of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::engine::table) enum LastAnswer {
    Nothing,
    Busy(Holder),
    Refused(Arc<str>),
}

/// What few of them have is boxed: thousands may wait.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the attempt")]
pub(in crate::engine::table) struct Waiting {
    pub(in crate::engine::table) ask: Box<Ask>,
    pub(in crate::engine::table) token: Token,
    pub(in crate::engine::table) awaits: Awaits,
    pub(in crate::engine::table) last_answer: LastAnswer,
    /// When that came.
    answered: Moment,
    /// Near its limit: an answer that comes then is new enough to give up with. `None` without a
    /// limit.
    word_from: Option<Moment>,
    /// When to see whether it has such an answer, or, if it `awaits_word`, when to give up.
    pub(in crate::engine::table) gives_up: Option<Moment>,
    /// The server was asked for such an answer.
    pub(in crate::engine::table) awaits_word: bool,
    /// The requests since the last reply "busy": the server may have granted each.
    pub(in crate::engine::table) unanswered: u32,
    /// All requests so far.
    pub(in crate::engine::table) asks: u32,
    /// The lock was released in this process after the unanswered request was sent.
    pub(in crate::engine::table) ask_again: bool,
    /// Its place in the queue on the server, and the time of the request whose reply told it.
    place: Option<(Place, Moment)>,
    /// When the lock in front expires unless it is renewed, by the last answer, and so much later for those behind the head.
    over_at: Option<Moment>,
    /// A push that overtook the reply to the unanswered request.
    pub(in crate::engine::table) deferred_push: Option<Box<PushKind>>,
    /// A grant came so late that it asks whether it still has the lock.
    pub(in crate::engine::table) was_granted: bool,
    /// All in front of it may be of this process, where only the first waiter asks.
    leads: bool,
    /// This waiter watches the lock: the server tells when it changes.
    tracks_changes: bool,
    /// Somebody who watches the lock would hear of its end: this waiter, or a holder that uses the queue.
    is_told: bool,
    /// The refusals since the last other reply.
    refusals: u32,
    /// The grants in a row whose answers came when the lock had expired.
    late_grants: u8,
    /// The rounds since the lock was last held in which no client had a quorum of votes.
    pub(in crate::engine::table) split_votes: u32,
    /// `None` where long waits are not reported.
    pub(in crate::engine::table) reports: Option<Reports>,
}

impl Waiting {
    pub(in crate::engine::table) fn new(ask: Box<Ask>, token: Token, word_from: Option<Moment>) -> Self {
        let answered = ask.started;
        Self {
            ask,
            token,
            awaits: Awaits::LocalTurn,
            last_answer: LastAnswer::Nothing,
            answered,
            word_from,
            gives_up: word_from,
            awaits_word: false,
            unanswered: 0,
            asks: 0,
            ask_again: false,
            place: None,
            over_at: None,
            deferred_push: None,
            was_granted: false,
            leads: false,
            tracks_changes: false,
            is_told: false,
            refusals: 0,
            late_grants: 0,
            split_votes: 0,
            reports: None,
        }
    }

    pub(in crate::engine::table) fn due(&self) -> Option<Moment> {
        let again = match self.awaits {
            Awaits::Retry { until } => Some(until),
            Awaits::LocalTurn | Awaits::ServerTurn | Awaits::Reply { .. } | Awaits::Connection => None,
        };
        again.into_iter().chain(self.gives_up).chain(self.reports.map(|reports| reports.due)).min()
    }

    pub(in crate::engine::table) fn is_over(&self, now: Moment) -> bool {
        self.gives_up.is_some_and(|at| at <= now)
    }

    /// The server has answered.
    fn hears(&mut self, now: Moment, answer: LastAnswer) {
        (self.last_answer, self.answered) = (answer, now);
    }

    /// True when `word`, of this waiter or another one for the same lock, is new enough for this
    /// one to give up with.
    pub(in crate::engine::table) fn may_give_up_with(&self, word: &Self) -> bool {
        word.last_answer != LastAnswer::Nothing && self.word_from.is_some_and(|from| word.answered >= from)
    }

    /// Of this waiter and another one for the same lock, the one with the later answer.
    pub(in crate::engine::table) fn later<'a>(&'a self, other: &'a Self) -> &'a Self {
        let heard = |waiting: &Self| (waiting.last_answer != LastAnswer::Nothing).then_some(waiting.answered);
        if heard(other) > heard(self) { other } else { self }
    }

    /// The server refuses its request, which the transport repeats for a while.
    pub(in crate::engine::table) fn is_delayed(&mut self, now: Moment, reason: Arc<str>) {
        if self.is_asking() {
            self.hears(now, LastAnswer::Refused(reason));
        }
    }

    /// A report is due.
    pub(in crate::engine::table) fn is_long(&self, now: Moment) -> bool {
        self.reports.is_some_and(|reports| reports.due <= now)
    }

    pub(in crate::engine::table) fn request(&self, action: Action) -> Request {
        let name = Arc::clone(&self.ask.name);
        Request { fenced: self.ask.fenced, ..Request::new(action, name, self.token.clone(), self.ask.ttl) }
    }

    /// `with_all`: all waiters of this process ask.
    pub(in crate::engine::table) fn mode(&self, with_all: bool) -> Mode {
        match self.place {
            _ if self.ask.one_try => Mode::OneTry,
            None if self.asks == 0 => Mode::Join { at_most: self.ask.max_waiters },
            None => Mode::JoinAgain { at_most: self.ask.max_waiters },
            Some(_) if with_all => Mode::Rejoin,
            Some(_) => Mode::Again,
        }
    }

    pub(in crate::engine::table) fn asking(&mut self, now: Moment) {
        self.awaits = Awaits::Reply { sent: now };
        self.unanswered = self.unanswered.saturating_add(1);
        self.asks = self.asks.saturating_add(1);
        self.ask_again = false;
        self.deferred_push = None;
        self.tracks_changes = false;
    }

    /// When its unanswered request was sent.
    pub(in crate::engine::table) fn asked_at(&self) -> Option<Moment> {
        match self.awaits {
            Awaits::Reply { sent } => Some(sent),
            _ => None,
        }
    }

    pub(in crate::engine::table) fn is_asking(&self) -> bool {
        self.asked_at().is_some()
    }

    /// The server has done nothing of the last request. An earlier one, over a connection that broke, may have taken the lock.
    pub(in crate::engine::table) fn has_come_to_nothing(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// The last request will not be sent.
    pub(in crate::engine::table) fn taken_back(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.awaits = Awaits::LocalTurn;
    }

    /// True when this attempt may have the lock or a place on the server. `was_sent`: the last request was sent.
    pub(in crate::engine::table) fn must_release(&self, was_sent: bool) -> bool {
        self.unanswered > u32::from(!was_sent) || self.place.is_some()
    }

    /// The waiters in front of it, in the last reply.
    pub(in crate::engine::table) fn in_front(&self) -> Option<u32> {
        self.place.map(|(place, _)| place.in_front)
    }

    /// True when the push counts only after the reply to the unanswered request: the replies of a batch are read together,
    /// so a push may overtake them. A grant needs the place in that reply, and the reply would undo a hint.
    pub(in crate::engine::table) fn defers(&mut self, kind: PushKind) -> bool {
        let asks = matches!(self.awaits, Awaits::Reply { .. });
        let is_kept = asks && !(matches!(kind, PushKind::Granted { .. }) && self.is_queued());
        // A waiter that has been granted the lock needs its place no longer.
        let is_granted = matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. }));
        if is_kept && !(is_granted && kind == PushKind::PlaceLost) {
            self.deferred_push = Some(Box::new(kind));
        }
        is_kept
    }

    pub(in crate::engine::table) fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// It has a place in the queue, and no request under way.
    pub(in crate::engine::table) fn sleeps_in_queue(&self) -> bool {
        self.is_queued() && matches!(self.awaits, Awaits::ServerTurn | Awaits::Retry { .. })
    }

    /// The server tells this waiter when another client changes the lock.
    pub(in crate::engine::table) fn watches(&self) -> bool {
        self.tracks_changes
    }

    /// Another holder has the lock. The first waiter of this process asks again when the lock expires, or sooner, at a
    /// jittered interval; the others wait for a push, or until they are first. `first`: it is that, of so many. `can_watch`:
    /// the server can tell a waiter of changes. True when this waiter is to watch.
    ///
    /// The lease in front counts from the sending of the request: the reply may have waited, and a request takes as long as
    /// that one did.
    pub(in crate::engine::table) fn busy(
        &mut self,
        now: Moment,
        sent: Moment,
        holder: Holder,
        place: Option<Place>,
        first: Option<u32>,
        can_watch: bool,
    ) -> bool {
        (self.unanswered, self.refusals, self.late_grants, self.was_granted) = (0, 0, 0, false);
        let has_waited = self.is_queued();
        self.place = place.map(|place| (place, sent));
        let expires = holder.expires_in.map(|left| sent.after(left + MILLISECOND));
        // The head asks first, then the others, in the grace of the lock.
        let is_behind = place.is_some_and(|place| place.in_front > 0);
        self.over_at = expires.map(|at| if is_behind { at.after(BEHIND_THE_HEAD) } else { at });
        self.hears(now, LastAnswer::Busy(holder));
        // A release wakes no waiter without a queue, or when the holder is a client of another kind. Of a queue the head
        // watches, and whoever has waited for longer: those in front may be dead.
        self.leads = first.zip(place).is_some_and(|(of, place)| place.in_front < of);
        let is_foreign = self.behind_a_foreign_holder();
        let wakes_no_waiter = place.is_none() || (self.leads || has_waited) && is_foreign;
        self.tracks_changes = first.is_some() && can_watch && wakes_no_waiter;
        self.is_told = can_watch && (self.tracks_changes || !is_foreign);
        self.awaits = match (first.is_some(), place) {
            (true, _) if self.ask_again && place.is_none() => Awaits::Retry { until: now },
            (true, _) => {
                let until = now.after(self.interval());
                Awaits::Retry { until: self.over_at.into_iter().fold(until, Ord::min) }
            }
            (false, Some(_)) => Awaits::ServerTurn,
            (false, None) => Awaits::LocalTurn,
        };
        self.tracks_changes && matches!(self.awaits, Awaits::Retry { .. })
    }

    /// The lock is free for clients that do not use the queue; after that, this waiter asks.
    pub(in crate::engine::table) fn stand_back(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(jittered(2 * MILLISECOND)) };
    }

    /// The waiter is next: it asks when the claim in front should be over, or sooner. That counts from the server's time: the
    /// push may have waited.
    pub(in crate::engine::table) fn is_next(&mut self, now: Moment, claim: Duration, at: ServerTime) {
        let over = self.told_since(now, at).after(claim + MILLISECOND);
        let until = match self.awaits {
            Awaits::ServerTurn => over,
            Awaits::Retry { until } => until.min(over),
            Awaits::LocalTurn | Awaits::Reply { .. } | Awaits::Connection => return,
        };
        self.awaits = Awaits::Retry { until };
    }

    /// A waiter of this process in front of it has the lock for a claim: this process renews or releases it.
    pub(in crate::engine::table) fn is_behind_own_claim(&mut self, ends: Moment) {
        let over = ends.after(MILLISECOND);
        let until = match self.awaits {
            Awaits::ServerTurn => over,
            Awaits::Retry { until } if self.is_queued() => until.min(over),
            _ => return,
        };
        self.awaits = Awaits::Retry { until };
    }

    /// The lock is free on a quorum of nodes, and other waiters may see that, too. One must ask all nodes before the next
    /// one does, so the random pauses grow with each split vote.
    pub(in crate::engine::table) fn pause_before_vote(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(full_jitter(VOTE_AGAIN.window(self.split_votes))) };
        self.split_votes = self.split_votes.saturating_add(1);
    }

    /// The server refused the watch.
    pub(in crate::engine::table) fn cannot_watch(&mut self, now: Moment) {
        (self.tracks_changes, self.is_told) = (false, false);
        if let Awaits::Retry { .. } = self.awaits {
            self.keep_asking(now, None);
        }
    }

    /// It is the first waiter of this process now, which asks from time to time in case a push was lost. `kept_at`: when a
    /// waiter of this process last kept the queue on the server from expiring. Where each is first for a moment only, none
    /// would.
    pub(in crate::engine::table) fn keep_asking(&mut self, now: Moment, kept_at: Option<Moment>) {
        // At least once between a grant and its expiry, so that it knows of the expiry.
        let until = now.after(self.interval().min(self.ask.ttl + MILLISECOND));
        let keep_by = kept_at.map(|at| at.after(KEEPS_THE_QUEUE));
        // A hint may have told it to ask when a lease is over.
        let armed = if let Awaits::Retry { until } = self.awaits { Some(until) } else { None };
        // The one in front may have left before it knew that.
        let over_at = self.over_at.filter(|at| *at > now);
        let sooner = keep_by.into_iter().chain(armed).chain(over_at);
        self.awaits = Awaits::Retry { until: sooner.fold(until, Ord::min) };
    }

    fn behind_a_foreign_holder(&self) -> bool {
        matches!(&self.last_answer, LastAnswer::Busy(holder) if holder.name().is_none())
    }

    fn interval(&self) -> Duration {
        jittered(match self.place {
            _ if self.tracks_changes && (self.leads || !self.is_queued()) => ASK_AGAIN_QUEUED,
            // A client of another kind releases without a push.
            Some(_) if self.leads && self.behind_a_foreign_holder() => ASK_AGAIN_AFTER,
            Some((place, _)) => {
                (ASK_AGAIN_QUEUED * (2 + place.in_front.min(100)) / 2).min(self.longest_interval())
            }
            None => ASK_AGAIN_AFTER,
        })
    }

    fn longest_interval(&self) -> Duration {
        if self.is_told { ASK_AGAIN_AT_LAST } else { ASK_AGAIN_UNTOLD }
    }

    /// The earliest time at which the lock may have been granted; `None` when that is unknown.
    ///
    /// The arrival of a push says nothing: the process may have been suspended. The server's clock tells how long after the
    /// last reply it granted the lock, and that reply came after its request was sent. A hundredth allows for clocks of
    /// different speed.
    pub(in crate::engine::table) fn granted_since(&self, now: Moment, at: ServerTime) -> Option<Moment> {
        let (place, sent) = self.place?;
        let later = Duration::from_micros(at.0.checked_sub(place.at.0)?);
        Some(sent.after(later.saturating_sub(later / 100)).min(now))
    }

    /// When the server told that, or a little before. It may have looked at its clock again for the last reply.
    fn told_since(&self, now: Moment, at: ServerTime) -> Moment {
        match self.place {
            Some((place, sent)) if at < place.at && place.at.0 < u64::MAX => sent.min(now),
            _ => self.granted_since(now, at).unwrap_or(now),
        }
    }

    /// True for the first refusal, and for one with another reason than the last.
    pub(in crate::engine::table) fn is_refused_anew(&self, reason: &Arc<str>) -> bool {
        !matches!(&self.last_answer, LastAnswer::Refused(before) if before == reason)
    }

    pub(in crate::engine::table) fn refused(&mut self, now: Moment, reason: Arc<str>) {
        self.hears(now, LastAnswer::Refused(reason));
        self.awaits = Awaits::Retry { until: now.after(REFUSED.pause(self.refusals)) };
        self.refusals = self.refusals.saturating_add(1);
    }

    /// The server refuses the first waiter of this process, too, and only that one asks again.
    pub(in crate::engine::table) fn refused_behind(&mut self, now: Moment, reason: Arc<str>) {
        self.hears(now, LastAnswer::Refused(reason));
        self.refusals = self.refusals.max(1);
        self.awaits = Awaits::LocalTurn;
    }

    pub(in crate::engine::table) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// A grant for `lasts` came after that time. The reason when so many did that the next one
    /// will, too.
    pub(in crate::engine::table) fn granted_late(
        &mut self,
        now: Moment,
        took: Duration,
        lasts: Duration,
    ) -> Option<Arc<str>> {
        self.late_grants = self.late_grants.saturating_add(1);
        let reason: Arc<str> = format!(
            "the lock was granted for {lasts:?} and the answer took {took:.1?}, so it had expired: a `ttl` must be several times as \
             long as a round trip"
        )
        .into();
        self.hears(now, LastAnswer::Refused(Arc::clone(&reason)));
        (self.late_grants >= LATE_GRANTS).then_some(reason)
    }

    /// Takes over the last answer and the pause of the first waiter, which leaves. False when it must ask now: the pause of a
    /// waiter with a place is long, because a push ends it.
    pub(in crate::engine::table) fn take_over(&mut self, front: &Self) -> bool {
        if std::ptr::eq(self.later(front), front) {
            self.hears(front.answered, front.last_answer.clone());
        }
        if let Awaits::LocalTurn | Awaits::ServerTurn = self.awaits {
            if front.last_answer != LastAnswer::Nothing {
                self.over_at = front.over_at;
            }
            let is_pushed = self.is_queued() || !front.is_queued();
            if let Awaits::Retry { .. } | Awaits::Connection = front.awaits
                && is_pushed
            {
                self.awaits = front.awaits;
            }
        }
        !matches!(self.awaits, Awaits::LocalTurn | Awaits::ServerTurn)
    }

    /// Its queue may be on another server now, with another clock: the start of a pushed grant is unknown until that server
    /// has answered.
    pub(in crate::engine::table) fn forget_server_clock(&mut self) {
        if let Some((place, _)) = &mut self.place {
            place.at = ServerTime(u64::MAX);
        }
    }

    pub(in crate::engine::table) fn disconnected(&mut self) {
        // The next connection may lead to another server, after a failover.
        self.forget_server_clock();
        self.deferred_push = None;
        if self.awaits != Awaits::LocalTurn {
            self.awaits = Awaits::Connection;
        }
    }

    /// Releases the lock that it may have got, and its place.
    pub(in crate::engine::table) fn release(&self, now: Moment) -> Releasing {
        let mut releasing =
            Releasing::new(now, Arc::clone(&self.ask.key), self.request(Action::Release), self.ask.ttl);
        if self.was_granted || matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. })) {
            releasing.is_granted();
        }
        if self.is_queued() { releasing } else { releasing.after_unanswered(self.unanswered) }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// How much later than the head the others ask when a lease is over: half of the grace of mark.lua.
const BEHIND_THE_HEAD: Duration = Duration::from_millis(50);

/// After so many grants in a row that came too late, their ttl is too short for the network.
const LATE_GRANTS: u8 = 3;

/// How often the first waiter of a process asks again where the server tells of no release.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The pause of a waiter after a refusal: ten thousand waiters must not keep it busy.
const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: Duration::from_secs(1) };

/// The pause of a waiter after a split vote of a quorum.
const VOTE_AGAIN: Backoff = Backoff { shortest: MILLISECOND, longest: Duration::from_millis(128) };

/// How often the first waiter of a process asks again when it is next in the queue: less than a claim, so a stuck
/// waiter with a grant delays the others by no more than its claim.
const ASK_AGAIN_QUEUED: Duration = Duration::from_millis(600);

/// The same far behind in the queue, where nobody would hear that the lock was deleted.
const ASK_AGAIN_UNTOLD: Duration = Duration::from_secs(2);

/// The same where somebody would: less than the queue's own time to live.
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(10);
const _: () = assert!(2 * ASK_AGAIN_AT_LAST.as_secs() <= QUEUE_TTL.as_secs());

/// A process with waiters in the queue asks at least so often.
const KEEPS_THE_QUEUE: Duration = Duration::from_secs(20);
const _: () = assert!(2 * KEEPS_THE_QUEUE.as_secs() <= QUEUE_TTL.as_secs());
