//! One primary of a Cluster: the link to it, and what is on its way there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::slot_queue::InFlight;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::outbox::{Outbox, Unsent};
use crate::engine::protocol::{Disconnected, Id, Request};
use crate::engine::redis::node::RedisNode;
use crate::engine::slots::Slot;
use crate::engine::transport::link::{Link, Node, TransportEvent};

/// A request for one slot, or for a page of all the locks of one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    Slot(InFlight),
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
    outbox: Outbox<Routed>,
    /// What is on its way, in the order of the link.
    routes: VecDeque<Route>,
}

/// A request that is to be sent, and where it is on its way.
struct Routed {
    route: Route,
    id: Id,
    request: Request,
}

impl Routed {
    /// It has to say that it was sent here.
    fn asking(&self) -> bool {
        matches!(self.route, Route::Slot(in_flight) if in_flight.asking)
    }
}

impl Unsent for Routed {
    fn request(&self) -> (Id, &Request) {
        (self.id, &self.request)
    }

    fn is_repeated(&self) -> bool {
        matches!(self.route, Route::Slot(in_flight) if in_flight.unanswered)
    }
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
            outbox: Outbox::default(),
            routes: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, route: Route, id: Id, request: Request) {
        self.outbox.push(Routed { route, id, request });
    }

    /// Ahead of what is for other slots: nothing is under way for this one.
    pub(super) fn push_urgent(&mut self, in_flight: InFlight, id: Id, request: Request) {
        self.outbox.push_urgent(Routed { route: Route::Slot(in_flight), id, request });
    }

    /// Where the request of `id` for a lock would have gone, which has not been sent and will not be.
    pub(super) fn take_back(&mut self, id: Id) -> Option<Route> {
        self.outbox.take_back(id).map(|routed| routed.route)
    }

    /// Sends what there is, as far as there is room.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        while let Some(room) = self.link.room()
            && self.outbox.has_any(room)
            && let Some(asking) = self.outbox.front().map(Routed::asking)
        {
            let batch = self.outbox.take(room, |other| other.asking() == asking);
            self.routes.extend(batch.iter().map(|routed| routed.route));
            let requests = batch.into_iter().map(|routed| (routed.id, routed.request)).collect();
            self.link.send_as(cx, now, requests, asking);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        self.link.poll(cx, now)
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.link.due()
    }

    /// Where the oldest request was on its way.
    pub(super) fn answered(&mut self) -> Option<Route> {
        self.routes.pop_front()
    }

    /// Connects anew, with an inbox in another slot. What was sent is unanswered.
    pub(super) fn replace(&mut self, slots: Option<(Slot, Slot)>, node: RedisNode) -> Vec<(Id, Request)> {
        self.slots = slots;
        self.trouble = None;
        self.link.replace(Node::Redis(Box::new(node)))
    }

    /// The connection is gone: what was on its way, in its order. What has not been sent was not done.
    pub(super) fn take_all(&mut self, sent: Vec<(Id, Request)>) -> Vec<(Route, Id, Request)> {
        self.up = false;
        let unanswered =
            std::mem::take(&mut self.routes).into_iter().zip(sent).map(|(mut route, (id, request))| {
                if let Route::Slot(in_flight) = &mut route {
                    in_flight.unanswered = true;
                }
                (route, id, request)
            });
        let unsent = self.outbox.take_all().map(|Routed { route, id, request }| (route, id, request));
        unanswered.chain(unsent).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.routes.is_empty() && self.outbox.is_empty()
    }
}
