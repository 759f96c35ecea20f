//! Redlock: a lock on several independent nodes. Who has the votes of a quorum has the lock.
//! <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>
//!
//! To the table it is a line like any other: a request comes in, is put to all nodes at once, and is answered once, as
//! soon as the answers decide it. A node that is silent costs nothing as long as a quorum is well. What an attempt
//! that failed has got is given back on all nodes, also on those that did not answer.
//!
//! There is no queue here: one queue for each node could hand a lock to several waiters. Waiters are woken by changes.

mod fence_estimate;
mod member;
mod member_waker;
mod quorum_call;
#[cfg(test)]
mod scenarios;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::link::{Link, TransportEvent};
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::redis::server_identity::ServerIdentities;
use crate::engine::settings::EngineSettings;
use crate::engine::timers::Timers;
use crate::telemetry;
use fence_estimate::FenceEstimate;
use member::Member;
use quorum_call::{Outcome, QuorumCall};

/// Of requests whose answer nobody waits for.
const NOBODY: Id = 0;

/// Locks of whose change not enough members have told are forgotten beyond this: it is a hint, and who waits looks from
/// time to time anyway.
const MOST_CHANGES: usize = 10_000;

/// What a node may tell before the next one has its turn.
const TURN: usize = 64;

pub(crate) struct Quorum {
    members: Vec<Member>,
    identities: Arc<ServerIdentities>,
    /// How many of them are a quorum.
    needed: usize,
    settings: EngineSettings,
    calls: HashMap<Id, QuorumCall>,
    /// In which ballot an attempt asks for its lock.
    asking: HashMap<Id, Id>,
    last_id: Id,
    timers: Timers,
    estimate: FenceEstimate,
    /// How long the answers of the nearest quorum take.
    round_trip: Duration,
    /// Which members have told of a change of a lock, a bit each.
    changes: HashMap<Arc<str>, u64>,
    connected: bool,
    /// When a quorum of members is there, and the others are not waited for any longer.
    begins_at: Option<Moment>,
    events: VecDeque<TransportEvent>,
}

impl Quorum {
    pub(super) fn new(links: Vec<Link>, identities: Arc<ServerIdentities>, settings: EngineSettings) -> Self {
        let members: Vec<Member> = links.into_iter().map(Member::new).collect();
        Self {
            needed: members.len() / 2 + 1,
            members,
            identities,
            settings,
            calls: HashMap::new(),
            asking: HashMap::new(),
            last_id: NOBODY,
            timers: Timers::default(),
            estimate: FenceEstimate::new(Moment::now()),
            round_trip: Duration::ZERO,
            changes: HashMap::new(),
            connected: false,
            begins_at: None,
            events: VecDeque::new(),
        }
    }

    /// How many requests a quorum of members has room for; one that is away needs none.
    pub(super) fn room(&self) -> usize {
        let mut rooms: Vec<usize> = self.members.iter().map(Member::room).collect();
        rooms.sort_unstable_by_key(|room| Reverse(*room));
        rooms.get(self.needed - 1).copied().unwrap_or(0)
    }

    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        for (id, request) in requests {
            self.put(now, id, request);
        }
        self.flush(cx, now);
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().filter_map(|member| member.link.due());
        links.chain(self.timers.next()).chain(self.begins_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        loop {
            while let Some(id) = self.timers.pop(now) {
                self.settle(now, id, true);
            }
            for node in 0..self.members.len() {
                // One that has much to tell takes turns with the others, and with whoever calls.
                for turn in 0.. {
                    let Poll::Ready(event) = self.members[node].poll(cx, now) else { break };
                    self.hear(now, node, event);
                    if turn == TURN {
                        cx.waker().wake_by_ref();
                        break;
                    }
                }
            }
            self.begin(now);
            self.flush(cx, now);
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(event);
            }
            if self.timers.next().is_none_or(|due| due > now) {
                return Poll::Pending;
            }
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        for member in &mut self.members {
            member.flush(cx, now);
        }
    }

    /// Puts a request to all nodes.
    fn put(&mut self, now: Moment, id: Id, request: Request) {
        // A caller that has gone: nothing more may be asked for behind the release.
        let vote = match request.action {
            Action::Release | Action::ExpireLater => self.withdraw(id),
            _ => None,
        };
        self.put_behind(now, id, request, vote);
    }

