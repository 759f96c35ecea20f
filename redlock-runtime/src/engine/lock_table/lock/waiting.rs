//! An attempt that does not hold the lock yet: what it awaits, and what it has heard.
//!
//! An attempt asks, and awaits the reply. A busy lock gives it a place in the queue on the server,
//! and then it awaits a push; or it has none, and asks again after a pause. The pause is as short
//! as the server must be asked for: the first waiter of a process asks when the lease in front is
//! over, and often where no push or change would tell it; the others sleep until they are first.
//! A refusal is followed by pauses that double.
//!
//! What the server may have granted is counted: each request without an answer may have taken the
//! lock or a place, so an attempt that leaves knows whether it has anything to release. A push
//! counts only after the reply to the unanswered request, because the reply has the place that
//! tells since when the lock is granted.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::releasing::Releasing;
use crate::base::clock::Moment;
use crate::base::error::{Holder, InFront, LockError};
use crate::base::lease::safe_until;
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::token::Token;
use crate::engine::command::{AcquireOutcome, Ask, Caller};
use crate::engine::protocol::{
    Action, CLAIM, Kind, Mode, Place, PushKind, QUEUE_TTL, Refusal, Request, ServerTime, Verdict,
};
use crate::engine::timers::{Backoff, full_jitter, jittered};

/// The event that a waiting attempt awaits.
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

/// The last answer of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LastAnswer {
    Nothing,
    /// Who holds it, since when, and for how long unless that one renews it. Without the rest of a
    /// [`Holder`]: thousands may wait.
    Busy {
        owner: Option<Owner>,
        granted: Option<NonZeroU64>,
        expires_in: Option<Duration>,
        inside: u32,
        limit: Option<Limit>,
        waiter: Option<Box<InFront>>,
    },
    Refused(Arc<str>),
}

/// What few of them have is boxed: thousands may wait.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the attempt")]
pub(super) struct Waiting {
    ask: Box<Ask>,
    token: Token,
    awaits: Awaits,
    last_answer: LastAnswer,
    /// The time when the last answer came.
    answered: Moment,
    /// Near its limit: an answer that comes then is new enough to give up with. `None` without a
    /// limit.
    word_from: Option<Moment>,
    /// The time to see whether it has such an answer, or, if it `awaits_word`, to give up.
    gives_up: Option<Moment>,
    /// The server was asked for such an answer.
    awaits_word: bool,
    /// The requests since the last reply "busy": the server may have granted each.
    unanswered: u32,
    /// All requests so far.
    asks: u32,
    /// The lock was released in this process after the unanswered request was sent.
    ask_again: bool,
    /// Its place in the queue on the server, and the time of the request whose reply told it.
    place: Option<(Place, Moment)>,
    /// The time when the lock in front expires by the last answer, unless it is renewed, and a
    /// little later for those behind the head.
    over_at: Option<Moment>,
    /// A push that overtook the reply to the unanswered request.
    deferred_push: Option<Box<PushKind>>,
    /// A grant came so late that it asks whether it still has the lock.
    was_granted: bool,
    /// The fencing token of a lock that it has for a claim, while it asks the server to keep it: its
    /// `min_hold` counts from the begin of its body, whatever becomes of it.
    claimed_fence: u64,
    /// All in front of it may be of this process, where only the first waiter asks.
    leads: bool,
    /// This waiter watches the lock: the server tells when it changes.
    tracks_changes: bool,
    /// Somebody who watches the lock would hear of its end: this waiter, or a holder that uses the
    /// queue.
    is_told: bool,
    /// The refusals since the last other reply.
    refusals: u32,
    /// The grants in a row whose answers came when the lock had expired.
    late_grants: u8,
    /// The rounds since the lock was last held in which no client had a quorum of votes.
    split_votes: u32,
    /// `None` where long waits are not reported.
    reports: Option<Reports>,
}

/// The times when the wait is reported: after the limit, then each time it is four times as long.
#[derive(Clone, Copy)]
struct Reports {
    since: Moment,
    due: Moment,
    is_reported: bool,
}

/// What the timer of a waiter is for. The first that is due counts, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitTimer {
    /// Its limit has come, or is so near that the server must be asked once more.
    GivesUp,
    /// The wait is to be reported.
    Report,
    /// It asks the server again.
    Ask,
}

