//! Held locks: delivery, renewal, watch, loss and release.

use std::sync::Arc;

use super::queue::NextAsker;
use crate::engine::command::{AcquireOutcome, Ask, Extension, Response};
use crate::engine::protocol::{Action, CLAIM, Id, ServerTime, Unconfirmed};
use crate::engine::table::lock::held::Held;
use crate::engine::table::lock::releasing::{ReleaseStep, Releasing};
use crate::engine::table::lock::waiting::Waiting;
use crate::engine::table::{Attempt, LockTable};
use crate::ground::clock::Moment;
use crate::ground::lease::{Lease, safe_until};
use crate::ground::outcome::LostReason;
use crate::ground::telemetry::{self, HandOver};
use crate::ground::token::Token;

impl LockTable {
    /// The reply says that the server keeps the lock: for the claim if `claims`, else for the ttl.
    pub(in crate::engine::table) fn answered_held(
        &mut self,
        now: Moment,
        id: Id,
        sent: Moment,
        fence: u64,
        claims: bool,
    ) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        let refused_before = waiting.is_refused();
        let name = Arc::clone(&waiting.ask.name);
        if claims {
            waiting.ask.call.handed_over(HandOver::Server);
        }
        let lasts = if claims { waiting.ask.ttl.min(CLAIM) } else { waiting.ask.ttl };
        let lease = waiting.ask.lease(fence, sent, safe_until(sent, lasts));
        if lease.remaining(now).is_none() {
            self.too_late(now, id, waiting, now.since(sent), lasts);
            return;
        }
        let (held, asks) = (if claims { Held::handed_over } else { Held::asked }, waiting.asks);
        self.enter(now, id, waiting, lease, |ask, token, lease| {
            held(ask, token, lease, sent).answered_after(asks)
        });
        if claims {
            self.waits_for_own_claim(&name, sent.after(lasts));
        }
        if refused_before {
            self.ask_after_refusals(now, &name);
        }
    }

    /// The node has granted the lock to this waiter by a push.
    pub(in crate::engine::table) fn granted(
        &mut self,
        now: Moment,
        id: Id,
        fence: u64,
        at: ServerTime,
        marked: bool,
    ) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        let claim = waiting.ask.ttl.min(CLAIM);
        let since = waiting.granted_since(now, at);
        let safe = since.map_or(now, |since| safe_until(since, claim));
        if safe.since(now) < claim / 4 {
            // The push is late: ask the server whether this waiter still holds the lock.
            waiting.was_granted = true;
            self.ask(now, id);
            return;
        }
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        let was_taken_back = self.outbox.take_back(id).is_some();
        waiting.ask.call.handed_over(HandOver::Server);
        let name = Arc::clone(&waiting.ask.name);
        if marked {
            self.contended.insert(&name);
        }
        // Else that request crossed the push.
        let asks = waiting.is_asking() && !was_taken_back;
        let since = since.unwrap_or(now);
        let lease = waiting.ask.lease(fence, since, safe);
        self.enter(now, id, waiting, lease, |ask, token, lease| {
            Held::handed_over(ask, token, lease, since).pushed(marked, asks)
        });
        self.waits_for_own_claim(&name, since.after(claim));
    }

    /// The first waiter of this process asks when a claim of this process is to end, as a hint tells those of the others: this
    /// process may be suspended.
    pub(in crate::engine::table) fn waits_for_own_claim(&mut self, name: &Arc<str>, ends: Moment) {
        if let Some(id) = self.queues.first(name)
            && let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id)
        {
            waiting.is_behind_own_claim(ends);
            self.schedule(id);
        }
    }

    fn enter(
        &mut self,
        now: Moment,
        id: Id,
        waiting: Box<Waiting>,
        lease: Lease,
        held: impl FnOnce(&Ask, Token, Arc<Lease>) -> Held,
    ) {
        let outcome = if waiting.ask.is_cancelled() { "cancelled" } else { "acquired" };
        self.wait_ends(now, &waiting, outcome);
        let lease = Arc::new(lease);
        self.by_token.remove(&waiting.token);
        let name = Arc::clone(&waiting.ask.name);
        let next = self.queues.got(&name, id);
        let Waiting { mut ask, token, .. } = *waiting;
        let caller = ask.caller.take();
        let mut held = held(&ask, token, lease);
        let delivered = match (caller, self.settings.replicas) {
            (Some(caller), 0) => {
                caller.send(AcquireOutcome::Held(Arc::clone(&held.lease), Some(ask))).is_ok()
            }
            (Some(caller), _) if !caller.is_closed() => {
                held.deliver_to = Some(caller);
                let (request, gives_up_at) = (held.request(held.renewal()), ask.gives_up_at);
                self.unconfirmed.push(Unconfirmed { id, request, gives_up_at });
                true
            }
            _ => false,
        };
        if self.queues_on_server() {
            // The next waiter of this process has its own place on the server, and confirms it from time to time.
            self.take_turn(now, next.map(NextAsker::Later));
        }
        if delivered {
            self.attempts.insert(id, Attempt::Held(Box::new(held)));
            self.schedule(id);
            self.reserve(&name);
        } else {
            held.forget_min_hold();
            self.drop_held(now, id, &held, None);
        }
        self.word_comes(now, &name);
    }

    /// The guard changes the ttl.
    pub(crate) fn extend(&mut self, now: Moment, id: Id, extension: Extension) {
        self.meets(id, "extend");
        // Else it is lost, and its guard knows why.
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && held.lease.remaining(now).is_some()
        {
            held.extend(now, extension, now.after(self.settings.io_timeout));
            self.renew(now, id);
        }
    }

    /// Sends a renewal, if one is wanted, and a watch.
    pub(in crate::engine::table) fn renew(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected && held.wants_renewal() {
            held.renewing(now);
            self.outbox.push_urgent((id, held.renewal_request(now)));
        } else {
            held.suspend();
        }
        // The renewal changes the key, which ends the watch.
        self.watch(id);
        self.schedule(id);
    }

    /// Sends a watch: the reply compares the holder, and the node tells of the next change.
    pub(in crate::engine::table) fn watch(&mut self, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && self.connected
            && self.abilities.tracks_changes
            // The answer to that one tells whose value to compare, and sends the watch.
            && !held.is_being_told()
        {
            self.outbox.push_urgent((id, held.request(Action::Watch)));
        }
    }

    /// A waiter of this process has a place in the queue of the lock.
    pub(in crate::engine::table) fn waited_for_here(&mut self, name: &Arc<str>) {
        if let Some(id) = self.queues.holder(name)
            && let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && held.waited_for()
        {
            self.watch(id);
        }
    }

    /// The guard releases the lock.
    pub(crate) fn release(&mut self, now: Moment, id: Id, response: Option<Response>) {
        self.meets(id, "release");
        match self.attempts.remove(&id) {
            Some(Attempt::Held(held)) => {
                self.hold_times.learn(held.hold, held.free_after(now));
                match self.hand_over_locally(now, id, held) {
                    Some(held) => self.drop_held(now, id, &held, response),
                    // Handed over locally: to the server it is still held.
                    None => Releasing::answer_released(response),
                }
            }
            other => {
                // Lost before: the attempt is gone, or is being released.
                if let Some(other) = other {
                    self.attempts.insert(id, other);
                }
                Releasing::answer_lost(response);
            }
        }
    }

    /// Ends the lease and releases the lock. The next waiter's request is sent right after the release.
    pub(in crate::engine::table) fn drop_held(
        &mut self,
        now: Moment,
        id: Id,
        held: &Held,
        response: Option<Response>,
    ) {
        let was_held = held.lease.remaining(now).is_some();
        held.lease.end(LostReason::Released);
        let response = match response {
            Some(response) if response.is_to_dropped() => self.connected.then_some(response),
            response if was_held => response,
            response => {
                Releasing::answer_lost(response);
                None
            }
        };
        if held.grant_may_follow() {
            self.by_token.insert(held.token.clone(), id);
        }
        let releasing = held.release(now, self.settings.io_timeout, was_held, response);
        self.attempts.insert(id, Attempt::Releasing(Box::new(releasing)));
        self.send_release(now, id);
        self.leave(now, held, id);
    }

    /// The lease ends without its guard; an earlier reason counts. `release`: the server may still have the key. It may have
    /// a place in the queue instead, when a request of the waiter arrived after the loss.
    pub(in crate::engine::table) fn lost(&mut self, now: Moment, id: Id, reason: LostReason, release: bool) {
        let Some(Attempt::Held(held)) = self.attempts.remove(&id) else {
            return;
        };
        let release = release || held.may_be_queued() || held.has_served();
        held.lease.end(reason);
        if !held.awaits_reservation() {
            telemetry::lost(held.lease.key(), held.lease.lost_reason().unwrap_or(reason));
        }
        if release {
            self.drop_held(now, id, &held, None);
        } else {
            self.timers.set(id, None);
            self.leave(now, &held, id);
        }
    }

    pub(in crate::engine::table) fn send_release(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Releasing(releasing)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            self.outbox.push((id, releasing.request(now)));
        }
        self.schedule(id);
    }

    pub(in crate::engine::table) fn go_on_releasing(&mut self, now: Moment, id: Id, step: ReleaseStep) {
        match step {
            ReleaseStep::Done => self.remove(id),
            ReleaseStep::Send => self.send_release(now, id),
            ReleaseStep::Wait => self.schedule(id),
        }
    }

    /// A release without a caller.
    pub(in crate::engine::table) fn release_apart(&mut self, now: Moment, releasing: Releasing) {
        self.own_ids -= 1;
        let own_id = self.own_ids;
        self.attempts.insert(own_id, Attempt::Releasing(Box::new(releasing)));
        self.send_release(now, own_id);
    }
}
