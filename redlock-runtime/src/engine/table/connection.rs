//! The connection comes and goes, and may lead to another server: waiters ask again, and holders renew.

use std::sync::Arc;

use super::lock::waiting::Awaits;
use super::{Attempt, LockTable};
use crate::engine::outbox::Outbox;
use crate::engine::protocol::{Action, Disconnected, Id, Request};
use crate::engine::slots::{Slot, Slots};
use crate::ground::capabilities::Abilities;
use crate::ground::clock::Moment;

impl LockTable {
    /// The outcome of connecting; `None` before the first.
    pub(crate) fn connection(&self) -> Option<Result<Abilities, Disconnected>> {
        if self.connected { Some(Ok(self.abilities)) } else { self.trouble.clone().map(Err) }
    }

    /// There is a connection: unanswered requests are repeated, and each held lock is renewed at once.
    pub(crate) fn connected(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet("connected");
        self.connected = true;
        self.abilities = abilities;
        self.trouble = None;
        for id in self.admin_calls.keys().copied().collect::<Vec<_>>() {
            self.send_admin_call(now, id);
        }
        self.ask_for_holders_again(now);
        for id in self.ids() {
            match self.attempts.get(&id) {
                Some(Attempt::Waiting(waiting))
                    if waiting.awaits == Awaits::Connection
                        || (self.queues_on_server() && waiting.awaits == Awaits::LocalTurn) =>
                {
                    self.ask_with_all(now, id);
                }
                Some(Attempt::Held(_)) => self.renew(now, id),
                Some(Attempt::Releasing(_)) => self.send_release(now, id),
                _ => {}
            }
        }
    }

    /// The abilities of the connection have changed.
    pub(crate) fn can(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet("other abilities");
        self.abilities = abilities;
        for id in self.ids() {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
                && waiting.awaits == Awaits::LocalTurn
                && self.queues_on_server()
            {
                self.ask(now, id);
            }
        }
    }

    /// These slots may be on another node than before: their held locks are renewed at once, and their queued waiters
    /// ask again, because their places may be gone.
    pub(crate) fn returned(&mut self, now: Moment, slots: &Slots) {
        self.all_meet("slots returned");
        for id in self.ids() {
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) if slots.contains(Slot::of(&waiting.ask.name)) => {
                    waiting.forget_server_clock();
                    if let Awaits::Retry { .. } | Awaits::ServerTurn = waiting.awaits {
                        self.ask_with_all(now, id);
                    }
                }
                Some(Attempt::Held(held)) if slots.contains(Slot::of(&held.name)) => {
                    held.may_be_elsewhere();
                    self.renew(now, id);
                }
                _ => {}
            }
        }
    }

    /// These requests were refused with the answer that ends the connection. They are sent again over the next one.
    pub(crate) fn refused_at_the_end(&mut self, requests: &[(Id, Request)]) {
        for (id, request) in requests {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(id)
                && waiting.is_asking()
                && waiting.token == request.token
                && matches!(request.action, Action::Acquire(_) | Action::AcquireNext { .. })
            {
                waiting.has_come_to_nothing();
            }
        }
    }

    /// The connection broke: no request in flight will be answered.
    pub(crate) fn disconnected(&mut self, reason: Arc<str>) {
        self.all_meet("disconnected");
        self.connected = false;
        self.broke = reason;
        self.outbox = Outbox::default();
        self.late_fences.clear();
        self.fail_admin_calls_of_connection(&Disconnected::passing(Arc::clone(&self.broke)));
        for id in self.ids() {
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) => waiting.disconnected(),
                Some(Attempt::Held(held)) => {
                    held.suspend();
                    held.may_be_elsewhere();
                }
                Some(Attempt::Releasing(releasing)) => releasing.disconnected(),
                None => {}
            }
            self.schedule(id);
        }
    }

    /// True when connecting has not failed like this since the last connection.
    pub(crate) fn is_new_trouble(&self, trouble: &Disconnected) -> bool {
        self.trouble.as_ref() != Some(trouble)
    }

    /// Connecting failed. Attempts with one try fail now; if the failure is permanent, all fail but those without a time
    /// limit.
    pub(crate) fn unreachable(&mut self, now: Moment, trouble: Disconnected) {
        self.all_meet("unreachable");
        for id in self.ids() {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
                && waiting.ask.is_ended_by(&trouble)
            {
                let error = trouble.error(Some(Arc::clone(&waiting.ask.key)));
                self.fail(now, id, error);
            }
        }
        for id in self.admin_calls.keys().copied().collect::<Vec<_>>() {
            self.fail_admin_call(id, &trouble);
        }
        self.trouble = Some(trouble);
        self.no_word_comes(now);
        self.ask_for_holders_again(now);
    }
}
