//! Every attempt of this process from its first ask to its last release, and what each waits for.
//!
//! No I/O, and no clock of its own: commands, replies and the time come in, requests and outcomes go out. An
//! attempt is *waiting* (for an answer, for its turn in the server's queue or in this process, for the time to
//! ask again, or for a connection), then *held*, then *releasing*, then gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Id;
use super::held::{Extension, Held};
use super::protocol::{Action, CLAIM, Disconnected, Grant, Mode, Refusal, Reply, Request};
use super::queue::{Queues, Turn};
use super::releasing::{self, Releasing, Response};
use super::timers::Timers;
use super::waiting::{Ask, Seen, Step, Waiting};
use crate::clock::Moment;
use crate::error::{Holder, LockError};
use crate::lease::{Lease, safe_until};
use crate::token::{self, Token};

pub(super) enum Attempt {
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

pub(super) struct Table {
    attempts: HashMap<Id, Attempt>,
    queues: Queues,
    timers: Timers,
    outbox: Vec<(Id, Request)>,
    /// Why there is no connection; `None` while there is one, and before the first has failed.
    trouble: Option<Disconnected>,
    connected: bool,
    /// The node passes a free lock to its waiters; without that, the first of this process asks for all.
    hands_off: bool,
    /// Which attempts stand in a queue on the server.
    queued: HashMap<Token, Id>,
    /// Why the last connection ended.
    broke: Arc<str>,
    io_timeout: Duration,
    /// Counts down: the ids of callers count up.
    own_ids: Id,
}

impl Table {
    pub(super) fn new(io_timeout: Duration) -> Self {
        Self {
            attempts: HashMap::new(),
            queues: Queues::default(),
            timers: Timers::default(),
            outbox: Vec::new(),
            trouble: None,
            connected: false,
            hands_off: false,
            queued: HashMap::new(),
            broke: "not connected to Redis yet".into(),
            io_timeout,
            own_ids: Id::MAX,
        }
    }

    /// What is to be sent, in this order.
    pub(super) fn take_outbox(&mut self) -> Vec<(Id, Request)> {
        std::mem::take(&mut self.outbox)
    }

    pub(super) fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// How connecting went; `None` while nobody knows.
    pub(super) fn connection(&self) -> Option<Result<(), Disconnected>> {
        if self.connected { Some(Ok(())) } else { self.trouble.clone().map(Err) }
    }

    /// True when nothing is asked for, held or being released.
    pub(super) fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }

    // Commands -------------------------------------------------------------------------------------------

    pub(super) fn acquire(&mut self, now: Moment, id: Id, mut ask: Ask, token: Token) {
        if let Some(trouble) = self.trouble.as_ref().filter(|trouble| ask.one_try || trouble.turned_away) {
            ask.fail(LockError::unavailable(&ask.key, Arc::clone(&trouble.reason)));
            return;
        }
        let name = Arc::clone(&ask.name);
        // One try asks at once and stands in no line.
        let asks = ask.one_try || self.queues.join(&name, id) || self.hands_off;
        let waiting = Waiting::new(ask, token);
        self.attempts.insert(id, Attempt::Waiting(waiting));
        if asks {
            self.ask(now, id);
        } else {
            self.schedule(id);
        }
    }

    /// The caller no longer waits for the answer: whatever the attempt has or may get is given back.
    pub(super) fn abandon(&mut self, now: Moment, id: Id) {
        match self.attempts.remove(&id) {
            Some(Attempt::Waiting(waiting)) => self.drop_waiting(now, id, &waiting),
            Some(Attempt::Held(held)) => self.drop_held(now, id, &held, None),
            Some(releasing @ Attempt::Releasing(_)) => {
                self.attempts.insert(id, releasing);
            }
            None => {}
        }
    }

    /// The guard is done with the lock.
    pub(super) fn release(&mut self, now: Moment, id: Id, response: Option<Response>) {
        match self.attempts.remove(&id) {
            Some(Attempt::Held(held)) => self.drop_held(now, id, &held, response),
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
    pub(super) fn extend(&mut self, now: Moment, id: Id, extension: Extension) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            extension.fail_lost();
            return;
        };
        held.extend(extension);
        self.renew(now, id);
    }

    // Replies --------------------------------------------------------------------------------------------