    /// `vote`: the ballot for the lock that is released; a node that has not been asked yet is not asked.
    fn put_behind(&mut self, now: Moment, id: Id, request: Request, vote: Option<Id>) {
        let action = match request.action {
            Action::Acquire(_) => Action::Vote { fence: self.estimate.next(now) },
            Action::Renew { shortens, .. } => Action::Repair { shortens },
            action => action,
        };
        if let Action::Vote { .. } | Action::Repair { .. } | Action::ExpireLater = action {
            self.settings.max_ttl = self.settings.max_ttl.max(request.ttl);
        }
        self.last_id += 1;
        let own_id = self.last_id;
        if let Action::Vote { .. } = action {
            self.asking.insert(id, own_id);
        }
        let mut call = QuorumCall::new(id, request, action, now, self.members.len());
        let question = call.question();
        for (node, member) in self.members.iter_mut().enumerate() {
            if vote.is_some_and(|vote| member.outbox.take_back(vote).is_some()) {
                call.answer(node, Reply::NotHeld);
            } else if let Some(reason) = member.absence() {
                call.absent(node, Arc::clone(reason));
                if action == Action::Release {
                    member.owe(now, question.clone());
                }
            } else if let (Action::Vote { .. }, Some(reason)) =
                (action, member.abstention(now, self.settings.max_ttl))
            {
                call.absent(node, reason);
            } else if let Some(question) = for_node(node, &question) {
                if let Action::Repair { .. } = action {
                    member.outbox.push_urgent((own_id, question));
                } else {
                    member.outbox.push((own_id, question));
                }
            } else {
                call.absent(node, "another node was asked".into());
            }
        }
        if let Action::Watch | Action::WatchHolder = action {
            self.changes.remove(&question.name);
        }
        let patience = match action {
            Action::Inspect | Action::ForceRelease | Action::List { .. } => self.settings.io_timeout,
            _ => self.patience(question.ttl),
        };
        self.timers.set(own_id, Some(now.after(patience)));
        self.calls.insert(own_id, call);
        self.settle(now, own_id, false);
    }

    /// How long an answer is waited for that is not needed if the others agree: as the settings say, but long enough for
    /// a quorum that is far away, and never a large part of the lease.
    fn patience(&self, ttl: Duration) -> Duration {
        let EngineSettings { node_timeout, io_timeout, .. } = self.settings;
        node_timeout.max(2 * self.round_trip).min(io_timeout).min(ttl / 4)
    }

    /// A node that is farther away than a quorum of the others is not waited for because of that.
    fn measure(&mut self) {
        let mut round_trips: Vec<_> = self.members.iter().filter_map(Member::round_trip).collect();
        round_trips.sort_unstable();
        self.round_trip = round_trips.get(self.needed - 1).copied().unwrap_or_default();
    }

    /// Whatever comes of what `id` asks for, nobody wants it any more.
    fn withdraw(&mut self, id: Id) -> Option<Id> {
        let own_id = self.asking.remove(&id)?;
        self.calls.remove(&own_id);
        self.timers.set(own_id, None);
        Some(own_id)
    }

    /// Ends a ballot that is decided. `over`: its time is up.
    fn settle(&mut self, now: Moment, own_id: Id, over: bool) {
        let Some(call) = self.calls.get_mut(&own_id) else {
            return;
        };
        let Some(outcome) = call.outcome(self.needed, over) else {
            return;
        };
        let reply = match outcome {
            Outcome::Reply(reply) => reply,
            Outcome::Confirm { fence } => {
                self.estimate.learn(now, fence);
                for node in call.confirm(fence) {
                    self.members[node].outbox.push((own_id, call.question()));
                }
                let ttl = call.request.ttl;
                self.timers.set(own_id, Some(now.after(self.patience(ttl))));
                return;
            }
        };
        let is_new = !std::mem::replace(&mut call.is_told, true);
        if call.action == Action::Release && call.awaits_any() && !over {
            // Decided, and still to be heard by the others: the engine does not end before.
            if is_new {
                let (id, request, sent) = (call.id, call.request.clone(), call.sent);
                self.tell(sent, id, request, reply);
            }
            return;
        }
        self.timers.set(own_id, None);
        let Some(call) = self.calls.remove(&own_id) else {
            return;
        };
        let failed = match call.action {
            Action::Vote { .. } | Action::RaiseFence { .. } => {
                self.asking.remove(&call.id);
                !matches!(reply, Reply::Granted { .. })
            }
            Action::Repair { .. } => reply == Reply::NotHeld,
            _ => false,
        };
        if failed {
            self.release_everywhere(now, own_id, &call.request);
        }
        let QuorumCall { id, request, sent, .. } = call;
        if is_new {
            let reply =
                next_page(self.passed_over(reply, request.action), request.action, self.members.len());
            self.tell(sent, id, request, reply);
        }
    }

