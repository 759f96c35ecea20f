//! Cohort locking: a holder hands its lock over to the next waiter of this process without a request to the server.
//!
//! Lock Cohorting (Dice, Marathe and Shavit 2012; <https://doi.org/10.1145/2145816.2145848>): one lock among the
//! processes, here the server's, and a local queue within each. Only the first waiter of a process waits on the server. A
//! holder hands the lock over within the process, up to `cohort` times, then releases it, so processes take turns. To
//! the server all these holders are one: one token, one key to renew. Their fencing tokens are reserved while the first of
//! them holds the lock, so tokens grow with each grant in any process; before that reply there is no hand-over.

use std::sync::Arc;

use super::lock::held::Held;
use super::lock::waiting::Awaits;
use super::reserved_fences::ReservedFences;
use super::{Attempt, LockTable};
use crate::engine::command::Ask;
use crate::engine::protocol::{Action, Id, Request};
use crate::ground::clock::Moment;

impl LockTable {
    /// True when each waiter of this process has its own place in the queue on the server.
    pub(super) fn queues_on_server(&self) -> bool {
        self.abilities.hands_over && self.settings.cohort == 0
    }

    /// The number of local waiters, when no more may wait. Without a cohort the server counts.
    pub(super) fn too_many_wait_here(&self, ask: &Ask) -> Option<u32> {
        if self.settings.cohort == 0 || ask.one_try {
            return None;
        }
        let waiters = u32::try_from(self.queues.count(&ask.name)).unwrap_or(u32::MAX);
        (waiters >= ask.max_waiters).then_some(waiters)
    }

    /// Reserves the fencing tokens of the local hand-overs, as soon as there are a holder and a waiter.
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

    /// The attempt that a reply to `id` is about: after local hand-overs, the current holder with the same token.
    pub(super) fn current_holder(&self, id: Id, request: &Request) -> Id {
        if self.attempts.contains_key(&id) {
            return id;
        }
        let holder = self.queues.holder(&request.name);
        let has_it =
            |id: &Id| matches!(self.attempts.get(id), Some(Attempt::Held(held)) if held.has_sent(request));
        holder.filter(has_it).unwrap_or(id)
    }

    /// Hands a released lock over to the next waiter of this process, at once or as soon as its fencing token is
    /// reserved. Returns the lock when it must be released on the server.
    pub(super) fn hand_over_locally(
        &mut self,
        now: Moment,
        id: Id,
        mut held: Box<Held>,
    ) -> Option<Box<Held>> {
        if !self.connected || !held.may_be_handed_over(now) {
            return Some(held);
        }
        if self.settings.cohort == 0 {
            return self.serve_followers(now, id, held);
        }
        while let Some(next_id) = self.queues.first(&held.name) {
            let Some(Attempt::Waiting(next)) = self.attempts.get(&next_id) else {
                return Some(held);
            };
            // The server may grant the lock to a waiter that has asked it.
            if next.awaits != Awaits::LocalTurn || next.must_release(true) || !held.fits(&next.ask) {
                return Some(held);
            }
            // The body was quicker than the server: its reply comes sooner than a new grant would.
            if let ReservedFences::Reserving = held.reserved {
                held.await_reservation(now);
                self.attempts.insert(id, Attempt::Held(held));
                self.schedule(id);
                return None;
            }
            let lease = held.reserved.next().and_then(|fence| held.hand_over(now, next, fence));
            let Some(lease) = lease else {
                return Some(held);
            };
            held = self.give_to(now, next_id, lease, id, held)?;
        }
        Some(held)
    }

    /// The reservation was not answered in time: the lock is released on the server.
    pub(super) fn release_unreserved(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.remove(&id) {
            self.drop_held(now, id, &held, None);
        }
    }

    /// The reservation is answered: the released lock goes to the next waiter, or back to the server.
    pub(super) fn end_reservation(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.remove(&id)
            && let Some(held) = self.hand_over_locally(now, id, held)
        {
            self.drop_held(now, id, &held, None);
        }
    }
}
