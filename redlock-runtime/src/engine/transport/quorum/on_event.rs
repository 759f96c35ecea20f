//! The events of each node's link, and what they mean for the calls that await its answer.

use std::mem::discriminant;
use std::sync::Arc;

use super::{NO_CALLER, Quorum};
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request};
use crate::engine::transport::link::TransportEvent;
use crate::ground::clock::Moment;
use crate::ground::telemetry;

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
            if self.is_asked_again(node, call_id, &request) {
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
    fn is_asked_again(&self, node: usize, call_id: Id, request: &Request) -> bool {
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
}
