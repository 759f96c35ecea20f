//! `memory://`: the protocol of a server inside one process, for unit tests of annotated functions
//! and for the first run. Everything above the node (engine, leases, renewals, queues) is the code
//! that runs against Redis.
//!
//! Managers that are connected to the same name share their locks. `memory://` names the empty
//! name.
//!
//! Each request of a batch is executed at once, under a mutex, with the effect that the script of
//! the same action has on a server: a lock has a holder with an expiry and a queue of waiters, and
//! a release grants it to the first of these that is still there, by a push into its inbox. A
//! claim that was not renewed takes the whole process out of the queue. Where several may be inside, a
//! release lets in as many waiters as there is room for.

mod counted;
#[cfg(feature = "testing")]
mod faults;
mod once;
mod tick;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::base::capabilities::Abilities;
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Holder, InFront};
use crate::base::host::{HashMap, wall_clock, wall_clock_before};
use crate::base::key::{LEADER, ONCE, PERMITS, QUEUE, TICK};
use crate::base::limit::Limit;
use crate::base::token::{self, Token};
use crate::engine::multi_key::calls;
use crate::engine::protocol::{
    Action, CLAIM, ConnectionEvent, Disconnected, Id, Inspection, Kind, Listed, Mode, Place, Push, PushKind,
    Record, Releases, Reply, Request, ServerInfo, ServerTime, Verdict, takes_too_many,
};
use counted::{Inside, Member};
use faults::Faults;
use once::Records;
use tick::Ticks;

type Inbox = UnboundedSender<ConnectionEvent>;

/// One reply to each request of a batch, unless the connection breaks.
pub(super) type Replies = Pin<Box<dyn Future<Output = Result<Vec<Reply>, Disconnected>> + Send>>;

/// The locks of one name, with the effects of the scripts.
#[derive(Clone)]
pub(crate) struct MemoryNode {
    store: Arc<Mutex<Store>>,
    /// The faults of the store.
    faults: Option<Faults>,
    /// The manager's clock.
    clock: Clock,
}

struct Store {
    faults: Option<Faults>,
    locks: HashMap<Arc<str>, MemoryLock>,
    /// With more locks than this, the expired ones are removed: a `min_hold` ends without a
    /// request.
    purge_above: usize,
    /// The last fencing token.
    clock: u64,
    ticks: Ticks,
    /// The records of bodies that run once.
    records: Records,
    /// The central limits, by the name of the lock.
    permits: HashMap<Arc<str>, u32>,
    /// The observers that are notified of the next change of a leader, by the name of the lock.
    observers: HashMap<Arc<str>, Vec<Inbox>>,
}

impl Store {
    fn new() -> Self {
        Self {
            faults: Faults::none(),
            locks: HashMap::default(),
            purge_above: 0,
            clock: 0,
            ticks: Ticks::default(),
            records: Records::default(),
            permits: HashMap::default(),
            observers: HashMap::default(),
        }
    }

    /// Returns what a server would list. The memory of a process is no node.
    fn names(&mut self, what: Listed, pattern: &str, now: Moment) -> Vec<String> {
        let is_held = |(name, lock): (&Arc<str>, &MemoryLock)| lock.is_held(now).then(|| name.to_string());
        let mut names: Vec<_> = match what {
            Listed::Nodes => return Vec::new(),
            Listed::Locks | Listed::Keys => self.locks.iter().filter_map(is_held).collect(),
        };
        if what == Listed::Keys {
            let beside = |side| move |name: &Arc<str>| format!("{name}{side}");
            let queues = self.locks.iter().filter(|(_, lock)| !lock.queue.is_empty());
            names.extend(queues.map(|(name, _)| name).map(beside(QUEUE)));
            let led = self.locks.iter().filter(|(_, lock)| lock.announced().is_some());
            names.extend(led.map(|(name, _)| name).map(beside(LEADER)));
            names.extend(self.ticks.names(now).iter().map(beside(TICK)));
            names.extend(self.records.names(now).map(beside(ONCE)));
            names.extend(self.permits.keys().map(beside(PERMITS)));
        }
        names.retain(|name| matches(pattern, name));
        names
    }

    /// The answer to a request that is for no lock, or changes none.
    fn answer(&mut self, request: &Request, inbox: &Inbox, now: Moment) -> Option<Reply> {
        Some(match request.action {
            Action::List { what, .. } => {
                Reply::Page { cursor: 0, names: self.names(what, &request.name, now) }
            }
            Action::Ping { .. } => Reply::Done,
            Action::LastTick => Reply::LastTick(self.ticks.last(&request.name, now)),
            Action::ClearTick if self.ticks.clear(&request.name, now) => Reply::Done,
            Action::Record => Reply::Recorded(self.records.known(&request.name, now)),
            Action::ClearRecord if self.records.clear(&request.name, now) => Reply::Done,
            Action::ClearTick | Action::ClearRecord => Reply::NotHeld,
            Action::Permits => Reply::Permits(self.permits.get(&request.name).copied()),
            Action::WatchLeader => {
                let observers = self.observers.entry(Arc::clone(&request.name)).or_default();
                observers.retain(|observer| !observer.is_closed() && !observer.same_channel(inbox));
                observers.push(inbox.clone());
                Reply::Done
            }
            _ => return None,
        })
    }

