//! A holder downgrades its lock: an exclusive lock becomes a shared one, and no other exclusive caller gets
//! the lock in between.
//!
//! One request does that, and admits the waiters in front of the queue that have room. The holder repeats
//! it until the server answers, as long as a caller waits for the answer. While the server may have
//! executed it, the holder sends only requests that the server executes for both kinds of locks: the
//! renewal, the release and the expiry of a counted lock. The holder does not watch the key in that time,
//! because a watch compares the value of the key.
//!
//! A lock that was passed on within its process is downgraded once the server knows who has it.

use tokio::sync::oneshot;

use super::Lock;
use super::queue::NextAsker;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, Id, Reply, Request};

/// Why a quorum knows no downgrade.
const NOT_BY_VOTES: &str = "several cannot hold a lock together over a quorum of independent servers: use one server, Sentinel or a Cluster";

/// Why a cohort knows no downgrade.
const NOT_IN_COHORTS: &str = "a manager with a `cohort` passes its locks on from one holder to the next, so nobody is inside beside one: use a manager without a `cohort`";

impl Lock {
    /// The guard lets others in beside itself.
    pub(crate) fn downgrade(
        &mut self,
        cx: &mut Context,
        id: Id,
        caller: oneshot::Sender<Result<(), LockError>>,
    ) {
        // A lock that is not held was lost, and its guard knows why.
        let Some(held) = self.attempts.held_mut(id).filter(|held| held.lease.check(cx.now).is_some()) else {
            return;
        };
        let reason = match cx.settings.cohort {
            _ if cx.abilities.votes => Some(NOT_BY_VOTES),
            0 => held.not_shared(),
            _ => Some(NOT_IN_COHORTS),
        };
        if let Some(reason) = reason {
            let _ = caller.send(Err(LockError::invalid(held.lease.key(), reason)));
            return;
        }
        if held.kind.is_shared() {
            let _ = caller.send(Ok(()));
            return;
        }
        held.downgrade(cx.now, caller, cx.settings.io_timeout);
        self.go_on_downgrading(cx, id);
    }

    /// Sends the request if it is due, and sets the timer.
    pub(super) fn go_on_downgrading(&mut self, cx: &mut Context, id: Id) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        if cx.connection.is_up() && held.wants_downgrade(cx.now) {
            if held.successors.has_unnamed_holder() {
                // The answer to that goes on here.
                self.renew(cx, id);
            } else if !held.successors.is_naming_holder() {
                held.set_downgrading();
                cx.outbox.push((id, held.downgrade_request(cx.now)));
            }
        }
        self.schedule(cx, id);
    }

    pub(super) fn on_downgrade_reply(
        &mut self,
        cx: &mut Context,
        id: Id,
        sent: Moment,
        request: &Request,
        reply: &Reply,
    ) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        match reply {
            Reply::Reserved { last } => {
                held.set_shared(sent, *last);
                self.let_others_in(cx, id);
            }
            Reply::NotHeld => {
                drop(self.extras.take_draws(id));
                self.on_not_held(cx, id, request, false);
            }
            Reply::Refused(refusal) => {
                held.set_downgrade_refused(cx.now, refusal);
                self.go_on_downgrading(cx, id);
                self.draw_after_downgrade(cx, id);
            }
            _ => {}
        }
    }

    /// The callers of a downgrade have waited for too long, or its pause is over.
    pub(super) fn on_downgrade_timer(&mut self, cx: &mut Context, id: Id) {
        if let Some(held) = self.attempts.held_mut(id) {
            held.answer_late_downgrades(cx.now, cx.connection.trouble());
            self.go_on_downgrading(cx, id);
        }
    }

    /// The holder has the lock beside others from now on, and no longer stands in the way of those of its
    /// process.
    fn let_others_in(&mut self, cx: &mut Context, id: Id) {
        let Some(held) = self.attempts.take_held(id) else { return };
        let is_watched = held.watch.is_on();
        self.attempts.set_holder(id, held);
        for caller in self.extras.take_draws(id) {
            let _ = caller.send(());
        }
        let next = self.attempts.queue.first_id();
        let turn = if cx.queues_on_server() { NextAsker::Later } else { NextAsker::Now };
        self.take_turn(cx, next.map(turn));
        if is_watched {
            // The downgrade has changed the key, which ended the watch.
            self.watch(cx, id);
        }
        self.schedule(cx, id);
    }

    /// The fencing token that was asked for meanwhile is drawn, unless it comes with the answer to the next
    /// request.
    fn draw_after_downgrade(&mut self, cx: &mut Context, id: Id) {
        if let Some(held) = self.attempts.held_mut(id)
            && self.extras.has_draws(id)
            && !held.is_downgrading()
        {
            cx.outbox.push((id, held.request(Action::Draw)));
        }
    }
}
