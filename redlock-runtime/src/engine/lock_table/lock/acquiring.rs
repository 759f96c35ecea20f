//! Waiters: which one sends the request, how its reply is handled, and which one sends the next
//! request when it leaves.
//!
//! The first waiter of a lock in this process asks. Where the server has a queue, each
//! waiter asks once, to get its place there, and then awaits a push; the first one asks again from
//! time to time, in case a push was lost. Who leaves the queue passes its turn on: the next waiter
//! asks at once, or takes over the pause of the one that leaves, so that many which leave together
//! cost the server nothing.
//!
//! The limit of a wait is one for waiting. An answer that is under way then is awaited until it is
//! late, so a wait that is shorter than an answer takes is one try. No error is built from an old
//! answer that another caller has the lock, because the server may have stopped since. So a waiter
//! whose last answer is old has the server asked once more just before its limit. That question
//! and its answer serve all waiters of the lock in this process.

use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use super::last_answer::Answer;
use super::queue::{NextAsker, Queue};
use super::waiting::{Awaits, Waiting};
use crate::base::clock::Moment;
use crate::base::error::{Holder, LockError};
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::base::span::Span;
use crate::base::telemetry;
use crate::base::token::{self, Token};
use crate::engine::command::{AcquireOutcome, Ask};
use crate::engine::lock_table::context::Context;
use crate::engine::multi_key;
use crate::engine::protocol::{Action, Id};

/// Why a quorum knows no tickets.
pub(super) const NO_TICKETS: &str = "a quorum of independent servers has no tickets: no one of them can give a lock from one \
                                     holder to another in one step. Use one server, Sentinel or a Cluster";

/// Two limits on one lock are a mistake in most programs, which is reported once.
pub(super) fn compare_limits(cx: &mut Context, ask: &Ask, other: Option<Limit>) {
    if let Some((own, other)) = ask.kind.differing_limits(other)
        && !cx.differing.has(&ask.name)
    {
        cx.differing.insert(&ask.name);
        telemetry::limits_differ(&ask.key, own, other);
    }
}

impl Lock {
    /// A caller asks for the lock.
    pub(crate) fn acquire(&mut self, cx: &mut Context, id: Id, mut ask: Box<Ask>, token: Token) {
        // The server counts where there is no cohort.
        if cx.settings.cohort > 0 && ask.queues() {
            let waiters = u32::try_from(self.attempts.queue.count()).unwrap_or(u32::MAX);
            if waiters >= ask.max_waiters {
                ask.fail(LockError::QueueFull { key: Arc::clone(&ask.key), waiters });
                return;
            }
        }
        if ask.kind.lets_others_in() {
            let other = self.attempts.inside().next().map(|(_, held)| held.lease.limit());
            compare_limits(cx, &ask, other);
        }
        cx.attempts.insert(id, &ask.name);
        ask.hold_kind = cx.hold_times.kind(&ask.origin);
        // A local hand-over draws from the fencing tokens of its lock.
        ask.fenced |= cx.settings.cohort > 0 || ask.kind.is_always_fenced();
        let is_behind = ask.after.is_some();
        let reports = cx.settings.warn_after.filter(|_| ask.queues()).map(|limit| (cx.now, limit));
        // From then on an answer of the server is fresh enough for a caller that gives up at its limit.
        let answers_count_from =
            ask.deadline.gives_up_at.map(|limit| limit.before(cx.connection.answer_time().usual()));
        if self.attempts.join(id, Waiting::new(ask, token, answers_count_from, reports))
            || cx.queues_on_server()
        {
            self.ask(cx, id);
        } else if is_behind {
            self.skip(cx, id);
        } else {
            self.schedule(cx, id);
        }
    }

    /// Asks the node for the lock, now or as soon as there is a connection.
    pub(super) fn ask(&mut self, cx: &mut Context, id: Id) {
        self.ask_as(cx, id, false);
    }