    /// Executes a request for one lock.
    fn execute(&mut self, request: &Request, inbox: &Inbox, now: Moment) -> Reply {
        let Self { locks, clock, ticks, records, permits, observers, .. } = self;
        let lock = locks.entry(Arc::clone(&request.name)).or_default();
        lock.inside.central = permits.get(&request.name).copied();
        let before = lock.leader();
        drop(lock.holder.take_if(|holder| holder.expires <= now));
        lock.drop_expired(&request.name, inbox, now);
        let reply = Execution { request, inbox, now, lock, clock, ticks, records, permits }.reply();
        if lock.leader() != before {
            notify_observers(&request.name, observers.remove(&request.name));
        }
        if lock.is_free() && lock.queue.is_empty() {
            locks.remove(&request.name);
        }
        reply
    }

    /// Each time the number of locks has doubled, so that it costs each new lock next to nothing.
    fn forget_expired(&mut self, now: Moment) {
        if self.locks.len() > self.purge_above {
            self.locks.retain(|_, lock| lock.is_held(now) || !lock.queue.is_empty());
            self.purge_above = 2 * self.locks.len().max(32);
        }
    }
}

/// A request for a lock, with what it may change.
struct Execution<'a> {
    request: &'a Request,
    inbox: &'a Inbox,
    now: Moment,
    lock: &'a mut MemoryLock,
    /// The last fencing token.
    clock: &'a mut u64,
    ticks: &'a mut Ticks,
    records: &'a mut Records,
    /// The central limits.
    permits: &'a mut HashMap<Arc<str>, u32>,
}

impl Execution<'_> {
    fn reply(mut self) -> Reply {
        let Self { request, inbox, now, ref mut lock, ref mut clock, .. } = self;
        match request.action {
            Action::Acquire(_) if lock.takes_too_many(request) => {
                let limit = request.kind.limit();
                Reply::Refused(takes_too_many(limit.take(), limit.allowed(lock.inside.central).number()))
            }
            Action::Acquire(mode) | Action::AcquireNext { mode, .. } => Reply::Acquire(self.acquire(mode)),
            Action::SetPermits { permits: to } => {
                let name = &request.name;
                let before = match to {
                    Some(to) => self.permits.insert(Arc::clone(name), to),
                    None => self.permits.remove(name),
                };
                lock.inside.central = to;
                if !lock.inside.is_empty() {
                    lock.admit_waiters(name, None, now, clock);
                    lock.notify_next(name, now);
                }
                Reply::Permits(before)
            }
            Action::Watch | Action::WatchHolder => lock.watch(&request.token, now),
            Action::Redeem if lock.is_held_by(request) => lock.redeem(request, inbox, now, clock),
            Action::Redeem => Reply::Acquire(Verdict::NoTicket { is_free: lock.is_free() }),
            Action::Draw => lock.draw(request, now, clock),
            Action::Downgrade { .. } => lock.downgrade(request, inbox, now, clock),
            Action::Reserve { count } => lock.reserve(request, count, clock),
            Action::Vote { fence, .. } => lock.vote(request, fence, inbox, now, clock),
            Action::RaiseFence { fence } => lock.raise_fence(request, fence, clock),
            Action::Repair { .. } if lock.holder.is_none() => {
                lock.hold(&request.token, now, request.lasts(), inbox);
                Reply::Free
            }
            Action::Renew { shortens, .. } | Action::Repair { shortens } => self.renew(shortens),
            Action::ExpireLater => {
                if lock.is(&request.token) {
                    lock.claim = None;
                }
                self.renew(true)
            }
            Action::Release if request.release == Releases::AmongSeveral => lock.revoke(request, now, clock),
            Action::Release => self.release(),
            Action::Announce => lock.announce(request),
            Action::TakeAway => lock.take_from(request),
            Action::ForceRelease => lock.force_release(request, now, clock),
            Action::Inspect
            | Action::Leader
            | Action::LastTick
            | Action::ClearTick
            | Action::Permits
            | Action::List { .. }
            | Action::Ping { .. }
            | Action::Record
            | Action::ClearRecord
            | Action::WatchLeader => Reply::Found(lock.found(now)),
        }
    }

    fn acquire(self, mode: Mode) -> Verdict {
        let Self { request, inbox, now, lock, clock, ticks, records, .. } = self;
        let acquire = |lock: &mut MemoryLock| lock.acquire(request, mode, inbox, now, clock);
        match &request.kind {
            Kind::Tick(of) => ticks.acquire(request, of, mode, lock, now, acquire),
            Kind::Once(of) => records.acquire(request, of, lock, now, acquire),
            Kind::Counted { limit, .. } => lock.acquire_counted(request, *limit, mode, inbox, now, clock),
            _ => lock.acquire(request, mode, inbox, now, clock),
        }
    }

    fn renew(self, shortens: bool) -> Reply {
        let Self { request, now, lock, records, .. } = self;
        records.prolong(request, lock, now);
        lock.renew(request, now, shortens)
    }

    fn release(self) -> Reply {
        let Self { request, inbox, now, lock, clock, ticks, records, .. } = self;
        if records.finish(request, lock, now) {
            return Reply::Done;
        }
        ticks.end(request, lock.is(&request.token), now);
        let of_another = lock.holder.as_ref().filter(|holder| !holder.inbox.same_channel(inbox));
        let loser = of_another.map(|holder| (holder.token.clone(), holder.inbox.clone()));
        let reply = lock.release(request, now, clock);
        // An operator has released it for its holder.
        if let (Reply::Done, Some((token, inbox))) = (&reply, loser) {
            notify_taken_away(&request.name, token, &inbox);
        }
        reply
    }
}

