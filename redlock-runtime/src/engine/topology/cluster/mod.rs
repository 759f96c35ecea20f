//! A Cluster: a link to each primary, and for each request the one that has its slot.
//!
//! Callers see one transport. A request whose slot has moved is sent again to the new node, and one
//! whose connection broke is sent again once there is a connection to its slot: every script is
//! idempotent by its token. A request that reaches no node within the time limit is refused, and
//! its caller asks again for as long as it waits.

mod member;
mod primaries;
mod redirect;
mod slot_map;
mod slot_queue;

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::host::HashMap;

use super::link::TransportEvent;
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::span::Span;
use crate::base::token::Token;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::redis::node::cluster_layout::{ClusterNodes, Layout};
use crate::engine::slots::{BySlot, Slot};
use crate::engine::timers::Timers;
use member::{Member, Route};
use slot_queue::{Deferred, InFlight, SlotQueue};

/// Redirects in a row, at most: then a request pauses, because the nodes do not agree yet.
const REDIRECTS: u32 = 4;

/// The slot map is learnt this often at most, jittered.
const LEARN_AGAIN: Duration = Duration::from_millis(200);

/// Replies in one event, at most: the engine handles other events in between.
const REPLIES_PER_EVENT: usize = 100;

type Learning = Pin<Box<dyn Future<Output = Result<Layout, Disconnected>> + Send>>;

pub(crate) struct Cluster {
    nodes: ClusterNodes,
    /// How long a node may take to answer, and how long a request may wait for a node.
    limit: Duration,
    /// The members by number. A number is not used again while requests to its node are in flight.
    members: Vec<Option<Member>>,
    slot_map: BySlot<Option<usize>>,
    replicas: Vec<Arc<str>>,
    slot_queues: HashMap<Slot, SlotQueue>,
    /// The slots whose requests wait.
    stalled: BTreeSet<Slot>,
    /// The slots among these whose requests may be sent now.
    to_serve: BTreeSet<Slot>,
    /// When to serve the others.
    timers: Timers<Slot>,
    /// Pages of nodes that are being connected to for the first time.
    pages: Vec<(Id, Request)>,
    sequence: u64,
    /// The member that is polled first, in turn.
    first: usize,
    learning: Option<Learning>,
    learn_at: Option<Moment>,
    /// When the slot map was last asked for.
    asked_at: Option<Moment>,
    /// How often it was asked for.
    turn: usize,
    connected: bool,
    /// The abilities that all connected nodes have in common, as last told.
    abilities: Option<Abilities>,
    events: VecDeque<TransportEvent>,
}

impl Cluster {
    pub(super) fn new(nodes: ClusterNodes, limit: Duration) -> Self {
        Self {
            nodes,
            limit,
            members: Vec::new(),
            slot_map: BySlot::filled(&None),
            replicas: Vec::new(),
            slot_queues: HashMap::default(),
            stalled: BTreeSet::new(),
            to_serve: BTreeSet::new(),
            timers: Timers::default(),
            pages: Vec::new(),
            sequence: 0,
            first: 0,
            learning: None,
            learn_at: Some(Moment::now()),
            asked_at: None,
            turn: 0,
            connected: false,
            abilities: None,
            events: VecDeque::new(),
        }
    }

    /// Each member has room of its own.
    pub(super) fn room(&self) -> Option<usize> {
        self.connected.then_some(usize::MAX)
    }