    /// `with_all`: as one of all waiters of the lock in this process, which ask now.
    pub(super) fn ask_as(&mut self, cx: &mut Context, id: Id, with_all: bool) {
        let is_alone = self.attempts.is_alone(id);
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if cx.connection.is_up() {
            let mode = waiting.mode(cx.now, with_all);
            let has_ticket = waiting.ask.kind.has_ticket();
            if has_ticket && cx.abilities.votes {
                let error = LockError::invalid(&waiting.ask.key, NO_TICKETS);
                self.fail(cx, id, error);
                return;
            }
            let action = match waiting.ask.after {
                _ if has_ticket => Some(Action::Redeem),
                None => Some(Action::Acquire(mode)),
                Some(after) => multi_key::next(cx.outbox.last(), mode, after),
            };
            let Some(action) = action else {
                self.skip(cx, id);
                return;
            };
            // The first request of an attempt that is alone with its lock, as far as this process
            // knows. A waiter that has a place, or may have one, would pass those in front of it,
            // and keep its place.
            let ask = &waiting.ask;
            let direct = is_alone
                && waiting.is_first(cx.now)
                && ask.after.is_none()
                && !cx.abilities.votes
                && !cx.contended.has(&ask.name);
            if cx.abilities.votes {
                // The votes of the last round are being released: a late release must not hit the
                // votes of this one.
                let token = waiting.token.successor();
                waiting.token = token;
            }
            waiting.set_asking(cx.now);
            // Even without `hands_over`: a single node of a Cluster may hand over. Even a direct
            // request: a Cluster that sends it once more asks for a place.
            if !cx.abilities.votes && waiting.ask.queues() {
                cx.attempts.expect_push(&waiting.token, id);
            }
            let mut request = waiting.request(action);
            if direct {
                request.use_commands();
            }
            cx.outbox.push((id, request));
        } else {
            waiting.await_connection();
        }
        cx.timers.set(id, waiting.due());
    }

    /// Without a queue on the server nobody keeps an order over all processes: the first waiter here
    /// has no room beside those inside, and may never have, and those of other processes pass it. So
    /// the next one here that allows more asks, too.
    pub(super) fn ask_past(&mut self, cx: &mut Context, first: Id, may_starve: bool) {
        let starves = |waiting: &&Waiting| may_starve && !cx.queues_on_server() && waiting.is_starved(cx.now);
        let Some(first) = self.attempts.waiting(first).filter(starves) else { return };
        let may_have_room = |waiting: &Waiting| {
            waiting.awaits == Awaits::LocalTurn && waiting.ask.kind.fits_sooner_than(&first.ask.kind)
        };
        let mut ids = self.attempts.queue.ids().into_iter();
        let next = ids.find(|id| self.attempts.waiting(*id).is_some_and(may_have_room));
        if let Some(next) = next {
            self.ask(cx, next);
        }
    }

