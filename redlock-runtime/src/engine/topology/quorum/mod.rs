//! Redlock: a lock on several independent nodes. The caller that has the votes of a quorum holds
//! the lock.
//! <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>
//!
//! The table sees one transport. A request goes to all nodes at once and is answered once, as soon
//! as their answers decide it, so a silent node costs no time while a quorum answers. A failed
//! attempt is released on all nodes, also on those that did not answer, because they may have
//! granted it.
//!
//! Nodes have no queues of waiters: each could hand the lock to another waiter. Changes of the lock
//! wake waiters.

mod events;
mod member;
mod observed;
mod quorum_call;

#[cfg(test)]
mod scenarios;
mod tally;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::host::HashMap;

use super::link::{Link, TransportEvent};
use super::listing;
use crate::base::clock::Moment;
use crate::base::span::Span;
use crate::engine::EngineSettings;
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request, Verdict};
use crate::engine::redis::connect::server_identity::ServerIdentities;
use crate::engine::timers::Timers;
use member::Member;
use observed::{Changes, FenceEstimate};
use quorum_call::QuorumCall;
use tally::{Outcome, nth_smallest};

pub(super) use observed::MOST_NODES;

/// The id of a release that no caller waits for.
const NO_CALLER: Id = 0;

/// Events of one node in a row, at most: then the next node has its turn.
const EVENTS_IN_A_ROW: usize = 64;

pub(crate) struct Quorum {
    members: Vec<Member>,
    identities: Arc<ServerIdentities>,
    /// How many nodes are a quorum.
    needed: usize,
    settings: EngineSettings,
    calls: HashMap<Id, QuorumCall>,
    /// The call that votes for each attempt.
    voting: HashMap<Id, Id>,
    last_call: Id,
    timers: Timers,
    estimate: FenceEstimate,
    /// How long the nearest quorum takes to answer.
    round_trip: Duration,
    changes: Changes,
    connected: bool,
    /// When to begin without the nodes that are still missing.
    begins_at: Option<Moment>,
    events: VecDeque<TransportEvent>,
}

impl Quorum {
    pub(super) fn new(
        links: Vec<Link>,
        identities: Arc<ServerIdentities>,
        settings: EngineSettings,
        now: Moment,
    ) -> Self {
        let members: Vec<Member> = links.into_iter().map(Member::new).collect();
        let needed = members.len() / 2 + 1;
        Self {
            needed,
            identities,
            settings,
            calls: HashMap::default(),
            voting: HashMap::default(),
            last_call: NO_CALLER,
            timers: Timers::default(),
            estimate: FenceEstimate::new(now),
            round_trip: Duration::ZERO,
            changes: Changes::new(members.len() - needed + 1),
            connected: false,
            begins_at: None,
            events: VecDeque::new(),
            members,
        }
    }