/// Exists while it has a holder or waiters.
#[derive(Default)]
struct MemoryLock {
    /// It has the lock alone.
    holder: Option<Holding>,
    /// Those that have it beside others.
    inside: Inside,
    queue: VecDeque<Waiter>,
    /// The inbox of the waiter that got the lock last, while others wait.
    claim: Option<Inbox>,
    /// The first waiter, which keeps out one behind it that has room.
    hinted: Option<Hinted>,
    /// What the leader with this token has announced.
    record: Option<(Token, Record)>,
}

/// A first waiter that was sent a hint, and has to ask within a claim.
struct Hinted {
    token: Token,
    since: Moment,
    answers: bool,
}

struct Holding {
    token: Token,
    /// The time of the grant.
    since: Moment,
    expires: Moment,
    inbox: Inbox,
    is_ticket: bool,
}

#[derive(Clone)]
struct Waiter {
    token: Token,
    ttl: Duration,
    fenced: bool,
    limit: Limit,
    /// Its body runs once.
    once: bool,
    inbox: Inbox,
}

impl Waiter {
    fn of(request: &Request, inbox: &Inbox) -> Self {
        let &Request { ref token, ttl, fenced, ref kind, .. } = request;
        let (token, limit, inbox) = (token.clone(), kind.limit(), inbox.clone());
        Self { token, ttl, fenced, limit, once: matches!(kind, Kind::Once(_)), inbox }
    }

    fn in_front(&self) -> InFront {
        InFront { owner: token::owner_of(self.token.value()), limit: self.limit }
    }

    /// False when the waiter's engine has ended.
    fn notify(&self, name: &Arc<str>, kind: PushKind) -> bool {
        let push = Push {
            token: self.token.clone(),
            name: Arc::clone(name),
            kind,
            followers: "".into(),
            is_undercut: false,
        };
        self.inbox.send(ConnectionEvent::Push(push)).is_ok()
    }
}

static BY_NAME: LazyLock<Mutex<HashMap<String, Weak<Mutex<Store>>>>> = LazyLock::new(Mutex::default);

impl MemoryNode {
    /// The node of that name. It exists as long as a manager is connected to it.
    pub(crate) fn named(name: &str) -> Self {
        // No code panics while it holds this mutex, so a poisoned one is intact.
        let mut by_name = BY_NAME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = by_name.get(name).and_then(Weak::upgrade) {
            return Self::over(store);
        }
        let store = Arc::new(Mutex::new(Store::new()));
        by_name.retain(|_, store| store.strong_count() > 0);
        by_name.insert(name.to_owned(), Arc::downgrade(&store));
        Self::over(store)
    }

    fn over(store: Arc<Mutex<Store>>) -> Self {
        let faults = store.lock().unwrap_or_else(PoisonError::into_inner).faults.clone();
        Self { store, faults, clock: Clock::System }
    }

    pub(super) fn set_clock(&mut self, clock: &Clock) {
        self.clock = clock.clone();
    }

    /// A change that is not made by an engine cannot happen here, and the node loses no locks.
    pub(crate) fn server_info(now: Moment) -> (Abilities, ServerInfo) {
        let abilities = Abilities { hands_over: true, tracks_changes: false, votes: false, may_evict: false };
        let server_info = ServerInfo {
            clock: server_time(now).0,
            up_for: Duration::ZERO,
            durable: true,
            round_trip: Duration::ZERO,
        };
        (abilities, server_info)
    }

    /// The node tells its changes through the inbox.
    pub(super) async fn connect(&self, timeout: Duration, inbox: &Inbox) -> Result<(), Disconnected> {
        match &self.faults {
            Some(faults) => faults.connect(timeout, inbox).await,
            None => Ok(()),
        }
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.faults.as_ref().is_none_or(Faults::is_reachable)
    }

    /// `now`: when the requests are sent, on the clock of the manager.
    pub(super) fn submit(&self, now: Moment, requests: &[(Id, Request)], inbox: &Inbox) -> Replies {
        match &self.faults {
            Some(faults) => faults.submit(self, requests, inbox),
            None => Box::pin(std::future::ready(Ok(self.execute_all(now, requests, inbox)))),
        }
    }