    fn tell(&mut self, sent: Moment, id: Id, request: Request, reply: Reply) {
        if id != NOBODY {
            self.events.push_back(TransportEvent::Replies { sent, replies: vec![(id, request, reply)] });
        }
    }

    /// A node that lists nothing is passed over while a quorum of others does: one of those knows each lock.
    fn passed_over(&self, reply: Reply, action: Action) -> Reply {
        let (Reply::Refused(Refusal::Transient(_)), Action::List { cursor }) = (&reply, action) else {
            return reply;
        };
        let is_other = |node: usize| u64::try_from(node).is_ok_and(|node| node != cursor >> CURSOR_BITS);
        let others =
            self.members.iter().enumerate().filter(|(node, member)| is_other(*node) && member.is_up());
        if others.count() >= self.needed { Reply::Page { cursor: 0, names: Vec::new() } } else { reply }
    }

    /// On all nodes, also on those that did not answer: they may have heard.
    fn release_everywhere(&mut self, now: Moment, own_id: Id, request: &Request) {
        let release = Request { action: Action::Release, ..request.clone() };
        self.put_behind(now, NOBODY, release, Some(own_id));
    }

    /// True when nothing is on the way to a node.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && !self.members.iter().any(Member::is_owed)
    }

    fn hear(&mut self, now: Moment, node: usize, event: TransportEvent) {
        match event {
            TransportEvent::Connected { abilities, server_info } => {
                self.estimate.learn(now, server_info.clock);
                self.members[node].up(now, server_info, abilities.tracks_changes);
                self.measure();
            }
            TransportEvent::Unreachable(trouble) => {
                if self.members[node].absence() != Some(&trouble.reason) {
                    telemetry::unreachable(&trouble.reason);
                }
                self.identities.absent(node, &trouble.reason);
                self.members[node].unreachable(trouble.reason, trouble.is_permanent);
                self.unreachable();
            }
            TransportEvent::Broke { reason, unanswered } => {
                self.members[node].down(now, Arc::clone(&reason), unanswered);
                self.absent(now, node, &reason);
            }
            TransportEvent::Replies { replies, .. } => {
                for (own_id, request, reply) in replies {
                    self.answer(now, node, own_id, request, reply);
                }
            }
            TransportEvent::Changed(names) => self.changed(node, names),
            // Nobody waits in a queue of a node, and a lock is always at the same nodes.
            TransportEvent::Push(_) | TransportEvent::Returned(_) | TransportEvent::Abilities(_) => {}
        }
    }

    fn answer(&mut self, now: Moment, node: usize, own_id: Id, request: Request, reply: Reply) {
        if reply == Reply::Refused(Refusal::NoScript) {
            if self.is_asked_again(node, own_id, &request) {
                self.members[node].outbox.push((own_id, request));
            }
            return;
        }
        if own_id == NOBODY {
            self.members[node].paid();
            // Nobody's, but the engine may wait for it to end.
            self.events.push_back(TransportEvent::Replies { sent: now, replies: Vec::new() });
            return;
        }
        if let Reply::Voted { clock } = reply {
            self.estimate.learn(now, clock);
        }
        // A vote that comes after the second round has begun is none.
        if let Some(call) = self.calls.get_mut(&own_id)
            && discriminant(&call.action) == discriminant(&request.action)
        {
            call.answer(node, reply);
            self.settle(now, own_id, false);
        }
    }

    /// A node that has forgotten the script did nothing. What is sent again comes behind whatever was sent since: nothing
    /// that takes the lock may follow its release.
    fn is_asked_again(&self, node: usize, own_id: Id, request: &Request) -> bool {
        if request.action == Action::Release {
            return true;
        }
        let is_awaited = self.calls.get(&own_id).is_some_and(|call| {
            call.awaits(node) && discriminant(&call.action) == discriminant(&request.action)
        });
        let is_released = self
            .calls
            .values()
            .any(|call| call.action == Action::Release && call.request.token == request.token);
        is_awaited && !is_released
    }

    /// A node that has gone answers nothing any more.
    fn absent(&mut self, now: Moment, node: usize, reason: &Arc<str>) {
        let awaiting = self.calls.iter().filter(|(_, call)| call.awaits(node));
        for own_id in awaiting.map(|(own_id, _)| *own_id).collect::<Vec<_>>() {
            if let Some(call) = self.calls.get_mut(&own_id) {
                call.absent(node, Arc::clone(reason));
                self.settle(now, own_id, false);
            }
        }
    }

    /// The quorum is there once a quorum of nodes is, and the others are too, or are in trouble, or take too long. After
    /// that, it is each request that hears of absences.
    fn begin(&mut self, now: Moment) {
        let count = |is: fn(&Member) -> bool| self.members.iter().filter(|member| is(member)).count();
        let (up, in_trouble) = (count(Member::is_up), count(Member::is_in_trouble));
        if self.connected || up < self.needed || self.identities.refused().is_some() {
            self.begins_at = None;
            return;
        }
        let begins_at = *self.begins_at.get_or_insert(now.after(self.settings.node_timeout));
        if up + in_trouble < self.members.len() && now < begins_at {
            return;
        }
        self.connected = true;
        self.begins_at = None;
        let abilities = Abilities {
            hands_over: false,
            tracks_changes: count(Member::tracks_changes) >= self.needed,
            votes: true,
        };
        self.events
            .push_back(TransportEvent::Connected { abilities, server_info: self.estimate.server_info() });
    }

    fn unreachable(&mut self) {
        if let Some(reason) = self.identities.refused().filter(|_| !self.connected) {
            // Not what whoever wrote the addresses down wanted.
            self.events.push_back(TransportEvent::Unreachable(Disconnected { reason, is_permanent: true }));
            return;
        }
        let troubles: Vec<&Member> = self.members.iter().filter(|member| member.is_in_trouble()).collect();
        if self.connected || troubles.len() <= self.members.len() - self.needed {
            return;
        }
        let away = troubles.iter().filter(|member| member.is_permanent()).count();
        let reasons: Vec<&str> =
            troubles.iter().filter_map(|member| member.absence()).map(|reason| &**reason).collect();
        let (nodes, needed) = (self.members.len(), self.needed);
        let reason = format!("{needed} of {nodes} nodes are needed: {}", reasons.join("; ")).into();
        let is_permanent = away > nodes - needed;
        self.events.push_back(TransportEvent::Unreachable(Disconnected { reason, is_permanent }));
    }

    /// One node's change is no change of the lock: only when so many have told that no quorum may be left.
    fn changed(&mut self, node: usize, names: Option<Vec<Arc<str>>>) {
        let Some(names) = names else {
            // A flush: rare enough to compare at once.
            self.events.push_back(TransportEvent::Changed(None));
            return;
        };
        let enough = self.members.len() - self.needed + 1;
        let mut changed = Vec::new();
        for name in names {
            if self.changes.len() >= MOST_CHANGES {
                self.changes.clear();
            }
            let told = self.changes.entry(Arc::clone(&name)).or_default();
            *told |= 1 << node;
            if told.count_ones() as usize >= enough {
                self.changes.remove(&name);
                changed.push(name);
            }
        }
        if !changed.is_empty() {
            self.events.push_back(TransportEvent::Changed(Some(changed)));
        }
    }
}

