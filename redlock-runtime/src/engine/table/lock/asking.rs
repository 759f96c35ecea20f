//! Waiting attempts: which one asks the server now, and which one asks when it ends.

use std::sync::Arc;
use std::time::Duration;

use super::queue::NextAsker;
use crate::engine::command::Ask;
use crate::engine::protocol::{Action, Id, Request};
use crate::engine::table::closing::SHUT_DOWN;
use crate::engine::table::lock::held::Held;
use crate::engine::table::lock::waiting::{Awaits, Waiting};
use crate::engine::table::reports::Reports;
use crate::engine::table::{Attempt, LockTable, multi_key};
use crate::ground::clock::Moment;
use crate::ground::error::LockError;
use crate::ground::telemetry;
use crate::ground::token::{self, Token};

impl LockTable {
    pub(crate) fn acquire(&mut self, now: Moment, id: Id, mut ask: Box<Ask>, token: Token) {
        if ask.is_cancelled() {
            return;
        }
        if self.closed {
            ask.fail(LockError::closed(&ask.key, SHUT_DOWN));
            return;
        }
        if let Some(trouble) = self.trouble.as_ref().filter(|trouble| ask.is_ended_by(trouble)) {
            ask.fail(trouble.error(Some(Arc::clone(&ask.key))));
            return;
        }
        ask.kind = self.hold_times.kind(&ask.origin);
        // A local hand-over draws from the fencing tokens of its lock.
        ask.fenced |= self.settings.cohort > 0;
        let name = Arc::clone(&ask.name);
        if let Some(waiters) = self.too_many_wait_here(&ask) {
            ask.fail(LockError::QueueFull { key: Arc::clone(&ask.key), waiters });
            return;
        }
        // An attempt with one try does not queue.
        let asks = ask.one_try || self.queues.join(&name, id) || self.queues_on_server();
        let is_behind = ask.after.is_some();
        let limit = self.settings.warn_after.filter(|_| !ask.one_try);
        let word_from = ask.gives_up_at.map(|limit| self.word_from(limit));
        let mut waiting = Waiting::new(ask, token, word_from);
        waiting.reports = limit.map(|limit| Reports::new(now, limit));
        self.attempts.insert(id, Attempt::Waiting(Box::new(waiting)));
        if asks {
            self.ask(now, id);
        } else if is_behind {
            self.skip(now, id);
        } else {
            self.schedule(id);
            self.reserve(&name);
        }
    }

    /// Asks the node for the lock, now or as soon as there is a connection.
    pub(in crate::engine::table) fn ask(&mut self, now: Moment, id: Id) {
        self.ask_in(now, id, false);
    }

    /// As [`ask`](Self::ask), for each waiter of the lock in this process.
    pub(in crate::engine::table) fn ask_with_all(&mut self, now: Moment, id: Id) {
        self.ask_in(now, id, true);
    }

