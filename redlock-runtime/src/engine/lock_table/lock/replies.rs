//! Replies: what each one changes for the attempt that asked.
//!
//! A reply goes to its attempt as it is now, which may have gone on since the request was sent. A
//! waiter that was granted the lock becomes the holder; a busy lock gives it a place or a pause;
//! and what the server has refused is asked for again, at once, after a pause, or not at all. A
//! holder that the server no longer knows has lost the lock. A release ends with its answer. After
//! a hand-over within the process, a reply to the former holder's request is for the present one:
//! they share the token.

use std::sync::Arc;

use super::Lock;
use super::acquiring::compare_limits;
use super::attempts::Attempt;
use crate::base::clock::Moment;
use crate::base::error::{Holder, LockError};
use crate::base::host::IS_SIMULATED;
use crate::base::outcome::LostReason;
use crate::base::tick::time_of;
use crate::engine::command::AcquireOutcome;
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, Id, Mode, NotRun, Place, Refusal, Reply, Request, Verdict};

/// Why a nominal time is refused.
const TICK_IS_AHEAD: &str = "its tick is more than a day ahead of the server's time, and would keep out all ticks before it: give \
                             `tick_at` the time for which this call is due, and not the next one";

const TICK_IS_OLD: &str = "its tick is so old that the server does not know any more whether it was run: the record of a `tick_at` \
                           is kept for seven days, and that of a `tick` for two ticks, but for seven days at least";

impl Lock {
    /// The reply to a request of `id` that was sent at `sent`.
    pub(crate) fn on_reply(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        reply: Reply,
    ) {
        let holder = self.attempts.current_holder(id, request);
        if IS_SIMULATED {
            self.attempts.meet_reply(holder, request.action, &reply);
        }
        match (request.action, self.attempts.attempt(holder)) {
            (Action::Announce, _) => self.on_announce_reply(cx, id, request, &reply),
            (Action::Draw, _) => self.on_fence_reply(cx, id, request, &reply),
            // A watch with an earlier token says nothing about this one.
            (_, Some(Attempt::Waiting(waiting))) if waiting.token == request.token => {
                self.on_reply_to_waiter(cx, holder, sent, request, reply);
            }
            (_, Some(Attempt::Held(held))) if held.successors.have_sent(request) => {
                self.on_reply_to_holder(cx, holder, sent, request, &reply);
            }
            (Action::Downgrade { .. }, _) => drop(self.extras.take_draws(id)),
            (_, Some(Attempt::Releasing(_))) => self.on_reply_to_releasing(cx, holder, request, reply),
            _ => {}
        }
    }

    fn on_reply_to_waiter(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        reply: Reply,
    ) {
        match reply {
            Reply::Acquire(Verdict::OfTick { at_ms, verdict }) => {
                self.on_verdict_of_tick(cx, id, sent, request, at_ms, *verdict);
            }
            Reply::Acquire(verdict) => self.on_verdict(cx, id, sent, request, Ok(verdict)),
            Reply::Refused(refusal) if request.action != Action::WatchHolder => {
                self.on_verdict(cx, id, sent, request, Err(refusal));
            }
            reply if matches!(request.action, Action::Renew { .. }) => {
                self.kept(cx, id, sent, reply == Reply::Done);
            }
            reply => self.on_watch_reply(cx, id, &reply),
        }
    }

    fn on_reply_to_releasing(&mut self, cx: &mut Context, id: Id, request: &Request, reply: Reply) {
        let Some(releasing) = self.attempts.releasing_mut(id) else { return };
        let is_release = matches!(request.action, Action::Release | Action::ExpireLater);
        match reply {
            Reply::Refused(refusal) if is_release => {
                if refusal == Refusal::Contended {
                    cx.contended.insert(&request.name);
                }
                let step = releasing.on_refusal(cx.now, refusal);
                self.continue_release(cx, id, step);
            }
            reply if is_release => {
                let was_held = reply == Reply::Done;
                let ran_out = releasing.ran_out(was_held);
                if was_held && cx.settings.replicas > 0 {
                    // Its caller is answered when the replicas have the record, too.
                    cx.unconfirmed.extend(releasing.take_kept(id));
                }
                let step = releasing.on_reply(cx.now, request.action, was_held);
                self.continue_release(cx, id, step);
                self.rewatch_later(cx);
                if ran_out {
                    self.ask_after_claim(cx);
                }
            }
            // Its caller had left before.
            Reply::Refused(refusal)
                if *releasing.token() == request.token && has_taken_nothing(request.action, &refusal) =>
            {
                let is_over = releasing.undo_request();
                if is_over {
                    self.end_release(cx, id);
                }
            }
            // The reply to an acquire whose caller has gone: its release is sent.
            _ => {}
        }
    }

