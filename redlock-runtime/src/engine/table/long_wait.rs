//! Waits that are longer than the limit: a warning says who holds the lock, again each time the wait is four times as long,
//! and a line says how it ended.
//!
//! The server is asked who holds the lock when a warning is due, and only then, because the last answer to a waiter may be
//! old. Of the waiters of one lock in this process, one is reported at a time, until its wait ends: a crowd writes no flood.

use std::sync::Arc;
use std::time::Duration;

use crate::ground::host::HashMap;

use super::lock::waiting::Waiting;
use super::{Attempt, LockTable};
use crate::engine::protocol::{Action, Id, Inspection, Reply, Request};
use crate::ground::clock::Moment;
use crate::ground::telemetry::Found;
use crate::ground::token::{self, Token};

#[derive(Default)]
pub(super) struct LongWaits {
    /// The waiter of each lock that is reported.
    reported: HashMap<Arc<str>, Id>,
    /// The requests who holds a lock, each with the waiter that it is for.
    questions: HashMap<Id, Id>,
}

impl LongWaits {
    pub(super) fn asks(&self, question: Id) -> bool {
        self.questions.contains_key(&question)
    }
}

impl LockTable {
    /// The wait is longer than the limit, or than four times the last one.
    pub(super) fn report_wait(&mut self, now: Moment, id: Id) {
        let Some(name) = self.waiting(id).map(|waiting| Arc::clone(&waiting.ask.name)) else {
            return;
        };
        let reported = self.long_waits.reported.get(&name).copied();
        let is_reported = reported.is_none_or(|other| other == id || self.waiting(other).is_none());
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id)
            && let Some(reports) = &mut waiting.reports
        {
            reports.postpone();
            reports.is_reported |= is_reported;
        }
        if is_reported {
            self.long_waits.reported.insert(name, id);
            self.ask_for_holder(now, id);
        }
        self.schedule(id);
    }

    fn ask_for_holder(&mut self, now: Moment, id: Id) {
        let Some(name) = self.waiting(id).map(|waiting| Arc::clone(&waiting.ask.name)) else {
            return;
        };
        if !self.connected {
            let reason = self.trouble.as_ref().map_or(&self.broke, |trouble| &trouble.reason);
            self.warn_of_wait(now, id, &Err(Arc::clone(reason)));
            return;
        }
        self.own_ids -= 1;
        self.long_waits.questions.insert(self.own_ids, id);
        let (action, token, ttl) = (Action::Inspect, Token::empty(), Duration::ZERO);
        self.outbox.push((self.own_ids, Request::new(action, name, token, ttl)));
    }

    pub(super) fn holder_reply(&mut self, now: Moment, question: Id, reply: Reply) {
        let Some(id) = self.long_waits.questions.remove(&question) else {
            return;
        };
        match reply {
            Reply::Found(found) => self.warn_of_wait(now, id, &Ok(found)),
            Reply::Refused(refusal) if refusal.is_asked_again() => self.ask_for_holder(now, id),
            Reply::Refused(refusal) => self.warn_of_wait(now, id, &Err(refusal.words())),
            // No node answers an inspection like this.
            _ => {}
        }
    }

    /// The connection broke before these were answered, and there is another one, or none.
    pub(super) fn ask_for_holders_again(&mut self, now: Moment) {
        for (_, id) in std::mem::take(&mut self.long_waits.questions) {
            self.ask_for_holder(now, id);
        }
    }

    fn warn_of_wait(&self, now: Moment, id: Id, found: &Result<Option<Inspection>, Arc<str>>) {
        let Some(waiting) = self.waiting(id) else {
            return;
        };
        let Some(reports) = &waiting.reports else {
            return;
        };
        let found = match found {
            Ok(Some(Inspection { holder, waiters, queue, .. })) => {
                // Its own place, or that of a waiter of this process that came in the same second.
                let own = token::owner_of(waiting.token.value());
                let place = queue.iter().position(|owner| owner.is_some() && *owner == own);
                let in_front = place.and_then(|place| u32::try_from(place).ok()).or(waiting.in_front());
                Found::Held { holder, in_front, waiters: *waiters }
            }
            // Nobody holds it, and the server gives it to nobody.
            Ok(None) => match self.refusal(waiting) {
                Some(reason) => Found::Refused { reason },
                None => Found::Free,
            },
            Err(reason) => Found::Unknown { reason },
        };
        let waiters_here = self.queues.count(&waiting.ask.name);
        waiting.ask.call.waits_long(&waiting.ask.key, now.since(reports.since), waiters_here, &found);
    }

    /// The last line of a wait that was reported.
    pub(super) fn wait_ends(&mut self, now: Moment, waiting: &Waiting, outcome: &'static str) {
        if let Some(reports) = waiting.reports.filter(|reports| reports.is_reported) {
            self.long_waits.reported.remove(&waiting.ask.name);
            waiting.ask.call.long_wait_ended(&waiting.ask.key, now.since(reports.since), outcome);
        }
    }
}
