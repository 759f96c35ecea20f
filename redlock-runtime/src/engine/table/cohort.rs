//! Cohort locking: a lock that this process has goes on to its own next waiter without a word to the server.
//!
//! Lock Cohorting (Dice, Marathe and Shavit 2012; <https://doi.org/10.1145/2145816.2145848>): one lock among the
//! processes, here the server's, and a line within each. Only the first of a process waits on the server. Who releases
//! passes the lock on within the process, so often in a row, then gives it back, and the processes take turns. To the
//! server the whole row is one holder: one token, renewed as one. The fencing tokens of the row are reserved while the first
//! of it is inside, so they grow with each grant, wherever it is made; before the answer is there, nothing is passed on.

use std::sync::Arc;

use super::held::Held;
use super::reserved_fences::ReservedFences;
use super::waiting::Awaits;
use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::command::{AcquireOutcome, Ask};
use crate::engine::protocol::{Action, Id, Request};

impl LockTable {
    /// True when each waiter of this process has a place of its own in the queue on the server.
    pub(super) fn queues_on_server(&self) -> bool {
        self.abilities.hands_over && self.settings.cohort == 0
    }

    /// How many wait for the lock in this process, when no more may. Elsewhere the server counts.
    pub(super) fn too_many_wait_here(&self, ask: &Ask) -> Option<u32> {
        if self.settings.cohort == 0 || ask.one_try {
            return None;
        }
        let waiters = u32::try_from(self.queues.waiting(&ask.name)).unwrap_or(u32::MAX);
        (waiters >= ask.max_waiters).then_some(waiters)
    }

    /// Asks for the fencing tokens of those who may follow, as soon as there is a holder here and somebody behind it.
    pub(super) fn reserve(&mut self, name: &Arc<str>) {
        if self.settings.cohort == 0
            || self.abilities.votes
            || !self.connected
            || self.queues.first(name).is_none()
        {
            return;
        }
        let Some(id) = self.queues.holder(name) else { return };
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && let ReservedFences::Unreserved = held.reserved
        {
            held.reserved = ReservedFences::Reserving;
            self.outbox.push((id, held.request(Action::Reserve { count: self.settings.cohort })));
        }
    }

    /// Whom the answer to a request of `id` is about: whoever has the lock by now with the same token.
    pub(super) fn current_holder(&self, id: Id, request: &Request) -> Id {
        if self.settings.cohort == 0 || self.attempts.contains_key(&id) {
            return id;
        }
        let holder = self.queues.holder(&request.name);
        let has_it =
            |id: &Id| matches!(self.attempts.get(id), Some(Attempt::Held(held)) if held.has(&request.token));
        holder.filter(has_it).unwrap_or(id)
    }

    /// Passes a lock that its holder gives up on to the next waiter of this process, at once or as soon as there is a
    /// fencing token for it. Returns the lock when that may not be, or when nobody waits.
    pub(super) fn hand_over_locally(&mut self, now: Moment, id: Id, mut held: Held) -> Option<Held> {
        if !self.connected || !held.may_be_handed_over(now) {
            return Some(held);
        }
        while let Some(next_id) = self.queues.first(&held.name) {
            let Some(Attempt::Waiting(next)) = self.attempts.get_mut(&next_id) else {
                return Some(held);
            };
            // Who has asked the server may be given the lock by the server.
            if next.awaits != Awaits::LocalTurn
                || next.must_release(true)
                || !held.may_be_followed_by(&next.ask)
            {
                return Some(held);
            }
            // A body that is quicker than the server: the answer is on its way, and sooner here than the lock would be.
            if let ReservedFences::Reserving = held.reserved {
                held.give_up(now);
                self.attempts.insert(id, Attempt::Held(held));
                self.schedule(id);
                return None;
            }
            let Some(lease) = held.hand_over(now, &next.ask) else {
                return Some(held);
            };
            let caller = next.ask.caller.take();
            if caller.is_some_and(|caller| caller.send(AcquireOutcome::Held(lease)).is_ok()) {
                self.queues.got(&held.name, next_id);
                self.timers.set(id, None);
                self.attempts.insert(next_id, Attempt::Held(held));
                self.schedule(next_id);
                return None;
            }
            // It has gone. Whoever is behind it is next.
            held.forget_min_hold();
            self.queues.leave(&held.name, next_id);
            self.remove(next_id);
        }
        Some(held)
    }

    /// What was given up goes back: there will be no answer.
    pub(super) fn release_given_up(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.remove(&id) {
            self.drop_held(now, id, &held, None);
        }
    }

    /// What was given up goes to whoever is next by now, or back.
    pub(super) fn settle(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.remove(&id)
            && let Some(held) = self.hand_over_locally(now, id, held)
        {
            self.drop_held(now, id, &held, None);
        }
    }
}
