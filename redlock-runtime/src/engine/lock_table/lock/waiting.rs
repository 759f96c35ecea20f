//! An attempt that does not hold the lock yet: what it awaits, and what it has received.
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

use std::sync::Arc;
use std::time::Duration;

use super::last_answer::{LastAnswer, WaitLimit};
use super::releasing::Releasing;
use super::standing::{ASK_AGAIN_AFTER, Standing};
use crate::base::clock::Moment;
use crate::base::error::Holder;
use crate::base::lease::safe_until;
use crate::base::span::Span;
use crate::base::token::Token;
use crate::engine::command::Ask;
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

/// What few of them have is boxed: thousands may wait.
pub(super) struct Waiting {
    pub(super) ask: Box<Ask>,
    pub(super) token: Token,
    pub(super) awaits: Awaits,
    pub(super) last_answer: LastAnswer,
    pub(super) limit: WaitLimit,
    pub(super) requests: Requests,
    pub(super) standing: Standing,
    /// The time when the lock in front expires by the last answer, unless it is renewed, and a
    /// little later for those behind the head.
    over_at: Option<Moment>,
    /// A push that overtook the reply to the unanswered request.
    deferred_push: Option<Box<PushKind>>,
    pub(super) reports: Reports,
}

/// The purpose of the timer of a waiter. The first that is due counts, in this order.
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
        answers_count_from: Option<Moment>,
        report_from: Option<(Moment, Duration)>,
    ) -> Self {
        Self {
            last_answer: LastAnswer::none_since(ask.deadline.started),
            ask,
            token,
            awaits: Awaits::LocalTurn,
            limit: WaitLimit::new(answers_count_from),
            requests: Requests::default(),
            standing: Standing::UNKNOWN,
            over_at: None,
            deferred_push: None,
            reports: Reports::new(report_from),
        }
    }

    fn timers(&self) -> [(WaitTimer, Option<Moment>); 3] {
        let again = match self.awaits {
            Awaits::Retry { until } => Some(until),
            Awaits::LocalTurn | Awaits::ServerTurn | Awaits::Reply { .. } | Awaits::Connection => None,
        };
        [
            (WaitTimer::GivesUp, self.limit.due()),
            (WaitTimer::Report, self.reports.due()),
            (WaitTimer::Ask, again),
        ]
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.timers().into_iter().filter_map(|(_, at)| at).min()
    }

    /// Returns what its timer rings for.
    pub(super) fn due_timer(&self, now: Moment) -> Option<WaitTimer> {
        let is_due = |(timer, at): (WaitTimer, Option<Moment>)| (at? <= now).then_some(timer);
        self.timers().into_iter().find_map(is_due)
    }

    /// It has the lock now, or its wait is over.
    pub(super) fn into_parts(self) -> (Box<Ask>, Token) {
        (self.ask, self.token)
    }

    pub(super) fn await_connection(&mut self) {
        self.awaits = Awaits::Connection;
    }

    /// It has waited for longer than those of its process that have room are to wait behind it.
    pub(super) fn is_starved(&self, now: Moment) -> bool {
        now.since(self.ask.deadline.started) >= CLAIM
    }

    /// It has the lock for a claim, and asks for more before its body begins.
    pub(super) fn set_claiming(&mut self, now: Moment, fence: u64) {
        self.requests.set_claimed(fence);
        self.set_asking(now);
    }

    /// The server has answered, and has given it nothing: a place that it had is gone.
    pub(super) fn clear_place(&mut self) {
        self.requests.clear();
        self.standing.clear_place();
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

    /// The server refuses its request, which the transport repeats for a while.
    pub(super) fn set_delayed(&mut self, now: Moment, reason: Arc<str>) {
        if self.is_asking() {
            self.last_answer.set_refused(now, reason);
        }
    }

    pub(super) fn request(&self, action: Action) -> Request {
        self.request_of(self.ask.kind.waiting(action), action)
    }

    fn request_of(&self, kind: Kind, action: Action) -> Request {
        let Ask { name, ttl, fenced, .. } = &*self.ask;
        let request = Request::new(action, Arc::clone(name), self.token.clone(), *ttl);
        Request { keeps: self.ask.hold.keeps(), fenced: *fenced, kind, ..request }
    }

    /// True for a first request that is not late: then the time in its token is that of its grant.
    pub(super) fn is_first(&self, now: Moment) -> bool {
        self.requests.all == 0 && now.since(self.ask.deadline.started) < LATE
    }

    /// `with_all`: all waiters of this process ask.
    pub(super) fn mode(&self, now: Moment, with_all: bool) -> Mode {
        match self.standing.in_front() {
            _ if self.ask.deadline.one_try => Mode::OneTry,
            None if self.is_first(now) => Mode::Join { at_most: self.ask.max_waiters },
            None => Mode::JoinAgain { at_most: self.ask.max_waiters },
            Some(_) if with_all => Mode::Rejoin,
            Some(_) => Mode::Again,
        }
    }

    pub(super) fn set_asking(&mut self, now: Moment) {
        self.awaits = Awaits::Reply { sent: now };
        self.requests.add();
        self.deferred_push = None;
        self.standing.end_watch();
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

    /// The last request will not be sent.
    pub(super) fn take_back(&mut self) {
        self.requests.undo();
        self.awaits = Awaits::LocalTurn;
    }

    /// True when this attempt may have the lock or a place on the server. `was_sent`: the last
    /// request was sent.
    pub(super) fn must_release(&self, was_sent: bool) -> bool {
        self.requests.unanswered > u32::from(!was_sent) || self.standing.is_queued()
    }

    /// True when this attempt may have the lock, as far as it can be released: a ticket is redeemed
    /// once.
    pub(super) fn may_hold(&self) -> bool {
        (self.requests.unanswered > 0 || self.requests.was_granted) && self.ask.kind.can_ask_again()
    }

    /// True when the push counts only after the reply to the unanswered request: the replies of a
    /// batch are read together, so a push may overtake them. A grant needs the place in that reply,
    /// and the reply would undo a hint.
    pub(super) fn defer(&mut self, kind: PushKind) -> bool {
        let needs_place = !(matches!(kind, PushKind::Granted { .. }) && self.standing.is_queued());
        let is_kept = self.is_asking() && needs_place;
        // A waiter that has been granted the lock needs its place no longer.
        let is_granted = matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. }));
        if is_kept && !(is_granted && kind == PushKind::PlaceLost) {
            self.deferred_push = Some(Box::new(kind));
        }
        is_kept
    }

    /// It has a place in the queue, and no request under way.
    pub(super) fn sleeps_in_queue(&self) -> bool {
        self.standing.is_queued() && matches!(self.awaits, Awaits::ServerTurn | Awaits::Retry { .. })
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
        self.requests.set_busy();
        let expires = holder.expires_in.map(|left| sent.after(left + MILLISECOND));
        // The head asks first, then the others, in the grace of the lock.
        let is_behind = place.is_some_and(|place| place.in_front > 0);
        self.over_at = expires.map(|at| if is_behind { at.after(BEHIND_THE_HEAD) } else { at });
        let inside = holder.inside;
        self.last_answer.set_busy(now, holder);
        // One of several that leaves changes nothing in the key.
        let is_news = inside == 0 || !self.ask.kind.lets_others_in();
        let is_foreign = self.last_answer.has_foreign_holder();
        self.standing.set(place, sent, first, can_watch, is_foreign, is_news);
        self.awaits = match (first.is_some(), place) {
            (true, _) if self.requests.ask_again && place.is_none() => Awaits::Retry { until: now },
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
        self.standing.watches() && matches!(self.awaits, Awaits::Retry { .. })
    }

    /// The lock is free for clients that do not use the queue; after that, this waiter asks.
    pub(super) fn stand_back(&mut self, now: Moment) {
        self.awaits = Awaits::Retry { until: now.after(jittered(2 * MILLISECOND)) };
    }

    /// The waiter is next: it asks when the claim in front should be over, or sooner. That counts
    /// from the server's time: the push may have waited.
    pub(super) fn set_next(&mut self, now: Moment, claim: Duration, at: ServerTime) {
        let over = self.standing.local_time_of(now, at).after(claim + MILLISECOND);
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
            Awaits::Retry { until } if self.standing.is_queued() => until.min(over),
            _ => return,
        };
        self.awaits = Awaits::Retry { until };
    }

    /// The lock is free on a quorum of nodes, and other waiters may see that, too. One must ask all
    /// nodes before the next one does, so the random pauses grow with each split vote.
    pub(super) fn pause_before_vote(&mut self, now: Moment) {
        self.awaits = Awaits::Retry {
            until: now.after(full_jitter(VOTE_AGAIN.window(self.requests.split_votes.into()))),
        };
        self.requests.split_votes = self.requests.split_votes.saturating_add(1);
    }

    /// The server refused the watch.
    pub(super) fn stop_watching(&mut self, now: Moment) {
        self.standing.clear_watch();
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

    fn interval(&self) -> Duration {
        self.standing.interval(self.last_answer.has_foreign_holder())
    }

    pub(super) fn set_refused(&mut self, now: Moment, reason: Arc<str>) {
        self.last_answer.set_refused(now, reason);
        self.awaits = Awaits::Retry { until: now.after(REFUSED.pause(self.requests.refusals.into())) };
        self.requests.refusals = self.requests.refusals.saturating_add(1);
    }

    /// The server refuses the first waiter of this process, too, and only that one asks again.
    pub(super) fn set_refused_behind(&mut self, now: Moment, reason: Arc<str>) {
        self.last_answer.set_refused(now, reason);
        self.requests.refusals = self.requests.refusals.max(1);
        self.awaits = Awaits::LocalTurn;
    }

    /// A grant for `lasts` came after that time, or after the `max_hold`. The reason when so many
    /// did that the next one will, too.
    pub(super) fn count_late_grant(
        &mut self,
        now: Moment,
        took: Duration,
        lasts: Duration,
    ) -> Option<Arc<str>> {
        self.requests.late_grants = self.requests.late_grants.saturating_add(1);
        let (option, lasts) = match self.ask.hold.max {
            Some(max_hold) if max_hold < lasts => ("max_hold", max_hold),
            _ => ("ttl", lasts),
        };
        let reason: Arc<str> = format!(
            "the lock was granted for {} and the answer took {}, so it had expired: a `{option}` must be several times as \
             long as a round trip",
            Span(lasts),
            Span(took)
        )
        .into();
        self.last_answer.set_refused(now, Arc::clone(&reason));
        (self.requests.late_grants >= LATE_GRANTS).then_some(reason)
    }

    /// Takes over the last answer and the pause of the first waiter, which leaves. False when it
    /// must ask now: the pause of a waiter with a place is long, because a push ends it.
    pub(super) fn take_over(&mut self, front: &Self) -> bool {
        if self.last_answer.is_older_than(&front.last_answer) {
            self.last_answer = front.last_answer.clone();
        }
        if let Awaits::LocalTurn | Awaits::ServerTurn = self.awaits {
            if !front.last_answer.is_nothing() {
                self.over_at = front.over_at;
            }
            let is_pushed = self.standing.is_queued() || !front.standing.is_queued();
            if let Awaits::Retry { .. } | Awaits::Connection = front.awaits
                && is_pushed
            {
                self.awaits = front.awaits;
            }
        }
        !matches!(self.awaits, Awaits::LocalTurn | Awaits::ServerTurn)
    }

    pub(super) fn disconnect(&mut self) {
        // The next connection may lead to another server, after a failover.
        self.standing.forget_server_clock();
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
        if self.requests.was_granted
            || matches!(self.deferred_push.as_deref(), Some(PushKind::Granted { .. }))
        {
            releasing.set_granted();
        }
        if self.standing.is_queued() {
            releasing
        } else {
            releasing.after_unanswered(self.requests.unanswered)
        }
    }
}