    /// A waiter that pauses before its next request asks now.
    pub(super) fn ask_early(&mut self, cx: &mut Context, id: Id) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if let Awaits::Retry { .. } = waiting.awaits {
            if cx.abilities.votes {
                waiting.pause_before_vote(cx.now);
                cx.timers.set(id, waiting.due());
            } else {
                self.ask(cx, id);
            }
        }
    }

    /// A waiter whose place may be gone asks for a new one, unless it is asking.
    pub(super) fn rejoin(&mut self, cx: &mut Context, id: Id) {
        if self.attempts.waiting(id).is_some_and(Waiting::sleeps_in_queue) {
            self.ask_as(cx, id, true);
        }
    }

    /// Ends the attempt with an error, and releases the lock that it may have got.
    pub(super) fn fail(&mut self, cx: &mut Context, id: Id, mut error: LockError) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        let hold = waiting.ask.hold;
        match hold.starts.zip(hold.min) {
            Some((starts, per)) => error.set_rate(starts, per),
            None => error.set_usual_hold(cx.hold_times.usual(waiting.ask.hold_kind)),
        }
        self.end_long_wait(cx, id, telemetry::outcome_of_error(&error));
        if let Some(waiting) = self.attempts.waiting_mut(id) {
            waiting.ask.fail(error);
        }
        self.drop_waiting(cx, id);
    }

    /// Ends the attempt with this error, if there is one.
    pub(crate) fn fail_if(
        &mut self,
        cx: &mut Context,
        id: Id,
        error: impl FnOnce(&Ask) -> Option<LockError>,
    ) {
        if let Some(error) = self.attempts.waiting(id).and_then(|waiting| error(&waiting.ask)) {
            self.fail(cx, id, error);
        }
    }

    /// Tells the caller that this key of several was not tried, and releases it if the server may
    /// have taken it.
    pub(super) fn skip(&mut self, cx: &mut Context, id: Id) {
        if let Some(waiting) = self.attempts.waiting_mut(id) {
            waiting.ask.end(AcquireOutcome::Skipped);
            self.drop_waiting(cx, id);
        }
    }

    /// The waiter leaves, and releases the lock that it has or may get. The one that takes its turn
    /// asks.
    pub(super) fn drop_waiting(&mut self, cx: &mut Context, id: Id) {
        let was_first = self.attempts.queue.first_id() == Some(id);
        let Some(waiting) = self.attempts.take_waiting(id) else { return };
        let was_sent = !waiting.is_asking() || cx.outbox.take_back(id).is_none();
        if waiting.must_release(was_sent) {
            let releasing = waiting.release(cx.now);
            // Only a token that has asked for a place may get a push. A frozen server may do so
            // when the connection is gone.
            let may_be_queued = cx.attempts.expecting(&waiting.token).is_some();
            let releasing = if may_be_queued { releasing.leaving(cx.now) } else { releasing };
            self.start_release(cx, id, releasing);
        } else {
            cx.attempts.forget_token(&waiting.token);
            cx.forget(id);
        }
        self.pass_turn_on(cx, &waiting, was_first);
        self.on_fresh_answer(cx);
    }

    /// A waiter has left. The next one takes over its pause, so that it asks no sooner, or asks.
    fn pass_turn_on(&mut self, cx: &mut Context, left: &Waiting, was_first: bool) {
        let is_free_here = self.attempts.holder_id().is_none();
        let Some((id, next)) = self.attempts.queue.first() else {
            if is_free_here {
                self.attempts.queue = Queue::default();
            }
            return;
        };
        let waits_for_first = next.awaits == Awaits::LocalTurn && next.requests.are_refused();
        let asks_now = was_first && is_free_here || waits_for_first;
        // Behind a holder of this process, the first waiter with a place asks from time to time,
        // too.
        let takes_over = asks_now || was_first && next.sleeps_in_queue();
        if takes_over
            && let Some(next) = self.attempts.waiting_mut(id)
            && next.take_over(left)
        {
            cx.timers.set(id, next.due());
        } else if asks_now {
            self.take_turn(cx, Some(NextAsker::Now(id)));
        }
    }

    /// The new first waiter asks: at once, or from time to time if it has a place on the server.
    pub(super) fn take_turn(&mut self, cx: &mut Context, turn: Option<NextAsker>) {
        let (Some(NextAsker::Now(id) | NextAsker::Later(id)), Some(turn)) = (turn, turn) else {
            return;
        };
        let in_cohorts = cx.abilities.hands_over && !cx.queues_on_server();
        let kept_at = self.attempts.queue.kept_at();
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        match (waiting.awaits, turn) {
            // The reply may be from before the release.
            (Awaits::Reply { .. }, _) => waiting.requests.set_ask_again(),
            (Awaits::ServerTurn, _) => waiting.keep_asking(cx.now, kept_at),
            // It watches the lock, but a server tells no client of that client's own changes. Nor
            // does a release tell the queue if the holder had passed it: its lock has no mark.
            (Awaits::Retry { .. }, _) if waiting.standing.is_queued() && waiting.standing.watches() => {
                self.ask(cx, id);
                return;
            }
            (Awaits::Retry { .. }, _) if waiting.standing.is_queued() => waiting.keep_asking(cx.now, kept_at),
            // With a cohort the queue on the server gives other processes their turn.
            (_, NextAsker::Later(_)) if !in_cohorts => waiting.keep_asking(cx.now, None),
            (_, NextAsker::Now(_) | NextAsker::Later(_)) => {
                self.ask(cx, id);
                return;
            }
        }
        cx.timers.set(id, waiting.due());
    }

    /// The server refused for now. Of the waiters of a lock in this process, only the first asks
    /// again.
    pub(super) fn refused_for_now(&mut self, cx: &mut Context, id: Id, reason: Arc<str>) {
        let is_behind = self
            .attempts
            .queue
            .first()
            .is_some_and(|(first, waiting)| first != id && waiting.requests.are_refused());
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if is_behind && waiting.ask.queues() && waiting.ask.after.is_none() {
            waiting.set_refused_behind(cx.now, reason);
        } else {
            waiting.set_refused(cx.now, reason);
        }
        cx.timers.set(id, waiting.due());
        self.on_fresh_answer(cx);
    }

    /// The server has answered the first waiter after refusals: the refused waiters behind it ask
    /// now.
    pub(super) fn ask_after_refusals(&mut self, cx: &mut Context) {
        for id in self.attempts.queue.ids() {
            if let Some(waiting) = self.attempts.waiting(id)
                && waiting.requests.are_refused()
                && matches!(waiting.awaits, Awaits::LocalTurn | Awaits::Retry { .. })
            {
                self.ask(cx, id);
            }
        }
    }

    /// The reply took longer than the lease: the lock is released, and asked for with a new token,
    /// because the release of the old one may arrive after the new request. Where each reply takes
    /// longer, more requests are of no use.
    pub(super) fn too_late(&mut self, cx: &mut Context, id: Id, took: Duration, lasts: Duration) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        if !waiting.ask.kind.can_ask_again() {
            // It was used up with that.
            let key = Arc::clone(&waiting.ask.key);
            self.fail(cx, id, LockError::Lost { key, reason: LostReason::Expired });
            return;
        }
        let token = self.release_for_another(cx, id);
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        let hopeless = waiting.count_late_grant(cx.now, took, lasts);
        let error = match (token, hopeless) {
            (Ok(token), None) => {
                waiting.token = token;
                self.ask(cx, id);
                return;
            }
            (Ok(token), Some(reason)) => {
                waiting.token = token;
                if waiting.ask.waits_for_ever() {
                    telemetry::refused(&waiting.ask.key, &reason);
                }
                self.refuse(cx, id, reason);
                return;
            }
            (Err(error), _) => error,
        };
        self.fail(cx, id, error);
    }

    /// Releases what this attempt may have. Returns a token under which it can ask again: the release
    /// of its own may arrive after a new request.
    fn release_for_another(&mut self, cx: &mut Context, id: Id) -> Result<Token, LockError> {
        let Some(waiting) = self.attempts.waiting(id) else { return Ok(Token::empty()) };
        let release = waiting.release(cx.now);
        cx.attempts.forget_token(&waiting.token);
        self.release_unawaited(cx, release);
        let Some(waiting) = self.attempts.waiting_mut(id) else { return Ok(Token::empty()) };
        waiting.requests.clear_unanswered();
        let token = waiting.token.another();
        token.map_err(|error| LockError::unavailable(&waiting.ask.key, token::no_random(error)))
    }

    /// Until an operator acts. An attempt without a limit waits for that.
    fn refuse(&mut self, cx: &mut Context, id: Id, reason: Arc<str>) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if waiting.ask.waits_for_ever() {
            self.refused_until_then(cx, id, reason);
            return;
        }
        let error = LockError::misconfigured(&waiting.ask.key, reason);
        self.fail(cx, id, error);
    }

    /// An attempt without a limit waits until an operator acts. It gives back what it may have
    /// meanwhile: nobody is inside.
    pub(super) fn refused_until_then(&mut self, cx: &mut Context, id: Id, reason: Arc<str>) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if waiting.last_answer.is_other_than(&reason) {
            telemetry::refused(&waiting.ask.key, &reason);
        }
        if waiting.may_hold() {
            let token = self.release_for_another(cx, id);
            let Some(waiting) = self.attempts.waiting_mut(id) else { return };
            match token {
                Ok(token) => {
                    waiting.clear_place();
                    waiting.token = token;
                }
                Err(error) => {
                    self.fail(cx, id, error);
                    return;
                }
            }
        }
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        waiting.set_refused(cx.now, reason);
        cx.timers.set(id, waiting.due());
    }

    /// The limit of this waiter has come, or is so near that the server must be asked now: its
    /// caller gets the outcome, or waits for a fresh answer.
    pub(super) fn give_up(&mut self, cx: &mut Context, id: Id) {
        let asked_at = self.asker_for_fresh_answer(cx, id).map(|asker| self.fresh_answer_asked_at(cx, asker));
        let late = cx.connection.answer_time().late();
        let Some(waiting) =
            self.attempts.waiting_mut(id).filter(|waiting| waiting.ask.deadline.gives_up_at.is_some())
        else {
            return;
        };
        if waiting.limit.give_up(cx.now, waiting.ask.deadline.gives_up_at, asked_at, late) {
            if let Some(error) = self.timeout_error(cx, id) {
                self.fail(cx, id, error);
            }
            return;
        }
        cx.timers.set(id, waiting.due());
        if asked_at.is_some() {
            self.extras.await_fresh_answer(id);
        }
    }

    /// The attempt whose request brings the answer that this waiter needs; `None` when it needs none.
    fn asker_for_fresh_answer(&self, cx: &Context, id: Id) -> Option<Id> {
        let waiting = self.attempts.waiting(id)?;
        let is_known = waiting.ask.deadline.one_try
            || cx.connection.trouble().is_some()
            || self.attempts.holder_here(cx.now).is_some()
            || waiting.limit.is_met_by(self.attempts.last_answer(waiting));
        let asks_itself = waiting.is_asking() || !waiting.ask.queues();
        let asker = if asks_itself { Some(id) } else { self.attempts.queue.first_id() };
        asker.filter(|_| !is_known)
    }

    /// The time when this attempt has asked the server. One that has not asks now.
    fn fresh_answer_asked_at(&mut self, cx: &mut Context, asker: Id) -> Moment {
        let Some(waiting) = self.attempts.waiting(asker) else { return cx.now };
        if let Awaits::Retry { .. } | Awaits::ServerTurn = waiting.awaits {
            self.ask(cx, asker);
            return cx.now;
        }
        waiting.asked_at().unwrap_or(cx.now)
    }

    /// The server has told who has this lock, or that it cannot; or the attempt that has asked is
    /// gone; or there is no server to ask.
    pub(crate) fn on_fresh_answer(&mut self, cx: &mut Context) {
        for id in self.extras.take_awaiting_answer() {
            self.give_up(cx, id);
        }
    }

    /// The transport cannot have the request of this waiter served yet.
    pub(crate) fn delayed(&mut self, cx: &mut Context, id: Id, reason: Arc<str>) {
        if let Some(waiting) = self.attempts.waiting_mut(id) {
            waiting.set_delayed(cx.now, reason);
            self.on_fresh_answer(cx);
        }
    }

    fn timeout_error(&self, cx: &Context, id: Id) -> Option<LockError> {
        let waiting = self.attempts.waiting(id)?;
        let key = &waiting.ask.key;
        if let Some(trouble) = cx.connection.trouble() {
            return Some(trouble.error(Some(Arc::clone(key))));
        }
        if !cx.connection.is_up() {
            return Some(LockError::unavailable(key, Arc::clone(cx.connection.broke())));
        }
        let busy = |holder: Holder| LockError::TimedOut {
            key: Arc::clone(key),
            waited: cx.now.since(waiting.ask.deadline.started),
            holder: holder.into(),
            in_front: waiting.standing.in_front(),
        };
        if let Some(holder) = self.attempts.holder_here(cx.now) {
            return Some(busy(holder));
        }
        let answer = self.attempts.last_answer(waiting);
        Some(match answer.get() {
            Answer::Busy { owner, granted, expires_in, inside, limit, waiter }
                if waiting.limit.is_met_by(answer) =>
            {
                // The one that asks for this process may be the one in front, and have room then.
                let waiter = waiter.as_deref().or(waiting.last_answer.kept_out_by()).filter(|_| *inside > 0);
                let waiter = waiter.cloned().map(Box::new);
                let (owner, granted) = (owner.clone(), *granted);
                let (expires_in, inside, limit) = (*expires_in, *inside, *limit);
                busy(Holder { owner, granted, expires_in, inside, limit, waiter, ..Holder::default() })
            }
            Answer::Refused(reason) => LockError::unavailable(key, Arc::clone(reason)),
            Answer::Nothing | Answer::Busy { .. } => {
                let asked_at = self.attempts.asker(waiting).asked_at().or(waiting.asked_at());
                let silent_for = cx.now.since(asked_at.unwrap_or(waiting.ask.deadline.started));
                LockError::unavailable(
                    key,
                    format!("Redis is connected but gave no answer within {}", Span(silent_for)),
                )
            }
        })
    }
}