impl Waiting {
    /// `report_from`: since when it waits, and how long a wait must be to be reported.
    pub(super) fn new(
        ask: Box<Ask>,
        token: Token,
        word_from: Option<Moment>,
        report_from: Option<(Moment, Duration)>,
    ) -> Self {
        let answered = ask.started;
        let reports = report_from.map(|(since, limit)| {
            // Four times zero would be due at once, again and again.
            let due = since.after(limit.max(MILLISECOND));
            Reports { since, due, is_reported: false }
        });
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
            claimed_fence: 0,
            leads: false,
            tracks_changes: false,
            is_told: false,
            refusals: 0,
            late_grants: 0,
            split_votes: 0,
            reports,
        }
    }

    fn timers(&self) -> [(WaitTimer, Option<Moment>); 3] {
        let again = match self.awaits {
            Awaits::Retry { until } => Some(until),
            Awaits::LocalTurn | Awaits::ServerTurn | Awaits::Reply { .. } | Awaits::Connection => None,
        };
        [
            (WaitTimer::GivesUp, self.gives_up),
            (WaitTimer::Report, self.reports.map(|reports| reports.due)),
            (WaitTimer::Ask, again),
        ]
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.timers().into_iter().filter_map(|(_, at)| at).min()
    }

    /// What its timer rings for.
    pub(super) fn due_timer(&self, now: Moment) -> Option<WaitTimer> {
        let is_due = |(timer, at): (WaitTimer, Option<Moment>)| (at? <= now).then_some(timer);
        self.timers().into_iter().find_map(is_due)
    }

    pub(super) fn ask(&self) -> &Ask {
        &self.ask
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    pub(super) fn awaits(&self) -> Awaits {
        self.awaits
    }

    pub(super) fn last_answer(&self) -> &LastAnswer {
        &self.last_answer
    }

    /// The waiter in front that it does not pass, as the server last told it.
    pub(super) fn kept_out_by(&self) -> Option<&InFront> {
        match &self.last_answer {
            LastAnswer::Busy { waiter, .. } => waiter.as_deref(),
            LastAnswer::Nothing | LastAnswer::Refused(_) => None,
        }
    }

    /// It has the lock now, or its wait is over.
    pub(super) fn into_parts(self) -> (Box<Ask>, Token) {
        (self.ask, self.token)
    }

    pub(super) fn take_caller(&mut self) -> Option<Caller> {
        self.ask.caller.take()
    }

    /// Tells its caller.
    pub(super) fn end(&mut self, outcome: AcquireOutcome) {
        self.ask.end(outcome);
    }

    pub(super) fn fail(&mut self, error: LockError) {
        self.ask.fail(error);
    }

    pub(super) fn asks(&self) -> u32 {
        self.asks
    }

    pub(super) fn set_token(&mut self, token: Token) {
        self.token = token;
    }

    pub(super) fn await_connection(&mut self) {
        self.awaits = Awaits::Connection;
    }

    /// The lock was released in this process, perhaps after the server has answered.
    pub(super) fn ask_again(&mut self) {
        self.ask_again = true;
    }

    /// It has waited for longer than those of its process that have room are to wait behind it.
    pub(super) fn is_starved(&self, now: Moment) -> bool {
        now.since(self.ask.started) >= CLAIM
    }

    /// A grant came so late that it asks whether it still has the lock.
    pub(super) fn set_granted(&mut self) {
        self.was_granted = true;
    }

    /// It has the lock for a claim, and asks for more before its body begins.
    pub(super) fn set_claiming(&mut self, now: Moment, fence: u64) {
        (self.was_granted, self.claimed_fence) = (true, fence);
        self.set_asking(now);
    }

    /// The fencing token of that claim.
    pub(super) fn claimed_fence(&self) -> u64 {
        self.claimed_fence
    }

    /// The server has answered, and has given it neither the lock nor a place.
    pub(super) fn set_turned_away(&mut self) {
        self.unanswered = 0;
    }

    /// The same, and a place that it had is gone.
    pub(super) fn set_gone(&mut self) {
        self.set_turned_away();
        self.place = None;
        self.was_granted = false;
    }

    /// The lock was held since its last vote.
    pub(super) fn forget_split_votes(&mut self) {
        self.split_votes = 0;
    }

    /// The reply to a request for a key behind another one. True when it does not count, so that
    /// the key is skipped: the caller asks for it again later.
    pub(super) fn skip_by(&mut self, now: Moment, sent: Moment, verdict: &Result<Verdict, Refusal>) -> bool {
        let in_time = self.ask.capped(sent, safe_until(sent, self.ask.ttl)) > now;
        match verdict {
            // It was not tried, or the whole call is repeated.
            Ok(Verdict::Skipped) | Err(Refusal::NoScript) => false,
            // The first key may be asked for again.
            Err(_) => true,
            // The reply took longer than the leases: the first key is asked for again.
            Ok(_) if !in_time => true,
            // All keys before it are held.
            Ok(_) => {
                self.ask.after = None;
                false
            }
        }
    }

    pub(super) fn take_deferred_push(&mut self) -> Option<Box<PushKind>> {
        self.deferred_push.take()
    }

    /// Its limit is near. `asked_at`: when the server was asked for an answer that is new enough to
    /// give up with; `None` when it is not asked. Such an answer is `late` after that. True when
    /// its wait is over.
    pub(super) fn give_up(&mut self, now: Moment, asked_at: Option<Moment>, late: Duration) -> bool {
        let limit = self.ask.gives_up_at;
        self.gives_up = match asked_at {
            None => limit,
            Some(_) if self.awaits_word => self.gives_up,
            Some(asked_at) => limit.map(|limit| limit.max(asked_at.after(late))),
        };
        self.awaits_word = asked_at.is_some();
        self.gives_up.is_some_and(|at| at <= now)
    }

    /// A report is due, and the next one later. `is_reported`: it is this waiter of the lock that
    /// is reported.
    pub(super) fn count_report(&mut self, is_reported: bool) {
        if let Some(reports) = &mut self.reports {
            let so_far = reports.due.since(reports.since);
            reports.due = reports.since.after(so_far.saturating_mul(REPORT_AGAIN_AFTER));
            reports.is_reported |= is_reported;
        }
    }

    /// Since when it waits, if that is to be reported.
    pub(super) fn reports_since(&self) -> Option<Moment> {
        self.reports.map(|reports| reports.since)
    }

    pub(super) fn is_reported(&self) -> bool {
        self.reports.is_some_and(|reports| reports.is_reported)
    }

    /// The server has answered.
    fn hear(&mut self, now: Moment, answer: LastAnswer) {
        (self.last_answer, self.answered) = (answer, now);
    }

    /// True when `word`, of this waiter or another one for the same lock, is new enough for this
    /// one to give up with.
    pub(super) fn may_give_up_with(&self, word: &Self) -> bool {
        word.last_answer != LastAnswer::Nothing && self.word_from.is_some_and(|from| word.answered >= from)
    }

    /// Of this waiter and another one for the same lock, the one with the later answer.
    pub(super) fn later<'a>(&'a self, other: &'a Self) -> &'a Self {
        let heard = |waiting: &Self| (waiting.last_answer != LastAnswer::Nothing).then_some(waiting.answered);
        if heard(other) > heard(self) { other } else { self }
    }

    /// The server refuses its request, which the transport repeats for a while.
    pub(super) fn set_delayed(&mut self, now: Moment, reason: Arc<str>) {
        if self.is_asking() {
            self.hear(now, LastAnswer::Refused(reason));
        }
    }

    pub(super) fn request(&self, action: Action) -> Request {
        self.request_of(self.ask.kind.waiting(action), action)
    }

    fn request_of(&self, kind: Kind, action: Action) -> Request {
        let Ask { name, ttl, keeps, fenced, .. } = &*self.ask;
        let request = Request::new(action, Arc::clone(name), self.token.clone(), *ttl);
        Request { keeps: *keeps, fenced: *fenced, kind, ..request }
    }

    /// The server has told which tick it is: it stays the same for as long as this one waits.
    pub(super) fn set_tick(&mut self, at_ms: u64) {
        self.ask.kind.set_tick(at_ms);
    }

    /// True for a first request that is not late: then the time in its token is that of its grant.
    pub(super) fn is_first(&self, now: Moment) -> bool {
        self.asks == 0 && now.since(self.ask.started) < LATE
    }

    /// `with_all`: all waiters of this process ask.
    pub(super) fn mode(&self, now: Moment, with_all: bool) -> Mode {
        match self.place {
            _ if self.ask.one_try => Mode::OneTry,
            None if self.is_first(now) => Mode::Join { at_most: self.ask.max_waiters },
            None => Mode::JoinAgain { at_most: self.ask.max_waiters },
            Some(_) if with_all => Mode::Rejoin,
            Some(_) => Mode::Again,
        }
    }

    pub(super) fn set_asking(&mut self, now: Moment) {
        self.awaits = Awaits::Reply { sent: now };
        self.unanswered = self.unanswered.saturating_add(1);
        self.asks = self.asks.saturating_add(1);
        self.ask_again = false;
        self.deferred_push = None;
        self.tracks_changes = false;
    }

    /// The time when its unanswered request was sent.
    pub(super) fn asked_at(&self) -> Option<Moment> {
        match self.awaits {
            Awaits::Reply { sent } => Some(sent),
            _ => None,
        }
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asked_at().is_some()
    }

    /// The server has done nothing of the last request. An earlier one, over a connection that
    /// broke, may have taken the lock.
    pub(super) fn undo_request(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// The last request will not be sent.
    pub(super) fn take_back(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.awaits = Awaits::LocalTurn;
    }

    /// True when this attempt may have the lock or a place on the server. `was_sent`: the last
    /// request was sent.
    pub(super) fn must_release(&self, was_sent: bool) -> bool {
        self.unanswered > u32::from(!was_sent) || self.place.is_some()
    }

    /// True when this attempt may have the lock, as far as it can be released: a ticket is redeemed
    /// once.
    pub(super) fn may_hold(&self) -> bool {
        (self.unanswered > 0 || self.was_granted) && !self.ask.kind.has_ticket()
    }

    /// The waiters in front of it, in the last reply.
    pub(super) fn in_front(&self) -> Option<u32> {
        self.place.map(|(place, _)| place.in_front)
    }

    /// True when the push counts only after the reply to the unanswered request: the replies of a
    /// batch are read together, so a push may overtake them. A grant needs the place in that reply,
    /// and the reply would undo a hint.
    pub(super) fn defer(&mut self, kind: PushKind) -> bool {
        let asks = matches!(self.awaits, Awaits::Reply { .. });
        let is_kept = asks && !(matches!(kind, PushKind::Granted { .. }) && self.is_queued());
        // A waiter that has been granted the lock needs its place no longer.
        let is_granted = matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. }));
        if is_kept && !(is_granted && kind == PushKind::PlaceLost) {
            self.deferred_push = Some(Box::new(kind));
        }
        is_kept
    }

    pub(super) fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// It has a place in the queue, and no request under way.
    pub(super) fn sleeps_in_queue(&self) -> bool {
        self.is_queued() && matches!(self.awaits, Awaits::ServerTurn | Awaits::Retry { .. })
    }

    /// The server tells this waiter when another client changes the lock.
    pub(super) fn watches(&self) -> bool {
        self.tracks_changes
    }

    /// Another holder has the lock. The first waiter of this process asks again when the lock
    /// expires, or sooner, at a jittered interval; the others wait for a push, or until they are
    /// first. `first`: it is that, of so many. `can_watch`: the server can tell a waiter of
    /// changes. True when this waiter is to watch.
    ///
    /// The lease in front counts from the sending of the request: the reply may have waited, and a
    /// request takes as long as that one did.
    pub(super) fn set_busy(
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
        let Holder { owner, granted, expires_in, inside, limit, waiter, .. } = holder;
        self.hear(now, LastAnswer::Busy { owner, granted, expires_in, inside, limit, waiter });
        // A release wakes no waiter without a queue, or when the holder is a client of another
        // kind. Of a queue the head watches, and whoever has waited for longer: those in front may
        // be dead.
        self.leads = first.zip(place).is_some_and(|(of, place)| place.in_front < of);
        let is_foreign = self.behind_a_foreign_holder();
        let wakes_no_waiter = place.is_none() || (self.leads || has_waited) && is_foreign;
        // One of several that leaves changes nothing in the key.
        let is_news = inside == 0 || !self.ask.kind.is_counted();
        self.tracks_changes = first.is_some() && can_watch && wakes_no_waiter && is_news;
        self.is_told = can_watch && (self.tracks_changes || !is_foreign);
        self.awaits = match (first.is_some(), place) {
            (true, _) if self.ask_again && place.is_none() => Awaits::Retry { until: now },
            (true, _) => {
                let until = now.after(self.interval());
                Awaits::Retry { until: self.over_at.into_iter().fold(until, Ord::min) }
            }
            // Behind several, each of the first two may have room sooner than the one that asks for
            // this process.
            (false, Some(Place { in_front: 0 | 1, .. })) if inside > 0 => {
                self.over_at.map_or(Awaits::ServerTurn, |until| Awaits::Retry { until })
            }
            (false, Some(_)) => Awaits::ServerTurn,
            (false, None) => Awaits::LocalTurn,
        };
        self.tracks_changes && matches!(self.awaits, Awaits::Retry { .. })
    }

    /// The lock is free for clients that do not use the queue; after that, this waiter asks.
    pub(super) fn stand_back(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(jittered(2 * MILLISECOND)) };
    }

    /// The waiter is next: it asks when the claim in front should be over, or sooner. That counts
    /// from the server's time: the push may have waited.
    pub(super) fn set_next(&mut self, now: Moment, claim: Duration, at: ServerTime) {
        let over = self.told_since(now, at).after(claim + MILLISECOND);
        let until = match self.awaits {
            Awaits::ServerTurn => over,
            Awaits::Retry { until } => until.min(over),
            Awaits::LocalTurn | Awaits::Reply { .. } | Awaits::Connection => return,
        };
        self.awaits = Awaits::Retry { until };
    }

    /// A waiter of this process in front of it has the lock for a claim: this process renews or
    /// releases it.
    pub(super) fn wait_for_own_claim(&mut self, ends: Moment) {
        let over = ends.after(MILLISECOND);
        let until = match self.awaits {
            Awaits::ServerTurn => over,
            Awaits::Retry { until } if self.is_queued() => until.min(over),
            _ => return,
        };
        self.awaits = Awaits::Retry { until };
    }

    /// The lock is free on a quorum of nodes, and other waiters may see that, too. One must ask all
    /// nodes before the next one does, so the random pauses grow with each split vote.
    pub(super) fn pause_before_vote(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(full_jitter(VOTE_AGAIN.window(self.split_votes))) };
        self.split_votes = self.split_votes.saturating_add(1);
    }

    /// The server refused the watch.
    pub(super) fn stop_watching(&mut self, now: Moment) {
        (self.tracks_changes, self.is_told) = (false, false);
        if let Awaits::Retry { .. } = self.awaits {
            self.keep_asking(now, None);
        }
    }

    /// It is the first waiter of this process now, which asks from time to time in case a push was
    /// lost. `kept_at`: when a waiter of this process last kept the queue on the server from
    /// expiring: where each waiter is first for a moment only and none would ask in time, this one
    /// asks as soon as the queue needs it.
    pub(super) fn keep_asking(&mut self, now: Moment, kept_at: Option<Moment>) {
        // It asks at least once between a grant and its expiry, so that it knows of the expiry.
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
        matches!(&self.last_answer, LastAnswer::Busy { owner: None, inside: 0, .. })
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
    /// The arrival of a push says nothing: the process may have been suspended. The server's clock
    /// tells how long after the last reply it granted the lock, and that reply came after its
    /// request was sent. A hundredth allows for clocks of different speed.
    pub(super) fn granted_since(&self, now: Moment, at: ServerTime) -> Option<Moment> {
        let (place, sent) = self.place?;
        let later = Duration::from_micros(at.0.checked_sub(place.at.0)?);
        Some(sent.after(later.saturating_sub(later / 100)).min(now))
    }

    /// The time when the server told that, or a little before. It may have looked at its clock
    /// again for the last reply.
    fn told_since(&self, now: Moment, at: ServerTime) -> Moment {
        match self.place {
            Some((place, sent)) if at < place.at && place.at.0 < u64::MAX => sent.min(now),
            _ => self.granted_since(now, at).unwrap_or(now),
        }
    }

    /// True for the first refusal, and for one with another reason than the last.
    pub(super) fn is_refused_anew(&self, reason: &Arc<str>) -> bool {
        !matches!(&self.last_answer, LastAnswer::Refused(before) if before == reason)
    }

    pub(super) fn set_refused(&mut self, now: Moment, reason: Arc<str>) {
        self.hear(now, LastAnswer::Refused(reason));
        self.awaits = Awaits::Retry { until: now.after(REFUSED.pause(self.refusals)) };
        self.refusals = self.refusals.saturating_add(1);
    }

    /// The server refuses the first waiter of this process, too, and only that one asks again.
    pub(super) fn set_refused_behind(&mut self, now: Moment, reason: Arc<str>) {
        self.hear(now, LastAnswer::Refused(reason));
        self.refusals = self.refusals.max(1);
        self.awaits = Awaits::LocalTurn;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// A grant for `lasts` came after that time, or after the `max_hold`. The reason when so many
    /// did that the next one will, too.
    pub(super) fn count_late_grant(
        &mut self,
        now: Moment,
        took: Duration,
        lasts: Duration,
    ) -> Option<Arc<str>> {
        self.late_grants = self.late_grants.saturating_add(1);
        let (option, lasts) = match self.ask.max_hold {
            Some(max_hold) if max_hold < lasts => ("max_hold", max_hold),
            _ => ("ttl", lasts),
        };
        let reason: Arc<str> = format!(
            "the lock was granted for {lasts:?} and the answer took {took:.1?}, so it had expired: a `{option}` must be several \
             times as long as a round trip"
        )
        .into();
        self.hear(now, LastAnswer::Refused(Arc::clone(&reason)));
        (self.late_grants >= LATE_GRANTS).then_some(reason)
    }

    /// Takes over the last answer and the pause of the first waiter, which leaves. False when it
    /// must ask now: the pause of a waiter with a place is long, because a push ends it.
    pub(super) fn take_over(&mut self, front: &Self) -> bool {
        if std::ptr::eq(self.later(front), front) {
            self.hear(front.answered, front.last_answer.clone());
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

    /// Its queue may be on another server now, with another clock: the start of a pushed grant is
    /// unknown until that server has answered.
    pub(super) fn forget_server_clock(&mut self) {
        if let Some((place, _)) = &mut self.place {
            place.at = ServerTime(u64::MAX);
        }
    }

    pub(super) fn disconnect(&mut self) {
        // The next connection may lead to another server, after a failover.
        self.forget_server_clock();
        self.deferred_push = None;
        if self.awaits != Awaits::LocalTurn {
            self.awaits = Awaits::Connection;
        }
    }

    /// Releases the lock that it may have got, and its place.
    pub(super) fn release(&self, now: Moment) -> Releasing {
        let request = self.request_of(self.ask.kind.unrun(), Action::Release);
        let lasts = request.lasts();
        let mut releasing = Releasing::new(now, Arc::clone(&self.ask.key), request, lasts);
        if self.was_granted || matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. })) {
            releasing.set_granted();
        }
        if self.is_queued() { releasing } else { releasing.after_unanswered(self.unanswered) }
    }
}

