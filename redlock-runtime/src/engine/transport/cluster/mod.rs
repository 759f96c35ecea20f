//! A Cluster: a link to each primary, and for each request the one that has its slot.
//!
//! Above here nobody knows of nodes. A request whose slot has moved is sent again where it is now; one whose connection
//! broke is sent again when there is a way to its slot. That may be done twice, because every script is idempotent by
//! its token. What cannot be delivered within the limit for answers is refused, and whoever asked tries again for as
//! long as it waits.

mod member;
mod redirect;
mod scan;
mod slot_map;
mod slot_queue;

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::link::News;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::redis::discovery::{ClusterNodes, Layout};
use crate::engine::slots::{BySlot, Slot};
use crate::engine::timers::Timers;
use crate::token::Token;
use member::{Course, Member};
use slot_queue::{Flight, Lane, Parked};

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
    owners: BySlot<Option<usize>>,
    replicas: Vec<Arc<str>>,
    lanes: HashMap<Slot, Lane>,
    /// Lanes in which something waits.
    stalled: BTreeSet<Slot>,
    /// Those of them whose first may be able to go.
    to_look_at: BTreeSet<Slot>,
    /// When to look at the others.
    timers: Timers<Slot>,
    /// Pages of nodes to which there is no connection yet, and no reason why not.
    pages: Vec<(Id, Request)>,
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
    news: VecDeque<News>,
}

impl Cluster {
    pub(super) fn new(nodes: ClusterNodes, limit: Duration) -> Self {
        Self {
            nodes,
            limit,
            members: Vec::new(),
            owners: BySlot::filled(&None),
            replicas: Vec::new(),
            lanes: HashMap::new(),
            stalled: BTreeSet::new(),
            to_look_at: BTreeSet::new(),
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
            news: VecDeque::new(),
        }
    }

    /// Each member has room of its own.
    pub(super) fn room(&self) -> Option<usize> {
        self.connected.then_some(usize::MAX)
    }

    /// True when a request for a lock has not been sent to any node; it will not be.
    pub(super) fn take_back(&mut self, id: Id, name: &str, token: &Token) -> bool {
        let slot = Slot::of(name);
        let Some(lane) = self.lanes.get_mut(&slot) else {
            return false;
        };
        let waited = lane.take_back(token);
        if !waited {
            let member = self.members.get_mut(lane.node()).and_then(Option::as_mut);
            let Some(Course::Slot(mut flight)) = member.and_then(|member| member.take_back(id)) else {
                return false;
            };
            lane.back(&mut flight);
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
            let flight = Flight {
                sequence: self.sequence,
                slot,
                since: now,
                redirects: 0,
                unanswered: false,
                asking: false,
            };
            self.send_one(now, Parked { flight, id, request });
        }
        self.look_at_lanes(now);
        self.flush(cx, now);
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().flatten().filter_map(Member::due);
        links.chain(self.timers.next()).chain(self.learn_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<News> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Poll::Ready(news);
            }
            let heard = self.learn(cx, now) | self.listen(cx, now);
            self.look_at_lanes(now);
            self.flush(cx, now);
            self.tell_abilities();
            if !heard && self.news.is_empty() {
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
            self.news.push_back(News::Abilities(abilities));
        }
    }

    /// A new request, or one that has waited: on its way, or behind what waits.
    fn send_one(&mut self, now: Moment, parked: Parked) {
        let slot = parked.flight.slot;
        let lane = self.lanes.entry(slot).or_insert_with(Lane::new);
        let owner = *self.owners.get(slot);
        match owner.and_then(|node| Some((node, self.members.get_mut(node)?.as_mut()?))) {
            Some((node, member)) if member.up && lane.is_free(node) => {
                let is_first = !lane.is_under_way();
                lane.sent(node, &parked.flight);
                let Parked { flight, id, request } = parked;
                match request.action {
                    Action::Renew { .. } if is_first => member.push_urgent(flight, id, request),
                    _ => member.push(Course::Slot(flight), id, request),
                }
            }
            Some((_, Member { up: false, trouble: Some(trouble), .. })) => {
                let trouble = trouble.clone();
                self.refuse_for(now, parked, &trouble);
                self.close_lane(slot);
            }
            Some(_) => self.park(parked),
            None => {
                lane.reason = Some(format!("no node of the Cluster has slot {}", slot.index()).into());
                self.park(parked);
                self.learn_soon(now);
            }
        }
    }

    fn park(&mut self, parked: Parked) {
        let slot = parked.flight.slot;
        self.stalled.insert(slot);
        self.to_look_at.insert(slot);
        self.lanes.entry(slot).or_insert_with(Lane::new).park(parked);
    }

    fn close_lane(&mut self, slot: Slot) {
        if let Some(lane) = self.lanes.get(&slot) {
            if !lane.is_waiting() {
                self.stalled.remove(&slot);
                self.to_look_at.remove(&slot);
                self.timers.set(slot, None);
            }
            if lane.is_empty() {
                self.lanes.remove(&slot);
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
            let Some(lane) = self.lanes.get_mut(&slot) else {
                continue;
            };
            for parked in lane.take_overdue(now, self.limit) {
                let lane = self.lanes.get(&slot);
                let reason = lane
                    .and_then(|lane| lane.reason.clone())
                    .unwrap_or_else(|| format!("the Cluster gave no answer within {:?}", self.limit).into());
                self.refuse(now, parked, reason);
            }
            let member = self.owners.get(slot).and_then(|node| self.members.get(node)?.as_ref());
            let ready = match (member, self.lanes.get_mut(&slot)) {
                (Some(Member { up: true, .. } | Member { trouble: Some(_), .. }), Some(lane)) => {
                    lane.take_ready(now)
                }
                _ => Vec::new(),
            };
            for parked in ready {
                self.send_one(now, parked);
            }
            // What has been looked at just now waits for a time, or for something to happen.
            self.to_look_at.remove(&slot);
            let due = self.lanes.get(&slot).and_then(|lane| lane.due(self.limit));
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
    fn refuse(&mut self, now: Moment, parked: Parked, reason: Arc<str>) {
        let refusal =
            if parked.flight.unanswered { Refusal::Unanswered(reason) } else { Refusal::Later(reason) };
        self.answer(now, parked.id, parked.request, Reply::Refused(refusal));
    }

    /// There is no connection to the node.
    fn refuse_for(&mut self, now: Moment, parked: Parked, trouble: &Disconnected) {
        if trouble.turned_away && !parked.flight.unanswered {
            let refusal = Refusal::Never(Arc::clone(&trouble.reason));
            self.answer(now, parked.id, parked.request, Reply::Refused(refusal));
        } else {
            self.refuse(now, parked, Arc::clone(&trouble.reason));
        }
    }

    fn answer(&mut self, now: Moment, id: Id, request: Request, reply: Reply) {
        match self.news.back_mut() {
            Some(News::Replies { sent, replies }) if *sent == now && replies.len() < AT_ONCE => {
                replies.push((id, request, reply));
            }
            _ => self.news.push_back(News::Replies { sent: now, replies: vec![(id, request, reply)] }),
        }
    }
}
