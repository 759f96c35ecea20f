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

mod context;
mod lock;
mod operator_calls;
#[cfg(test)]
mod scenarios;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::EngineSettings;
use super::command::{Ask, Command, SHUT_DOWN, ShutdownIncomplete, Unconfirmed};
use super::outbox::Outbox;
use super::protocol::{Action, Disconnected, Id, Push, Reply, Request};
use super::slots::{Slot, Slots};
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::host::{HashMap, IS_SIMULATED};
use crate::base::key::LEADER;
use crate::base::telemetry;
use crate::base::token::Token;
use context::Context;
use lock::Lock;
use operator_calls::OperatorCalls;

pub(crate) struct LockTable {
    locks: HashMap<Arc<str>, Lock>,
    cx: Context,
    operator_calls: OperatorCalls,
    /// The callers of shutdown.
    closing: Vec<Closing>,
    /// Shut down: new attempts fail.
    is_closed: bool,
}

/// A caller of shutdown, until it is answered.
struct Closing {
    /// The time limit: the leases that are held then end.
    until: Moment,
    /// The number of those leases; `None` before the limit.
    stopped: Option<usize>,
    caller: oneshot::Sender<Result<(), ShutdownIncomplete>>,
}

impl LockTable {
    pub(crate) fn new(settings: EngineSettings) -> Self {
        Self {
            locks: HashMap::default(),
            cx: Context::new(settings),
            operator_calls: OperatorCalls::default(),
            closing: Vec::new(),
            is_closed: false,
        }
    }