    pub(in crate::engine::table) fn ask_in(&mut self, now: Moment, id: Id, with_all: bool) {
        let direct = self.asks_directly(id);
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            let action = match waiting.ask.after {
                None => Some(Action::Acquire(waiting.mode(with_all))),
                Some(after) => multi_key::next(self.outbox.last(), waiting.mode(with_all), after),
            };
            let Some(action) = action else {
                self.skip(now, id);
                return;
            };
            if self.abilities.votes {
                // The votes of the last round are being released: a late release must not hit the votes of this one.
                waiting.token = waiting.token.successor();
            }
            waiting.asking(now);
            // Even without `hands_over`: a single node of a Cluster may hand over. Even a direct request: a Cluster that sends it once
            // more asks for a place.
            if !self.abilities.votes && !waiting.ask.one_try {
                self.by_token.insert(waiting.token.clone(), id);
            }
            self.outbox.push((id, Request { direct, ..waiting.request(action) }));
        } else {
            waiting.awaits = Awaits::Connection;
        }
        self.schedule(id);
    }

    /// True for the first request of an attempt that is alone with its lock, as far as this process knows. A waiter that has a
    /// place, or may have one, would pass those in front of it, and keep its place.
    fn asks_directly(&self, id: Id) -> bool {
        self.waiting(id).is_some_and(|waiting| {
            let ask = &waiting.ask;
            waiting.asks == 0
                && !ask.fenced
                && ask.after.is_none()
                && !self.abilities.votes
                && !self.contended.has(&ask.name)
                && self.queues.is_alone(&ask.name, id)
        })
    }

    /// The caller no longer waits: the attempt releases the lock that it has or may get.
    pub(crate) fn abandon(&mut self, now: Moment, id: Id) {
        self.meets(id, "abandon");
        match self.attempts.remove(&id) {
            Some(Attempt::Waiting(waiting)) => {
                self.wait_ends(now, &waiting, "cancelled");
                self.drop_waiting(now, id, &waiting);
            }
            Some(Attempt::Held(mut held)) => {
                held.forget_min_hold();
                self.drop_held(now, id, &held, None);
            }
            Some(releasing @ Attempt::Releasing(_)) => {
                self.attempts.insert(id, releasing);
            }
            None => {}
        }
    }

    /// The name and the token of an attempt whose request for the lock is unanswered.
    pub(crate) fn asked(&self, id: Id) -> Option<(&str, &Token)> {
        let waiting = self.waiting(id).filter(|waiting| waiting.is_asking())?;
        Some((&waiting.ask.name, &waiting.token))
    }

    /// The transport has not sent that request, and will not send it.
    pub(crate) fn taken_back(&mut self, id: Id) {
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
            waiting.taken_back();
        }
    }

    /// Ends the attempt with an error, and releases the lock that it may have got.
    pub(in crate::engine::table) fn fail(&mut self, now: Moment, id: Id, mut error: LockError) {
        if let Some(Attempt::Waiting(mut waiting)) = self.attempts.remove(&id) {
            error.set_usual_hold(self.hold_times.usual(waiting.ask.kind));
            self.wait_ends(now, &waiting, error.kind().as_str());
            waiting.ask.fail(error);
            self.drop_waiting(now, id, &waiting);
        }
    }

    pub(in crate::engine::table) fn drop_waiting(&mut self, now: Moment, id: Id, waiting: &Waiting) {
        self.timers.set(id, None);
        let was_sent = !waiting.is_asking() || self.outbox.take_back(id).is_none();
        if waiting.must_release(was_sent) {
            // Only a token that has asked for a place may get a push. A frozen server may do so when the connection is gone.
            let may_be_queued = self.by_token.contains_key(&waiting.token);
            let releasing = waiting.release(now);
            let releasing = if may_be_queued { releasing.leaving(now) } else { releasing };
            self.attempts.insert(id, Attempt::Releasing(Box::new(releasing)));
            self.send_release(now, id);
        } else {
            self.by_token.remove(&waiting.token);
        }
        let was_first = self.queues.first(&waiting.ask.name) == Some(id);
        let successor = self.queues.leave(&waiting.ask.name, id).or_else(|| {
            let next = self.queues.first(&waiting.ask.name)?;
            let waits_for_first = |next: &Waiting| next.awaits == Awaits::LocalTurn && next.is_refused();
            self.waiting(next).is_some_and(waits_for_first).then_some(NextAsker::Now(next))
        });
        // Behind a holder of this process, the first waiter with a place asks from time to time, too.
        let behind_holder = if was_first { self.queues.first(&waiting.ask.name) } else { None };
        let behind_holder =
            behind_holder.filter(|next| self.waiting(*next).is_some_and(Waiting::sleeps_in_queue));
        let next_id = match successor {
            Some(NextAsker::Now(next_id)) => Some(next_id),
            _ => behind_holder,
        };
        // The next waiter takes over the pause of this one, so it asks no sooner.
        if let Some(next_id) = next_id
            && let Some(Attempt::Waiting(next)) = self.attempts.get_mut(&next_id)
            && next.take_over(waiting)
        {
            self.schedule(next_id);
        } else {
            self.take_turn(now, successor);
        }
        self.word_comes(now, &waiting.ask.name);
    }

    /// The holder leaves the local queue, and the next waiter asks.
    pub(in crate::engine::table) fn leave(&mut self, now: Moment, held: &Held, id: Id) {
        let successor = self.queues.leave(&held.name, id);
        self.take_turn(now, successor);
    }

    /// The new first waiter asks: at once, or from time to time if it has a place on the server.
    pub(in crate::engine::table) fn take_turn(&mut self, now: Moment, turn: Option<NextAsker>) {
        let (Some(NextAsker::Now(id) | NextAsker::Later(id)), Some(turn)) = (turn, turn) else {
            return;
        };
        let in_cohorts = self.abilities.hands_over && !self.queues_on_server();
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (waiting.awaits, turn) {
            // The reply may be from before the release.
            (Awaits::Reply { .. }, _) => waiting.ask_again = true,
            (Awaits::ServerTurn, _) => waiting.keep_asking(now, self.queues.kept_at(&waiting.ask.name)),
            // It watches the lock, but a server tells no client of that client's own changes. Nor does a release tell the queue if
            // the holder had passed it: its lock has no mark.
            (Awaits::Retry { .. }, _) if waiting.is_queued() && waiting.watches() => {
                self.ask(now, id);
                return;
            }
            (Awaits::Retry { .. }, _) if waiting.is_queued() => {
                waiting.keep_asking(now, self.queues.kept_at(&waiting.ask.name));
            }
            // With a cohort the queue on the server gives other processes their turn.
            (_, NextAsker::Later(_)) if !in_cohorts => waiting.keep_asking(now, None),
            (_, NextAsker::Now(_) | NextAsker::Later(_)) => {
                self.ask(now, id);
                return;
            }
        }
        self.schedule(id);
    }

    /// The server refused for now. Of the waiters of a lock in this process, only the first asks again.
    pub(in crate::engine::table) fn refused_for_now(&mut self, now: Moment, id: Id, reason: Arc<str>) {
        let Some(waiting) = self.waiting(id) else {
            return;
        };
        let first = self.queues.first(&waiting.ask.name).filter(|first| *first != id);
        let is_behind = waiting.ask.after.is_none()
            && first.and_then(|first| self.waiting(first)).is_some_and(Waiting::is_refused);
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
            if is_behind {
                waiting.refused_behind(now, reason);
            } else {
                waiting.refused(now, reason);
            }
            let name = Arc::clone(&waiting.ask.name);
            self.schedule(id);
            self.word_comes(now, &name);
        }
    }

    /// The server has answered the first waiter after refusals: the refused waiters behind it ask now.
    pub(in crate::engine::table) fn ask_after_refusals(&mut self, now: Moment, name: &Arc<str>) {
        for id in self.queues.waiters(name) {
            if let Some(waiting) = self.waiting(id)
                && waiting.is_refused()
                && matches!(waiting.awaits, Awaits::LocalTurn | Awaits::Retry { .. })
            {
                self.ask(now, id);
            }
        }
    }

    /// The reply took longer than the lease: the lock is released, and asked for with a new token,
    /// because the release of the old one may arrive after the new request. Where each reply takes
    /// longer, more requests are of no use.
    pub(in crate::engine::table) fn too_late(
        &mut self,
        now: Moment,
        id: Id,
        mut waiting: Box<Waiting>,
        took: Duration,
        lasts: Duration,
    ) {
        self.release_apart(now, waiting.release(now));
        self.by_token.remove(&waiting.token);
        waiting.unanswered = 0;
        let hopeless = waiting.granted_late(now, took, lasts);
        let token = waiting
            .token
            .another()
            .map_err(|error| LockError::unavailable(&waiting.ask.key, token::no_random(error)));
        match (token, hopeless) {
            (Ok(token), None) => {
                waiting.token = token;
                self.attempts.insert(id, Attempt::Waiting(waiting));
                self.ask(now, id);
            }
            (Ok(token), Some(reason)) if waiting.ask.waits_for_ever() => {
                telemetry::refused(&waiting.ask.key, &reason);
                waiting.token = token;
                waiting.refused(now, reason);
                self.attempts.insert(id, Attempt::Waiting(waiting));
                self.schedule(id);
            }
            (Ok(_), Some(reason)) => {
                waiting.ask.fail(LockError::misconfigured(&waiting.ask.key, reason));
                self.drop_waiting(now, id, &waiting);
            }
            (Err(error), _) => {
                waiting.ask.fail(error);
                self.drop_waiting(now, id, &waiting);
            }
        }
    }
}