/// Names are listed node by node: a lock is on a quorum of them, so no single node knows all. The upper bits of the
/// cursor say which node.
const NODE_BITS: u32 = 6;
const CURSOR_BITS: u32 = u64::BITS - NODE_BITS;

/// More nodes than this are no quorum that anybody could want.
pub(crate) const MOST_NODES: usize = 1 << NODE_BITS;

fn for_node(node: usize, question: &Request) -> Option<Request> {
    let Action::List { cursor } = question.action else {
        return Some(question.clone());
    };
    let action = Action::List { cursor: cursor & (u64::MAX >> NODE_BITS) };
    (u64::try_from(node).ok()? == cursor >> CURSOR_BITS).then(|| Request { action, ..question.clone() })
}

fn next_page(reply: Reply, action: Action, nodes: usize) -> Reply {
    match (reply, action) {
        (Reply::Page { cursor, names }, Action::List { cursor: asked }) => {
            let node = asked >> CURSOR_BITS;
            let is_last = usize::try_from(node).is_ok_and(|node| node + 1 >= nodes);
            let cursor = match cursor {
                0 if is_last => 0,
                0 => (node + 1) << CURSOR_BITS,
                more => node << CURSOR_BITS | more,
            };
            Reply::Page { cursor, names }
        }
        (reply, _) => reply,
    }
}