/// The time in a token is as precise as this.
const LATE: Duration = Duration::from_secs(1);

const MILLISECOND: Duration = Duration::from_millis(1);

/// A wait is reported again when it is so many times as long.
const REPORT_AGAIN_AFTER: u32 = 4;

/// How much later than the head the others ask when a lease is over: half of the grace of `grace.lua`.
const BEHIND_THE_HEAD: Duration = Duration::from_millis(50);

/// After so many grants in a row that came too late, their ttl is too short for the network.
const LATE_GRANTS: u8 = 3;

/// How often the first waiter of a process asks again where the server tells of no release.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The pause of a waiter after a refusal: ten thousand waiters must not keep it busy.
const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: Duration::from_secs(1) };

/// The pause of a waiter after a split vote of a quorum.
const VOTE_AGAIN: Backoff = Backoff { shortest: MILLISECOND, longest: Duration::from_millis(128) };

/// How often the first waiter of a process asks again when it is next in the queue: less than a
/// claim, so a stuck waiter with a grant delays the others by no more than its claim.
const ASK_AGAIN_QUEUED: Duration = Duration::from_millis(600);

/// How often it asks far behind in the queue where nobody would hear that the lock was deleted.
const ASK_AGAIN_UNTOLD: Duration = Duration::from_secs(2);

/// How often it asks there where somebody would hear it: less than the queue's time to live.
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(10);
const _: () = assert!(2 * ASK_AGAIN_AT_LAST.as_secs() <= QUEUE_TTL.as_secs());

/// A process with waiters in the queue asks at least so often.
const KEEPS_THE_QUEUE: Duration = Duration::from_secs(20);
const _: () = assert!(2 * KEEPS_THE_QUEUE.as_secs() <= QUEUE_TTL.as_secs());
