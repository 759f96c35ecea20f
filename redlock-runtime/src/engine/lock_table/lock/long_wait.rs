//! Waits that are longer than the limit: a warning says who holds the lock, again each time the
//! wait is four times as long, and a line says how it ended.
//!
//! The server is asked who holds the lock when a warning is due, and only then, because the last
//! answer to a waiter may be old. Of the waiters of one lock in this process, one is reported at a
//! time, until its wait ends: one line for a thousand waiters.

use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use super::last_answer::Answer;
use crate::base::telemetry::Found;
use crate::base::token::{self, Token};
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, Id, Inspection, Refusal, Reply, Request};

impl Lock {
    /// The wait is longer than the limit, or than four times the last one.
    pub(super) fn report_wait(&mut self, cx: &mut Context, id: Id) {
        let reported = self.extras.reported();
        let is_reported = reported.is_none_or(|other| other == id || self.attempts.waiting(other).is_none());
        if let Some(waiting) = self.attempts.waiting_mut(id) {
            waiting.reports.count(is_reported);
            cx.timers.set(id, waiting.due());
        }
        if is_reported {
            self.extras.set_reported(Some(id));
            self.ask_for_holder(cx, id);
        }
    }

    /// Asks the server who holds the lock, for this waiter.
    pub(crate) fn ask_for_holder(&mut self, cx: &mut Context, id: Id) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        if !cx.connection.is_up() {
            let reason = cx.connection.trouble().map_or(cx.connection.broke(), |trouble| &trouble.reason);
            self.warn_of_wait(cx, id, &Err(Arc::clone(reason)));
            return;
        }
        let question = cx.own_requests.new_question(id);
        let (name, token) = (Arc::clone(&waiting.ask.name), Token::empty());
        cx.outbox.push((question, Request::new(Action::Inspect, name, token, Duration::ZERO)));
    }

    /// The server has answered who holds the lock.
    pub(crate) fn on_holder_reply(&mut self, cx: &mut Context, id: Id, reply: Reply) {
        match reply.found() {
            Err(refusal) if refusal.is_asked_again() => self.ask_for_holder(cx, id),
            found => self.warn_of_wait(cx, id, &found.map_err(Refusal::words)),
        }
    }

    fn warn_of_wait(&self, cx: &Context, id: Id, found: &Result<Option<Inspection>, Arc<str>>) {
        let Some(waiting) = self.attempts.waiting(id) else { return };
        let Some(since) = waiting.reports.since() else { return };
        let found = match found {
            Ok(Some(Inspection { holder, waiters, queue, .. })) => {
                // Its own place, or that of a waiter of this process that came in the same second.
                let own = token::owner_of(waiting.token.value());
                let place = queue.iter().position(|owner| owner.is_some() && *owner == own);
                let in_front =
                    place.and_then(|place| u32::try_from(place).ok()).or(waiting.standing.in_front());
                Found::Held { holder, in_front, waiters: *waiters }
            }
            // Nobody holds it, and the server gives it to nobody.
            Ok(None) => match self.attempts.last_answer(waiting).get() {
                Answer::Refused(reason) => Found::Refused { reason },
                Answer::Nothing | Answer::Busy { .. } => Found::Free,
            },
            Err(reason) => Found::Unknown { reason },
        };
        let ask = &waiting.ask;
        ask.call.waits_long(&ask.key, cx.now.since(since), self.attempts.queue.count(), &found);
    }

    /// The last line of a wait that was reported.
    pub(super) fn end_long_wait(&mut self, cx: &Context, id: Id, outcome: &'static str) {
        if let Some(waiting) = self.attempts.waiting(id)
            && let Some(since) = waiting.reports.reported_since()
        {
            waiting.ask.call.long_wait_ended(&waiting.ask.key, cx.now.since(since), outcome);
            self.extras.set_reported(None);
        }
    }
}