    /// The reply to a waiter's watch. The lock may have become free just before.
    fn on_watch_reply(&mut self, cx: &mut Context, id: Id, reply: &Reply) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        match reply {
            Reply::NotHeld => waiting.requests.forget_split_votes(),
            Reply::Refused(_) => {
                waiting.stop_watching(cx.now);
                cx.timers.set(id, waiting.due());
            }
            // It is free, or this waiter has it.
            _ => self.ask_early(cx, id),
        }
    }

    /// A claim was over before this process received the grant: the process was stopped. The
    /// others took it for stuck, so its waiters may have lost their places. The first one asks; if
    /// it has lost its place, the server tells the others.
    fn ask_after_claim(&mut self, cx: &mut Context) {
        if let Some((id, waiting)) = self.attempts.queue.first()
            && waiting.sleeps_in_queue()
        {
            self.ask(cx, id);
        }
    }

    /// The verdict on a request for the lock of this tick.
    fn on_verdict_of_tick(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        at_ms: u64,
        verdict: Verdict,
    ) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        waiting.ask.kind.set_tick(at_ms);
        let key = Arc::clone(&waiting.ask.key);
        let error = match verdict {
            Verdict::TickTaken { last_ms, by } => {
                let by = Box::new(Holder { owner: by, ..Holder::default() });
                LockError::TickTaken { key, tick: time_of(last_ms), by }
            }
            Verdict::TickUnknown { is_ahead: true } => LockError::invalid(&key, TICK_IS_AHEAD),
            Verdict::TickUnknown { is_ahead: false } => LockError::invalid(&key, TICK_IS_OLD),
            verdict => {
                self.on_verdict(cx, id, sent, request, Ok(verdict));
                return;
            }
        };
        // An earlier request may have given it a place.
        if waiting.requests.count() == 1 {
            waiting.requests.clear_unanswered();
        }
        self.fail(cx, id, error);
    }

    /// The verdict on a request for the lock, or why there is none.
    fn on_verdict(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        verdict: Result<Verdict, Refusal>,
    ) {
        let action = request.action;
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if matches!(&verdict, Err(refusal) if has_taken_nothing(action, refusal)) {
            waiting.requests.undo();
        }
        if let Action::AcquireNext { .. } = action
            && waiting.skip_by(cx.now, sent, &verdict)
        {
            self.skip(cx, id);
            return;
        }
        match verdict {
            // `on_verdict_of_tick` has read it.
            Ok(Verdict::OfTick { .. } | Verdict::TickTaken { .. } | Verdict::TickUnknown { .. }) => {}
            Ok(Verdict::Granted { fence }) => {
                // It was granted without a wait.
                if request.kind.finds_waiters() {
                    cx.contended.remove(&request.name);
                }
                self.answered_held(cx, id, sent, fence, false);
            }
            Ok(Verdict::Claimed { fence }) => self.answered_held(cx, id, sent, fence, true),
            Ok(Verdict::NoTicket { is_free }) => {
                let reason = if is_free { LostReason::TicketOver } else { LostReason::TicketUsed };
                self.reject(cx, id, |key| LockError::Lost { key, reason });
            }
            Ok(Verdict::Busy { holder, place }) => self.on_busy(cx, id, sent, request, holder, place),
            Ok(Verdict::NotRun { why, kept }) => self.not_run(cx, id, why, kept),
            // It was not tried in this call, but perhaps in an earlier one, whose reply was lost.
            Ok(Verdict::Skipped) => {
                waiting.requests.undo();
                self.skip(cx, id);
            }
            Ok(Verdict::QueueFull { waiters }) => {
                self.reject(cx, id, |key| LockError::QueueFull { key, waiters });
            }
            Err(refusal) => self.on_refusal(cx, id, request, refusal),
        }
    }

    /// The server has answered, and has given this attempt neither the lock nor a place.
    fn reject(&mut self, cx: &mut Context, id: Id, error: impl FnOnce(Arc<str>) -> LockError) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        waiting.requests.clear_unanswered();
        let key = Arc::clone(&waiting.ask.key);
        self.fail(cx, id, error(key));
    }

    /// Another token holds the lock, and this attempt waits, unless it has one try.
    fn on_busy(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        holder: Holder,
        place: Option<Place>,
    ) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        compare_limits(cx, &waiting.ask, holder.limit.filter(|_| !holder.is_central));
        if waiting.ask.deadline.one_try {
            self.reject(cx, id, |key| LockError::Busy { key, holder: holder.into() });
            return;
        }
        let is_first = self.attempts.queue.first_id() == Some(id);
        let of = u32::try_from(self.attempts.queue.count()).unwrap_or(u32::MAX);
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if let Some(place) = place.filter(|_| !waiting.standing.is_queued()) {
            waiting.ask.call.queued(place.in_front);
        }
        let refused_before = waiting.requests.are_refused();
        let may_starve = is_first && place.is_none() && holder.inside > 0;
        let first = is_first.then_some(of);
        let watches = waiting.set_busy(cx.now, sent, holder, place, first, cx.abilities.tracks_changes);
        let early = waiting.take_deferred_push();
        if watches && cx.connection.is_up() {
            cx.outbox.push((id, waiting.request(Action::WatchHolder)));
        }
        cx.timers.set(id, waiting.due());
        if let Some(kind) = early {
            self.pushed(cx, id, *kind);
        }
        if is_first && refused_before {
            self.ask_after_refusals(cx);
        }
        cx.contended.insert(&request.name);
        self.ask_past(cx, id, may_starve);
        if place.is_some() {
            self.attempts.queue.set_kept(sent);
            self.set_waited_for(cx);
        }
        self.on_fresh_answer(cx);
    }

    /// The server has not executed the request of this attempt, or nobody knows whether it has.
    fn on_refusal(&mut self, cx: &mut Context, id: Id, request: &Request, refusal: Refusal) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        let ask = &waiting.ask;
        match refusal {
            refusal if refusal.is_asked_again() => {
                if refusal == Refusal::Contended {
                    cx.contended.insert(&request.name);
                }
                self.ask_as(cx, id, request.action == Action::Acquire(Mode::Rejoin));
            }
            Refusal::Transient(reason) | Refusal::OutcomeUnknown(reason) if !ask.deadline.one_try => {
                self.refused_for_now(cx, id, reason);
            }
            refusal if ask.waits_for_ever() => self.refused_until_then(cx, id, refusal.words()),
            refusal => {
                let error = refusal.error(Some(Arc::clone(&ask.key)));
                self.fail(cx, id, error);
            }
        }
    }

    /// The body of this attempt, which runs once, does not run. `kept`: it may have something to
    /// release.
    fn not_run(&mut self, cx: &mut Context, id: Id, why: NotRun, kept: bool) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if !kept {
            waiting.clear_place();
        }
        let key = Arc::clone(&waiting.ask.key);
        let error = match why {
            NotRun::Done(result) => {
                waiting.ask.kind.set_result(result);
                waiting.ask.end(AcquireOutcome::Replayed);
                self.end_long_wait(cx, id, "replayed");
                self.drop_waiting(cx, id);
                return;
            }
            NotRun::Reused => LockError::KeyReused { key },
            NotRun::Interrupted { owner, since } => LockError::interrupted(key, owner, since),
        };
        self.fail(cx, id, error);
    }

    fn on_reply_to_holder(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        reply: &Reply,
    ) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        match (request.action, reply) {
            (Action::Reserve { count }, reply) => {
                held.successors.set_reserved(reply, count);
                if held.awaits_reservation() {
                    self.end_reservation(cx, id, true);
                }
            }
            (Action::Renew { .. } | Action::Watch, Reply::NotHeld | Reply::Free) => {
                self.on_not_held(cx, id, request, *reply == Reply::Free);
            }
            (Action::Downgrade { .. }, reply) => self.on_downgrade_reply(cx, id, sent, request, reply),
            (Action::Renew { nth, .. }, reply) if !held.is_closed() => {
                self.on_renew_reply(cx, id, sent, request, nth, reply);
            }
            (Action::Watch, Reply::HeldFor { left }) if held.repair(cx.now, *left) => {
                self.renew(cx, id);
            }
            (Action::Watch, Reply::HeldFor { .. }) => self.schedule(cx, id),
            (Action::Watch, Reply::Refused(Refusal::NoScript)) => self.watch(cx, id),
            // It crossed the push of its own grant: the renewal follows anyway.
            (Action::Acquire(_), reply) => {
                let has_place = matches!(reply, Reply::Acquire(Verdict::Busy { place: Some(_), .. }));
                // It may have written the key, which ends the watch.
                if held.queue.set_answered(has_place) && held.watch.is_on() {
                    self.watch(cx, id);
                }
            }
            // A watch that was refused, or that has found what the renewal in its call has found:
            // the renewals go on. Or the lease is over for a shutdown: its guard or the expiry of its
            // key ends it.
            _ => {}
        }
    }

    fn on_renew_reply(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        nth: u32,
        reply: &Reply,
    ) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        match reply {
            Reply::Done => {
                let before = held.successors.on_holder_named(request);
                let is_held = held.set_renewed(cx.now, sent, nth, request.ttl);
                if let Some(before) = before {
                    self.on_holder_named(cx, id, before);
                }
                if is_held {
                    self.announce_if_due(cx, id);
                    self.go_on_downgrading(cx, id);
                } else {
                    self.lose(cx, id, LostReason::Expired, true);
                }
            }
            Reply::Refused(refusal) if refusal.is_asked_again() => self.renew(cx, id),
            Reply::Refused(refusal) => {
                held.ttl.set_refused(held.lease.key(), refusal);
                held.renewals.retry(cx.now, held.ttl.current());
                self.schedule(cx, id);
            }
            _ => {}
        }
    }
}

/// True when this was a request for a lock, and the server has done nothing of it.
fn has_taken_nothing(action: Action, refusal: &Refusal) -> bool {
    action.takes() && refusal.has_done_nothing(matches!(action, Action::AcquireNext { .. }))
}