    fn execute_all(&self, now: Moment, requests: &[(Id, Request)], inbox: &Inbox) -> Vec<Reply> {
        one_by_one(requests, |request| self.execute(request, inbox, now))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(&self, request: &Request, inbox: &Inbox, now: Moment) -> Reply {
        let mut store = self.store();
        if let Some(faults) = &self.faults {
            faults.renew_elsewhere(&mut store.locks, now);
        }
        store.forget_expired(now);
        if let Some(reply) = store.answer(request, inbox, now) {
            return reply;
        }
        store.execute(request, inbox, now)
    }
}

/// Another one leads, or nobody.
fn notify_observers(name: &Arc<str>, observers: Option<Vec<Inbox>>) {
    for observer in observers.into_iter().flatten() {
        let changed = Arc::from([name, LEADER].concat());
        // Its manager may have gone.
        let _ = observer.send(ConnectionEvent::Changed(Some(vec![changed])));
    }
}

/// The holder with this token has lost the lock to an operator.
fn notify_taken_away(name: &Arc<str>, token: Token, inbox: &Inbox) {
    push_to_process(name, PushKind::TakenAway, token, inbox);
}

/// Waiters of this process have lost their places: all of them ask.
fn notify_place_lost(name: &Arc<str>, inbox: &Inbox) {
    push_to_process(name, PushKind::PlaceLost, Token::empty(), inbox);
}

fn push_to_process(name: &Arc<str>, kind: PushKind, token: Token, inbox: &Inbox) {
    let push = Push { token, name: Arc::clone(name), kind, followers: "".into(), is_undercut: false };
    // Its manager may have gone.
    let _ = inbox.send(ConnectionEvent::Push(push));
}

/// The microseconds of its clock, as on a server.
fn server_time(now: Moment) -> ServerTime {
    ServerTime(now.to_nanos() / 1000)
}

impl Holding {
    fn new(token: Token, since: Moment, expires: Moment, inbox: Inbox) -> Self {
        Self { token, since, expires, inbox, is_ticket: false }
    }

    fn name(&self) -> Token {
        Token::naming(self.token.value().as_bytes())
    }

    fn seen(&self, now: Moment) -> Holder {
        Holder {
            owner: token::owner_of(self.token.value()),
            granted: wall_clock_before(now.since(self.since)),
            expires_in: Some(self.expires.since(now)),
            is_ticket: self.is_ticket,
            ..Holder::default()
        }
    }
}

impl MemoryLock {
    fn acquire(
        &mut self,
        request: &Request,
        mode: Mode,
        inbox: &Inbox,
        now: Moment,
        clock: &mut u64,
    ) -> Verdict {
        let waiting = |waiter: &Waiter| waiter.token == request.token;
        if self.is_free() {
            self.evict_stalled(&request.name, inbox);
        }
        if mode != Mode::OneTry && !self.is(&request.token) && !self.queue.iter().any(waiting) {
            if let Some(waiters) = self.too_many(&request.name, mode, now) {
                return Verdict::QueueFull { waiters };
            }
            if !self.is_free() || !self.queue.is_empty() {
                self.queue.push_back(Waiter::of(request, inbox));
            }
        }
        self.set_answered(inbox);
        let was_free = self.is_free();
        if was_free {
            self.admit_waiters(&request.name, Some(&request.token), now, clock);
        }
        if self.is_free() || self.is(&request.token) {
            self.queue.retain(|waiter| !waiting(waiter));
            let has_waited = mode.has_waited();
            let lasts = if has_waited { request.lasts().min(CLAIM) } else { request.lasts() };
            self.hold(&request.token, now, lasts, inbox);
            if was_free {
                self.notify_next(&request.name, now);
            }
            let fence = if request.fenced { next_fence(now, clock) } else { 0 };
            return if has_waited { Verdict::Claimed { fence } } else { Verdict::Granted { fence } };
        }
        self.busy(request, now, None)
    }

    /// Returns the number of waiters if the queue is full. First it removes the waiters whose engines
    /// have ended, and then it notifies the first two that remain.
    fn too_many(&mut self, name: &Arc<str>, mode: Mode, now: Moment) -> Option<u32> {
        let (Mode::Join { at_most } | Mode::JoinAgain { at_most }) = mode else { return None };
        let count = |queue: &VecDeque<Waiter>| u32::try_from(queue.len()).unwrap_or(u32::MAX);
        if count(&self.queue) >= at_most {
            let before = self.queue.len();
            self.queue.retain(|waiter| !waiter.inbox.is_closed());
            if self.queue.len() < before {
                self.notify_next(name, now);
            }
        }
        Some(count(&self.queue)).filter(|waiters| *waiters >= at_most)
    }

    /// `asks_again`: when a caller that has room does, at the latest.
    fn busy(&self, request: &Request, now: Moment, asks_again: Option<Duration>) -> Verdict {
        let place = self.queue.iter().position(|waiter| waiter.token == request.token);
        let place = place.and_then(|in_front| u32::try_from(in_front).ok());
        let limit = request.kind.limit();
        let mut holder = self.seen(limit, now);
        holder.expires_in = asks_again.into_iter().chain(holder.expires_in).min();
        if self.holder.is_none() {
            holder.owner = self.inside.next_to_end(limit);
            let first = self.queue.front().filter(|first| first.token != request.token);
            holder.waiter = first.filter(|_| self.inside.has_room(limit)).map(Waiter::in_front).map(Box::new);
        }
        Verdict::Busy { holder, place: place.map(|in_front| Place { in_front, at: server_time(now) }) }
    }

    /// As a caller with this limit sees who is inside.
    fn seen(&self, limit: Limit, now: Moment) -> Holder {
        self.holder.as_ref().map_or_else(|| self.inside.seen(limit, now), |holder| holder.seen(now))
    }