    /// Returns how many requests a quorum of nodes has room for. A node that is down needs none.
    pub(super) fn room(&self) -> usize {
        let rooms: Vec<_> = self.members.iter().map(|member| Reverse(member.room())).collect();
        nth_smallest(&rooms, self.needed).map_or(0, |Reverse(room)| room)
    }

    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        for (id, request) in requests {
            self.put(now, id, request);
        }
        self.flush(cx, now);
    }

    pub(super) fn set_flushing(&mut self, is_flushing: bool) {
        self.members.iter_mut().for_each(|member| member.link.set_flushing(is_flushing));
    }

    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        self.members.iter_mut().for_each(|member| member.write(cx));
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().filter_map(|member| member.link.due());
        links.chain(self.timers.next()).chain(self.begins_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        loop {
            self.end_overdue(now);
            for node in 0..self.members.len() {
                for count in 0.. {
                    let Poll::Ready(event) = self.members[node].poll(cx, now) else { break };
                    self.on_event(now, node, event);
                    if count == EVENTS_IN_A_ROW {
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
        // The attempt may still be voted for: no vote may follow its release.
        let vote = match request.action {
            Action::Release | Action::ExpireLater => self.withdraw(id),
            _ => None,
        };
        self.put_after(now, id, request, vote);
    }

    /// `vote`: the call that voted for the lock which this request releases. A node that was not
    /// sent the vote yet is sent neither.
    fn put_after(&mut self, now: Moment, id: Id, request: Request, vote: Option<Id>) {
        let action = self.action_on_nodes(now, request.action);
        if let Action::Vote { .. } | Action::Repair { .. } | Action::ExpireLater = action {
            self.settings.max_ttl = self.settings.max_ttl.max(request.ttl);
        }
        self.last_call += 1;
        let call_id = self.last_call;
        if let Action::Vote { .. } = action {
            self.voting.insert(id, call_id);
        }
        let mut call = QuorumCall::new(id, request, action, now, self.members.len());
        let request = call.node_request();
        let page = listing::for_node(&request);
        for (node, member) in self.members.iter_mut().enumerate() {
            if vote.is_some_and(|vote| member.outbox.take_back(vote).is_some()) {
                call.answer(node, Reply::NotHeld);
            } else if let Some(reason) = member.absence() {
                call.absent(node, Arc::clone(reason));
                if action == Action::Release {
                    member.owe(now, request.clone());
                }
            } else if let (Action::Vote { .. }, Some(reason)) =
                (action, member.abstention(now, self.settings.max_ttl))
            {
                call.absent(node, reason);
            } else if let Action::Repair { .. } = action {
                member.outbox.push_urgent((call_id, request.clone()));
            } else if let Some((listed, page)) = &page {
                if *listed == node {
                    member.outbox.push((call_id, page.clone()));
                } else {
                    call.absent(node, "another node was asked".into());
                }
            } else {
                member.outbox.push((call_id, request.clone()));
            }
        }
        if let Action::Watch | Action::WatchHolder = action {
            self.changes.forget(&request.name);
        }
        self.timers.set(call_id, Some(now.after(self.first_limit(&call.request))));
        self.calls.insert(call_id, call);
        self.settle(now, call_id, false);
    }

    /// Returns the action that the nodes get first.
    fn action_on_nodes(&mut self, now: Moment, action: Action) -> Action {
        match action {
            Action::Acquire(mode) => Action::Vote { fence: self.estimate.next(now), late: mode.is_late() },
            Action::Renew { shortens, .. } => Action::Repair { shortens },
            // Then it takes away what it has seen: a request that arrives late must not hit a later
            // holder. The nodes keep no record of a leader.
            Action::ForceRelease | Action::Leader => Action::Inspect,
            action => action,
        }
    }

    /// The time limit of the first round.
    fn first_limit(&self, request: &Request) -> Duration {
        match request.action {
            Action::Inspect | Action::Leader | Action::List { .. } | Action::Ping { .. } => {
                self.settings.io_timeout
            }
            // For each of two rounds.
            Action::ForceRelease => self.settings.io_timeout / 2,
            _ => self.time_limit(request.ttl),
        }
    }

    /// Returns how long a call waits for an answer that it does not need if the others agree: as
    /// the settings say, but long enough for a quorum that is far away, and never a large part of
    /// the lease.
    fn time_limit(&self, ttl: Duration) -> Duration {
        let EngineSettings { node_timeout, io_timeout, .. } = self.settings;
        node_timeout.max(2 * self.round_trip).min(io_timeout).min(ttl / 4)
    }

    /// Ends the calls whose answers have not come in time.
    fn end_overdue(&mut self, now: Moment) {
        while let Some(call_id) = self.timers.pop(now) {
            self.notes_a_short_ttl(call_id);
            self.settle(now, call_id, true);
        }
    }

    /// A vote that has come to its limit gets its outcome, if its ttl leaves less time than
    /// answers take.
    fn notes_a_short_ttl(&mut self, call_id: Id) {
        let Some(call) = self.calls.get_mut(&call_id) else {
            return;
        };
        let limit = call.request.ttl / 4;
        if let Action::Vote { .. } | Action::RaiseFence { .. } = call.action
            && limit < self.round_trip
        {
            let reason = format!(
                "no answer within {}, a quarter of the ttl: a `ttl` must be several times as long as a round \
                 trip",
                Span(limit)
            );
            let reason = Arc::<str>::from(reason);
            for node in 0..self.members.len() {
                if call.awaits(node) {
                    call.absent(node, Arc::clone(&reason));
                }
            }
        }
    }

    /// Ends the vote for the attempt `id`: its caller has gone.
    fn withdraw(&mut self, id: Id) -> Option<Id> {
        let call_id = self.voting.remove(&id)?;
        self.calls.remove(&call_id);
        self.timers.set(call_id, None);
        Some(call_id)
    }

    /// Ends a call that is decided.
    fn settle(&mut self, now: Moment, call_id: Id, timed_out: bool) {
        let Some(call) = self.calls.get_mut(&call_id) else {
            return;
        };
        let Some(outcome) = call.outcome(self.needed, timed_out) else {
            return;
        };
        let reply = match outcome {
            Outcome::Reply(reply) => reply,
            Outcome::RaiseFence { fence } => {
                self.estimate.learn(now, fence);
                for node in call.raise_fence(fence) {
                    self.members[node].outbox.push((call_id, call.node_request()));
                }
                let ttl = call.request.ttl;
                self.timers.set(call_id, Some(now.after(self.time_limit(ttl))));
                return;
            }
            Outcome::TakeAway(holder) => {
                for (node, value) in call.take_away(holder) {
                    let member = &mut self.members[node];
                    match member.absence() {
                        Some(reason) => call.absent(node, Arc::clone(reason)),
                        None => {
                            member.outbox.push((call_id, Request { token: value, ..call.node_request() }));
                        }
                    }
                }
                self.timers.set(call_id, Some(now.after(self.settings.io_timeout / 2)));
                self.settle(now, call_id, false);
                return;
            }
        };
        self.answer(now, call_id, reply, timed_out);
    }

    /// Gives the caller its reply, and ends the call once no node need be heard.
    fn answer(&mut self, now: Moment, call_id: Id, reply: Reply, timed_out: bool) {
        let Some(call) = self.calls.get_mut(&call_id) else {
            return;
        };
        let was_answered = std::mem::replace(&mut call.is_answered, true);
        let is_to_be_heard = matches!(call.action, Action::Release | Action::TakeAway);
        if is_to_be_heard && call.awaits_any() && !timed_out {
            // The caller has its answer; the call stays, so that the engine does not end before the
            // other nodes have heard.
            if !was_answered {
                let (id, request, sent) = (call.id, call.request.clone(), call.sent);
                self.reply(sent, id, request, reply);
            }
            return;
        }
        self.timers.set(call_id, None);
        let Some(call) = self.calls.remove(&call_id) else {
            return;
        };
        let has_failed = match call.action {
            Action::Vote { .. } | Action::RaiseFence { .. } => {
                self.voting.remove(&call.id);
                !matches!(reply, Reply::Acquire(Verdict::Granted { .. }))
            }
            Action::Repair { .. } => reply == Reply::NotHeld,
            _ => false,
        };
        if has_failed {
            self.release_everywhere(now, call_id, &call.request);
        }
        let QuorumCall { id, request, sent, .. } = call;
        if !was_answered {
            let reply = match request.action {
                Action::List { cursor, .. } => self.page(listing::node_of(cursor), reply),
                _ => reply,
            };
            self.reply(sent, id, request, reply);
        }
    }

    fn reply(&mut self, sent: Moment, id: Id, request: Request, reply: Reply) {
        if id != NO_CALLER {
            let (requests, replies) = (vec![(id, request)], vec![reply]);
            self.events.push_back(TransportEvent::Replies { sent, requests, replies });
        }
    }

    /// The page of `node`. A node that is down is skipped while a quorum of the others is up: one
    /// of them has each lock.
    fn page(&self, node: usize, reply: Reply) -> Reply {
        let others =
            self.members.iter().enumerate().filter(|(other, member)| *other != node && member.is_up());
        let reply = match reply {
            Reply::Refused(Refusal::Transient(_)) if others.count() >= self.needed => {
                Reply::Page { cursor: 0, names: Vec::new() }
            }
            reply => reply,
        };
        listing::page(node, self.members.len(), reply)
    }

    /// Releases it on all nodes: those that did not answer may have granted the lock.
    fn release_everywhere(&mut self, now: Moment, vote: Id, request: &Request) {
        let release = Request { action: Action::Release, ..request.clone() };
        self.put_after(now, NO_CALLER, release, Some(vote));
    }

    /// Connects to all nodes again. True when it was connected.
    pub(super) fn restart(&mut self, now: Moment) -> bool {
        for node in 0..self.members.len() {
            if let Some(broke) = self.members[node].link.restart() {
                self.on_event(now, node, broke);
            }
        }
        self.begins_at = None;
        std::mem::take(&mut self.connected)
    }

    /// True when nothing is on its way to a node.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && !self.members.iter().any(Member::is_owed)
    }
}
