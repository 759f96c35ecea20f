//! One lock: its holder in this process, its waiters in this process, and its unfinished releases.
//!
//! This file sets the timers of the attempts. It also sends each release again until the server
//! has answered. The files of this folder are layers: each calls only the files that are listed
//! below it.
//!
//! - `replies`, `events`: handle a reply, a push, a change, a connection or a timer
//! - `local_hand_over`: passes a released lock to the next waiter of this process, or to the
//!   server
//! - `downgrading`: turns an exclusive lock into one that several may hold
//! - `holding`: holds, renews, watches and loses a lock
//! - `acquiring`: chooses the waiter that asks the server, and handles its reply
//! - `long_wait`, `announcing`: log a long wait, and write the record of a leader
//! - this file, `mod`
//! - `attempts`: the state of each attempt; `extras`: the state that few locks need
//! - `queue`, `waiting`, `held`, `releasing` and their parts: each is one state of an attempt
//! - `kind`: the differences between the kinds of locks

mod acquiring;
mod announcing;
mod attempts;
mod downgrade;
mod downgrading;
mod events;
mod extras;
mod held;
mod holding;
mod kind;
mod last_answer;
mod local_hand_over;
mod local_successors;
mod long_wait;
pub(crate) mod queue;
mod releasing;
mod renewals;
mod replies;
mod simulation_hooks;
mod standing;
mod ttl;
mod waiting;

use super::context::Context;
use crate::engine::protocol::Id;
use attempts::{Attempt, Attempts, Other};
use extras::Extras;
use releasing::{ReleaseStep, Releasing};

#[derive(Default)]
pub(super) struct Lock {
    pub(super) attempts: Attempts,
    pub(super) extras: Extras,
}

impl Lock {
    /// Sets the timer of an attempt.
    fn schedule(&mut self, cx: &mut Context, id: Id) {
        let due = match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => waiting.due(),
            Some(Attempt::Held(held)) => held.due(),
            Some(Attempt::Releasing(releasing)) => Some(releasing.due()),
            None => None,
        };
        cx.timers.set(id, due);
    }

    /// Starts the release of a lock that the attempt holds or may hold.
    fn start_release(&mut self, cx: &mut Context, id: Id, releasing: Releasing) {
        self.attempts.insert_other(id, Other::Releasing(Box::new(releasing)));
        self.send_release(cx, id);
    }

    /// Starts a release for which no caller waits.
    fn release_unawaited(&mut self, cx: &mut Context, releasing: Releasing) {
        let id = cx.own_requests.new_id();
        cx.attempts.insert(id, releasing.name());
        self.start_release(cx, id, releasing);
    }

    /// Sends a release, if there is a connection.
    pub(super) fn send_release(&mut self, cx: &mut Context, id: Id) {
        let Some(releasing) = self.attempts.releasing_mut(id) else { return };
        if cx.connection.is_up() {
            cx.outbox.push((id, releasing.request(cx.now)));
        }
        cx.timers.set(id, Some(releasing.due()));
    }

    /// Continues a release with `step`, after a reply or a timer.
    fn continue_release(&mut self, cx: &mut Context, id: Id, step: ReleaseStep) {
        match step {
            ReleaseStep::Done => self.end_release(cx, id),
            ReleaseStep::Send => self.send_release(cx, id),
            ReleaseStep::Wait => self.schedule(cx, id),
        }
    }

    /// Forgets the attempt, because nothing is left to release.
    fn end_release(&mut self, cx: &mut Context, id: Id) {
        let is_releasing = |other: &Other| matches!(other, Other::Releasing(_));
        if let Some(Other::Releasing(releasing)) = self.attempts.remove_other(id, is_releasing) {
            cx.attempts.forget_token(releasing.token());
            cx.forget(id);
        }
    }

    /// Marks the requests in flight as unanswered, because the connection broke.
    pub(super) fn disconnect(&mut self, cx: &mut Context, id: Id) {
        self.extras.drop_draws();
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => waiting.disconnect(),
            Some(Attempt::Held(held)) => {
                held.renewals.suspend();
                held.disconnect();
            }
            Some(Attempt::Releasing(releasing)) => releasing.disconnect(),
            None => {}
        }
        self.schedule(cx, id);
    }
}