    /// What the node answered to a request of `id` that was sent at `sent`.
    pub(super) fn reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: Reply) {
        match self.attempts.get_mut(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.token == request.token => {
                self.acquire_reply(now, id, sent, request.action, reply);
            }
            Some(Attempt::Held(_)) => self.renew_reply(now, id, sent, request, &reply),
            Some(Attempt::Releasing(releasing)) if request.action == Action::Release => {
                match releasing.reply(now, reply) {
                    releasing::Next::Gone => self.remove(id),
                    releasing::Next::Again => self.send_release(id),
                    releasing::Next::Later => self.schedule(id),
                }
            }
            // The answer to an acquire whose caller has gone: its release is on the way, behind it.
            _ => {}
        }
    }

    fn acquire_reply(&mut self, now: Moment, id: Id, sent: Moment, action: Action, reply: Reply) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match reply {
            Reply::Held { fence } => {
                let claims = action == Action::Acquire(Mode::Again) && self.hands_off;
                self.answered_held(now, id, sent, fence, claims);
            }
            Reply::Busy { holder, .. } if waiting.ask.one_try => {
                waiting.unanswered = false;
                let error = LockError::Busy { key: Arc::clone(&waiting.ask.key), holder };
                self.fail(now, id, error);
            }
            Reply::Busy { holder, place } => {
                let first = self.queues.first(&waiting.ask.name) == Some(id);
                waiting.busy(now, sent, holder, place, first);
                if waiting.is_queued() {
                    self.queued.insert(waiting.token.clone(), id);
                }
                self.schedule(id);
            }
            Reply::Refused(Refusal::Unloaded) => self.ask(now, id),
            Reply::Refused(Refusal::Later(reason)) if !waiting.ask.one_try => {
                waiting.refused(now, reason);
                self.schedule(id);
            }
            Reply::Refused(Refusal::Later(reason) | Refusal::Never(reason)) => {
                let error = LockError::unavailable(&waiting.ask.key, reason);
                waiting.unanswered = false;
                self.fail(now, id, error);
            }
            Reply::Done | Reply::NotMine => {}
        }
    }

    /// `claims`: it is held for the claim, not for the ttl.
    fn answered_held(&mut self, now: Moment, id: Id, sent: Moment, fence: u64, claims: bool) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        let lasts = if claims { waiting.ask.ttl.min(CLAIM) } else { waiting.ask.ttl };
        let deadline = safe_until(sent, lasts);
        if deadline <= now {
            self.too_late(now, id, waiting);
            return;
        }
        let lease = Lease::new(Arc::clone(&waiting.ask.key), fence, deadline);
        let held = if claims { Held::handed_over } else { Held::asked };
        self.enter(now, id, waiting, lease, |ask, token, lease| held(ask, token, lease, sent));
    }

    /// The node has passed a lock on to one of our waiters.
    pub(super) fn granted(&mut self, now: Moment, grant: &Grant) {
        let Some(id) = self.queued.get(&grant.token).copied() else {
            self.return_unless_known(now, grant);
            return;
        };
        let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) else {
            return;
        };
        let claim = waiting.ask.ttl.min(CLAIM);
        let since = waiting.granted_since(now, grant);
        let deadline = since.map_or(now, |since| safe_until(since, claim));
        if deadline.since(now) < claim / 4 {
            // Slept over, or nearly: the server shall say whether it still is ours.
            self.ask(now, id);
            return;
        }
        let Some(Attempt::Waiting(waiting)) = self.attempts.remove(&id) else {
            return;
        };
        let since = since.unwrap_or(now);
        let lease = Lease::new(Arc::clone(&waiting.ask.key), grant.fence, deadline);
        self.enter(now, id, waiting, lease, |ask, token, lease| Held::handed_over(ask, token, lease, since));
    }

    /// A grant for a token that nobody here waits with any more goes back at once. If it is known, its answer or
    /// its release is under way.
    fn return_unless_known(&mut self, now: Moment, grant: &Grant) {
        let known = self.attempts.values().any(|attempt| match attempt {
            Attempt::Waiting(waiting) => waiting.token == grant.token,
            Attempt::Held(held) => held.has(&grant.token),
            Attempt::Releasing(releasing) => releasing.request().token == grant.token,
        });
        if !known {
            let (name, token) = (Arc::clone(&grant.name), grant.token.clone());
            let request = Request { action: Action::Release, name: Arc::clone(&name), token, ttl: CLAIM };
            self.release_apart(Releasing::new(now, name, request, CLAIM));
        }
    }

    fn enter(
        &mut self,
        now: Moment,
        id: Id,
        mut waiting: Waiting,
        lease: Lease,
        held: impl FnOnce(&Ask, Token, Arc<Lease>) -> Held,
    ) {
        let lease = Arc::new(lease);
        self.queued.remove(&waiting.token);
        let name = Arc::clone(&waiting.ask.name);
        self.queues.got(&name, id);
        let delivered = waiting.ask.grant(Arc::clone(&lease));
        let held = held(&waiting.ask, waiting.token, lease);
        if self.hands_off {
            // The next of this process has a place of its own; from now on it makes sure of it.
            self.take_turn(now, self.queues.first(&name).map(Turn::Later));
        }
        if delivered {
            self.attempts.insert(id, Attempt::Held(held));
            self.schedule(id);
        } else {
            self.drop_held(now, id, &held, None);
        }
    }

    /// The answer took longer than the lease lasts: not held. Given back, and asked for again with a fresh
    /// token, because the release of the old one may still be under way.
    fn too_late(&mut self, now: Moment, id: Id, mut waiting: Waiting) {
        self.release_apart(waiting.release(now));
        self.queued.remove(&waiting.token);
        match Token::random() {
            Ok(token) => {
                waiting.token = token;
                self.attempts.insert(id, Attempt::Waiting(waiting));
                self.ask(now, id);
            }
            Err(error) => {
                waiting.ask.fail(LockError::unavailable(&waiting.ask.key, token::no_random(error)));
                waiting.unanswered = false;
                self.drop_waiting(now, id, &waiting);
            }
        }
    }

    /// A release that belongs to no attempt.
    fn release_apart(&mut self, releasing: Releasing) {
        self.own_ids -= 1;
        let own_id = self.own_ids;
        self.attempts.insert(own_id, Attempt::Releasing(releasing));
        self.send_release(own_id);
    }

    fn renew_reply(&mut self, now: Moment, id: Id, sent: Moment, request: &Request, reply: &Reply) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (request.action, reply) {
            // Whatever an ask says that crossed the push of its own grant: a renewal comes anyway.
            (Action::Renew, Reply::Done) => {
                if held.renewed(now, sent, request.ttl) {
                    self.schedule(id);
                } else {
                    self.lost(now, id, true);
                }
            }
            (Action::Renew, Reply::NotMine) => self.lost(now, id, false),
            (Action::Renew, Reply::Refused(Refusal::Unloaded)) => self.renew(now, id),
            (Action::Renew, Reply::Refused(_)) => {
                held.retry(now);
                self.schedule(id);
            }
            _ => {}
        }
    }

    // Time -----------------------------------------------------------------------------------------------

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Moment) {
        while let Some(id) = self.timers.pop(now) {
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) => {
                    if waiting.gives_up(now) {
                        let error = self.why_in_vain(now, id);
                        self.fail(now, id, error);
                    } else {
                        self.ask(now, id);
                    }
                }
                Some(Attempt::Held(held)) => {
                    if held.lease.remaining(now).is_none() {
                        self.lost(now, id, true);
                    } else {
                        self.renew(now, id);
                    }
                }
                Some(Attempt::Releasing(releasing)) => match releasing.tick(now, self.trouble.as_ref()) {
                    releasing::Next::Gone => self.remove(id),
                    releasing::Next::Again => self.send_release(id),
                    releasing::Next::Later => self.schedule(id),
                },
                None => {}
            }
        }
    }

    // Connection -----------------------------------------------------------------------------------------

    /// There is a connection: what was unanswered is asked again, held locks are compared at once.
    pub(super) fn connected(&mut self, now: Moment, hands_off: bool) {
        self.connected = true;
        self.hands_off = hands_off;
        self.trouble = None;
        for id in self.ids() {
            match self.attempts.get(&id) {
                Some(Attempt::Waiting(waiting))
                    if waiting.step == Step::Connection || (hands_off && waiting.step == Step::Turn) =>
                {
                    self.ask(now, id);
                }
                Some(Attempt::Held(_)) => self.renew(now, id),
                Some(Attempt::Releasing(_)) => self.send_release(id),
                _ => {}
            }
        }
    }

    /// The connection broke: every request in flight is without an answer.
    pub(super) fn disconnected(&mut self, reason: Arc<str>) {
        self.connected = false;
        self.broke = reason;
        self.outbox.clear();
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

    /// No connection could be made. Who asked for one try hears it now; when the server turned us away,
    /// everybody does.
    pub(super) fn unreachable(&mut self, now: Moment, trouble: Disconnected) {
        for id in self.ids() {
            if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
                && (waiting.ask.one_try || trouble.turned_away)
            {
                let error = LockError::unavailable(&waiting.ask.key, Arc::clone(&trouble.reason));
                self.fail(now, id, error);
            }
        }
        self.trouble = Some(trouble);
    }

    // Steps ----------------------------------------------------------------------------------------------

    /// Asks the node for the lock, now or as soon as there is a connection.
    fn ask(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            waiting.asking(now);
            self.outbox.push((id, waiting.request(Action::Acquire(waiting.mode()))));
        } else {
            waiting.step = Step::Connection;
        }
        self.schedule(id);
    }

    fn renew(&mut self, now: Moment, id: Id) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected && held.wants_renewal() {
            held.renewing(now);
            self.outbox.push((id, held.request()));
        } else {
            held.suspend();
        }
        self.schedule(id);
    }

    fn send_release(&mut self, id: Id) {
        let Some(Attempt::Releasing(releasing)) = self.attempts.get_mut(&id) else {
            return;
        };
        if self.connected {
            self.outbox.push((id, releasing.request()));
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
        self.queued.remove(&waiting.token);
        if waiting.must_release() {
            self.attempts.insert(id, Attempt::Releasing(waiting.release(now)));
            self.send_release(id);
        }
        let successor = self.queues.leave(&waiting.ask.name, id);
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
        held.lease.end();
        let response = if was_held {
            response
        } else {
            Releasing::answer_lost(response);
            None
        };
        let releasing = held.release(now, self.io_timeout, response);
        self.attempts.insert(id, Attempt::Releasing(releasing));
        self.send_release(id);
        self.leave(now, &held.name, id);
    }

    /// The lease is over without the guard's doing. `release`: the key may still be there.
    fn lost(&mut self, now: Moment, id: Id, release: bool) {
        let Some(Attempt::Held(held)) = self.attempts.remove(&id) else {
            return;
        };
        if release {
            self.drop_held(now, id, &held, None);
        } else {
            held.lease.end();
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
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        match (waiting.step, turn) {
            // Its answer may be from before the release.
            (Step::Asking { .. }, _) => waiting.ask_again = true,
            (Step::Pause { .. }, _) if waiting.is_queued() => {}
            (Step::Queued, _) | (_, Turn::Later(_)) => waiting.keep_asking(now),
            (_, Turn::Now(_)) => {
                self.ask(now, id);
                return;
            }
        }
        self.schedule(id);
    }

    fn remove(&mut self, id: Id) {
        self.attempts.remove(&id);
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

    /// Why the caller's time ran out: somebody has the lock, or Redis did not say.
    fn why_in_vain(&self, now: Moment, id: Id) -> LockError {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) else {
            return LockError::NotConfigured;
        };
        let key = &waiting.ask.key;
        if let Some(trouble) = &self.trouble {
            return LockError::unavailable(key, Arc::clone(&trouble.reason));
        }
        if !self.connected {
            return LockError::unavailable(key, Arc::clone(&self.broke));
        }
        let busy = |holder: Holder| LockError::TimedOut {
            key: Arc::clone(key),
            waited: now.since(waiting.ask.started),
            holder,
        };
        let name = &waiting.ask.name;
        if let Some(Attempt::Held(held)) = self.queues.holder(name).and_then(|id| self.attempts.get(&id)) {
            let free_in = held.lease.remaining(now);
            return busy(Holder { name: Some(token::own_name().into()), free_in });
        }
        // A waiter in line knows what the first in line knows.
        let asker = match self.queues.first(name).and_then(|id| self.attempts.get(&id)) {
            Some(Attempt::Waiting(first)) if !waiting.ask.one_try => first,
            _ => waiting,
        };
        match &asker.seen {
            Seen::Busy(holder) if !asker.unanswered_for(now, self.io_timeout / 2) => busy(holder.clone()),
            Seen::Refused(reason) => LockError::unavailable(key, Arc::clone(reason)),
            Seen::Nothing | Seen::Busy(_) => {
                let waited = now.since(asker.ask.started);
                LockError::unavailable(
                    key,
                    format!("Redis is connected but gave no answer within {waited:.1?}"),
                )
            }
        }
    }
}
