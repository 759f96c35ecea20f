//! When a quorum counts as connected, and why it does not.

use super::Quorum;
use super::member::Member;
use crate::engine::protocol::Disconnected;
use crate::engine::transport::link::TransportEvent;
use crate::ground::capabilities::Abilities;
use crate::ground::clock::Moment;

impl Quorum {
    /// A node that is farther away than a quorum of the others does not count.
    pub(super) fn measure_round_trip(&mut self) {
        let mut round_trips: Vec<_> = self.members.iter().filter_map(Member::round_trip).collect();
        round_trips.sort_unstable();
        self.round_trip = round_trips.get(self.needed - 1).copied().unwrap_or_default();
    }

    /// Connected once a quorum of nodes is up, and each other node is up, has failed to connect, or
    /// takes too long. From then on, requests are refused one by one while nodes are down.
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