    /// The requests that wait to be sent.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.cx.outbox
    }

    /// Returns when an attempt, a caller that pauses or a shutdown is due.
    pub(crate) fn next_timer(&self) -> Option<Moment> {
        let limits = self.closing.iter().map(|closing| closing.due(self.cx.settings.io_timeout));
        limits.chain(self.cx.timers.next()).min()
    }

    /// True without an attempt that waits, holds or releases.
    pub(crate) fn is_idle(&self) -> bool {
        self.cx.attempts.count() == 0
    }

    /// True with an attempt that waits for the server.
    pub(crate) fn has_waiters(&self) -> bool {
        self.cx.attempts.expect_any()
    }

    /// True while someone waits beside the attempts: an operator, or a caller of connect or shutdown.
    pub(crate) fn has_other_callers(&self) -> bool {
        !(self.operator_calls.is_empty() && !self.cx.connection.is_awaited() && self.closing.is_empty())
    }

    /// Granted locks that their replicas must confirm. `again`: the task that asks the replicas is a
    /// new one, so what the last one has not answered is confirmed again.
    pub(crate) fn take_unconfirmed(
        &mut self,
        now: Moment,
        again: bool,
    ) -> impl Iterator<Item = Unconfirmed> + use<'_> {
        if again {
            self.at_each(now, Lock::confirm_again);
        }
        self.cx.unconfirmed.drain(..)
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
        match (lock.attempts.is_empty(), new) {
            (false, Some(lock)) => drop(self.locks.insert(Arc::clone(name), lock)),
            (true, None) => drop(self.locks.remove(name)),
            (false, None) | (true, Some(_)) => {}
        }
        outcome
    }

    /// An event of this attempt; of a lock without attempts when it is gone.
    fn at_attempt<R>(&mut self, now: Moment, id: Id, event: impl FnOnce(&mut Lock, &mut Context) -> R) -> R {
        match self.cx.attempts.lock_of(id).map(Arc::clone) {
            Some(name) => self.at(now, &name, event),
            None => event(&mut Lock::default(), &mut self.cx),
        }
    }

    /// What the caller of this attempt wants, which a simulation knows by its name.
    fn at_caller(
        &mut self,
        now: Moment,
        id: Id,
        event: &'static str,
        change: impl FnOnce(&mut Lock, &mut Context),
    ) {
        self.at_attempt(now, id, |lock, cx| {
            if IS_SIMULATED {
                lock.attempts.meet(id, event);
            }
            change(lock, cx);
        });
    }

    /// An event of each attempt, in the order of their commands.
    fn at_each(&mut self, now: Moment, mut event: impl FnMut(&mut Lock, &mut Context, Id)) {
        let mut ids: Vec<Id> = self.cx.attempts.ids().collect();
        ids.sort_unstable();
        for id in ids {
            self.at_attempt(now, id, |lock, cx| event(lock, cx, id));
        }
    }

    /// Tells a simulation of an event of all attempts.
    fn all_meet(&mut self, now: Moment, event: &'static str) {
        if IS_SIMULATED {
            self.at_each(now, |lock, _, id| lock.attempts.meet(id, event));
        }
    }

    /// Handles what a caller wants.
    pub(crate) fn on_command(&mut self, now: Moment, command: Command) {
        match command {
            Command::Acquire { id, ask, token } => self.acquire(now, id, ask, token),
            Command::AcquireAll { asks } => {
                for (id, ask, token) in asks {
                    self.acquire(now, id, ask, token);
                }
            }
            Command::Abandon { id } => {
                self.at_caller(now, id, "abandon", |lock, cx| lock.abandon(cx, id));
            }
            Command::Extend { id, extension } => {
                self.at_caller(now, id, "extend", |lock, cx| lock.extend(cx, id, extension));
            }
            Command::Downgrade { id, caller } => {
                self.at_caller(now, id, "downgrade", |lock, cx| lock.downgrade(cx, id, caller));
            }
            Command::Fence { id, caller } => {
                self.at_attempt(now, id, |lock, cx| lock.fence(cx, id, caller));
            }
            Command::Release { id, response } => {
                self.at_caller(now, id, "release", |lock, cx| lock.release(cx, id, response));
            }
            Command::Finish { id, run, response } => {
                self.at_caller(now, id, "release", |lock, cx| lock.finish(cx, id, run, response));
            }
            Command::HandOver { id, lasts, response } => {
                self.at_caller(now, id, "hand over", |lock, cx| {
                    lock.leave_to_ticket(cx, id, lasts, response);
                });
            }
            Command::Confirmed { id, token, confirmation } => {
                self.at_attempt(now, id, |lock, cx| lock.confirmed(cx, id, &token, confirmation));
            }
            Command::Announce { id, text } => {
                self.at_attempt(now, id, |lock, cx| lock.announce(cx, id, text));
            }
            Command::Operator { id, call } => {
                self.cx.now = now;
                let request = self.operator_calls.start(&mut self.cx, id, *call, self.is_closed);
                self.take_for_operator(now, request);
            }
            Command::Observe { name, observer } => self.operator_calls.observe(name, observer),
            Command::Sleep { id, until, caller } => {
                self.operator_calls.sleep(&mut self.cx, id, until, caller);
            }
            Command::Connected { caller } => self.cx.connection.tell(caller, self.cx.abilities),
            Command::Shutdown { until, caller } => self.close(now, until, caller),
        }
    }

    fn acquire(&mut self, now: Moment, id: Id, mut ask: Box<Ask>, token: Token) {
        if ask.is_cancelled() {
            return;
        }
        if self.is_closed {
            ask.fail(LockError::closed(&ask.key, SHUT_DOWN));
            return;
        }
        if let Some(trouble) = self.cx.connection.trouble().filter(|trouble| ask.is_ended_by(trouble)) {
            ask.fail(trouble.error(Some(Arc::clone(&ask.key))));
            return;
        }
        let name = Arc::clone(&ask.name);
        self.at(now, &name, |lock, cx| {
            lock.acquire(cx, id, ask, token);
            lock.reserve(cx);
        });
    }

    /// Has the transport take back an unanswered request for the lock: `is_unsent` says, by name and
    /// token, whether it has not sent the request, and will not send it.
    pub(crate) fn take_back(&mut self, now: Moment, id: Id, is_unsent: impl FnOnce(&str, &Token) -> bool) {
        self.at_attempt(now, id, |lock, _| {
            if lock.attempts.asked(id).is_some_and(|(name, token)| is_unsent(name, token)) {
                lock.attempts.taken_back(id);
            }
        });
    }

    /// The transport cannot have this request served yet.
    pub(crate) fn delayed(&mut self, now: Moment, id: Id, reason: Arc<str>) {
        self.at_attempt(now, id, |lock, cx| lock.delayed(cx, id, reason));
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
        } else if let Some(waiter) = self.cx.own_requests.take_question(id) {
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
        self.cx.connection.learn_answer_time(took);
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
            if cx.attempts.lock_of(id).is_some_and(|name| slots.contains(Slot::of(name))) {
                lock.moved(cx, id);
            }
        });
    }

    /// There is a connection: unanswered requests are repeated, and each held lock is renewed at
    /// once.
    pub(crate) fn connected(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet(now, "connected");
        self.cx.connection.set_up(abilities);
        self.cx.abilities = abilities;
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
        for id in self.cx.own_requests.take_unanswered() {
            self.at_attempt(now, id, |lock, cx| lock.ask_for_holder(cx, id));
        }
    }

    /// The abilities of the connection have changed.
    pub(crate) fn can(&mut self, now: Moment, abilities: Abilities) {
        self.all_meet(now, "other abilities");
        self.cx.abilities = abilities;
        self.at_each(now, Lock::can);
    }

    /// The connection broke: no request in flight will be answered. `refused`: with the answer that
    /// ended it; they are sent again over the next one.
    pub(crate) fn disconnected(&mut self, now: Moment, reason: Arc<str>, refused: &[(Id, Request)]) {
        for (id, request) in refused {
            self.at(now, &request.name, |lock, _| lock.attempts.refused_at_the_end(*id, request));
        }
        self.all_meet(now, "disconnected");
        self.cx.now = now;
        self.cx.outbox = Outbox::default();
        let trouble = Disconnected::passing(Arc::clone(&reason));
        self.cx.connection.set_broken(reason);
        self.operator_calls.disconnect(&mut self.cx, &trouble);
        self.at_each(now, |lock, cx, id| {
            lock.disconnect(cx, id);
            lock.announce_again();
        });
    }

    /// Connecting failed. Attempts with one try fail now; if the failure is permanent, all fail but
    /// those without a time limit.
    pub(crate) fn unreachable(&mut self, now: Moment, trouble: Disconnected) {
        if self.cx.connection.trouble() != Some(&trouble) {
            telemetry::unreachable(&trouble.reason);
        }
        self.all_meet(now, "unreachable");
        self.at_each(now, |lock, cx, id| {
            let ends = |ask: &Ask| ask.is_ended_by(&trouble);
            lock.fail_if(cx, id, |ask| ends(ask).then(|| trouble.error(Some(Arc::clone(&ask.key)))));
        });
        for id in self.operator_calls.ids() {
            self.operator_calls.fail(&mut self.cx, id, &trouble);
        }
        self.cx.connection.set_trouble(trouble);
        for name in self.locks.keys().map(Arc::clone).collect::<Vec<_>>() {
            self.at(now, &name, Lock::on_fresh_answer);
        }
        self.ask_for_holders_again(now);
    }

    /// Refuses new attempts from now on, and fails those that wait. The caller is answered when
    /// everything is released.
    fn close(&mut self, now: Moment, until: Moment, caller: oneshot::Sender<Result<(), ShutdownIncomplete>>) {
        self.all_meet(now, "shutdown");
        self.is_closed = true;
        self.at_each(now, |lock, cx, id| {
            lock.fail_if(cx, id, |ask| Some(LockError::closed(&ask.key, SHUT_DOWN)));
        });
        self.closing.push(Closing { until, stopped: None, caller });
    }

    /// Ends the leases that are held at the limit of a shutdown, and answers its caller once
    /// everything is released, or the time for that is over. `is_sent`: the transport has nothing to
    /// do any more.
    ///
    /// The end of its lease drops an async body, and its guard releases the lock. A sync body cannot
    /// be stopped: its key is not deleted while the body may run, but expires.
    pub(crate) fn poll_closing(&mut self, now: Moment, is_sent: bool) {
        if self.closing.is_empty() {
            return;
        }
        for mut closing in std::mem::take(&mut self.closing) {
            if closing.until <= now && closing.stopped.is_none() && !(is_sent && self.is_idle()) {
                let mut stopped = 0;
                self.at_each(now, |lock, cx, id| stopped += usize::from(lock.close(cx, id, SHUT_DOWN)));
                closing.stopped = Some(stopped);
            }
            if !(is_sent && self.is_idle()) && now < closing.due(self.cx.settings.io_timeout) {
                self.closing.push(closing);
                continue;
            }
            let outcome = match (closing.stopped.unwrap_or(0), self.cx.attempts.count()) {
                (0, 0) => Ok(()),
                (stopped, unreleased) => Err(ShutdownIncomplete { stopped, unreleased }),
            };
            // A caller that has gone does not mind.
            let _ = closing.caller.send(outcome);
        }
    }
}

impl Closing {
    /// The limit, or the end of the time for releases after that.
    fn due(&self, grace: Duration) -> Moment {
        if self.stopped.is_none() { self.until } else { self.until.after(grace) }
    }
}
