//! A released lock goes to the next waiter of this process, or back to the server.
//!
//! Lock Cohorting (Dice, Marathe and Shavit 2012; <https://doi.org/10.1145/2145816.2145848>): one
//! lock among the processes, here the server's, and a local queue within each. A holder hands the
//! lock over within the process, up to `cohort` times, then releases it, so processes take turns;
//! only the first waiter of a process waits on the server. The fencing tokens of the next holders
//! are reserved while the first of them holds the lock, so tokens grow with each grant in any
//! process; before that reply there is no hand-over. Without a cohort the same is done for the
//! followers that a grant has named: first come, first served holds over all processes then.
//! [`successors`](super::local_successors) has what the server has said.

use std::sync::Arc;

use super::Lock;
use super::held::Held;
use super::local_successors::NextHolder;
use super::queue::NextAsker;
use super::releasing::answer;
use crate::base::lease::Lease;
use crate::base::outcome::ReleaseOutcome;
use crate::base::telemetry::HandOver;
use crate::engine::command::{AcquireOutcome, Response};
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Id, Push, Run};

impl Lock {
    /// The guard releases the lock.
    pub(crate) fn release(&mut self, cx: &mut Context, id: Id, response: Option<Response>) {
        let Some(held) = self.attempts.take_held(id) else {
            // It was lost before, and is gone or being released.
            answer(response, ReleaseOutcome::AlreadyLost);
            return;
        };
        cx.hold_times.learn(held.hold, held.free_after(cx.now));
        match self.hand_over(cx, id, held) {
            Some(held) => self.release_on_server(cx, id, &held, response),
            // The lock is still held, to the server.
            None => answer(response, ReleaseOutcome::Released),
        }
    }

    /// The guard releases the lock of a body that runs once.
    pub(crate) fn finish(&mut self, cx: &mut Context, id: Id, run: Run, response: Response) {
        if let Some(held) = self.attempts.held_mut(id) {
            held.kind.set_run(run);
        }
        self.release(cx, id, Some(response));
    }

    /// Hands a released lock over to the next waiter of this process, at once or as soon as its
    /// fencing token is reserved. Returns the lock when it must be released on the server.
    fn hand_over(&mut self, cx: &mut Context, id: Id, mut held: Box<Held>) -> Option<Box<Held>> {
        if self.attempts.queue.first_id().is_none()
            || !cx.connection.is_up()
            || !held.may_be_handed_over(cx.now)
        {
            return Some(held);
        }
        while let Some((next_id, next)) = self.attempts.queue.first() {
            let lease = match held.next_holder(cx.now, next) {
                NextHolder::Waiter { fence } => held.hand_over(cx.now, next, fence),
                NextHolder::Unknown => {
                    held.await_reservation(cx.now);
                    self.attempts.set_holder(id, held);
                    self.schedule(cx, id);
                    return None;
                }
                NextHolder::Server => None,
            };
            let Some(lease) = lease else { return Some(held) };
            held = self.give_to(cx, next_id, lease, id, held)?;
        }
        Some(held)
    }

    /// The waiter `next_id` has the lock from now on, in place of `id`. Returns the lock when its
    /// caller has gone.
    fn give_to(
        &mut self,
        cx: &mut Context,
        next_id: Id,
        lease: Arc<Lease>,
        id: Id,
        mut held: Box<Held>,
    ) -> Option<Box<Held>> {
        self.attempts.meet(next_id, "passed on");
        let Some((_, next)) = self.attempts.queue.first_mut() else { return Some(held) };
        cx.attempts.forget_token(&next.token);
        let claim_ends = lease.deadline();
        let is_here = next
            .ask
            .caller
            .take()
            .is_some_and(|caller| caller.send(AcquireOutcome::Held(lease, None)).is_ok());
        if is_here {
            next.ask.call.handed_over(HandOver::Process);
        }
        self.end_long_wait(cx, next_id, if is_here { "acquired" } else { "cancelled" });
        self.attempts.take_waiting(next_id);
        if !is_here {
            held.set_unrun();
            cx.forget(next_id);
            return Some(held);
        }
        cx.forget(id);
        let has_followers = held.successors.has_followers();
        self.attempts.set_holder(next_id, held);
        self.schedule(cx, next_id);
        if has_followers {
            // The next waiter goes on as behind a grant of the server.
            let next = self.attempts.queue.first_id();
            self.take_turn(cx, next.map(NextAsker::Later));
            if let Some(ends) = claim_ends {
                self.wait_for_own_claim(cx, ends);
            }
        }
        None
    }

    /// The reservation is answered, or was not in time: the released lock goes to the next waiter,
    /// or back to the server.
    pub(super) fn end_reservation(&mut self, cx: &mut Context, id: Id, is_answered: bool) {
        let Some(held) = self.attempts.take_held(id) else { return };
        let held = if is_answered { self.hand_over(cx, id, held) } else { Some(held) };
        if let Some(held) = held {
            self.release_on_server(cx, id, &held, None);
        }
    }

    /// The grant to `id` has named the waiters that come next.
    pub(super) fn set_followers(&mut self, cx: &mut Context, id: Id, grant: &Push) {
        // The replicas confirm the lock of one holder.
        if grant.followers.is_empty() || cx.settings.replicas > 0 {
            return;
        }
        if let Some(held) = self.attempts.held_mut(id)
            && held.successors.has(&grant.token)
            && !held.kind.lets_others_in()
        {
            held.set_followers(cx.now, &grant.followers);
        }
    }
}
