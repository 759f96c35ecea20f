//! Held locks: delivery, renewal, watch, loss and release.
//!
//! A waiter that has got the lock becomes the holder, and its caller gets the lease. Where replicas
//! must have the lock first, the caller gets it once they confirm. The holder renews the lock until
//! its guard releases it, watches it, because another client may delete it, and may draw a fencing
//! token that it was taken without. With the end of its lease, released or lost, the attempt
//! releases what the server may have of it, and the first waiter asks right behind that release.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Lock;
use super::acquiring::NO_TICKETS;
use super::held::{Held, LOOKS_AFTER, QueueSeen};
use super::queue::NextAsker;
use super::releasing::answer;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::lease::{Lease, safe_until};
use crate::base::outcome::{LostReason, ReleaseOutcome};
use crate::base::telemetry::{self, HandOver};
use crate::base::token::Token;
use crate::engine::command::{AcquireOutcome, Ask, Extension, Response, Unconfirmed};
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{
    Action, CLAIM, Confirmation, Disconnected, Id, Releases, Reply, Request, ServerTime,
};

impl Lock {
    /// The reply says that the server keeps the lock: for the claim if `claims`, else for the ttl.
    pub(super) fn answered_held(&mut self, cx: &mut Context, id: Id, sent: Moment, fence: u64, claims: bool) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        let (refused_before, asks, ask) =
            (waiting.requests.are_refused(), waiting.requests.count(), &waiting.ask);
        let lasts = if claims { ask.ttl.min(CLAIM) } else { ask.ttl };
        let lease = ask.lease(fence, sent, safe_until(sent, lasts));
        if lease.remaining(cx.now).is_none() {
            self.too_late(cx, id, cx.now.since(sent), lasts);
            return;
        }
        if claims && ask.hold.min.is_some() {
            self.ask_to_keep(cx, id, fence);
            return;
        }
        if claims {
            ask.call.handed_over(HandOver::Server);
        }
        let queue = QueueSeen::by_reply(asks, claims || ask.kind.notes_its_grant());
        let claim_ends = claims.then(|| sent.after(lasts));
        self.enter(cx, id, lease, claim_ends, |ask, token, lease| {
            Held::new(ask, token, lease, sent, claims, queue)
        });
        if refused_before {
            self.ask_after_refusals(cx);
        }
    }

    /// A lock with a `min_hold` was granted for a claim. The server keeps it for longer before its
    /// body begins: a process that dies at once would give it back when the claim is over.
    fn ask_to_keep(&mut self, cx: &mut Context, id: Id, fence: u64) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if cx.outbox.take_back(id).is_some() {
            waiting.take_back();
        }
        waiting.set_claiming(cx.now, fence);
        let request = waiting.request(Action::Renew { nth: 0, shortens: false });
        cx.timers.set(id, waiting.due());
        cx.outbox.push_urgent((id, request));
    }

    /// The answer to that. `is_kept`: the claim was not over.
    pub(super) fn kept(&mut self, cx: &mut Context, id: Id, sent: Moment, is_kept: bool) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        if is_kept {
            let fence = waiting.requests.claimed_fence();
            waiting.ask.call.handed_over(HandOver::Server);
            self.answered_held(cx, id, sent, fence, false);
        } else {
            self.ask(cx, id);
        }
    }

    /// The node has granted the lock to this waiter by a push.
    pub(super) fn granted(&mut self, cx: &mut Context, id: Id, fence: u64, at: ServerTime, marked: bool) {
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        let claim = waiting.ask.ttl.min(CLAIM);
        let since = waiting.standing.granted_since(cx.now, at);
        let safe = since.map_or(cx.now, |since| safe_until(since, claim));
        let may_begin = waiting.ask.kind.may_begin_by_push(fence, waiting.ask.fenced);
        if !may_begin || safe.since(cx.now) < claim / 4 {
            // If the push is late, the server says whether this waiter still holds the lock.
            waiting.requests.set_granted();
            self.ask(cx, id);
            return;
        }
        if marked {
            cx.contended.insert(&waiting.ask.name);
        }
        if waiting.ask.hold.min.is_some() {
            self.ask_to_keep(cx, id, fence);
            return;
        }
        let was_taken_back = cx.outbox.take_back(id).is_some();
        waiting.ask.call.handed_over(HandOver::Server);
        // A request that was not taken back crossed the push.
        let asks = waiting.is_asking() && !was_taken_back;
        let since = since.unwrap_or(cx.now);
        let lease = waiting.ask.lease(fence, since, safe);
        let queue = QueueSeen::by_push(marked, asks);
        self.enter(cx, id, lease, Some(since.after(claim)), |ask, token, lease| {
            Held::new(ask, token, lease, since, true, queue)
        });
    }

    /// The first waiter of this process asks when a claim of this process is to end, as a hint
    /// tells those of the others: this process may be suspended.
    pub(super) fn wait_for_own_claim(&mut self, cx: &mut Context, ends: Moment) {
        if let Some((id, waiting)) = self.attempts.queue.first_mut() {
            waiting.wait_for_own_claim(ends);
            cx.timers.set(id, waiting.due());
        }
    }

    /// The waiter is the holder from now on, until `claim_ends` at least, and its caller gets the lock.
    fn enter(
        &mut self,
        cx: &mut Context,
        id: Id,
        lease: Lease,
        claim_ends: Option<Moment>,
        held: impl FnOnce(&Ask, Token, Arc<Lease>) -> Held,
    ) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        let ask = &waiting.ask;
        if self.extras.reported().is_some() {
            let outcome =
                if ask.is_cancelled() { "cancelled" } else { telemetry::outcome_of_lock(lease.is_run()) };
            self.end_long_wait(cx, id, outcome);
        }
        let Some(waiting) = self.attempts.take_waiting(id) else { return };
        cx.attempts.forget_token(&waiting.token);
        let (ask, token) = waiting.into_parts();
        let mut held = Box::new(held(&ask, token, Arc::new(lease)));
        let delivered = deliver(cx, id, &mut held, ask);
        let lets_others_in = held.kind.lets_others_in();
        self.attempts.set_holder(id, held);
        if cx.queues_on_server() {
            // The next waiter of this process has its own place on the server, and confirms it from
            // time to time.
            let next = self.attempts.queue.first_id();
            self.take_turn(cx, next.map(NextAsker::Later));
        } else if lets_others_in {
            let next = self.attempts.queue.first_id();
            self.take_turn(cx, next.map(NextAsker::Now));
        }
        if delivered {
            self.schedule(cx, id);
            self.reserve(cx);
        } else {
            self.abandon(cx, id);
        }
        self.on_fresh_answer(cx);
        if let Some(ends) = claim_ends.filter(|_| !lets_others_in) {
            self.wait_for_own_claim(cx, ends);
        }
    }

    /// Reserves the fencing tokens of the local hand-overs, as soon as there are a holder and a
    /// waiter.
    pub(crate) fn reserve(&mut self, cx: &mut Context) {
        let count = cx.settings.cohort;
        if count == 0
            || cx.abilities.votes
            || !cx.connection.is_up()
            || self.attempts.queue.first_id().is_none()
        {
            return;
        }
        if let Some(id) = self.attempts.holder_id()
            && let Some(held) = self.attempts.held_mut(id)
            && held.successors.reserve()
        {
            cx.outbox.push((id, held.request(Action::Reserve { count })));
        }
    }

    /// The caller no longer waits: the attempt releases the lock that it has or may get.
    pub(crate) fn abandon(&mut self, cx: &mut Context, id: Id) {
        if let Some(mut held) = self.attempts.take_held(id) {
            held.set_unrun();
            self.release_on_server(cx, id, &held, None);
        } else if self.attempts.waiting(id).is_some() {
            self.end_long_wait(cx, id, "cancelled");
            self.drop_waiting(cx, id);
        }
    }

    /// The guard changes the ttl.
    pub(crate) fn extend(&mut self, cx: &mut Context, id: Id, extension: Extension) {
        // A lock that is not held was lost, and its guard knows why.
        if let Some(held) = self.attempts.held_mut(id)
            && held.lease.check(cx.now).is_some()
        {
            if let Some(heartbeat) = held.lease.heartbeat() {
                heartbeat.beat(cx.now);
            }
            held.ttl.change(cx.now, extension, cx.now.after(cx.settings.io_timeout));
            self.renew(cx, id);
        }
    }

    /// Draws a fencing token for a held lock, unless it has one. Dropped without an answer when
    /// there is none.
    pub(crate) fn fence(&mut self, cx: &mut Context, id: Id, caller: oneshot::Sender<()>) {
        let Some(held) = self.attempts.held_mut(id).filter(|_| cx.connection.is_up()) else { return };
        if held.lease.fence() > 0 {
            let _ = caller.send(());
            return;
        }
        let draw = held.request(Action::Draw);
        // The answer to a downgrade has a fencing token, too.
        let waits = held.is_downgrading();
        if self.extras.add_draw(id, caller) && !waits {
            cx.outbox.push((id, draw));
        }
    }

    pub(super) fn on_fence_reply(&mut self, cx: &mut Context, id: Id, request: &Request, reply: &Reply) {
        if matches!(reply, Reply::Refused(refusal) if refusal.is_asked_again()) {
            cx.outbox.push((id, request.clone()));
            return;
        }
        let held = self.attempts.held_mut(id);
        match (reply, held) {
            // It was executed after the server was told who has the lock.
            (Reply::NotHeld, Some(held)) if *held.successors.token() != request.token => {
                cx.outbox.push((id, held.request(Action::Draw)));
            }
            (Reply::Reserved { last }, Some(held)) if held.successors.has(&request.token) => {
                held.lease.set_fence(*last);
                for caller in self.extras.take_draws(id) {
                    let _ = caller.send(());
                }
            }
            _ => drop(self.extras.take_draws(id)),
        }
    }

    /// Sends a renewal, if one is wanted, and a watch.
    pub(crate) fn renew(&mut self, cx: &mut Context, id: Id) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        if !cx.connection.is_up() || !held.wants_renewal() {
            held.renewals.suspend();
        } else if held.is_led_by_a_blocked_body(cx.now) {
            held.renewals.retry(cx.now, held.ttl.current());
        } else {
            held.set_renewing(cx.now);
            cx.outbox.push_urgent((id, held.renewal_request(cx.now)));
        }
        // The renewal changes the key, which ends the watch.
        self.watch(cx, id);
        self.schedule(cx, id);
    }

    /// Sends a watch: the reply compares the holder, and the node tells of the next change.
    pub(crate) fn watch(&mut self, cx: &mut Context, id: Id) {
        if let Some(held) = self.attempts.held_mut(id)
            && cx.connection.is_up()
            && cx.abilities.tracks_changes
            && !held.is_closed()
            // The answer to that one tells whose value to compare, and sends the watch. So does the answer to a
            // downgrade.
            && !held.successors.is_naming_holder()
            && !held.may_be_shared()
        {
            cx.outbox.push_urgent((id, held.request(Action::Watch)));
        }
    }

    /// The key of a lock that several have was changed. Who comes and goes may change it, because the
    /// key lasts as long as the last of them, so at most one watch is sent for many changes.
    pub(super) fn watch_one_of_several(&mut self, cx: &mut Context, id: Id) {
        if self.extras.may_watch_again(cx.now, LOOKS_AFTER) {
            self.watch(cx, id);
        } else if self.attempts.held_mut(id).is_some_and(|held| held.watch.begin_again_later(cx.now)) {
            self.schedule(cx, id);
        }
    }

    /// One of this process has left the lock, or its queue: another one that has the lock beside
    /// others looks whether all of them still have it.
    pub(super) fn rewatch_later(&mut self, cx: &mut Context) {
        let one = self.attempts.inside().find(|(_, held)| !held.is_closed()).map(|(id, _)| id);
        if let Some(id) = one
            && self.attempts.held_mut(id).is_some_and(|held| held.watch.begin_again_later(cx.now))
        {
            self.schedule(cx, id);
        }
    }

    /// A waiter of this process has a place in the queue of the lock. Its request may have marked the
    /// key: that ended the watch, and the server does not tell of a client's own changes.
    pub(super) fn set_waited_for(&mut self, cx: &mut Context) {
        if let Some(id) = self.attempts.holder_id()
            && self.attempts.held_mut(id).is_some_and(|held| held.queue.set_marked() && held.watch.is_on())
        {
            self.watch(cx, id);
        }
    }

    /// The guard leaves the lock to whoever redeems its ticket within `lasts`. To those who wait,
    /// here and elsewhere, it is held until then.
    pub(crate) fn leave_to_ticket(&mut self, cx: &mut Context, id: Id, lasts: Duration, response: Response) {
        let is_by_votes = cx.abilities.votes;
        if let Some(held) = self.attempts.held_mut(id)
            && let Some(reason) = is_by_votes.then_some(NO_TICKETS).or(held.gives_no_ticket())
        {
            response.send(Err(LockError::invalid(held.lease.key(), reason)), None);
            return;
        }
        let Some(mut held) = self.attempts.take_held(id) else {
            // It was lost before, and is gone or being released.
            answer(Some(response), ReleaseOutcome::AlreadyLost);
            return;
        };
        held.leave_until(cx.now.after(lasts));
        self.release_on_server(cx, id, &held, Some(response));
    }

    /// The lease is over: the server releases the lock, and the next waiter's request is sent right
    /// after that.
    pub(super) fn release_on_server(
        &mut self,
        cx: &mut Context,
        id: Id,
        held: &Held,
        response: Option<Response>,
    ) {
        let was_held = held.lease.check(cx.now).is_some();
        held.end_lease();
        let response = match response {
            Some(response) if response.is_to_dropped() => cx.connection.is_up().then_some(response),
            response if was_held => response,
            response => {
                answer(response, ReleaseOutcome::AlreadyLost);
                None
            }
        };
        if held.queue.grant_may_follow() {
            cx.attempts.expect_push(held.successors.token(), id);
        }
        let releasing = held.release(cx.now, cx.settings.io_timeout, was_held, response);
        self.start_release(cx, id, releasing);
        if let Some(leaving) = held.release_exclusive_place(cx.now) {
            self.release_unawaited(cx, leaving);
        }
        self.leave(cx, held);
    }

    /// The lease ends without its guard; an earlier reason counts. `release`: the server may still
    /// have the key. It may have a place in the queue instead, when a request of the waiter arrived
    /// after the loss.
    pub(crate) fn lose(&mut self, cx: &mut Context, id: Id, reason: LostReason, release: bool) {
        let Some(held) = self.attempts.take_held(id) else { return };
        held.lease.end(reason);
        // A start is recorded by its guard, and not lost.
        if !held.awaits_reservation() && !held.lease.is_handed_over() && !held.is_reported_lost() {
            telemetry::lost(held.lease.key(), held.lease.lost_reason().unwrap_or(reason));
        }
        if release || held.queue.may_have_place() || held.successors.owes_places() {
            self.release_on_server(cx, id, &held, None);
        } else {
            cx.forget(id);
            self.leave(cx, &held);
        }
    }

    /// The server does not know the holder: another caller has the lock, or it is free.
    pub(super) fn on_not_held(&mut self, cx: &mut Context, id: Id, request: &Request, is_free: bool) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        if !held.is_lost_by(request) {
            if held.kind.is_counted() && !request.kind.is_counted() {
                // It was executed behind the downgrade.
                self.renew(cx, id);
            }
            return;
        }
        if is_free && cx.abilities.votes {
            self.lose_majority(cx, id);
            return;
        }
        // Some nodes of a quorum may still have the key. Elsewhere the release hands a deleted
        // lock to its queue.
        let releases = cx.abilities.votes || cx.abilities.hands_over;
        self.lose(cx, id, LostReason::KeyChanged, releases);
        if let (Action::Watch, Some(phase)) = (request.action, request.kind.phase()) {
            self.lose_phase(cx, phase);
        }
    }

    /// Too few nodes of a quorum have the lock, and no other caller has a quorum: some nodes have
    /// restarted. The lease ends at once. The nodes that still have the key keep it until the guard
    /// releases it, so that other callers stay out while the body stops.
    fn lose_majority(&mut self, cx: &mut Context, id: Id) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        if held.close(cx.now, LostReason::KeyChanged) {
            telemetry::lost(held.lease.key(), LostReason::KeyChanged);
            self.schedule(cx, id);
        }
    }

    /// The phase is over: all that have the lock in it have lost it.
    pub(super) fn lose_phase(&mut self, cx: &mut Context, phase: u64) {
        let of_phase = |(id, held): (Id, &Held)| (held.lease.fence() == phase).then_some(id);
        for id in self.attempts.inside().filter_map(of_phase).collect::<Vec<_>>() {
            self.lose(cx, id, LostReason::KeyChanged, false);
        }
    }

    /// An operator sends this request through the manager of the holder: the server does not tell a
    /// client of a change that it made itself.
    pub(crate) fn take_for_operator(&mut self, cx: &mut Context, request: &Request) {
        let is_taken = |held: &Held| match request.action {
            Action::ForceRelease => held.is_named(&request.token),
            Action::Release => held.successors.has(&request.token),
            _ => false,
        };
        let taken: Vec<Id> =
            self.attempts.holders().filter(|(_, held)| is_taken(held)).map(|(id, _)| id).collect();
        let reason = match request.release {
            Releases::AmongSeveral => LostReason::Revoked,
            _ => LostReason::ForceReleased,
        };
        for id in taken {
            self.lose(cx, id, reason, true);
        }
    }

    /// The holder has left, and the first waiter asks.
    fn leave(&mut self, cx: &mut Context, held: &Held) {
        if !held.is_former() {
            let next = self.attempts.queue.take_turn();
            self.take_turn(cx, next);
        }
    }

    /// The server has the lock under the token of its holder, and no longer under this one.
    pub(super) fn on_holder_named(&mut self, cx: &mut Context, id: Id, before: Token) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        let leaving = held.release_place(cx.now, before);
        if held.watch.is_on() {
            self.watch(cx, id);
        }
        if let Some(leaving) = leaving {
            self.release_unawaited(cx, leaving);
        }
    }

    /// The task that asks the replicas is a new one: what the last one has not answered is
    /// confirmed again.
    pub(crate) fn confirm_again(&mut self, cx: &mut Context, id: Id) {
        if let Some(held) = self.attempts.held_mut(id)
            && held.awaits_replicas()
            && !cx.unconfirmed.iter().any(|unconfirmed| unconfirmed.id == id)
        {
            // The replicas have the usual time again, as for a caller without a limit.
            let request = held.request(held.ttl.renewal());
            cx.unconfirmed.push(Unconfirmed { id, request, gives_up_at: None, kept: None });
        }
    }

    /// The answer of the replicas about a lock that its caller does not have yet.
    pub(crate) fn confirmed(&mut self, cx: &mut Context, id: Id, token: &Token, confirmation: Confirmation) {
        let Some(held) = self.attempts.held_mut(id).filter(|held| held.successors.token() == token) else {
            return;
        };
        let Some(caller) = held.take_caller() else { return };
        let (lease, wanted) = (&held.lease, cx.settings.replicas);
        let key = Arc::clone(lease.key());
        let outcome = match confirmation {
            _ if lease.check(cx.now).is_none() => lease.lost().into(),
            Confirmation::Reached(reached) if reached >= wanted => {
                AcquireOutcome::Held(Arc::clone(lease), None)
            }
            Confirmation::Reached(reached) => LockError::NotReplicated { key, wanted, reached }.into(),
            Confirmation::NotHeld => {
                lease.end(LostReason::KeyChanged);
                lease.lost().into()
            }
            Confirmation::Unknown(Disconnected { reason, is_permanent }) => {
                let reason = format!("its replicas could not be asked: {reason}").into();
                Disconnected { reason, is_permanent }.error(Some(key)).into()
            }
        };
        let is_held = matches!(outcome, AcquireOutcome::Held(..));
        let has_guard = caller.send(outcome).is_ok() && is_held;
        if !has_guard {
            self.abandon(cx, id);
        }
    }

    /// The manager is shut down, and its time is over: the lease ends. True when a body may have
    /// run under it.
    pub(crate) fn close(&mut self, cx: &mut Context, id: Id, reason: &'static str) -> bool {
        let Some(held) = self.attempts.held_mut(id) else { return false };
        if let Some(caller) = held.take_caller() {
            let _ = caller.send(LockError::closed(held.lease.key(), reason).into());
            self.abandon(cx, id);
            return false;
        }
        let was_held = held.close(cx.now, LostReason::ManagerClosed);
        if was_held {
            self.schedule(cx, id);
        }
        was_held
    }
}

/// Gives the lock to its caller, at once or as soon as the replicas have it. False when the caller has
/// gone.
fn deliver(cx: &mut Context, id: Id, held: &mut Held, mut ask: Box<Ask>) -> bool {
    match (ask.caller.take(), cx.settings.replicas) {
        (Some(caller), 0) => caller.send(AcquireOutcome::Held(Arc::clone(&held.lease), Some(ask))).is_ok(),
        (Some(caller), _) if !caller.is_closed() => {
            held.deliver_later(caller);
            let (request, gives_up_at) = (held.request(held.ttl.renewal()), ask.deadline.gives_up_at);
            cx.unconfirmed.push(Unconfirmed { id, request, gives_up_at, kept: None });
            true
        }
        _ => false,
    }
}
