//! Every attempt of this process from its first ask to its last release, and what each waits for.
//!
//! No I/O, and no clock of its own: commands, replies and the time come in, requests and outcomes go out. An
//! attempt is *waiting* (for an answer, for its turn in the server's queue or in this process, for the time to
//! ask again, or for a connection), then *held*, then *releasing*, then gone.

mod admin;
pub(crate) mod closing;
mod cohort;
mod held;
pub(crate) mod in_order;
mod local_queue;
mod on_reply;
pub(crate) mod releasing;
mod replication;
mod reserved_fences;
#[cfg(test)]
mod scenarios;
mod timeout_error;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::command::{AdminCall, Ask, Extension};
use super::outbox::Outbox;
use super::protocol::{Action, Disconnected, Id, Unconfirmed};
use super::slots::{Slot, Slots};
use super::timers::Timers;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::error::LockError;
use crate::lost_reason::LostReason;
use crate::telemetry;
use crate::token::Token;
use held::Held;
use local_queue::{Queues, Turn};
use releasing::Releasing;
use waiting::{Step, Waiting};

pub(crate) use crate::engine::command::Response;

pub(crate) enum Attempt {
    Waiting(Waiting),
    Held(Held),
    Releasing(Releasing),
}

impl Attempt {
    /// When to look at it again.
    fn due(&self) -> Option<Moment> {
        match self {
            Self::Waiting(waiting) => waiting.due(),
            Self::Held(held) => held.due(),
            Self::Releasing(releasing) => Some(releasing.due()),
        }
    }
}

const SHUT_DOWN: &str = "this lock manager has been shut down: connect a new one";

pub(crate) struct LockTable {
    attempts: HashMap<Id, Attempt>,
    queues: Queues,
    timers: Timers,
    pub(crate) outbox: Outbox,
    /// Why there is no connection; `None` while there is one, and before the first has failed.
    trouble: Option<Disconnected>,
    connected: bool,
    abilities: Abilities,
    /// The attempts that the server may tell something: they wait, or asked and are being released.
    by_token: HashMap<Token, Id>,
    /// Why the last connection ended.
    broke: Arc<str>,
    io_timeout: Duration,
    /// How many of this process follow on one of its own in a row.
    cohort: u32,
    /// Counts down: the ids of callers count up.
    own_ids: Id,
    /// Questions of operators.
    admin_calls: HashMap<Id, AdminCall>,
    /// So many replicas must have a lock before it is delivered.
    pub(crate) replicas: u32,
    /// Granted locks whose replicas are to be asked.
    pub(crate) unconfirmed: Vec<Unconfirmed>,
    /// Shut down: nothing new is begun.
    closed: bool,
}

