//! One primary of a Cluster: the link to it, and what is on its way there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::lanes::Flight;
use crate::clock::Moment;
use crate::engine::Id;
use crate::engine::link::{Link, News, Node};
use crate::engine::node::RedisNode;
use crate::engine::protocol::{Abilities, Disconnected, Request};
use crate::engine::slots::Slot;

/// A request for one slot, or for a page of all the locks of one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course {
    Slot(Flight),
    Page { node: u64 },
}

pub(super) struct Member {
    /// `host:port`
    pub(super) address: Arc<str>,
    /// The slot in which its inbox lives, and another one that it has.
    pub(super) slots: Option<(Slot, Slot)>,
    pub(super) up: bool,
    /// What its last connection can do.
    pub(super) abilities: Option<Abilities>,
    /// Why the last attempt to connect failed; `None` while nobody knows, and while it is up.
    pub(super) trouble: Option<Disconnected>,
    link: Link,
    /// What is to be sent, each with whether it has to say that it was sent here.
    outbox: VecDeque<(bool, Id, Request)>,
    /// What is on its way, then what is in the outbox, in the order of the link.
    courses: VecDeque<Course>,
}

impl Member {
    pub(super) fn new(
        address: Arc<str>,
        slots: Option<(Slot, Slot)>,
        node: RedisNode,
        timeout: Duration,
    ) -> Self {
        Self {
            address,
            slots,
            up: false,
            abilities: None,
            trouble: None,
            link: Link::new(Node::Redis(Box::new(node)), timeout),
            outbox: VecDeque::new(),
            courses: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, course: Course, id: Id, request: Request) {
        let asking = matches!(course, Course::Slot(flight) if flight.asking);
        self.courses.push_back(course);
        self.outbox.push_back((asking, id, request));
    }

    /// Sends what there is, as far as there is room.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        while self.link.has_room()
            && let Some(&(asking, ..)) = self.outbox.front()
        {
            let alike = self.outbox.iter().take_while(|(other, ..)| *other == asking).count();
            let batch = self.outbox.drain(..alike).map(|(_, id, request)| (id, request)).collect();
            self.link.send_as(cx, now, batch, asking);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<News> {
        self.link.poll(cx, now)
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.link.due()
    }

    /// Where the oldest request was on its way.
    pub(super) fn answered(&mut self) -> Option<Course> {
        self.courses.pop_front()
    }

    /// Connects anew, with an inbox in another slot. What was sent is unanswered.
    pub(super) fn replace(&mut self, slots: Option<(Slot, Slot)>, node: RedisNode) -> Vec<(Id, Request)> {
        self.slots = slots;
        self.trouble = None;
        self.link.replace(Node::Redis(Box::new(node)))
    }

    /// The connection is gone: what was on its way, in its order. What has not been sent was not done.
    pub(super) fn take_all(&mut self, sent: Vec<(Id, Request)>) -> Vec<(Course, Id, Request)> {
        self.up = false;
        let unanswered = sent.len();
        let unsent = std::mem::take(&mut self.outbox).into_iter().map(|(_, id, request)| (id, request));
        let courses = std::mem::take(&mut self.courses);
        let all = courses.into_iter().zip(sent.into_iter().chain(unsent)).enumerate();
        all.map(|(nth, (mut course, (id, request)))| {
            if let Course::Slot(flight) = &mut course {
                flight.unanswered |= nth < unanswered;
            }
            (course, id, request)
        })
        .collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.courses.is_empty()
    }
}