    /// Removes a request for a lock. False if it may have been sent.
    pub(super) fn take_back(&mut self, id: Id, name: &str, token: &Token) -> bool {
        let slot = Slot::of(name);
        let Some(queue) = self.slot_queues.get_mut(&slot) else {
            return false;
        };
        let waited = queue.take_back(token);
        if !waited {
            let member = self.members.get_mut(queue.node()).and_then(Option::as_mut);
            let Some(Route::Slot(mut in_flight)) = member.and_then(|member| member.take_back(id)) else {
                return false;
            };
            queue.back(&mut in_flight);
            self.to_serve.insert(slot);
        }
        self.remove_if_done(slot);
        true
    }

    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        for (id, request) in requests {
            self.sequence += 1;
            if let Action::List { .. } = request.action {
                self.send_page(now, id, &request);
                continue;
            }
            let Some(request) = self.addressed(now, id, request) else {
                continue;
            };
            let slot = Slot::of(&request.name);
            let in_flight = InFlight {
                sequence: self.sequence,
                slot,
                since: now,
                redirects: 0,
                unanswered: false,
                asking: false,
            };
            self.send_one(now, Deferred { in_flight, id, request });
        }
        self.serve_queues(now);
        self.flush(cx, now);
    }

    pub(super) fn set_flushing(&mut self, is_flushing: bool) {
        self.members.iter_mut().flatten().for_each(|member| member.link.set_flushing(is_flushing));
    }

    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        self.members.iter_mut().flatten().for_each(|member| member.link.write(cx));
    }

    /// Connects to all nodes again. Their requests wait for that.
    pub(super) fn restart(&mut self, now: Moment) {
        for node in 0..self.members.len() {
            if let Some(broke) = self.members[node].as_mut().and_then(|member| member.link.restart()) {
                self.on_event(now, node, broke);
            }
        }
        if self.learning.take().is_some() {
            self.learn_at = Some(now);
        }
    }

    /// True while it connects, asks for the slot map, or awaits an answer.
    pub(super) fn is_busy(&self) -> bool {
        self.learning.is_some() || self.members.iter().flatten().any(|member| member.link.is_busy())
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().flatten().filter_map(|member| member.link.due());
        links.chain(self.timers.next()).chain(self.learn_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(event);
            }
            let had_event = self.learn(cx, now) | self.poll_members(cx, now);
            self.serve_queues(now);
            self.flush(cx, now);
            self.tell_abilities();
            if !had_event && self.events.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// A caller does not know which node has its lock, so it may rely only on what all nodes can
    /// do.
    fn tell_abilities(&mut self) {
        let up = self.members.iter().flatten().filter(|member| member.up);
        let common = up.filter_map(|member| member.abilities).reduce(Abilities::and);
        if let Some(abilities) = common.filter(|_| self.connected)
            && self.abilities.replace(abilities) != common
        {
            self.events.push_back(TransportEvent::Abilities(abilities));
        }
    }

    /// Sends a request that is new or has waited, or puts it behind those that wait.
    fn send_one(&mut self, now: Moment, deferred: Deferred) {
        let slot = deferred.in_flight.slot;
        let queue = self.slot_queues.entry(slot).or_insert_with(SlotQueue::new);
        let owner = *self.slot_map.get(slot);
        match owner.and_then(|node| Some((node, self.members.get_mut(node)?.as_mut()?))) {
            Some((node, member)) if member.up && queue.is_free(node) => {
                let is_first = !queue.has_in_flight();
                queue.sent(node, &deferred.in_flight);
                let Deferred { in_flight, id, request } = deferred;
                match request.action {
                    Action::Renew { .. } if is_first => member.push_urgent(in_flight, id, request),
                    _ => member.push(Route::Slot(in_flight), id, request),
                }
            }
            Some((_, Member { up: false, trouble: Some(trouble), .. })) => {
                let trouble = trouble.clone();
                self.refuse_for(now, deferred, &trouble);
                self.remove_if_done(slot);
            }
            Some(_) => self.defer(now, deferred),
            None => {
                let reason: Arc<str> = format!("no node of the Cluster has slot {}", slot.index()).into();
                queue.reason = Some(Arc::clone(&reason));
                self.tell_delay(&deferred, reason);
                self.defer(now, deferred);
                self.learn_soon(now);
            }
        }
    }

    /// A caller whose limit is over gets the reason for which its request waits.
    fn tell_delay(&mut self, deferred: &Deferred, reason: Arc<str>) {
        if deferred.request.action.takes() {
            self.events.push_back(TransportEvent::Delayed { id: deferred.id, reason });
        }
    }

    /// A request waits. One that a release makes pointless is refused: if it is all that its
    /// attempt has asked for, there is nothing to release, however long the slot has no node.
    fn defer(&mut self, now: Moment, deferred: Deferred) {
        let slot = deferred.in_flight.slot;
        self.stalled.insert(slot);
        self.to_serve.insert(slot);
        let withdrawn = self.slot_queues.entry(slot).or_insert_with(SlotQueue::new).defer(deferred);
        for ask in withdrawn.into_iter().filter(Deferred::is_undone_ask) {
            self.refuse(now, ask, "its caller has left".into());
        }
    }

    fn remove_if_done(&mut self, slot: Slot) {
        if let Some(queue) = self.slot_queues.get(&slot) {
            if !queue.is_waiting() {
                self.stalled.remove(&slot);
                self.to_serve.remove(&slot);
                self.timers.set(slot, None);
            }
            if queue.is_empty() {
                self.slot_queues.remove(&slot);
            }
        }
    }

    /// A connection was opened or has ended, or the slots have moved.
    fn serve_all_queues(&mut self) {
        self.to_serve.clone_from(&self.stalled);
    }

    /// Sends the requests that can be sent now, and refuses those that have waited for too long.
    fn serve_queues(&mut self, now: Moment) {
        while let Some(slot) = self.timers.pop(now) {
            self.to_serve.insert(slot);
        }
        for slot in std::mem::take(&mut self.to_serve) {
            let Some(queue) = self.slot_queues.get_mut(&slot) else {
                continue;
            };
            for deferred in queue.take_overdue(now, self.limit) {
                let queue = self.slot_queues.get(&slot);
                let reason = queue.and_then(|queue| queue.reason.clone()).unwrap_or_else(|| {
                    format!("the Cluster gave no answer within {}", Span(self.limit)).into()
                });
                self.refuse(now, deferred, reason);
            }
            let member = self.slot_map.get(slot).and_then(|node| self.members.get(node)?.as_ref());
            let ready = match (member, self.slot_queues.get_mut(&slot)) {
                (Some(Member { up: true, .. } | Member { trouble: Some(_), .. }), Some(queue)) => {
                    queue.take_ready(now)
                }
                _ => Vec::new(),
            };
            for deferred in ready {
                self.send_one(now, deferred);
            }
            // Until its timer, or another event.
            self.to_serve.remove(&slot);
            let due = self.slot_queues.get(&slot).and_then(|queue| queue.due(now, self.limit));
            self.timers.set(slot, due);
            self.remove_if_done(slot);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        for member in self.members.iter_mut().flatten() {
            member.flush(cx, now);
        }
    }

    /// The caller may ask again.
    fn refuse(&mut self, now: Moment, deferred: Deferred, reason: Arc<str>) {
        let refusal = if deferred.in_flight.unanswered {
            Refusal::OutcomeUnknown(reason)
        } else {
            Refusal::Transient(reason)
        };
        self.answer(now, deferred.id, deferred.request, Reply::Refused(refusal));
    }

    /// Refuses a request because there is no connection to its node.
    fn refuse_for(&mut self, now: Moment, deferred: Deferred, trouble: &Disconnected) {
        if trouble.is_permanent && !deferred.in_flight.unanswered {
            let refusal = Refusal::Permanent(Arc::clone(&trouble.reason));
            self.answer(now, deferred.id, deferred.request, Reply::Refused(refusal));
        } else {
            self.refuse(now, deferred, Arc::clone(&trouble.reason));
        }
    }

    fn answer(&mut self, now: Moment, id: Id, request: Request, reply: Reply) {
        match self.events.back_mut() {
            Some(TransportEvent::Replies { sent, requests, replies })
                if *sent == now && replies.len() < REPLIES_PER_EVENT =>
            {
                requests.push((id, request));
                replies.push(reply);
            }
            _ => {
                let (requests, replies) = (vec![(id, request)], vec![reply]);
                self.events.push_back(TransportEvent::Replies { sent: now, requests, replies });
            }
        }
    }
}
