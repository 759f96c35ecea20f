//! A process passes a lock on: a waiter has it in place of the one that released it, without a request to the server.
//!
//! In a [cohort](super::cohort), to the next waiter of the process. Without one, to the [followers](super::successors) that the
//! grant has named: first come, first served holds over all processes. To the server all these holders are one: one token, one
//! key to renew. The places of the followers in its queue are given back with the last release.

use std::sync::Arc;

use crate::engine::command::AcquireOutcome;
use crate::engine::protocol::{Id, Push};
use crate::engine::table::lock::held::Held;
use crate::engine::table::lock::queue::NextAsker;
use crate::engine::table::{Attempt, LockTable};
use crate::ground::clock::Moment;
use crate::ground::lease::Lease;
use crate::ground::telemetry::HandOver;
use crate::ground::token::Token;

impl LockTable {
    /// The grant to `id` has named the waiters that come next.
    pub(in crate::engine::table) fn is_followed(&mut self, now: Moment, id: Id, grant: &Push) {
        // The replicas confirm the lock of one holder.
        if grant.followers.is_empty() || self.settings.replicas > 0 {
            return;
        }
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && held.has(&grant.token)
        {
            held.is_followed(now, &grant.followers);
        }
    }

    /// Passes a released lock on to the next follower. Returns the lock when it must be released on the server.
    pub(in crate::engine::table) fn serve_followers(
        &mut self,
        now: Moment,
        id: Id,
        mut held: Box<Held>,
    ) -> Option<Box<Held>> {
        if !held.has_followers() {
            return Some(held);
        }
        let name = Arc::clone(&held.name);
        while let Some(next_id) = self.queues.first(&name) {
            let Some(Attempt::Waiting(next)) = self.attempts.get(&next_id) else {
                return Some(held);
            };
            let Some(lease) = held.serves(now, next) else {
                return Some(held);
            };
            let claim_ends = lease.deadline();
            let Some(kept) = self.give_to(now, next_id, lease, id, held) else {
                // As behind a grant of the server.
                self.take_turn(now, self.queues.first(&name).map(NextAsker::Later));
                if let Some(ends) = claim_ends {
                    self.waits_for_own_claim(&name, ends);
                }
                return None;
            };
            held = kept;
        }
        Some(held)
    }

    /// The server has the lock under the token of its holder, and no longer under this one.
    pub(in crate::engine::table) fn is_told(&mut self, now: Moment, id: Id, before: Token) {
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) {
            let leaving = held.leaves_for(now, before);
            if held.is_watched() {
                self.watch(id);
            }
            if let Some(leaving) = leaving {
                self.release_apart(now, leaving);
            }
        }
    }

    /// The waiter `next_id` has the lock from now on, in place of `id`. Returns the lock when its caller has gone.
    pub(in crate::engine::table) fn give_to(
        &mut self,
        now: Moment,
        next_id: Id,
        lease: Arc<Lease>,
        id: Id,
        mut held: Box<Held>,
    ) -> Option<Box<Held>> {
        self.meets(next_id, "passed on");
        let Some(Attempt::Waiting(mut next)) = self.attempts.remove(&next_id) else {
            return Some(held);
        };
        self.by_token.remove(&next.token);
        let caller = next.ask.caller.take();
        if caller.is_none_or(|caller| caller.send(AcquireOutcome::Held(lease, None)).is_err()) {
            self.wait_ends(now, &next, "cancelled");
            held.forget_min_hold();
            self.queues.leave(&held.name, next_id);
            self.timers.set(next_id, None);
            return Some(held);
        }
        next.ask.call.handed_over(HandOver::Process);
        self.wait_ends(now, &next, "acquired");
        self.queues.got(&held.name, next_id);
        self.timers.set(id, None);
        self.attempts.insert(next_id, Attempt::Held(held));
        self.schedule(next_id);
        None
    }
}
