//! What the table makes of what the node says: replies, and grants that are pushed.

use std::sync::Arc;

use super::held::Held;
use super::local_queue::Turn;
use super::releasing::{self, Releasing};
use super::waiting::{Step, Waiting};
use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::command::Ask;
use crate::engine::protocol::{
    Action, CLAIM, Id, Mode, Push, PushKind, Refusal, Reply, Request, ServerTime, Unconfirmed,
};
use crate::error::LockError;
use crate::lease::{Lease, safe_until};
use crate::lost_reason::LostReason;
use crate::telemetry;
use crate::token::{self, Token};

impl LockTable {
    /// What the node answered to a request of `id` that was sent at `sent`.
    pub(crate) fn reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: Reply) {
        let id = self.current_holder(id, request);
        match self.attempts.get_mut(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.token == request.token => {
                if request.action == Action::WatchHolder {
                    self.looked(now, id, &reply);
                    return;
                }
                self.acquire_reply(now, id, sent, request.action, reply);
            }
            // A look with the token of an earlier attempt says nothing about this one.
            Some(Attempt::Held(held)) if held.has(&request.token) => {
                self.renew_reply(now, id, sent, request, &reply);
            }
            Some(Attempt::Releasing(releasing))
                if matches!(request.action, Action::Release | Action::ExpireLater) =>
            {
                match releasing.reply(now, reply) {
                    releasing::Next::Gone => self.remove(id),
                    releasing::Next::Again => self.send_release(now, id),
                    releasing::Next::Later => self.schedule(id),
                }
            }
            None if self.admin_calls.contains_key(&id) => self.errand_reply(now, id, reply),
            // The answer to an acquire whose caller has gone: its release is on the way, behind it.
            _ => {}
        }
    }

    fn acquire_reply(&mut self, now: Moment, id: Id, sent: Moment, action: Action, reply: Reply) {
        if let Action::AcquireNext { .. } = action
            && self.ends_chain(now, id, sent, &reply)
        {
            return;
        }
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match reply {
            Reply::Granted { fence } => self.answered_held(now, id, sent, fence, false),
            Reply::Claimed { fence } => self.answered_held(now, id, sent, fence, true),
            Reply::Busy { holder, .. } if waiting.ask.one_try => {
                waiting.unanswered = 0;
                let error = LockError::Busy { key: Arc::clone(&waiting.ask.key), holder };
                self.fail(now, id, error);
            }
            Reply::QueueFull { waiters } => {
                waiting.unanswered = 0;
                let error = LockError::QueueFull { key: Arc::clone(&waiting.ask.key), waiters };
                self.fail(now, id, error);
            }
            Reply::Busy { holder, place } => {
                let name = Arc::clone(&waiting.ask.name);
                let first = self.queues.first(&name) == Some(id);
                let refused_before = waiting.is_refused();
                let tracks_changes =
                    waiting.busy(now, sent, holder, place, first, self.abilities.tracks_changes);
                let early = waiting.told_early.take();
                if tracks_changes && self.connected {
                    self.outbox.push((id, waiting.request(Action::WatchHolder)));
                }
                self.schedule(id);
                if let Some(kind) = early {
                    self.told(now, id, kind);
                }
                if first && refused_before {
                    self.ask_after_refusals(now, &name);
                }
            }
            Reply::Refused(Refusal::NoScript | Refusal::Unfinished) => {
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
                waiting.unanswered = 0;
                self.fail(now, id, error);
            }
            // No node answers an acquire like this.
            Reply::NotAsked
            | Reply::Voted { .. }
            | Reply::Reserved { .. }
            | Reply::Done
            | Reply::NotHeld
            | Reply::Free
            | Reply::Found(_)
            | Reply::Page { .. } => {}
        }
    }

    /// Of all waiters of a lock that the server refuses, the first asks again.
    fn refused_for_now(&mut self, now: Moment, id: Id, reason: Arc<str>) {
        let Some(waiting) = self.waiting(id) else {
            return;
        };
        let first = self.queues.first(&waiting.ask.name).filter(|first| *first != id);
        let is_behind = waiting.ask.follows.is_none()
            && first.and_then(|first| self.waiting(first)).is_some_and(Waiting::is_refused);
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
            if is_behind {
                waiting.refused_behind(reason);
            } else {
                waiting.refused(now, reason);
            }
        }
        self.schedule(id);
    }

    /// The server refuses the first waiter no longer: those behind it ask now.
    fn ask_after_refusals(&mut self, now: Moment, name: &Arc<str>) {
        for id in self.queues.line(name) {
            if let Some(waiting) = self.waiting(id)
                && waiting.is_refused()
                && matches!(waiting.step, Step::Turn | Step::Pause { .. })
            {
                self.ask(now, id);
            }
        }
    }

    /// `claims`: it is held for the claim, not for the ttl.
    fn answered_held(&mut self, now: Moment, id: Id, sent: Moment, fence: u64, claims: bool) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        let refused_before = waiting.is_refused().then(|| Arc::clone(&waiting.ask.name));
        let lasts = if claims { waiting.ask.ttl.min(CLAIM) } else { waiting.ask.ttl };
        let lease = waiting.ask.lease(fence, sent, safe_until(sent, lasts));
        if lease.remaining(now).is_none() {
            self.too_late(now, id, waiting);
            return;
        }
        let held = if claims { Held::handed_over } else { Held::asked };
        self.enter(now, id, waiting, lease, |ask, token, lease| held(ask, token, lease, sent));
        if let Some(name) = refused_before {
            self.ask_after_refusals(now, &name);
        }
    }

    /// What the node tells one of our waiters.
    pub(crate) fn on_push(&mut self, now: Moment, push: &Push) {
        if let PushKind::PlaceLost = push.kind {
            // The waiter that found that out has a place again, or the lock.
            let found_out = self.by_token.get(&push.token).copied();
            for id in self.queues.line(&push.name) {
                if Some(id) != found_out {
                    self.rejoin(now, id);
                }
            }
            return;
        }
        let Some(id) = self.by_token.get(&push.token).copied() else {
            match push.kind {
                PushKind::Granted { .. } => self.return_unless_held(now, push),
                PushKind::TakenAway => self.taken_away(now, push),
                PushKind::Next { .. } | PushKind::LeftFree | PushKind::PlaceLost => {}
            }
            return;
        };
        // Its token, and another lock: nobody of ours has published that.
        if matches!(self.attempts.get(&id), Some(Attempt::Waiting(waiting)) if waiting.ask.name == push.name)
        {
            self.told(now, id, push.kind);
        }
    }

    fn told(&mut self, now: Moment, id: Id, kind: PushKind) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            // It is being released.
            return;
        };
        if waiting.keeps_for_its_answer(kind) {
            return;
        }
        match kind {
            PushKind::Granted { fence, at } => {
                self.granted(now, id, fence, at);
                return;
            }
            PushKind::Next { claim, claimant } => waiting.is_next(now, claim, claimant),
            PushKind::LeftFree => waiting.stand_back(now),
            PushKind::TakenAway | PushKind::PlaceLost => {}
        }
        self.schedule(id);
    }

    /// An operator has taken a lock away from its holder.
    fn taken_away(&mut self, now: Moment, push: &Push) {
        if let Some(id) = self.queues.holder(&push.name)
            && let Some(Attempt::Held(held)) = self.attempts.get(&id)
            && held.has(&push.token)
        {
            self.lost(now, id, LostReason::ForceReleased, false);
        }
    }

    /// The node has passed a lock on to this waiter.
    fn granted(&mut self, now: Moment, id: Id, fence: u64, at: ServerTime) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) else {
            return;
        };
        let claim = waiting.ask.ttl.min(CLAIM);
        let since = waiting.granted_since(now, at);
        let safe = since.map_or(now, |since| safe_until(since, claim));
        if safe.since(now) < claim / 4 {
            // Slept over, or nearly: the server shall say whether it still is ours.
            self.ask(now, id);
            return;
        }
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        // Behind a renewal, it would leave the lock no more than a claim.
        self.outbox.take_back(id);
        let since = since.unwrap_or(now);
        let lease = waiting.ask.lease(fence, since, safe);
        self.enter(now, id, waiting, lease, |ask, token, lease| Held::handed_over(ask, token, lease, since));
    }

    /// Somebody else has touched these locks, or all: a hint. Who holds one compares, who is first in line asks.
    pub(crate) fn changed(&mut self, now: Moment, names: Option<&[Arc<str>]>) {
        let ids = match names {
            Some(names) => {
                let ids = names.iter().flat_map(|name| [self.queues.holder(name), self.queues.first(name)]);
                ids.flatten().collect()
            }
            None => self.ids(),
        };
        for id in ids {
            self.watch(id);
            match names {
                Some(_) => self.look(now, id),
                None => self.look_after_a_flush(now, id),
            }
        }
    }

    /// With the lock, its queue is gone.
    fn look_after_a_flush(&mut self, now: Moment, id: Id) {
        match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.is_queued() => self.rejoin(now, id),
            _ => self.look(now, id),
        }
    }

    /// A waiter whose place in the queue may be gone makes sure of one, unless it asks anyway.
    fn rejoin(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
            && waiting.is_queued()
            && matches!(waiting.step, Step::Queued | Step::Pause { .. })
        {
            self.ask_with_all(now, id);
        }
    }

    /// What the node says of the lock that a waiter watches from now on: it may have become free just before.
    fn looked(&mut self, now: Moment, id: Id, reply: &Reply) {
        match reply {
            Reply::Free | Reply::Done => self.look(now, id),
            Reply::NotHeld => {
                if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
                    waiting.elections = 0;
                }
            }
            Reply::Refused(_) => {
                if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
                    waiting.cannot_watch(now);
                    self.schedule(id);
                }
            }
            _ => {}
        }
    }

    /// A waiter that would ask sooner or later does it now.
    fn look(&mut self, now: Moment, id: Id) {
        let votes = self.abilities.votes;
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if let Step::Pause { .. } = waiting.step {
            if votes {
                waiting.stands_for_election(now);
                self.schedule(id);
            } else {
                self.ask(now, id);
            }
        }
    }

    /// A grant for a token that no attempt waits with goes back at once, unless its answer was quicker than the push.
    fn return_unless_held(&mut self, now: Moment, push: &Push) {
        let holder = self.queues.holder(&push.name).and_then(|id| self.attempts.get(&id));
        let is_held = matches!(holder, Some(Attempt::Held(held)) if held.has(&push.token));
        if !is_held {
            let (name, token) = (Arc::clone(&push.name), push.token.clone());
            let request = Request { action: Action::Release, name: Arc::clone(&name), token, ttl: CLAIM };
            self.release_apart(now, Releasing::new(now, name, request, CLAIM));
        }
    }

    fn enter(
        &mut self,
        now: Moment,
        id: Id,
        mut waiting: Waiting,
        lease: Lease,
        held: impl FnOnce(&Ask, Token, Arc<Lease>) -> Held,
    ) {
        let lease = Arc::new(lease);
        self.by_token.remove(&waiting.token);
        let name = Arc::clone(&waiting.ask.name);
        self.queues.got(&name, id);
        let caller = waiting.ask.caller.take();
        let mut held = held(&waiting.ask, waiting.token, lease);
        let delivered = match (caller, self.replicas) {
            (Some(caller), 0) => caller.send(Ok(Arc::clone(&held.lease))).is_ok(),
            (Some(caller), _) if !caller.is_closed() => {
                held.deliver_to = Some(caller);
                self.unconfirmed.push(Unconfirmed { id, request: held.request(held.renewal()) });
                true
            }
            _ => false,
        };
        if self.queues_on_server() {
            // The next of this process has a place of its own; from now on it makes sure of it.
            self.take_turn(now, self.queues.first(&name).map(Turn::Later));
        }
        if delivered {
            self.attempts.insert(id, Attempt::Held(held));
            self.schedule(id);
            self.reserve(&name);
        } else {
            held.forget_min_hold();
            self.drop_held(now, id, &held, None);
        }
    }

    /// The answer took longer than the lease lasts: not held. Given back, and asked for again with a fresh
    /// token, because the release of the old one may still be under way.
    fn too_late(&mut self, now: Moment, id: Id, mut waiting: Waiting) {
        self.release_apart(now, waiting.release(now));
        self.by_token.remove(&waiting.token);
        match Token::random() {
            Ok(token) => {
                waiting.token = token;
                self.attempts.insert(id, Attempt::Waiting(waiting));
                self.ask(now, id);
            }
            Err(error) => {
                waiting.ask.fail(LockError::unavailable(&waiting.ask.key, token::no_random(error)));
                waiting.unanswered = 0;
                self.drop_waiting(now, id, &waiting);
            }
        }
    }

    /// A release that belongs to no attempt.
    fn release_apart(&mut self, now: Moment, releasing: Releasing) {
        self.own_ids -= 1;
        let own_id = self.own_ids;
        self.attempts.insert(own_id, Attempt::Releasing(releasing));
        self.send_release(now, own_id);
    }

    fn renew_reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: &Reply) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (request.action, reply) {
            (Action::Reserve { count }, reply) => {
                held.reserved.answered(reply, count);
                if held.is_given_up() {
                    self.settle(now, id);
                }
            }
            // Whatever an ask says that crossed the push of its own grant: a renewal comes anyway.
            (Action::Renew { .. }, Reply::Done | Reply::Refused(_)) if held.is_closed() => {}
            (Action::Renew { nth, .. }, Reply::Done) => {
                if held.renewed(now, sent, nth, request.ttl) {
                    self.schedule(id);
                } else {
                    self.lost(now, id, LostReason::Expired, true);
                }
            }
            // A few nodes of a quorum may still have it.
            (Action::Renew { .. } | Action::Watch, Reply::NotHeld | Reply::Free) => {
                self.lost(now, id, LostReason::KeyChanged, self.abilities.votes);
            }
            (Action::Renew { .. }, Reply::Refused(Refusal::NoScript)) => self.renew(now, id),
            (Action::Renew { .. }, Reply::Refused(refusal)) => {
                if let Refusal::Permanent(reason) = refusal {
                    held.refused(reason);
                }
                held.retry(now);
                self.schedule(id);
            }
            _ => {}
        }
    }
}