/// The requests of a waiter, and what became of them.
#[derive(Default)]
pub(super) struct Requests {
    /// The fencing token of a lock that it has for a claim, while it asks the server to keep it: its
    /// `min_hold` counts from the begin of its body, whatever becomes of it.
    claimed_fence: u64,
    /// Since the last reply "busy": the server may have granted each.
    unanswered: u32,
    /// So many so far.
    all: u32,
    /// The lock was released in this process after the unanswered request was sent.
    ask_again: bool,
    /// A grant came so late that it asks whether it still has the lock, or it asks to keep a claim.
    was_granted: bool,
    /// The refusals since the last other reply.
    refusals: u8,
    /// The grants in a row whose answers came when the lock had expired.
    late_grants: u8,
    /// The rounds since the lock was last held in which no client had a quorum of votes.
    split_votes: u8,
}

impl Requests {
    fn add(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.all = self.all.saturating_add(1);
        self.ask_again = false;
    }

    /// The server has done nothing of the last one. An earlier one, over a connection that broke, may
    /// have taken the lock.
    pub(super) fn undo(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// The server has answered, and has given neither the lock nor a place.
    pub(super) fn clear_unanswered(&mut self) {
        self.unanswered = 0;
    }

    /// Forgets the waiters, and what was granted.
    fn clear(&mut self) {
        (self.unanswered, self.was_granted) = (0, false);
    }

    fn set_busy(&mut self) {
        self.clear();
        (self.refusals, self.late_grants) = (0, 0);
    }

    pub(super) fn count(&self) -> u32 {
        self.all
    }

    /// The lock was released in this process, perhaps after the server has answered.
    pub(super) fn set_ask_again(&mut self) {
        self.ask_again = true;
    }

    /// A grant came so late that it asks whether it still has the lock.
    pub(super) fn set_granted(&mut self) {
        self.was_granted = true;
    }

    /// It has the lock for a claim, with this fencing token.
    fn set_claimed(&mut self, fence: u64) {
        (self.was_granted, self.claimed_fence) = (true, fence);
    }

    pub(super) fn claimed_fence(&self) -> u64 {
        self.claimed_fence
    }

    pub(super) fn are_refused(&self) -> bool {
        self.refusals > 0
    }

    /// The lock was held since the last vote.
    pub(super) fn forget_split_votes(&mut self) {
        self.split_votes = 0;
    }
}

/// When a long wait is reported: after a limit, then each time it is four times as long.
pub(super) struct Reports(Option<ReportTimes>);

struct ReportTimes {
    since: Moment,
    due: Moment,
    is_reported: bool,
}

impl Reports {
    fn new(from: Option<(Moment, Duration)>) -> Self {
        Self(from.map(|(since, limit)| {
            // Four times zero would be due at once, again and again.
            let due = since.after(limit.max(MILLISECOND));
            ReportTimes { since, due, is_reported: false }
        }))
    }