    /// As [`acquire`](Self::acquire), for a caller that lets others in beside itself.
    fn acquire_counted(
        &mut self,
        request: &Request,
        limit: Limit,
        mode: Mode,
        inbox: &Inbox,
        now: Moment,
        clock: &mut u64,
    ) -> Verdict {
        let (name, token) = (&request.name, &request.token);
        if self.is_free() {
            self.evict_stalled(name, inbox);
        }
        let has_waited = mode.has_waited();
        let lasts = if has_waited { request.lasts().min(CLAIM) } else { request.lasts() };
        if self.inside.get(token).is_none() {
            let is_queued = self.queue.iter().any(|waiter| waiter.token == *token);
            if let Some(waiters) = self.too_many(name, mode, now).filter(|_| !is_queued) {
                return Verdict::QueueFull { waiters };
            }
            let has_to_wait = self.holder.is_some() || !self.inside.has_room(limit);
            if mode != Mode::OneTry && !is_queued && (has_to_wait || !self.queue.is_empty()) {
                self.queue.push_back(Waiter::of(request, inbox));
            }
            self.set_answered(inbox);
            if !self.inside.is_empty() && self.inside.has_room(limit) {
                self.pass_over(name, now);
            }
            self.admit_waiters(name, Some(token), now, clock);
            if self.holder.is_none() && self.queue.is_empty() && self.inside.has_room(limit) {
                let waiter = Waiter::of(request, inbox);
                self.inside.add(Member::new(waiter, now.after(lasts), has_waited));
            }
            if self.inside.get(token).is_none() {
                let asks_again = self.hint_first(name, inbox, limit, now);
                return self.busy(request, now, asks_again);
            }
        }
        self.queue.retain(|waiter| waiter.token != *token);
        if let Some(member) = self.inside.get_mut(token) {
            member.expires = member.expires.max(now.after(lasts));
            member.inbox = inbox.clone();
            member.is_claim = has_waited;
        }
        let fence = self.inside.fence(now, clock);
        if has_waited { Verdict::Claimed { fence } } else { Verdict::Granted { fence } }
    }

    /// A process that asks is not stopped.
    fn set_answered(&mut self, asker: &Inbox) {
        if let (Some(hinted), Some(first)) = (&mut self.hinted, self.queue.front())
            && first.inbox.same_channel(asker)
        {
            hinted.answers = true;
        }
    }

    /// The first waiter has not answered within a claim: the waiters of its process leave the queue.
    fn pass_over(&mut self, name: &Arc<str>, now: Moment) {
        let is_stuck = |hinted: &mut Hinted| !hinted.answers && now.since(hinted.since) >= CLAIM;
        if let Some(hinted) = self.hinted.take_if(is_stuck)
            && let Some(first) = self.queue.front().filter(|first| first.token == hinted.token)
        {
            let inbox = first.inbox.clone();
            self.drop_waiters_of(name, &inbox);
        }
    }

    /// The first waiter keeps out this caller, which has room beside the holders: its process may be
    /// stopped. Returns when the caller asks again.
    fn hint_first(&mut self, name: &Arc<str>, asker: &Inbox, limit: Limit, now: Moment) -> Option<Duration> {
        let has_room = !self.inside.is_empty() && self.inside.has_room(limit);
        let first = self.queue.front().filter(|first| has_room && !first.inbox.same_channel(asker))?;
        let is_open = |hinted: &Hinted| hinted.token == first.token && now.since(hinted.since) < CLAIM;
        if !self.hinted.as_ref().is_some_and(is_open) {
            first.notify(name, PushKind::Next { claim: Duration::ZERO, at: server_time(now) });
            self.hinted = Some(Hinted { token: first.token.clone(), since: now, answers: false });
        }
        self.hinted.as_ref().map(|hinted| CLAIM.saturating_sub(now.since(hinted.since)))
    }

    fn draw(&mut self, request: &Request, now: Moment, clock: &mut u64) -> Reply {
        if self.inside.get(&request.token).is_some() {
            return Reply::Reserved { last: self.inside.fence(now, clock) };
        }
        if self.is(&request.token) {
            Reply::Reserved { last: next_fence(now, clock) }
        } else {
            Reply::NotHeld
        }
    }

    /// The one that has the lock alone has it beside others from now on.
    fn downgrade(&mut self, request: &Request, inbox: &Inbox, now: Moment, clock: &mut u64) -> Reply {
        let expires = now.after(request.lasts());
        if let Some(member) = self.inside.get_mut(&request.token) {
            member.expires = member.expires.max(expires);
            member.inbox = inbox.clone();
            member.is_claim = false;
        } else if let Some(alone) = self.holder.take_if(|holder| holder.token == request.token) {
            let expires = alone.expires.max(expires);
            self.inside.add(Member::new(Waiter::of(request, inbox), expires, false));
            self.inside.begin(request.kind.phase());
            self.queue.retain(|waiter| waiter.token != request.token);
        } else {
            return Reply::NotHeld;
        }
        self.admit_waiters(&request.name, None, now, clock);
        Reply::Reserved { last: self.inside.fence(now, clock) }
    }

