//! Which node of a Cluster has which slots: asked for, followed, and told to whoever has locks there.

use std::sync::Arc;
use std::task::{Context, Poll};

use foldhash::{HashMap, HashMapExt};

use super::member::Member;
use super::{Cluster, LEARN_AGAIN};
use crate::clock::Moment;
use crate::engine::backoff::jittered;
use crate::engine::redis::discovery::Layout;
use crate::engine::slots::{BySlot, Slot, Slots};
use crate::engine::transport::link::TransportEvent;

impl Cluster {
    /// The node that another one named; without a host, it is at the host of that one.
    pub(super) fn address(&self, from: usize, to: &Arc<str>) -> Option<Arc<str>> {
        let (host, port) = to.rsplit_once(':')?;
        if !matches!(host, "" | "?") {
            return Some(Arc::clone(to));
        }
        let (host, _) = self.members.get(from)?.as_ref()?.address.rsplit_once(':')?;
        Some(format!("{host}:{port}").into())
    }

    /// The member at that address; if need be a new one, of which no more is known yet than some slots.
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

    /// A slot has moved to a node; if there is no way to it yet, that is told when there is.
    pub(super) fn has_moved(&mut self, slot: Slot, to: usize) {
        if matches!(self.members.get(to), Some(Some(Member { up: true, .. }))) {
            let mut moved = Slots::none();
            moved.insert(slot);
            self.events.push_back(TransportEvent::Returned(moved));
        }
    }

    /// There is a way to a node again.
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

    /// Asks which node has which slots, unless that was asked a moment ago: then a moment later.
    pub(super) fn learn_soon(&mut self, now: Moment) {
        if self.learning.is_none() && self.learn_at.is_none() {
            let lately = self.asked_at.is_some_and(|at| now.since(at) < LEARN_AGAIN);
            self.learn_at = Some(if lately { now.after(jittered(LEARN_AGAIN)) } else { now });
        }
    }

    /// True when something was learnt.
    pub(super) fn learn(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.learn_at.is_some_and(|at| at <= now) {
            (self.learn_at, self.asked_at) = (None, Some(now));
            let members = self.members.iter().flatten().map(|member| &member.address);
            let mut known: Vec<Arc<str>> = members.chain(&self.replicas).cloned().collect();
            // Not always the same one first, which may be behind the times.
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

    /// From now on, requests go where this says.
    fn adopt(&mut self, now: Moment, layout: &Layout) {
        let before: Vec<Option<usize>> = self.slot_map.iter().map(|(_, owner)| *owner).collect();
        self.slot_map = BySlot::filled(&None);
        let mut slots: HashMap<usize, (Slot, Slot)> = HashMap::new();
        for (first, last, address) in &layout.ranges {
            let Some(node) = self.member_at(address, None) else {
                continue;
            };
            for slot in first.to(*last) {
                *self.slot_map.get_mut(slot) = Some(node);
            }
            // The inbox lives in the last one: a reshard that takes a part of the slots begins with the first.
            let slots = slots.entry(node).or_insert((*last, *first));
            *slots = (slots.0.max(*last), slots.1.min(*first));
        }
        self.replicas.clone_from(&layout.replicas);
        self.look_at_all_lanes();
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

    /// A member whose inbox lives elsewhere now connects anew; one that has no slots goes.
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

    /// The slot of a member's inbox has moved: from now on, it lives in another one of its slots.
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
