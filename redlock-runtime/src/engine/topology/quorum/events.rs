//! The events of each node's link, and what they mean for the calls that await its answer and for
//! the connection of the quorum.
//!
//! An answer counts for the call that awaits it. A node that has lost its connection answers none
//! of its calls. A quorum is connected once enough nodes are up and no other one is still trying;
//! from then on, requests are refused one by one while nodes are down.

use std::mem::discriminant;
use std::sync::Arc;

use super::member::Member;
use super::tally::nth_smallest;
use super::{NO_CALLER, Quorum};
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::telemetry;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::topology::link::TransportEvent;

impl Quorum {
    pub(super) fn on_event(&mut self, now: Moment, node: usize, event: TransportEvent) {
        match event {
            TransportEvent::Connected { abilities, server_info } => {
                self.estimate.learn(now, server_info.clock);
                self.members[node].up(now, server_info, abilities.tracks_changes);
                self.measure_round_trip();
            }
            TransportEvent::Unreachable(trouble) => {
                if self.members[node].absence() != Some(&trouble.reason) {
                    telemetry::unreachable(&trouble.reason);
                }
                self.identities.absent(node, &trouble.reason);
                self.members[node].unreachable(trouble.reason, trouble.is_permanent);
                self.unreachable();
            }
            TransportEvent::Broke { reason, unanswered, .. } => {
                self.members[node].down(now, Arc::clone(&reason), unanswered);
                self.absent(now, node, &reason);
            }
            TransportEvent::Replies { requests, replies, .. } => {
                for ((call_id, request), reply) in requests.into_iter().zip(replies) {
                    self.on_reply(now, node, call_id, request, reply);
                }
            }
            TransportEvent::Changed(names) => self.changed(node, names),
            // Nodes have no queues, and a lock stays on its nodes.
            TransportEvent::Push(_)
            | TransportEvent::Returned(_)
            | TransportEvent::Abilities(_)
            | TransportEvent::Delayed { .. } => {}
        }
    }

    fn on_reply(&mut self, now: Moment, node: usize, call_id: Id, request: Request, reply: Reply) {
        if reply == Reply::Refused(Refusal::NoScript) {
            if self.sends_again(node, call_id, &request) {
                self.members[node].outbox.push((call_id, request));
            }
            return;
        }
        if call_id == NO_CALLER {
            self.members[node].owed_answered();
            // No caller waits for it, but the engine may wait to end.
            let (requests, replies) = (Vec::new(), Vec::new());
            self.events.push_back(TransportEvent::Replies { sent: now, requests, replies });
            return;
        }
        if let Reply::Voted { clock } = reply {
            self.estimate.learn(now, clock);
        }
        // A vote that comes after the second round has begun does not count.
        if let Some(call) = self.calls.get_mut(&call_id)
            && discriminant(&call.action) == discriminant(&request.action)
        {
            call.answer(node, reply);
            self.settle(now, call_id, false);
        }
    }

    /// A node without the script did nothing. The repeated request comes behind all that was sent
    /// since: one that takes the lock must not come behind its release.
    fn sends_again(&self, node: usize, call_id: Id, request: &Request) -> bool {
        if request.action == Action::Release {
            return true;
        }
        let is_awaited = self.calls.get(&call_id).is_some_and(|call| {
            call.awaits(node) && discriminant(&call.action) == discriminant(&request.action)
        });
        let is_released = self
            .calls
            .values()
            .any(|call| call.action == Action::Release && call.request.token == request.token);
        is_awaited && !is_released
    }

    /// The node will answer none of its calls.
    fn absent(&mut self, now: Moment, node: usize, reason: &Arc<str>) {
        let awaiting = self.calls.iter().filter(|(_, call)| call.awaits(node));
        for call_id in awaiting.map(|(call_id, _)| *call_id).collect::<Vec<_>>() {
            if let Some(call) = self.calls.get_mut(&call_id) {
                call.absent(node, Arc::clone(reason));
                self.settle(now, call_id, false);
            }
        }
    }

    /// Without names, any lock may have changed: a flush, which is rare enough to compare at once.
    pub(super) fn changed(&mut self, node: usize, names: Option<Vec<Arc<str>>>) {
        let changed = names.map(|names| self.changes.learn(node, names));
        if changed.as_ref().is_none_or(|changed| !changed.is_empty()) {
            self.events.push_back(TransportEvent::Changed(changed));
        }
    }

    /// A node that is farther away than a quorum of the others does not count.
    pub(super) fn measure_round_trip(&mut self) {
        let round_trips: Vec<_> = self.members.iter().filter_map(Member::round_trip).collect();
        self.round_trip = nth_smallest(&round_trips, self.needed).unwrap_or_default();
    }

    /// Connected once a quorum of nodes is up, and each other node is up, has failed to connect, or
    /// takes too long.
    pub(super) fn begin(&mut self, now: Moment) {
        let count = |is: fn(&Member) -> bool| self.members.iter().filter(|member| is(member)).count();
        let (up, failed) = (count(Member::is_up), count(Member::has_failed));
        if self.connected || up < self.needed || self.identities.refused().is_some() {
            self.begins_at = None;
            return;
        }
        let begins_at = *self.begins_at.get_or_insert(now.after(self.settings.node_timeout));
        if up + failed < self.members.len() && now < begins_at {
            return;
        }
        self.connected = true;
        self.begins_at = None;
        let abilities = Abilities {
            hands_over: false,
            tracks_changes: count(Member::tracks_changes) >= self.needed,
            votes: true,
            // One node of them may lose a lock.
            may_evict: false,
        };
        self.events
            .push_back(TransportEvent::Connected { abilities, server_info: self.estimate.server_info() });
    }

    /// Tells that the quorum cannot be reached, if so many nodes have failed.
    pub(super) fn unreachable(&mut self) {
        if let Some(reason) = self.identities.refused().filter(|_| !self.connected) {
            // The settings name one server twice.
            self.events.push_back(TransportEvent::Unreachable(Disconnected { reason, is_permanent: true }));
            return;
        }
        let failed: Vec<&Member> = self.members.iter().filter(|member| member.has_failed()).collect();
        if self.connected || failed.len() <= self.members.len() - self.needed {
            return;
        }
        let permanently = failed.iter().filter(|member| member.is_permanent()).count();
        let reasons: Vec<&str> =
            failed.iter().filter_map(|member| member.absence()).map(|reason| &**reason).collect();
        let (nodes, needed) = (self.members.len(), self.needed);
        let reason = format!("{needed} of {nodes} nodes are needed: {}", reasons.join("; ")).into();
        let is_permanent = permanently > nodes - needed;
        self.events.push_back(TransportEvent::Unreachable(Disconnected { reason, is_permanent }));
    }
}
