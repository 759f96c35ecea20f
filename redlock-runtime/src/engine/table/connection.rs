//! The connection comes, goes, and may lead to another server: who asks again, and what is compared.

use std::sync::Arc;

use super::waiting::Awaits;
use super::{Attempt, LockTable};
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::outbox::Outbox;
use crate::engine::protocol::Disconnected;
use crate::engine::slots::{Slot, Slots};

impl LockTable {
    /// How connecting went; `None` while nobody knows.
    pub(crate) fn connection(&self) -> Option<Result<Abilities, Disconnected>> {
        if self.connected { Some(Ok(self.abilities)) } else { self.trouble.clone().map(Err) }
    }

    /// There is a connection: what was unanswered is asked again, held locks are compared at once.
    pub(crate) fn connected(&mut self, now: Moment, abilities: Abilities) {
        self.connected = true;
        self.abilities = abilities;
        self.trouble = None;
        for id in self.admin_calls.keys().copied().collect::<Vec<_>>() {
            self.send_admin_call(now, id);
        }
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

    /// The connections that there are can do this from now on.
    pub(crate) fn can(&mut self, now: Moment, abilities: Abilities) {
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

    /// The locks in these slots may be somewhere else than before: held ones are compared at once, and everybody in a
    /// queue asks again, in case its place has been left behind.
    pub(crate) fn returned(&mut self, now: Moment, slots: &Slots) {
        for id in self.ids() {
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) if slots.contains(Slot::of(&waiting.ask.name)) => {
                    waiting.moved();
                    if let Awaits::Retry { .. } | Awaits::ServerTurn = waiting.awaits {
                        self.ask_with_all(now, id);
                    }
                }
                Some(Attempt::Held(held)) if slots.contains(Slot::of(&held.name)) => self.renew(now, id),
                _ => {}
            }
        }
    }

    /// The connection broke: every request in flight is without an answer.
    pub(crate) fn disconnected(&mut self, reason: Arc<str>) {
        self.connected = false;
        self.broke = reason;
        self.outbox = Outbox::default();
        let trouble = Disconnected::passing(Arc::clone(&self.broke));
        for id in self.admin_calls.keys().copied().collect::<Vec<_>>() {
            self.fail_admin_call(id, &trouble);
        }
        for id in self.ids() {
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) => waiting.disconnected(),
                Some(Attempt::Held(held)) => held.suspend(),
                Some(Attempt::Releasing(releasing)) => releasing.disconnected(),
                None => {}
            }
            self.schedule(id);
        }
    }

    /// True when this trouble has not been seen since the last connection.
    pub(crate) fn is_new_trouble(&self, trouble: &Disconnected) -> bool {
        self.trouble.as_ref() != Some(trouble)
    }

    /// No connection could be made. Who asked for one try hears it now; when the server turned us away,
    /// all do but those who wait for ever.
    pub(crate) fn unreachable(&mut self, now: Moment, trouble: Disconnected) {
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
    }
}