    fn reserve(&self, request: &Request, count: u32, clock: &mut u64) -> Reply {
        if !self.is(&request.token) {
            return Reply::NotHeld;
        }
        *clock = clock.saturating_add(count.into());
        Reply::Reserved { last: *clock }
    }

    fn raise_fence(&self, request: &Request, fence: u64, clock: &mut u64) -> Reply {
        if !self.is(&request.token) {
            return Reply::NotHeld;
        }
        *clock = fence.max(*clock);
        Reply::Done
    }

    /// The lock is held under the token of the ticket, or by this one.
    fn redeem(&mut self, request: &Request, inbox: &Inbox, now: Moment, clock: &mut u64) -> Reply {
        self.hold(&request.token, now, request.lasts(), inbox);
        self.claim = (!self.queue.is_empty()).then(|| inbox.clone());
        self.notify_next(&request.name, now);
        let fence = if request.fenced { next_fence(now, clock) } else { 0 };
        Reply::Acquire(Verdict::Granted { fence })
    }

    fn vote(&mut self, request: &Request, fence: u64, inbox: &Inbox, now: Moment, clock: &mut u64) -> Reply {
        match &self.holder {
            Some(holder) if holder.token != request.token => {
                Reply::Acquire(Verdict::Busy { holder: holder.seen(now), place: None })
            }
            _ => {
                self.hold(&request.token, now, request.lasts(), inbox);
                if *clock < fence {
                    *clock = fence;
                    return Reply::Voted { clock: fence };
                }
                Reply::Voted { clock: fence.saturating_add(1).max(*clock) }
            }
        }
    }

    /// The token holds the lock. If it did before, the lock expires no sooner.
    fn hold(&mut self, token: &Token, now: Moment, lasts: Duration, inbox: &Inbox) {
        let expires = now.after(lasts);
        match &mut self.holder {
            Some(before) if before.token == *token => {
                before.expires = before.expires.max(expires);
                before.inbox = inbox.clone();
            }
            _ => self.holder = Some(Holding::new(token.clone(), now, expires, inbox.clone())),
        }
    }

    /// The lock was passed on: it is held under each of these tokens.
    fn is_held_by(&self, request: &Request) -> bool {
        self.is(&request.token) || request.other_tokens().iter().any(|other| self.is(other))
    }

    fn renew(&mut self, request: &Request, now: Moment, shortens: bool) -> Reply {
        if let Some(member) = self.inside.get_mut(&request.token) {
            let (before, expires) = (member.expires, now.after(request.lasts()));
            member.expires = if shortens { expires } else { expires.max(before) };
            member.is_claim = false;
            if member.expires < before {
                self.notify_next(&request.name, now);
            }
            return Reply::Done;
        }
        let is_held = self.is_held_by(request);
        match &mut self.holder {
            Some(holder) if is_held => {
                let token = request.holder();
                if holder.token != *token {
                    *holder = Holding::new(token.clone(), now, holder.expires, holder.inbox.clone());
                }
                let (before, expires) = (holder.expires, now.after(request.lasts()));
                holder.expires = if shortens { expires } else { expires.max(before) };
                if request.to_ticket {
                    (holder.since, holder.is_ticket) = (now, true);
                }
                if holder.expires < before {
                    self.notify_next(&request.name, now);
                }
                Reply::Done
            }
            _ => Reply::NotHeld,
        }
    }

    /// Tells the first two waiters when the lock expires in front of them, and the first of another
    /// process if these are of one.
    fn notify_next(&self, name: &Arc<str>, now: Moment) {
        let mut waiters = self.queue.iter();
        let (first, second) = (waiters.next(), waiters.next());
        let is_of_another =
            |waiter: &Waiter| first.is_some_and(|first| !first.inbox.same_channel(&waiter.inbox));
        let behind = if second.is_some_and(is_of_another) {
            None
        } else {
            waiters.find(|waiter| is_of_another(waiter))
        };
        for waiter in first.into_iter().chain(second).chain(behind) {
            let ends = self.holder.as_ref().map(|holder| holder.expires);
            let claim = ends.or_else(|| self.inside.next_end(waiter.limit)).map(|end| end.since(now));
            waiter.notify(name, PushKind::Next { claim: claim.unwrap_or_default(), at: server_time(now) });
        }
    }

    /// The process that got the lock last has let its lease end: it is stuck, and all its waiters
    /// leave the queue. A process that was only slow gets a message. Whoever asks is not stuck.
    fn evict_stalled(&mut self, name: &Arc<str>, asker: &Inbox) {
        if let Some(stuck) = self.claim.take()
            && !stuck.same_channel(asker)
        {
            self.drop_waiters_of(name, &stuck);
        }
    }

    /// Drops those that were let in beside others and whose lease is over.
    fn drop_expired(&mut self, name: &Arc<str>, asker: &Inbox, now: Moment) {
        for stuck in self.inside.drop_expired(now) {
            if !stuck.same_channel(asker) {
                self.drop_waiters_of(name, &stuck);
            }
        }
    }

    fn drop_waiters_of(&mut self, name: &Arc<str>, stuck: &Inbox) {
        self.queue.retain(|waiter| !waiter.inbox.same_channel(stuck));
        notify_place_lost(name, stuck);
    }