impl LockTable {
    pub(crate) fn new(io_timeout: Duration, cohort: u32) -> Self {
        Self {
            attempts: HashMap::new(),
            queues: Queues::default(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            trouble: None,
            connected: false,
            abilities: Abilities { hands_over: false, tracks_changes: false, votes: false },
            by_token: HashMap::new(),
            broke: "not connected to Redis yet".into(),
            io_timeout,
            cohort,
            own_ids: Id::MAX,
            admin_calls: HashMap::new(),
            replicas: 0,
            unconfirmed: Vec::new(),
            closed: false,
        }
    }

    /// All that is to be sent, in this order.
    #[cfg(test)]
    fn take_outbox(&mut self) -> Vec<(Id, crate::engine::protocol::Request)> {
        self.outbox.take_all().collect()
    }

    pub(crate) fn next_timer(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// How connecting went; `None` while nobody knows.
    pub(crate) fn connection(&self) -> Option<Result<Abilities, Disconnected>> {
        if self.connected { Some(Ok(self.abilities)) } else { self.trouble.clone().map(Err) }
    }

    /// How many locks are asked for, held or being released.
    fn busy_with(&self) -> usize {
        self.attempts.len()
    }

    /// True when nothing is asked for, held or being released.
    pub(crate) fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }

    // Commands -------------------------------------------------------------------------------------------

    pub(crate) fn acquire(&mut self, now: Moment, id: Id, mut ask: Ask, token: Token) {
        if ask.is_in_vain() {
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
        let name = Arc::clone(&ask.name);
        if let Some(waiters) = self.too_many_wait_here(&ask) {
            ask.fail(LockError::QueueFull { key: Arc::clone(&ask.key), waiters });
            return;
        }
        // One try asks at once and stands in no line.
        let asks = ask.one_try || self.queues.join(&name, id) || self.queues_on_server();
        let follows = ask.follows.is_some();
        let waiting = Waiting::new(ask, token);
        self.attempts.insert(id, Attempt::Waiting(waiting));
        if asks {
            self.ask(now, id);
        } else if follows {
            self.leave_out(now, id);
        } else {
            self.schedule(id);
            self.reserve(&name);
        }
    }

    /// Begins nothing new from now on, and tells everybody who waits.
    pub(crate) fn close(&mut self, now: Moment) {
        self.closed = true;
        for id in self.ids() {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) {
                let error = LockError::closed(&waiting.ask.key, SHUT_DOWN);
                self.fail(now, id, error);
            }
        }
    }

    /// The caller no longer waits for the answer: whatever the attempt has or may get is given back.
    pub(crate) fn abandon(&mut self, now: Moment, id: Id) {
        match self.attempts.remove(&id) {
            Some(Attempt::Waiting(waiting)) => self.drop_waiting(now, id, &waiting),
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

    /// The attempt of which the answer to a request for the lock is to come.
    pub(crate) fn asking(&mut self, id: Id) -> Option<&mut Waiting> {
        match self.attempts.get_mut(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.is_asking() => Some(waiting),
            _ => None,
        }
    }

    pub(super) fn waiting(&self, id: Id) -> Option<&Waiting> {
        match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// The guard is done with the lock.
    pub(crate) fn release(&mut self, now: Moment, id: Id, response: Option<Response>) {
        match self.attempts.remove(&id) {
            Some(Attempt::Held(held)) => match self.hand_over_locally(now, id, held) {
                Some(held) => self.drop_held(now, id, &held, response),
                // To the server it still is held, whoever is next.
                None => Releasing::answer_released(response),
            },
            other => {
                // Lost before: the attempt is gone, or its remains are being released already.
                if let Some(other) = other {
                    self.attempts.insert(id, other);
                }
                Releasing::answer_lost(response);
            }
        }
    }

    /// The guard wants another ttl, from now on.
    pub(crate) fn extend(&mut self, now: Moment, id: Id, extension: Extension) {
        // Else it is lost: its guard knows why.
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && held.lease.remaining(now).is_some()
        {
            held.extend(extension);
            self.renew(now, id);
        }
    }

    // Time -----------------------------------------------------------------------------------------------

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Moment) {
        while let Some(id) = self.timers.pop(now) {
            if self.admin_calls.contains_key(&id) {
                self.fail_errand(id, &Disconnected::passing("the server gave no answer in time"));
                continue;
            }
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) => {
                    if waiting.gives_up(now) {
                        let error = self.timeout_error(now, id);
                        self.fail(now, id, error);
                    } else {
                        self.ask(now, id);
                    }
                }
                // Its holder may be inside until its key has expired, by itself.
                Some(Attempt::Held(held)) if held.is_closed() => {
                    self.lost(now, id, LostReason::ManagerClosed, false);
                }
                Some(Attempt::Held(held)) => {
                    if held.lease.remaining(now).is_none() {
                        self.lost(now, id, LostReason::Expired, true);
                    } else if held.is_given_up_for_good(now) {
                        self.release_given_up(now, id);
                    } else if held.takes_first_look(now) {
                        self.watch(id);
                        self.schedule(id);
                    } else {
                        self.renew(now, id);
                    }
                }
                Some(Attempt::Releasing(releasing)) => match releasing.tick(now, self.trouble.as_ref()) {
                    releasing::Next::Gone => self.remove(id),
                    releasing::Next::Again => self.send_release(now, id),
                    releasing::Next::Later => self.schedule(id),
                },
                None => {}
            }
        }
    }

    // Connection -----------------------------------------------------------------------------------------

    /// There is a connection: what was unanswered is asked again, held locks are compared at once.
    pub(crate) fn connected(&mut self, now: Moment, abilities: Abilities) {
        self.connected = true;
        self.abilities = abilities;
        self.trouble = None;
        for id in self.admin_calls.keys().copied().collect::<Vec<_>>() {
            self.send_errand(now, id);
        }
        for id in self.ids() {
            match self.attempts.get(&id) {
                Some(Attempt::Waiting(waiting))
                    if waiting.step == Step::Connection
                        || (self.queues_on_server() && waiting.step == Step::Turn) =>
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
                && waiting.step == Step::Turn
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
                    if let Step::Pause { .. } | Step::Queued = waiting.step {
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
            self.fail_errand(id, &trouble);
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
            self.fail_errand(id, &trouble);
        }
        self.trouble = Some(trouble);
    }

    // Steps ----------------------------------------------------------------------------------------------

    /// Asks the node for the lock, now or as soon as there is a connection.
    fn ask(&mut self, now: Moment, id: Id) {
        self.ask_in(now, id, false);
    }

    /// The same, as each waiter of the lock in this process does now.
    fn ask_with_all(&mut self, now: Moment, id: Id) {
        self.ask_in(now, id, true);
    }

    fn ask_in(&mut self, now: Moment, id: Id, with_all: bool) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            let action = match waiting.ask.follows {
                None => Some(Action::Acquire(waiting.mode(now, with_all))),
                Some(after) => in_order::next(self.outbox.last(), waiting.mode(now, with_all), after),
            };
            let Some(action) = action else {
                self.leave_out(now, id);
                return;
            };
            if self.abilities.votes {
                // What an earlier attempt has got is being given back: nothing of that may hit this one.
                waiting.token = waiting.token.successor();
            }
            waiting.asking(now);
            // A node of a Cluster may hand over although not all can.
            if !self.abilities.votes && !waiting.ask.one_try {
                self.by_token.insert(waiting.token.clone(), id);
            }
            self.outbox.push((id, waiting.request(action)));
        } else {
            waiting.step = Step::Connection;
        }
        self.schedule(id);
    }

    /// Renews, as far as that is wanted, and watches from now on.
    fn renew(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected && held.wants_renewal() {
            held.renewing(now);
            self.outbox.push_urgent((id, held.request(held.renewal())));
        } else {
            held.suspend();
        }
        // Our own renewal ends the watch, too.
        self.watch(id);
        self.schedule(id);
    }

    /// Compares, and wants to be told of every change from now on.
    fn watch(&mut self, id: Id) {
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && self.connected
            && self.abilities.tracks_changes
        {
            self.outbox.push_urgent((id, held.request(Action::Watch)));
        }
    }

    fn send_release(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Releasing(releasing)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            self.outbox.push((id, releasing.request(now)));
        }
        self.schedule(id);
    }

