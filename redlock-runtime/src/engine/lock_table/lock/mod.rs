//! One lock: who holds it in this process, who waits for it here, and what is being released.
//!
//! Here are its parts, the timers of its attempts, and what is sent again and again until it is
//! released. The files of this folder stand above each other, and each calls only those below it:
//!
//! - `replies`, `events`: what a reply, a push, a change, a connection or a timer changes
//! - `local_hand_over`: a released lock goes to the next waiter of this process, or to the server
//! - `holding`: a lock is held, renewed, watched and lost
//! - `acquiring`: which waiter asks the server, how it handles the reply, and who asks when it
//!   leaves
//! - `long_wait`, `announcing`: the report of a long wait, and what a leader announces
//! - this file
//! - `attempts`: where each attempt stands; `extras`: what few locks have beside them
//! - `queue`, `waiting`, `held`, `releasing`, and their parts
//! - `kind`: what differs between the kinds of locks

mod acquiring;
mod announcing;
mod attempts;
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
use attempts::{Apart, Attempt, Attempts};
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

    /// The attempt releases the lock that it has or may have.
    fn start_release(&mut self, cx: &mut Context, id: Id, releasing: Releasing) {
        self.attempts.insert_apart(id, Apart::Releasing(Box::new(releasing)));
        self.send_release(cx, id);
    }

    /// A release without a caller.
    fn release_apart(&mut self, cx: &mut Context, releasing: Releasing) {
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

    fn go_on_releasing(&mut self, cx: &mut Context, id: Id, step: ReleaseStep) {
        match step {
            ReleaseStep::Done => self.end_release(cx, id),
            ReleaseStep::Send => self.send_release(cx, id),
            ReleaseStep::Wait => self.schedule(cx, id),
        }
    }

    /// There is nothing to release any more.
    fn end_release(&mut self, cx: &mut Context, id: Id) {
        let is_releasing = |apart: &Apart| matches!(apart, Apart::Releasing(_));
        if let Some(Apart::Releasing(releasing)) = self.attempts.remove_apart(id, is_releasing) {
            cx.attempts.forget_token(releasing.token());
            cx.forget(id);
        }
    }

    /// The connection broke: no request in flight will be answered.
    pub(super) fn disconnect(&mut self, cx: &mut Context, id: Id) {
        self.extras.drop_draws();
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => waiting.disconnect(),
            Some(Attempt::Held(held)) => {
                held.renewals.suspend();
                held.successors.set_elsewhere();
            }
            Some(Attempt::Releasing(releasing)) => releasing.disconnect(),
            None => {}
        }
        self.schedule(cx, id);
    }
}