    fn release(&mut self, request: &Request, now: Moment, clock: &mut u64) -> Reply {
        let was_told = self.queue.iter().take(2).any(|waiter| waiter.token == request.token);
        self.queue.retain(|waiter| waiter.token != request.token);
        if self.inside.leave(&request.token) {
            self.admit_waiters(&request.name, None, now, clock);
            self.notify_next(&request.name, now);
            return Reply::Done;
        }
        if !self.is_held_by(request) {
            if !self.inside.is_empty() {
                // It may have stood in the way of those behind it.
                self.admit_waiters(&request.name, None, now, clock);
            }
            if was_told {
                self.notify_next(&request.name, now);
            }
            return Reply::NotHeld;
        }
        self.holder = None;
        self.admit_waiters(&request.name, None, now, clock);
        Reply::Done
    }

    /// One of several loses its place to an operator.
    fn revoke(&mut self, request: &Request, now: Moment, clock: &mut u64) -> Reply {
        let Some(inbox) = self.inside.get(&request.token).map(|member| member.inbox.clone()) else {
            return Reply::NotHeld;
        };
        let reply = self.release(request, now, clock);
        push_to_process(&request.name, PushKind::Revoked, request.token.clone(), &inbox);
        reply
    }

    /// The token has the lock, or a place.
    fn keeps(&self, token: &Token) -> bool {
        self.is(token) || self.queue.iter().any(|waiter| waiter.token == *token)
    }

    /// The waiters for a body that runs once leave the queue, because it is done.
    fn notify_done(&mut self, name: &Arc<str>) {
        self.queue.retain(|waiter| {
            // Its manager may have gone.
            let _ = waiter.once && waiter.notify(name, PushKind::Done);
            !waiter.once
        });
    }

    fn is_held(&self, now: Moment) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.expires > now) || self.inside.is_held(now)
    }

    /// The holder whom the request names has lost the lock to an operator.
    fn take_from(&mut self, request: &Request) -> Reply {
        match self.holder.take_if(|holder| holder.name() == request.token) {
            Some(holder) => {
                notify_taken_away(&request.name, holder.token, &holder.inbox);
                Reply::Done
            }
            None => Reply::NotHeld,
        }
    }

    /// The holder whom the request names, or any holder, has lost the lock to an operator.
    fn force_release(&mut self, request: &Request, now: Moment, clock: &mut u64) -> Reply {
        let found = self.found(now);
        if found.as_ref().is_some_and(|found| request.takes_from(&found.value)) {
            self.take_away(&request.name);
            self.admit_waiters(&request.name, None, now, clock);
        }
        Reply::Found(found)
    }

    /// All holders have lost the lock to an operator, or to a fault.
    fn take_away(&mut self, name: &Arc<str>) {
        let holder = self.holder.take().map(|holder| (holder.token, holder.inbox));
        let inside = self.inside.take_all().into_iter().map(|member| (member.token, member.inbox));
        for (token, inbox) in holder.into_iter().chain(inside) {
            notify_taken_away(name, token, &inbox);
        }
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.inside.is_empty()
    }

    /// Until when this token has the lock.
    fn expires(&self, token: &Token) -> Option<Moment> {
        let holder = self.holder.as_ref().filter(|holder| holder.token == *token);
        holder.map(|holder| holder.expires).or_else(|| self.inside.get(token).map(|member| member.expires))
    }

    fn watch(&self, token: &Token, now: Moment) -> Reply {
        match self.expires(token) {
            Some(expires) => Reply::HeldFor { left: expires.since(now) },
            None if self.is_free() => Reply::Free,
            None => Reply::NotHeld,
        }
    }

    fn found(&self, now: Moment) -> Option<Inspection> {
        (!self.is_free()).then(|| Inspection {
            holder: self.seen(Limit::ONE, now),
            value: self.holder.as_ref().map_or_else(|| self.inside.name(), Holding::name),
            waiters: u32::try_from(self.queue.len()).unwrap_or(u32::MAX),
            queue: self.queue.iter().take(100).map(|waiter| token::owner_of(waiter.token.value())).collect(),
            record: self.announced().cloned().map(Box::new),
            counted: self.inside.seen_one_by_one(now).map(Box::new),
        })
    }

    /// Returns what its holder has announced.
    fn announced(&self) -> Option<&Record> {
        self.record.as_ref().filter(|(token, _)| self.is(token)).map(|(_, record)| record)
    }

    fn leader(&self) -> Option<(Token, Option<u64>)> {
        let holder = self.holder.as_ref()?;
        Some((holder.token.clone(), self.announced().map(|record| record.term)))
    }

    fn announce(&mut self, request: &Request) -> Reply {
        if !self.is(&request.token) {
            return Reply::NotHeld;
        }
        let before = self.announced().map(|record| (record.term, record.since));
        self.record = request.kind.announcement().map(|announcement| {
            let (term, text) = (announcement.term, announcement.text.to_string());
            let since = before.filter(|(its_term, _)| *its_term == term).map(|(_, since)| since);
            let since = since.unwrap_or_else(|| wall_clock().saturating_sub(announcement.led_for));
            (request.token.clone(), Record { term, since, text })
        });
        Reply::Done
    }

    fn is(&self, token: &Token) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.token == *token)
    }

    /// A caller takes more permits than the central limit allows, and has none of them yet.
    fn takes_too_many(&self, request: &Request) -> bool {
        let limit = request.kind.limit();
        limit.takes_more_than(self.inside.central) && self.inside.get(&request.token).is_none()
    }

    /// The longest waiter, if there is room for it. One in front that takes more permits than the
    /// central limit allows leaves, and learns why when it asks.
    fn pop_next(&mut self, name: &Arc<str>) -> Option<Waiter> {
        let central = self.inside.central;
        let is_refused = |next: &Waiter| self.holder.is_none() && next.limit.takes_more_than(central);
        while self.queue.front().is_some_and(is_refused)
            && let Some(refused) = self.queue.pop_front()
        {
            notify_place_lost(name, &refused.inbox);
        }
        let has_room = |next: &Waiter| self.holder.is_none() && self.inside.has_room(next.limit);
        self.queue.front().is_some_and(has_room).then(|| self.queue.pop_front()).flatten()
    }

    /// Hands the free lock to the longest waiter that is still there, or lets in as many as there is
    /// room for. `caller` learns it from its reply.
    fn admit_waiters(&mut self, name: &Arc<str>, caller: Option<&Token>, now: Moment, clock: &mut u64) {
        let mut has_admitted = false;
        if self.holder.is_none() {
            self.claim = None;
        }
        while let Some(next) = self.pop_next(name) {
            let expires = now.after(next.ttl.min(CLAIM));
            let is_caller = caller == Some(&next.token);
            if next.limit.is_counted() {
                self.inside.add(Member::new(next.clone(), expires, true));
                let fence = self.inside.fence(now, clock);
                let granted = PushKind::Granted { fence, at: server_time(now), marked: false };
                if is_caller || next.notify(name, granted) {
                    has_admitted = true;
                } else {
                    self.inside.leave(&next.token);
                }
                continue;
            }
            self.claim = (!self.queue.is_empty()).then(|| next.inbox.clone());
            if is_caller {
                self.holder = Some(Holding::new(next.token, now, expires, next.inbox));
                return;
            }
            let fence = if next.fenced { next_fence(now, clock) } else { 0 };
            let marked = !self.queue.is_empty();
            if next.notify(name, PushKind::Granted { fence, at: server_time(now), marked }) {
                self.holder = Some(Holding::new(next.token, now, expires, next.inbox));
                has_admitted = true;
            }
        }
        if has_admitted {
            self.notify_next(name, now);
        }
    }
}

