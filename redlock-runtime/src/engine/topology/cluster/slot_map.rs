//! Which node of a Cluster has which slots: learnt from the nodes, and told to the table when slots
//! have moved.
//!
//! The map is asked for at the start, after a redirect, and when a node cannot be reached; of
//! several reasons within a short time one question comes. Each question starts with another node,
//! because one of them may be out of date. A slot whose node has changed is reported as returned
//! once that node is connected, and the table then asks for its locks again.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::base::host::HashMap;

use super::member::Member;
use super::{Cluster, LEARN_AGAIN};
use crate::base::clock::Moment;
use crate::engine::redis::node::cluster_layout::{Layout, MOST_PRIMARIES};
use crate::engine::slots::{BySlot, Slot, Slots};
use crate::engine::timers::jittered;
use crate::engine::topology::link::TransportEvent;

impl Cluster {
    /// The address that a node named; without a host, it is at the host of that node.
    pub(super) fn address(&self, from: usize, to: &Arc<str>) -> Option<Arc<str>> {
        let (host, port) = to.rsplit_once(':')?;
        if !matches!(host, "" | "?") {
            return Some(Arc::clone(to));
        }
        let (host, _) = self.members.get(from)?.as_ref()?.address.rsplit_once(':')?;
        Some(format!("{host}:{port}").into())
    }

    /// The member at the address to which a node redirects. `None` when there are so many that no
    /// Cluster has them: a node may name another one each time.
    pub(super) fn redirected_to(&mut self, address: &Arc<str>, slots: Option<(Slot, Slot)>) -> Option<usize> {
        let has_room = self.members.iter().flatten().count() < MOST_PRIMARIES;
        if has_room || self.members.iter().flatten().any(|member| member.address == *address) {
            self.member_at(address, slots)
        } else {
            None
        }
    }

    /// The member at that address. A new one has these slots until the slot map is learnt.
    pub(super) fn member_at(&mut self, address: &Arc<str>, slots: Option<(Slot, Slot)>) -> Option<usize> {
        let known = |member: &Option<Member>| member.as_ref().is_some_and(|known| known.address == *address);
        if let Some(node) = self.members.iter().position(known) {
            return Some(node);
        }
        let node = self.nodes.node_at(address, slots)?;
        let member = Some(Member::new(Arc::clone(address), slots, node, self.limit));
        if let Some(free) = self.members.iter().position(Option::is_none) {
            self.members[free] = member;
            return Some(free);
        }
        self.members.push(member);
        Some(self.members.len() - 1)
    }

    /// A slot has moved to a node. If that is not connected yet, [`Self::returned`] tells later.
    pub(super) fn move_slot(&mut self, slot: Slot, to: usize) {
        if matches!(self.members.get(to), Some(Some(Member { up: true, .. }))) {
            let mut moved = Slots::none();
            moved.insert(slot);
            self.events.push_back(TransportEvent::Returned(moved));
        }
    }

    /// A node is connected again.
    pub(super) fn returned(&mut self, node: usize) {
        let mut slots = Slots::none();
        for (slot, _) in self.slot_map.iter().filter(|(_, owner)| **owner == Some(node)) {
            slots.insert(slot);
        }
        self.tell_of(slots);
    }

    fn tell_of(&mut self, slots: Slots) {
        if !slots.is_empty() {
            self.events.push_back(TransportEvent::Returned(slots));
        }
    }

    /// Asks for the slot map, but a moment later if it was asked for a moment ago.
    pub(super) fn learn_soon(&mut self, now: Moment) {
        if self.learning.is_none() && self.learn_at.is_none() {
            let lately = self.asked_at.is_some_and(|at| now.since(at) < LEARN_AGAIN);
            self.learn_at = Some(if lately { now.after(jittered(LEARN_AGAIN)) } else { now });
        }
    }

    /// True when a node has answered, or none did.
    pub(super) fn learn(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.learn_at.is_some_and(|at| at <= now) {
            (self.learn_at, self.asked_at) = (None, Some(now));
            let members = self.members.iter().flatten().map(|member| &member.address);
            let mut known: Vec<Arc<str>> = members.chain(&self.replicas).cloned().collect();
            // Another node first each time: one may be out of date.
            self.turn += 1;
            let turn = self.turn % known.len().max(1);
            known.rotate_left(turn);
            self.learning = Some(Box::pin(self.nodes.learn(&known, self.limit)));
        }
        let Some(learning) = &mut self.learning else {
            return false;
        };
        let Poll::Ready(layout) = learning.as_mut().poll(cx) else {
            return false;
        };
        self.learning = None;
        match layout {
            Ok(layout) => self.adopt(now, &layout),
            Err(trouble) => {
                if !self.connected {
                    self.events.push_back(TransportEvent::Unreachable(trouble));
                }
                self.learn_soon(now);
            }
        }
        true
    }

    /// From now on, requests go by this map.
    fn adopt(&mut self, now: Moment, layout: &Layout) {
        let before: Vec<Option<usize>> = self.slot_map.iter().map(|(_, owner)| *owner).collect();
        self.slot_map = BySlot::filled(&None);
        let mut slots: HashMap<usize, (Slot, Slot)> = HashMap::default();
        for (first, last, address) in &layout.ranges {
            let Some(node) = self.member_at(address, None) else {
                continue;
            };
            for slot in first.to(*last) {
                *self.slot_map.get_mut(slot) = Some(node);
            }
            // The inbox lives in the last slot: a reshard that takes some slots begins with the
            // first.
            let slots = slots.entry(node).or_insert((*last, *first));
            *slots = (slots.0.max(*last), slots.1.min(*first));
        }
        self.replicas.clone_from(&layout.replicas);
        self.serve_all_queues();
        for node in 0..self.members.len() {
            self.settle(now, node, slots.get(&node).copied());
        }
        self.send_pages(now);
        let mut moved = Slots::none();
        for ((slot, owner), before) in self.slot_map.iter().zip(before) {
            let up = owner.is_some_and(|owner| self.members[owner].as_ref().is_some_and(|member| member.up));
            if up && *owner != before && before.is_some() {
                moved.insert(slot);
            }
        }
        self.tell_of(moved);
    }

    /// A member that has lost the slot of its inbox connects again, and one without slots is
    /// removed.
    fn settle(&mut self, now: Moment, node: usize, slots: Option<(Slot, Slot)>) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        let inbox_stays = match (member.slots, slots) {
            (Some((home, _)), Some(_)) => *self.slot_map.get(home) == Some(node),
            (None, Some(_)) => false,
            (_, None) => {
                if member.is_idle() {
                    self.members[node] = None;
                }
                return;
            }
        };
        if !inbox_stays && let Some(there) = self.nodes.node_at(&member.address, slots) {
            let sent = member.replace(slots, there);
            self.unanswered(now, node, sent);
        }
    }

    /// The slot of a member's inbox has moved: from now on, the inbox lives in another slot of the
    /// member.
    pub(super) fn move_inbox(&mut self, now: Moment, node: usize) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        let moved = member.slots.map(|(home, _)| home);
        let others =
            self.slot_map.iter().filter(|(slot, owner)| **owner == Some(node) && Some(*slot) != moved);
        let others: Vec<Slot> = others.map(|(slot, _)| slot).collect();
        let slots = others.last().copied().zip(others.first().copied());
        if let Some(there) = self.nodes.node_at(&member.address, slots) {
            let sent = member.replace(slots, there);
            self.unanswered(now, node, sent);
        }
    }
}
