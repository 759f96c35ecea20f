//! A Cluster: a link to each primary, and for each request the one that has its slot.
//!
//! Above here nobody knows of nodes. A request whose slot has moved is sent again where it is now; one whose connection
//! broke is sent again when there is a way to its slot. That may be done twice, because every script is idempotent by
//! its token. What cannot be delivered within the limit for answers is refused, and whoever asked tries again for as
//! long as it waits.

mod listing;
mod member;
mod redirect;
mod slot_map;
mod slot_queue;

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::link::TransportEvent;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::redis::discovery::{ClusterNodes, Layout};
use crate::engine::slots::{BySlot, Slot};
use crate::engine::timers::Timers;
use crate::token::Token;
use member::{Member, Route};
use slot_queue::{Deferred, InFlight, SlotQueue};

/// From node to node at most, before a request pauses: they do not agree yet.
const REDIRECTS: u32 = 4;

/// Which node has which slots is asked for this often at most, jittered.
const LEARN_AGAIN: Duration = Duration::from_millis(200);

/// Requests that are refused together, at most: others want to be heard in between.
const AT_ONCE: usize = 100;

type Learning = Pin<Box<dyn Future<Output = Result<Layout, Disconnected>> + Send>>;

pub(crate) struct Cluster {
    nodes: ClusterNodes,
    /// The longest that a node may take to answer, and a request to be delivered.
    limit: Duration,
    /// By number; a number is never used again while something is under way to its node.
    members: Vec<Option<Member>>,
    slot_map: BySlot<Option<usize>>,
    replicas: Vec<Arc<str>>,
    slot_queues: HashMap<Slot, SlotQueue>,
    /// Lanes in which something waits.
    stalled: BTreeSet<Slot>,
    /// Those of them whose first may be able to go.
    to_look_at: BTreeSet<Slot>,
    /// When to look at the others.
    timers: Timers<Slot>,
    /// Pages of nodes to which there is no connection yet, and no reason why not.
    listings: Vec<(Id, Request)>,
    sequence: u64,
    /// The member that is listened to first, in turn.
    first: usize,
    learning: Option<Learning>,
    learn_at: Option<Moment>,
    /// When that was asked for last.
    asked_at: Option<Moment>,
    /// How often.
    turn: usize,
    connected: bool,
    /// What all nodes can do to which there is a connection, as it was last told.
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
            slot_queues: HashMap::new(),
            stalled: BTreeSet::new(),
            to_look_at: BTreeSet::new(),
            timers: Timers::default(),
            listings: Vec::new(),
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

    /// True when a request for a lock has not been sent to any node; it will not be.
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
            self.to_look_at.insert(slot);
        }
        self.close_lane(slot);
        true
    }

    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        for (id, request) in requests {
            self.sequence += 1;
            if let Action::List { cursor } = request.action {
                self.send_page(now, id, &request, cursor);
                continue;
            }
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
        self.look_at_lanes(now);
        self.flush(cx, now);
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().flatten().filter_map(Member::due);
        links.chain(self.timers.next()).chain(self.learn_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(event);
            }
            let heard = self.learn(cx, now) | self.listen(cx, now);
            self.look_at_lanes(now);
            self.flush(cx, now);
            self.tell_abilities();
            if !heard && self.events.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// A caller does not know which node has its lock: it counts on what all can do. What was sent to a node says by its
    /// answer what that one did.
    fn tell_abilities(&mut self) {
        let up = self.members.iter().flatten().filter(|member| member.up);
        let common = up.filter_map(|member| member.abilities).reduce(Abilities::and);
        if let Some(abilities) = common.filter(|_| self.connected)
            && self.abilities.replace(abilities) != common
        {
            self.events.push_back(TransportEvent::Abilities(abilities));
        }
    }

    /// A new request, or one that has waited: on its way, or behind what waits.
    fn send_one(&mut self, now: Moment, deferred: Deferred) {
        let slot = deferred.in_flight.slot;
        let queue = self.slot_queues.entry(slot).or_insert_with(SlotQueue::new);
        let owner = *self.slot_map.get(slot);
        match owner.and_then(|node| Some((node, self.members.get_mut(node)?.as_mut()?))) {
            Some((node, member)) if member.up && queue.is_free(node) => {
                let is_first = !queue.is_under_way();
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
                self.close_lane(slot);
            }
            Some(_) => self.park(deferred),
            None => {
                queue.reason = Some(format!("no node of the Cluster has slot {}", slot.index()).into());
                self.park(deferred);
                self.learn_soon(now);
            }
        }
    }

    fn park(&mut self, deferred: Deferred) {
        let slot = deferred.in_flight.slot;
        self.stalled.insert(slot);
        self.to_look_at.insert(slot);
        self.slot_queues.entry(slot).or_insert_with(SlotQueue::new).park(deferred);
    }

    fn close_lane(&mut self, slot: Slot) {
        if let Some(queue) = self.slot_queues.get(&slot) {
            if !queue.is_waiting() {
                self.stalled.remove(&slot);
                self.to_look_at.remove(&slot);
                self.timers.set(slot, None);
            }
            if queue.is_empty() {
                self.slot_queues.remove(&slot);
            }
        }
    }

    /// There is another way, or none any more, to some of the nodes.
    fn look_at_all_lanes(&mut self) {
        self.to_look_at.clone_from(&self.stalled);
    }

    /// What can go now goes; what has waited for too long is refused.
    fn look_at_lanes(&mut self, now: Moment) {
        while let Some(slot) = self.timers.pop(now) {
            self.to_look_at.insert(slot);
        }
        for slot in std::mem::take(&mut self.to_look_at) {
            let Some(queue) = self.slot_queues.get_mut(&slot) else {
                continue;
            };
            for deferred in queue.take_overdue(now, self.limit) {
                let queue = self.slot_queues.get(&slot);
                let reason = queue
                    .and_then(|queue| queue.reason.clone())
                    .unwrap_or_else(|| format!("the Cluster gave no answer within {:?}", self.limit).into());
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
            // What has been looked at just now waits for a time, or for something to happen.
            self.to_look_at.remove(&slot);
            let due = self.slot_queues.get(&slot).and_then(|queue| queue.due(self.limit));
            self.timers.set(slot, due);
            self.close_lane(slot);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        for member in self.members.iter_mut().flatten() {
            member.flush(cx, now);
        }
    }

    /// Whoever asked may try again.
    fn refuse(&mut self, now: Moment, deferred: Deferred, reason: Arc<str>) {
        let refusal = if deferred.in_flight.unanswered {
            Refusal::OutcomeUnknown(reason)
        } else {
            Refusal::Transient(reason)
        };
        self.answer(now, deferred.id, deferred.request, Reply::Refused(refusal));
    }

    /// There is no connection to the node.
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
            Some(TransportEvent::Replies { sent, replies }) if *sent == now && replies.len() < AT_ONCE => {
                replies.push((id, request, reply));
            }
            _ => self
                .events
                .push_back(TransportEvent::Replies { sent: now, replies: vec![(id, request, reply)] }),
        }
    }
}