/// As a server matches: `*` any characters, `?` one character, `\\` escapes.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pattern = pattern.chars();
    match pattern.next() {
        None => text.is_empty(),
        Some('*') => {
            text.char_indices().any(|(at, _)| matches(pattern.as_str(), &text[at..]))
                || matches(pattern.as_str(), "")
        }
        Some('?') => matches_rest(pattern.as_str(), text, |_| true),
        Some('\\') => match pattern.next() {
            Some(escaped) => matches_rest(pattern.as_str(), text, |char| char == escaped),
            None => text == "\\",
        },
        Some(literal) => matches_rest(pattern.as_str(), text, |char| char == literal),
    }
}

fn matches_rest(pattern: &str, text: &str, first: impl Fn(char) -> bool) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(first) && matches(pattern, chars.as_str())
}

fn next_fence(now: Moment, clock: &mut u64) -> u64 {
    *clock = clock.saturating_add(1).max(server_time(now).0);
    *clock
}

/// The replies of a node that executes one request after the other.
fn one_by_one(requests: &[(Id, Request)], mut execute: impl FnMut(&Request) -> Reply) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(requests.len());
    for call in calls(requests) {
        let mut is_held = !matches!(call, [(_, Request { action: Action::AcquireNext { .. }, .. }), ..]);
        for (_, request) in call {
            let reply = if is_held { execute(request) } else { Reply::Acquire(Verdict::Skipped) };
            is_held = matches!(reply, Reply::Acquire(Verdict::Granted { .. } | Verdict::Claimed { .. }));
            replies.push(reply);
        }
    }
    replies
}

/// Without the feature `testing`, a node in memory never fails.
#[cfg(not(feature = "testing"))]
mod faults {
    use super::{
        Arc, Disconnected, Duration, HashMap, Id, Inbox, MemoryLock, MemoryNode, Moment, Replies, Request,
    };

    #[derive(Clone)]
    pub(super) enum Faults {}

    impl Faults {
        pub(super) fn none() -> Option<Self> {
            None
        }

        pub(super) fn renew_elsewhere(&self, _: &mut HashMap<Arc<str>, MemoryLock>, _: Moment) {
            match *self {}
        }

        pub(super) fn is_reachable(&self) -> bool {
            match *self {}
        }

        #[expect(clippy::unused_async, reason = "with the feature it waits")]
        pub(super) async fn connect(&self, _: Duration, _: &Inbox) -> Result<(), Disconnected> {
            match *self {}
        }

        pub(super) fn submit(&self, _: &MemoryNode, _: &[(Id, Request)], _: &Inbox) -> Replies {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests;
