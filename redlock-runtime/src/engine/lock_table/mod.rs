//! The lock table: each lock of this process that is held, waited for or released, by its name.
//!
//! It has no I/O and no clock: commands, replies and the time come in, requests and outcomes go
//! out. Each event concerns one attempt, and goes to the lock of that attempt with what the locks
//! share, its [`Context`]. An attempt is *waiting* (for a reply, for its turn in this process or on
//! the server, for the time to ask again, or for a connection), then *held*, then *releasing*, then
//! gone; a lock without attempts is gone, too.
//!
//! Here is also what concerns all locks: the connection comes and goes, and may lead to another
//! server, and a manager is shut down. The order of the attempts counts then: requests for several
//! keys go out in the order of their commands.

pub(crate) mod closing;
mod context;
mod lock;
mod operator_calls;
#[cfg(test)]
mod scenarios;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::EngineSettings;
use super::command::{Ask, Extension, NewAttempt, OperatorRequest, Response, SHUT_DOWN, Unconfirmed};
use super::outbox::Outbox;
use super::protocol::{Action, Confirmation, Disconnected, Id, Push, Reply, Request, Run};
use super::slots::{Slot, Slots};
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::host::{self, HashMap};
use crate::base::key::LEADER;
use crate::base::token::Token;
use context::Context;
use lock::Lock;
use operator_calls::OperatorCalls;

pub(crate) struct LockTable {
    locks: HashMap<Arc<str>, Lock>,
    cx: Context,
    operator_calls: OperatorCalls,
}

impl LockTable {
    pub(crate) fn new(settings: EngineSettings) -> Self {
        Self {
            locks: HashMap::default(),
            cx: Context::new(settings),
            operator_calls: OperatorCalls::default(),
        }
    }

    /// All unsent requests, in their order.
    #[cfg(test)]
    fn take_outbox(&mut self) -> Vec<(Id, Request)> {
        self.cx.outbox.take_all().collect()
    }

    pub(crate) fn next_timer(&self) -> Option<Moment> {
        self.cx.timers.next()
    }

    /// True without a request that waits to be sent.
    pub(crate) fn has_no_requests(&self) -> bool {
        self.cx.outbox.is_empty()
    }

    /// True when there is a batch to send; `room`: for requests that are not urgent.
    pub(crate) fn has_requests(&self, room: usize) -> bool {
        self.cx.outbox.has_any(room)
    }

    /// The next batch.
    pub(crate) fn take_requests(&mut self, room: usize) -> Vec<(Id, Request)> {
        self.cx.outbox.take(room, |_| true)
    }

    /// The next requests that ask for no lock.
    pub(crate) fn take_releases(&mut self) -> Vec<(Id, Request)> {
        self.cx.outbox.take_releases(|_| true)
    }

    /// Granted locks that their replicas must confirm.
    pub(crate) fn take_unconfirmed(&mut self) -> impl Iterator<Item = Unconfirmed> {
        self.cx.unconfirmed.drain(..)
    }

    /// The number of attempts.
    fn attempts_left(&self) -> usize {
        self.cx.attempts.len()
    }

    /// True without an attempt that waits, holds or releases.
    pub(crate) fn is_idle(&self) -> bool {
        self.cx.attempts.is_empty()
    }

    /// True without a request of an operator.
    pub(crate) fn has_no_operator_calls(&self) -> bool {
        self.operator_calls.is_empty()
    }

