//! One primary of a Cluster: the link to it, and what is on its way there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use super::slot_queue::InFlight;
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::engine::outbox::{Outbox, Unsent};
use crate::engine::protocol::{Disconnected, Id, Request};
use crate::engine::redis::node::RedisNode;
use crate::engine::slots::Slot;
use crate::engine::topology::link::{Link, Node};

/// The queue of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    Slot(InFlight),
    /// A page of the nth primary.
    Page {
        nth: usize,
    },
}

pub(super) struct Member {
    /// `host:port`
    pub(super) address: Arc<str>,
    /// The slot of its inbox, and another slot of the node.
    pub(super) slots: Option<(Slot, Slot)>,
    pub(super) up: bool,
    /// The abilities of its last connection.
    pub(super) abilities: Option<Abilities>,
    /// Why the last attempt to connect failed; `None` until one has, and while the node is up.
    pub(super) trouble: Option<Disconnected>,
    pub(super) link: Link,
    outbox: Outbox<Routed>,
    /// The routes of the requests that were sent, in their order.
    routes: VecDeque<Route>,
}

/// A request to send, with its route.
struct Routed {
    route: Route,
    id: Id,
    request: Request,
}

impl Routed {
    /// True when `ASKING` must come first, because the node does not own the slot yet.
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

    /// Ahead of requests for other slots: none is in flight for this one.
    pub(super) fn push_urgent(&mut self, in_flight: InFlight, id: Id, request: Request) {
        self.outbox.push_urgent(Routed { route: Route::Slot(in_flight), id, request });
    }

    /// Removes the request of `id` for a lock, if it has not been sent.
    pub(super) fn take_back(&mut self, id: Id) -> Option<Route> {
        self.outbox.take_back(id).map(|routed| routed.route)
    }

    /// Sends as much as there is room for.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        while let Some(room) = self.link.room()
            && self.outbox.has_any(room)
            && let Some(asking) = self.outbox.front().map(Routed::asking)
        {
            let batch = self.outbox.take(room, |other| other.asking() == asking);
            self.send(cx, now, batch, asking);
        }
        while self.link.takes_releases()
            && let Some(asking) = self.outbox.front().map(Routed::asking)
        {
            let releases = self.outbox.take_releases(|other| other.asking() == asking);
            if releases.is_empty() {
                break;
            }
            self.send(cx, now, releases, asking);
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Moment, batch: Vec<Routed>, asking: bool) {
        self.routes.extend(batch.iter().map(|routed| routed.route));
        let requests = batch.into_iter().map(|routed| (routed.id, routed.request)).collect();
        self.link.send(cx, now, requests, asking);
    }

    /// The route of the oldest request, which was answered.
    pub(super) fn answered(&mut self) -> Option<Route> {
        self.routes.pop_front()
    }

    /// Connects again, with an inbox in another slot. Returns the unanswered requests.
    pub(super) fn replace(&mut self, slots: Option<(Slot, Slot)>, node: RedisNode) -> Vec<(Id, Request)> {
        self.slots = slots;
        self.trouble = None;
        self.link.replace(Node::Redis(Box::new(node)))
    }

    /// All requests in their order, after the connection has ended. Those that were not sent were
    /// not done.
    pub(super) fn take_all(&mut self, sent: Vec<(Id, Request)>) -> Vec<(Route, Id, Request)> {
        self.up = false;
        let unanswered =
            std::mem::take(&mut self.routes).into_iter().zip(sent).map(|(mut route, (id, request))| {
                if let Route::Slot(in_flight) = &mut route {
                    in_flight.unanswered = true;
                }
                (route, id, request.repeated())
            });
        let unsent = self.outbox.take_all().map(|Routed { route, id, request }| (route, id, request));
        unanswered.chain(unsent).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.routes.is_empty() && self.outbox.is_empty()
    }
}
