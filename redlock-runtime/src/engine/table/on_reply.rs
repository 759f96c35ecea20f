//! Replies: what each one changes for the attempt that asked.

use std::sync::Arc;

use super::{Attempt, LockTable};
use crate::engine::protocol::{Action, Id, Mode, Refusal, Reply, Request};
use crate::ground::clock::Moment;
use crate::ground::error::LockError;
use crate::ground::outcome::LostReason;
use crate::ground::telemetry;

impl LockTable {
    /// The reply to a request of `id` that was sent at `sent`.
    pub(crate) fn reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: Reply) {
        let holder = self.current_holder(id, request);
        self.meets_reply(holder, request.action, &reply);
        if request.action == Action::Draw {
            self.fence_reply(id, request, &reply);
            return;
        }
        let id = holder;
        match self.attempts.get_mut(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.token == request.token => {
                if request.action == Action::WatchHolder {
                    self.watch_reply(now, id, &reply);
                    return;
                }
                self.acquire_reply(now, id, sent, request, reply);
            }
            // A watch with an earlier token says nothing about this one.
            Some(Attempt::Held(held)) if held.has_sent(request) => {
                self.renew_reply(now, id, sent, request, &reply);
            }
            Some(Attempt::Releasing(releasing))
                if matches!(request.action, Action::Release | Action::ExpireLater) =>
            {
                if reply == Reply::Refused(Refusal::Contended) {
                    self.contended.insert(&request.name);
                }
                let ran_out = releasing.ran_out(&reply);
                let step = releasing.reply(now, reply);
                self.go_on_releasing(now, id, step);
                if ran_out {
                    self.claim_ran_out(now, &request.name);
                }
            }
            // Its caller had left before.
            Some(Attempt::Releasing(releasing)) if matches!(&reply, Reply::Refused(refusal) if has_taken_nothing(request.action, refusal)) =>
            {
                let is_over = releasing.token() == &request.token && releasing.has_come_to_nothing();
                if is_over {
                    self.remove(id);
                }
            }
            None if self.admin_calls.contains_key(&id) => self.admin_reply(now, id, reply),
            None if self.long_waits.asks(id) => self.holder_reply(now, id, reply),
            // The reply to an acquire whose caller has gone: its release is sent.
            _ => {}
        }
    }

    fn acquire_reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: Reply) {
        let action = request.action;
        if let (Reply::Refused(refusal), Some(Attempt::Waiting(waiting))) =
            (&reply, self.attempts.get_mut(&id))
            && has_taken_nothing(action, refusal)
        {
            waiting.has_come_to_nothing();
        }
        if let Action::AcquireNext { .. } = action
            && self.is_skipped(now, id, sent, &reply)
        {
            return;
        }
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match reply {
            Reply::Granted { fence } => {
                // Without a wait.
                if !request.direct {
                    self.contended.remove(&request.name);
                }
                self.answered_held(now, id, sent, fence, false);
            }
            Reply::Claimed { fence } => self.answered_held(now, id, sent, fence, true),
            Reply::Busy { holder, .. } if waiting.ask.one_try => {
                waiting.unanswered = 0;
                let error = LockError::Busy { key: Arc::clone(&waiting.ask.key), holder: holder.into() };
                self.fail(now, id, error);
            }
            Reply::QueueFull { waiters } => {
                waiting.unanswered = 0;
                let error = LockError::QueueFull { key: Arc::clone(&waiting.ask.key), waiters };
                self.fail(now, id, error);
            }
            Reply::Busy { holder, place } => {
                let name = Arc::clone(&waiting.ask.name);
                let of = u32::try_from(self.queues.count(&name)).unwrap_or(u32::MAX);
                let first = (self.queues.first(&name) == Some(id)).then_some(of);
                let has_place = place.is_some();
                if let Some(place) = place.filter(|_| !waiting.is_queued()) {
                    waiting.ask.call.queued(place.in_front);
                }
                let refused_before = waiting.is_refused();
                let tracks_changes =
                    waiting.busy(now, sent, holder, place, first, self.abilities.tracks_changes);
                let early = waiting.deferred_push.take();
                if tracks_changes && self.connected {
                    self.outbox.push((id, waiting.request(Action::WatchHolder)));
                }
                self.schedule(id);
                if let Some(kind) = early {
                    self.pushed(now, id, *kind);
                }
                if first.is_some() && refused_before {
                    self.ask_after_refusals(now, &name);
                }
                self.contended.insert(&name);
                if has_place {
                    self.queues.is_kept(&name, sent);
                    self.waited_for_here(&name);
                }
                self.word_comes(now, &name);
            }
            Reply::Refused(Refusal::NoScript | Refusal::Unfinished | Refusal::Contended) => {
                if reply == Reply::Refused(Refusal::Contended) {
                    self.contended.insert(&request.name);
                }
                self.ask_in(now, id, action == Action::Acquire(Mode::Rejoin));
            }
            Reply::Refused(Refusal::Transient(reason) | Refusal::OutcomeUnknown(reason))
                if !waiting.ask.one_try =>
            {
                self.refused_for_now(now, id, reason);
            }
            Reply::Refused(refusal) if waiting.ask.waits_for_ever() => {
                let reason = refusal.words();
                if waiting.is_refused_anew(&reason) {
                    telemetry::refused(&waiting.ask.key, &reason);
                }
                waiting.refused(now, reason);
                self.schedule(id);
            }
            Reply::Refused(Refusal::OutcomeUnknown(reason)) => {
                let error = LockError::unavailable(&waiting.ask.key, reason);
                self.fail(now, id, error);
            }
            Reply::Refused(refusal) => {
                let error = refusal.error(Some(Arc::clone(&waiting.ask.key)));
                self.fail(now, id, error);
            }
            // No node answers an acquire like this.
            Reply::Skipped
            | Reply::Voted { .. }
            | Reply::Reserved { .. }
            | Reply::Done
            | Reply::HeldFor { .. }
            | Reply::NotHeld
            | Reply::Free
            | Reply::Found(_)
            | Reply::Page { .. } => {}
        }
    }

    fn renew_reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: &Reply) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (request.action, reply) {
            (Action::Reserve { count }, reply) => {
                held.reserved.answered(reply, count);
                if held.awaits_reservation() {
                    self.end_reservation(now, id);
                }
            }
            // The lease is over for a shutdown: its guard or the expiry of its key ends it.
            (Action::Renew { .. }, Reply::Done | Reply::Refused(_)) if held.is_closed() => {}
            (Action::Renew { nth, .. }, Reply::Done) => {
                let before = held.told(request);
                let is_held = held.renewed(now, sent, nth, request.ttl);
                if let Some(before) = before {
                    self.is_told(now, id, before);
                }
                if is_held {
                    self.schedule(id);
                } else {
                    self.lost(now, id, LostReason::Expired, true);
                }
            }
            (Action::Renew { .. } | Action::Watch, Reply::NotHeld | Reply::Free)
                if !held.is_lost_by(request) => {}
            // Some nodes of a quorum may still have the key. Elsewhere the release hands a deleted lock to its queue.
            (Action::Renew { .. } | Action::Watch, Reply::NotHeld | Reply::Free) => {
                let releases = self.abilities.votes || self.abilities.hands_over;
                self.lost(now, id, LostReason::KeyChanged, releases);
            }
            (Action::Watch, Reply::HeldFor { left }) if held.is_to_be_repaired(now, *left) => {
                self.renew(now, id);
            }
            (Action::Watch, Reply::HeldFor { .. }) => self.schedule(id),
            (Action::Renew { .. }, Reply::Refused(Refusal::NoScript)) => self.renew(now, id),
            (Action::Watch, Reply::Refused(Refusal::NoScript)) => self.watch(id),
            (Action::Renew { .. }, Reply::Refused(refusal)) => {
                held.refused(refusal);
                held.retry(now);
                self.schedule(id);
            }
            // It crossed the push of its own grant: the renewal follows anyway.
            (Action::Acquire(_), reply) => {
                let has_place = matches!(reply, Reply::Busy { place: Some(_), .. });
                let is_watch_due = held.answered(has_place);
                if is_watch_due {
                    self.watch(id);
                }
            }
            _ => {}
        }
    }
}

/// True when this was a request for a lock, and the server has done nothing of it.
fn has_taken_nothing(action: Action, refusal: &Refusal) -> bool {
    match action {
        Action::Acquire(_) => refusal.has_done_nothing(false),
        Action::AcquireNext { .. } => refusal.has_done_nothing(true),
        _ => false,
    }
}