    /// True with an attempt that waits for the server.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.cx.by_token.is_empty()
    }

    /// An event of this lock, which may be new, and may be over with it.
    fn at<R>(&mut self, now: Moment, name: &Arc<str>, event: impl FnOnce(&mut Lock, &mut Context) -> R) -> R {
        self.cx.now = now;
        let mut new = None;
        let lock = match self.locks.get_mut(name) {
            Some(lock) => lock,
            None => new.insert(Lock::default()),
        };
        let outcome = event(lock, &mut self.cx);
        match (lock.is_over(), new) {
            (false, Some(lock)) => drop(self.locks.insert(Arc::clone(name), lock)),
            (true, None) => drop(self.locks.remove(name)),
            (false, None) | (true, Some(_)) => {}
        }
        outcome
    }

    /// An event of this attempt; of a lock without attempts when it is gone.
    fn at_attempt<R>(&mut self, now: Moment, id: Id, event: impl FnOnce(&mut Lock, &mut Context) -> R) -> R {
        match self.cx.attempts.get(&id).map(Arc::clone) {
            Some(name) => self.at(now, &name, event),
            None => event(&mut Lock::default(), &mut self.cx),
        }
    }

    /// An event of each attempt, in the order of their commands.
    fn at_each(&mut self, now: Moment, mut event: impl FnMut(&mut Lock, &mut Context, Id)) {
        let mut ids: Vec<Id> = self.cx.attempts.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.at_attempt(now, id, |lock, cx| event(lock, cx, id));
        }
    }

    /// Tells a simulation of an event of all attempts.
    fn all_meet(&mut self, now: Moment, event: &'static str) {
        if host::world().is_some() {
            self.at_each(now, |lock, _, id| lock.meet(id, event));
        }
    }

    pub(crate) fn acquire(&mut self, now: Moment, id: Id, mut ask: Box<Ask>, token: Token) {
        if ask.is_cancelled() {
            return;
        }
        if self.cx.closed {
            ask.fail(LockError::closed(&ask.key, SHUT_DOWN));
            return;
        }
        if let Some(trouble) = self.cx.trouble.as_ref().filter(|trouble| ask.is_ended_by(trouble)) {
            ask.fail(trouble.error(Some(Arc::clone(&ask.key))));
            return;
        }
        let name = Arc::clone(&ask.name);
        self.at(now, &name, |lock, cx| {
            lock.acquire(cx, id, ask, token);
            lock.reserve(cx);
        });
    }

    pub(crate) fn acquire_all(&mut self, now: Moment, asks: Vec<NewAttempt>) {
        for (id, ask, token) in asks {
            self.acquire(now, id, ask, token);
        }
    }

    /// The caller no longer waits: the attempt releases the lock that it has or may get.
    pub(crate) fn abandon(&mut self, now: Moment, id: Id) {
        self.at_attempt(now, id, |lock, cx| {
            lock.meet(id, "abandon");
            lock.abandon(cx, id);
        });
    }

    /// The name and the token of an attempt whose request for the lock is unanswered.
    pub(crate) fn asked(&self, id: Id) -> Option<(&str, &Token)> {
        self.locks.get(self.cx.attempts.get(&id)?)?.asked(id)
    }

    /// The transport has not sent that request, and will not send it.
    pub(crate) fn taken_back(&mut self, now: Moment, id: Id) {
        self.at_attempt(now, id, |lock, _| lock.taken_back(id));
    }

    /// The transport cannot have this request served yet.
    pub(crate) fn delayed(&mut self, now: Moment, id: Id, reason: Arc<str>) {
        self.at_attempt(now, id, |lock, cx| lock.delayed(cx, id, reason));
    }

    /// The guard changes the ttl.
    pub(crate) fn extend(&mut self, now: Moment, id: Id, extension: Extension) {
        self.at_attempt(now, id, |lock, cx| {
            lock.meet(id, "extend");
            lock.extend(cx, id, extension);
        });
    }

    /// Draws a fencing token for a held lock, unless it has one.
    pub(crate) fn fence(&mut self, now: Moment, id: Id, caller: oneshot::Sender<()>) {
        self.at_attempt(now, id, |lock, cx| lock.fence(cx, id, caller));
    }

    /// The guard releases the lock.
    pub(crate) fn release(&mut self, now: Moment, id: Id, response: Option<Response>) {
        self.at_attempt(now, id, |lock, cx| {
            lock.meet(id, "release");
            lock.release(cx, id, response);
        });
    }

    /// The guard releases the lock of a body that runs once.
    pub(crate) fn finish(&mut self, now: Moment, id: Id, run: Run, response: Response) {
        self.at_attempt(now, id, |lock, cx| {
            lock.meet(id, "release");
            lock.finish(cx, id, run, response);
        });
    }

    /// The guard leaves the lock to whoever redeems its ticket within `lasts`.
    pub(crate) fn hand_over(&mut self, now: Moment, id: Id, lasts: Duration, response: Response) {
        self.at_attempt(now, id, |lock, cx| {
            lock.meet(id, "hand over");
            lock.leave_to_ticket(cx, id, lasts, response);
        });
    }

    /// The task that asks the replicas is a new one: what the last one has not answered is
    /// confirmed anew.
    pub(crate) fn confirm_again(&mut self, now: Moment) {
        self.at_each(now, Lock::confirm_again);
    }

    /// The answer of the replicas about a lock that its caller does not have yet.
    pub(crate) fn confirmed(&mut self, now: Moment, id: Id, token: &Token, confirmation: Confirmation) {
        self.at_attempt(now, id, |lock, cx| lock.confirmed(cx, id, token, confirmation));
    }

    /// A leader announces this, or steps down.
    pub(crate) fn announce(&mut self, now: Moment, id: Id, text: Option<Arc<str>>) {
        self.at_attempt(now, id, |lock, cx| lock.announce(cx, id, text));
    }

    /// From now on tells this observer when another one may lead.
    pub(crate) fn observe(&mut self, name: Arc<str>, observer: Weak<Notify>) {
        self.operator_calls.observe(name, observer);
    }

    /// An operator asks.
    pub(crate) fn call(&mut self, now: Moment, id: Id, call: OperatorRequest) {
        self.cx.now = now;
        let request = self.operator_calls.start(&mut self.cx, id, call);
        self.take_for_operator(now, request);
    }

    /// A caller pauses.
    pub(crate) fn sleep(&mut self, id: Id, until: Moment, caller: oneshot::Sender<()>) {
        self.operator_calls.sleep(&mut self.cx, id, until, caller);
    }

    fn take_for_operator(&mut self, now: Moment, request: Option<Request>) {
        if let Some(request) = request {
            self.at(now, &request.name, |lock, cx| lock.take_for_operator(cx, &request));
        }
    }

    /// The reply to a request of `id` that was sent at `sent`.
    pub(crate) fn reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: Reply) {
        if self.operator_calls.has(id) {
            self.cx.now = now;
            let next = self.operator_calls.on_reply(&mut self.cx, id, reply);
            self.take_for_operator(now, next);
        } else if let Some(waiter) = self.cx.take_question(id) {
            self.at(now, &request.name, |lock, cx| lock.on_holder_reply(cx, waiter, reply));
        } else {
            // The server tells no client of its own changes.
            if request.action == Action::Announce && reply == Reply::Done {
                self.operator_calls.tell_observers(Some(&request.name));
            }
            self.at(now, &request.name, |lock, cx| lock.on_reply(cx, id, sent, request, reply));
        }
    }

    /// A push to one of the waiters.
    pub(crate) fn on_push(&mut self, now: Moment, push: &Push) {
        self.at(now, &push.name, |lock, cx| lock.on_push(cx, push));
    }

    /// Runs the timers that are due.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.cx.now = now;
        while let Some(id) = self.cx.timers.pop(now) {
            if self.operator_calls.wakes(id) {
                continue;
            }
            if self.operator_calls.has(id) {
                let late = Disconnected::passing("the server gave no answer in time");
                self.operator_calls.fail(&mut self.cx, id, &late);
            } else {
                self.at_attempt(now, id, |lock, cx| lock.on_timer(cx, id));
            }
        }
    }

    /// An answer took so long.
    pub(crate) fn learn_answer_time(&mut self, took: Duration) {
        self.cx.answer_time.learn(took);
    }

    /// Another client may have changed these locks, or all: each holder compares, and each first
    /// waiter asks.
    pub(crate) fn changed(&mut self, now: Moment, names: Option<&[Arc<str>]>) {
        let Some(names) = names else {
            self.operator_calls.tell_observers(None);
            self.at_each(now, Lock::flushed);
            return;
        };
        for name in names {
            match name.strip_suffix(LEADER) {
                Some(lock) => self.operator_calls.tell_observers(Some(lock)),
                None => self.at(now, name, Lock::changed),
            }
        }
    }

    /// These slots may be on another node than before.
    pub(crate) fn returned(&mut self, now: Moment, slots: &Slots) {
        self.all_meet(now, "slots returned");
        self.operator_calls.tell_observers(None);
        self.at_each(now, |lock, cx, id| {
            if cx.attempts.get(&id).is_some_and(|name| slots.contains(Slot::of(name))) {
                lock.moved(cx, id);
            }
        });
    }

    /// The outcome of connecting; `None` before the first.
    pub(crate) fn connection(&self) -> Option<Result<Abilities, Disconnected>> {
        if self.cx.connected { Some(Ok(self.cx.abilities)) } else { self.cx.trouble.clone().map(Err) }
    }

    /// There is a connection: unanswered requests are repeated, and each held lock is renewed at
    /// once.
    pub(crate) fn connected(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet(now, "connected");
        self.cx.connected = true;
        self.cx.abilities = abilities;
        self.cx.trouble = None;
        self.operator_calls.tell_observers(None);
        for id in self.operator_calls.ids() {
            let request = self.operator_calls.send(&mut self.cx, id);
            self.take_for_operator(now, request);
        }
        self.ask_for_holders_again(now);
        self.at_each(now, Lock::connected);
    }

    /// The questions who holds a lock were not answered before the connection broke, and there is
    /// another one, or none.
    fn ask_for_holders_again(&mut self, now: Moment) {
        for (_, id) in std::mem::take(&mut self.cx.questions) {
            self.at_attempt(now, id, |lock, cx| lock.ask_for_holder(cx, id));
        }
    }

    /// The abilities of the connection have changed.
    pub(crate) fn can(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet(now, "other abilities");
        self.cx.abilities = abilities;
        self.at_each(now, Lock::can);
    }

    /// These requests were refused with the answer that ends the connection. They are sent again
    /// over the next one.
    pub(crate) fn refused_at_the_end(&mut self, now: Moment, requests: &[(Id, Request)]) {
        for (id, request) in requests {
            self.at(now, &request.name, |lock, _| lock.refused_at_the_end(*id, request));
        }
    }

    /// The connection broke: no request in flight will be answered.
    pub(crate) fn disconnected(&mut self, now: Moment, reason: Arc<str>) {
        self.all_meet(now, "disconnected");
        self.cx.now = now;
        self.cx.connected = false;
        self.cx.broke = reason;
        self.cx.outbox = Outbox::default();
        let trouble = Disconnected::passing(Arc::clone(&self.cx.broke));
        self.operator_calls.disconnect(&mut self.cx, &trouble);
        self.at_each(now, |lock, cx, id| {
            lock.disconnect(cx, id);
            lock.announce_anew();
        });
    }

    /// True when connecting has not failed like this since the last connection.
    pub(crate) fn is_new_trouble(&self, trouble: &Disconnected) -> bool {
        self.cx.trouble.as_ref() != Some(trouble)
    }

    /// Connecting failed. Attempts with one try fail now; if the failure is permanent, all fail but
    /// those without a time limit.
    pub(crate) fn unreachable(&mut self, now: Moment, trouble: Disconnected) {
        self.all_meet(now, "unreachable");
        self.at_each(now, |lock, cx, id| {
            let ends = |ask: &Ask| ask.is_ended_by(&trouble);
            lock.fail_if(cx, id, |ask| ends(ask).then(|| trouble.error(Some(Arc::clone(&ask.key)))));
        });
        for id in self.operator_calls.ids() {
            self.operator_calls.fail(&mut self.cx, id, &trouble);
        }
        self.cx.trouble = Some(trouble);
        for name in self.locks.keys().map(Arc::clone).collect::<Vec<_>>() {
            self.at(now, &name, Lock::hear_word);
        }
        self.ask_for_holders_again(now);
    }

    /// Refuses new attempts from now on, and fails those that wait.
    pub(crate) fn close(&mut self, now: Moment) {
        self.all_meet(now, "shutdown");
        self.cx.closed = true;
        self.at_each(now, |lock, cx, id| {
            lock.fail_if(cx, id, |ask| Some(LockError::closed(&ask.key, SHUT_DOWN)));
        });
    }

    /// Ends all leases; returns how many.
    fn end_all_leases(&mut self, now: Moment) -> usize {
        let mut stopped = 0;
        self.at_each(now, |lock, cx, id| stopped += usize::from(lock.close(cx, id, SHUT_DOWN)));
        stopped
    }
}