    fn due(&self) -> Option<Moment> {
        self.0.as_ref().map(|times| times.due)
    }

    /// One is due, and the next one later. `is_reported`: it is this waiter of the lock that is
    /// reported.
    pub(super) fn count(&mut self, is_reported: bool) {
        if let Some(times) = &mut self.0 {
            let so_far = times.due.since(times.since);
            times.due = times.since.after(so_far.saturating_mul(REPORT_AGAIN_AFTER));
            times.is_reported |= is_reported;
        }
    }

    /// Since when it waits, if that is to be reported.
    pub(super) fn since(&self) -> Option<Moment> {
        self.0.as_ref().map(|times| times.since)
    }

    /// Since when it waits, if that was reported.
    pub(super) fn reported_since(&self) -> Option<Moment> {
        self.0.as_ref().filter(|times| times.is_reported).map(|times| times.since)
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

/// The pause of a waiter after a refusal: ten thousand waiters must not keep it busy.
const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: Duration::from_secs(1) };

/// The pause of a waiter after a split vote of a quorum.
const VOTE_AGAIN: Backoff = Backoff { shortest: MILLISECOND, longest: Duration::from_millis(128) };

/// A process with waiters in the queue asks at least so often.
const KEEPS_THE_QUEUE: Duration = Duration::from_secs(20);
const _: () = assert!(2 * KEEPS_THE_QUEUE.as_secs() <= QUEUE_TTL.as_secs());