    /// Tells the caller, and gives back what the attempt may have got.
    fn fail(&mut self, now: Moment, id: Id, error: LockError) {
        if let Some(Attempt::Waiting(mut waiting)) = self.attempts.remove(&id) {
            waiting.ask.fail(error);
            self.drop_waiting(now, id, &waiting);
        }
    }

    fn drop_waiting(&mut self, now: Moment, id: Id, waiting: &Waiting) {
        self.timers.set(id, None);
        let was_sent = !waiting.is_asking() || self.outbox.take_back(id).is_none();
        if waiting.must_release(was_sent) {
            self.attempts.insert(id, Attempt::Releasing(waiting.release(now)));
            self.send_release(now, id);
        } else {
            self.by_token.remove(&waiting.token);
        }
        let successor = self.queues.leave(&waiting.ask.name, id).or_else(|| {
            let next = self.queues.first(&waiting.ask.name)?;
            let waits_for_first = |next: &Waiting| next.step == Step::Turn && next.is_refused();
            self.waiting(next).is_some_and(waits_for_first).then_some(Turn::Now(next))
        });
        // The next in line goes on where this one stopped, without asking again sooner.
        if let Some(Turn::Now(next_id)) = successor
            && let Some(Attempt::Waiting(next)) = self.attempts.get_mut(&next_id)
            && next.inherit(waiting)
        {
            self.schedule(next_id);
        } else {
            self.take_turn(now, successor);
        }
    }

    /// Ends the lease and gives the lock back; the next waiter's ask goes out right behind the release.
    fn drop_held(&mut self, now: Moment, id: Id, held: &Held, response: Option<Response>) {
        let was_held = held.lease.remaining(now).is_some();
        held.lease.end(LostReason::Released);
        let response = match response {
            Some(response) if response.is_to_dropped() => self.connected.then_some(response),
            response if was_held => response,
            response => {
                Releasing::answer_lost(response);
                None
            }
        };
        let releasing = held.release(now, self.io_timeout, was_held, response);
        self.attempts.insert(id, Attempt::Releasing(releasing));
        self.send_release(now, id);
        self.leave(now, &held.name, id);
    }

    /// The lease is over without the guard's doing, for an earlier reason or this one. `release`: the key may still be
    /// there.
    fn lost(&mut self, now: Moment, id: Id, reason: LostReason, release: bool) {
        let Some(Attempt::Held(held)) = self.attempts.remove(&id) else {
            return;
        };
        held.lease.end(reason);
        if !held.is_given_up() {
            telemetry::lost(held.lease.key(), held.lease.lost_reason().unwrap_or(reason));
        }
        if release {
            self.drop_held(now, id, &held, None);
        } else {
            self.timers.set(id, None);
            self.leave(now, &held.name, id);
        }
    }

    /// Out of the line, and whoever is next asks.
    fn leave(&mut self, now: Moment, name: &Arc<str>, id: Id) {
        let successor = self.queues.leave(name, id);
        self.take_turn(now, successor);
    }

    /// Who is first in line from now on asks: at once, or, when the server knows that it waits, from time to time.
    fn take_turn(&mut self, now: Moment, turn: Option<Turn>) {
        let (Some(Turn::Now(id) | Turn::Later(id)), Some(turn)) = (turn, turn) else {
            return;
        };
        let in_cohorts = self.abilities.hands_over && !self.queues_on_server();
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (waiting.step, turn) {
            // Its answer may be from before the release.
            (Step::Asking { .. }, _) => waiting.ask_again = true,
            (Step::Pause { .. }, _) if waiting.is_queued() => {}
            (Step::Queued, _) => waiting.keep_asking(now),
            // In cohorts the queue on the server sees to the others.
            (_, Turn::Later(_)) if !in_cohorts => waiting.keep_asking(now),
            (_, Turn::Now(_) | Turn::Later(_)) => {
                self.ask(now, id);
                return;
            }
        }
        self.schedule(id);
    }

    fn remove(&mut self, id: Id) {
        if let Some(Attempt::Releasing(releasing)) = self.attempts.remove(&id) {
            self.by_token.remove(releasing.token());
        }
        self.timers.set(id, None);
    }

    fn schedule(&mut self, id: Id) {
        let due = self.attempts.get(&id).and_then(Attempt::due);
        self.timers.set(id, due);
    }

    /// In the order in which they came.
    fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.attempts.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
