//! The replies of the nodes of a Cluster: answers, and redirects to other nodes.
//!
//! `MOVED` changes the slot map and puts the request back into the queue of its slot, which goes to
//! the new node. `ASK` sends this request alone to the node that is named. After too many redirects
//! the slot pauses, so that two nodes that name each other cost no storm. A node that cannot answer
//! now pauses the slot as well; the caller gets this error only when its limit is over. An answer
//! to a request that was repeated over a new connection is read with the doubt that the first one
//! may have been executed.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::member::Route;
use super::slot_queue::Deferred;
use super::{Cluster, REDIRECTS};
use crate::base::clock::Moment;
use crate::base::telemetry;
use crate::engine::protocol::{
    Action, Disconnected, IN_THE_MIDDLE, Id, Redirect, Refusal, Reply, Request, Verdict,
};
use crate::engine::redis::requests::connection::INBOX_MOVED;
use crate::engine::topology::link::TransportEvent;

impl Cluster {
    /// Polls the members in turn. True when one had an event.
    pub(super) fn poll_members(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        let count = self.members.len();
        for nth in 0..count {
            let node = (self.first + nth) % count;
            if let Some(Some(member)) = self.members.get_mut(node)
                && let Poll::Ready(event) = member.link.poll(cx, now)
            {
                self.first = node + 1;
                self.on_event(now, node, event);
                return true;
            }
        }
        false
    }

    pub(super) fn on_event(&mut self, now: Moment, node: usize, event: TransportEvent) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        match event {
            TransportEvent::Connected { abilities, server_info } => {
                (member.up, member.trouble, member.abilities) = (true, None, Some(abilities));
                self.serve_all_queues();
                if self.connected {
                    self.returned(node);
                } else {
                    self.connected = true;
                    self.abilities = Some(abilities);
                    self.events.push_back(TransportEvent::Connected { abilities, server_info });
                }
                self.send_pages(now);
            }
            TransportEvent::Unreachable(trouble) => {
                let before = member.trouble.replace(trouble.clone());
                self.on_unreachable(now, trouble, before.as_ref());
            }
            TransportEvent::Broke { reason, unanswered, .. } => {
                telemetry::broke(&reason);
                self.unanswered(now, node, unanswered);
                self.serve_all_queues();
                if *reason == *INBOX_MOVED {
                    self.move_inbox(now, node);
                }
                self.learn_soon(now);
            }
            TransportEvent::Replies { sent, requests, replies } => {
                let answered = requests.into_iter().zip(replies).filter_map(|((id, request), reply)| {
                    let route = self.members.get_mut(node)?.as_mut()?.answered()?;
                    self.on_reply(now, node, route, id, request, reply)
                });
                let (requests, replies): (Vec<_>, Vec<_>) = answered.unzip();
                if !replies.is_empty() {
                    self.events.push_back(TransportEvent::Replies { sent, requests, replies });
                }
            }
            TransportEvent::Push(_)
            | TransportEvent::Changed(_)
            | TransportEvent::Delayed { .. }
            | TransportEvent::Returned(_)
            | TransportEvent::Abilities(_) => {
                self.events.push_back(event);
            }
        }
    }

    /// A member cannot be reached. `before`: why it could not be before.
    fn on_unreachable(&mut self, now: Moment, trouble: Disconnected, before: Option<&Disconnected>) {
        if before != Some(&trouble) {
            telemetry::unreachable(&trouble.reason);
        }
        self.serve_all_queues();
        let all = self.members.iter().flatten().all(|member| member.trouble.is_some());
        if !self.connected && all {
            self.events.push_back(TransportEvent::Unreachable(trouble));
        }
        self.send_pages(now);
        self.learn_soon(now);
    }

    /// The reply for the caller, or `None` when the request is sent again.
    fn on_reply(
        &mut self,
        now: Moment,
        node: usize,
        route: Route,
        id: Id,
        request: Request,
        reply: Reply,
    ) -> Option<((Id, Request), Reply)> {
        let mut in_flight = match route {
            Route::Slot(in_flight) => in_flight,
            Route::Page { nth } => return Some(((id, request), self.page(nth, reply))),
        };
        let slot = in_flight.slot;
        let queue = self.slot_queues.get_mut(&slot)?;
        queue.back(&mut in_flight);
        if queue.is_waiting() {
            self.to_serve.insert(slot);
        }
        // The caller of a release need not wait until this has passed: the table sends the release
        // again. The caller of a ping asks what is wrong now. One that has left asks for nothing
        // more.
        let is_told = match (&reply, request.action) {
            (Reply::Refused(refusal), Action::Release | Action::ExpireLater) => refusal.lasts(),
            (_, Action::Ping { .. }) => true,
            // The table sends a downgrade again, too. Until then it renews the lock as an exclusive one, for which the
            // node asks for no other key.
            (Reply::Refused(Refusal::Transient(reason)), Action::Downgrade { .. }) => is_moving(reason),
            (_, action) if action.takes() => queue.is_left(&request.token),
            _ => false,
        };
        let reply = match reply {
            Reply::Refused(Refusal::Moved(redirect)) => {
                self.redirect(now, node, Deferred { in_flight, id, request }, &redirect);
                return None;
            }
            Reply::Refused(Refusal::Transient(reason))
                if !is_told && now.since(in_flight.since) < self.limit =>
            {
                self.try_later(now, Deferred { in_flight, id, request }, reason);
                return None;
            }
            // The lock table would send it as a first request, whose reply is read without the doubt.
            Reply::Refused(refusal) if in_flight.unanswered && refusal.is_asked_again() => {
                self.defer(now, Deferred { in_flight, id, request });
                return None;
            }
            reply => after_a_break(in_flight.unanswered, &request, reply),
        };
        if !matches!(reply, Reply::Refused(_)) {
            queue.served(&in_flight, id, &request);
        }
        self.remove_if_done(slot);
        let reply = match (request.action, reply) {
            (Action::Ping { cursor }, Reply::Done) => self.pinged(cursor),
            (_, reply) => reply,
        };
        Some(((id, request), reply))
    }

    /// The node cannot serve the slot now: the request is sent again after a pause.
    fn try_later(&mut self, now: Moment, mut deferred: Deferred, reason: Arc<str>) {
        if let Some(queue) = self.slot_queues.get_mut(&deferred.in_flight.slot) {
            queue.pause(now);
            queue.reason = Some(Arc::clone(&reason));
        }
        if reason.contains(IN_THE_MIDDLE) {
            deferred.in_flight.unanswered = true;
            deferred.request = deferred.request.repeated();
        }
        // A slot that is being moved still belongs to this node.
        let moving = is_moving(&reason);
        self.tell_delay(&deferred, reason);
        self.defer(now, deferred);
        if !moving {
            self.learn_soon(now);
        }
    }

    /// Another node has the slot, or will have it soon.
    fn redirect(&mut self, now: Moment, from: usize, mut deferred: Deferred, redirect: &Redirect) {
        let slot = deferred.in_flight.slot;
        deferred.in_flight.redirects += 1;
        let goes_in_circles = deferred.in_flight.redirects > REDIRECTS;
        let slots = (!redirect.once).then_some((slot, slot));
        let to = self.address(from, &redirect.to).and_then(|address| self.redirected_to(&address, slots));
        let Some(queue) = self.slot_queues.get_mut(&slot) else {
            return;
        };
        queue.reason = Some(format!("{}, a node says, and it was not had there", redirect.place()).into());
        if goes_in_circles {
            deferred.in_flight.redirects = 0;
            queue.pause(now);
        }
        match (to, redirect.once) {
            (Some(to), true) => {
                if let Some(Some(member)) = self.members.get_mut(to)
                    && member.up
                    && !goes_in_circles
                    && queue.may_redirect(&deferred.request)
                {
                    deferred.in_flight.asking = true;
                    queue.sent(to, &deferred.in_flight);
                    member.push(Route::Slot(deferred.in_flight), deferred.id, deferred.request);
                    return;
                }
                queue.pause(now);
            }
            (Some(to), false) => {
                if self.slot_map.get(slot).is_some_and(|owner| owner != to) {
                    *self.slot_map.get_mut(slot) = Some(to);
                    self.move_slot(slot, to);
                    // Others may have moved with it.
                    self.learn_soon(now);
                }
            }
            (None, _) => self.learn_soon(now),
        }
        self.defer(now, deferred);
    }

    /// The connection to a member is gone, and these requests have no answer: all its requests wait
    /// for the next one.
    pub(super) fn unanswered(&mut self, now: Moment, node: usize, sent: Vec<(Id, Request)>) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        for (route, id, request) in member.take_all(sent) {
            match route {
                Route::Slot(mut in_flight) => {
                    if let Some(queue) = self.slot_queues.get_mut(&in_flight.slot) {
                        queue.back(&mut in_flight);
                    }
                    self.defer(now, Deferred { in_flight, id, request });
                }
                Route::Page { .. } => {
                    let refusal = Refusal::Transient(BROKE.into());
                    self.answer(now, id, request, Reply::Refused(refusal));
                }
            }
        }
    }
}

/// The slot is being moved, and this node has only some of the keys.
fn is_moving(reason: &str) -> bool {
    reason.starts_with("TRYAGAIN")
}

/// What a reply says to a request that `was_unanswered` over a connection that broke.
fn after_a_break(was_unanswered: bool, request: &Request, reply: Reply) -> Reply {
    match (request.action, reply) {
        (_, Reply::Refused(Refusal::Transient(reason)))
            if was_unanswered || reason.contains(IN_THE_MIDDLE) =>
        {
            Reply::Refused(Refusal::OutcomeUnknown(reason))
        }
        // It was done over the connection that broke.
        (Action::Release, Reply::NotHeld) if was_unanswered && !request.has_result() => Reply::Done,
        // It may have been done over the connection that broke. The table sends a release again, and reads the next
        // answer as that to a repeated one: the server knows of a result that it has stored, and of a lock that it
        // has let expire later.
        (_, Reply::Acquire(Verdict::Skipped)) | (Action::Release | Action::ExpireLater, Reply::NotHeld)
            if was_unanswered =>
        {
            Reply::Refused(Refusal::OutcomeUnknown(BROKE.into()))
        }
        (_, reply) => reply,
    }
}

const BROKE: &str = "the connection to a node of the Cluster broke";

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;
    use crate::engine::protocol::{Once, OnceRequest, Run};
    use crate::engine::redis::node::NodeSettings;
    use crate::engine::redis::node::cluster_layout::{ClusterNodes, MOST_PRIMARIES};
    use crate::engine::slots::Slot;
    use crate::engine::topology::cluster::slot_queue::{InFlight, SlotQueue};

    const LIMIT: Duration = Duration::from_secs(1);

    /// The reply to a release, after this answer of its node.
    fn answered(unanswered: bool, reply: Reply) -> Option<Reply> {
        answered_to(release(), unanswered, reply)
    }

    fn release() -> Request {
        Request::new(Action::Release, "lock:k".into(), Token::from_value("token"), LIMIT)
    }

    fn answered_to(request: Request, unanswered: bool, reply: Reply) -> Option<Reply> {
        let nodes = ClusterNodes::new([], NodeSettings::for_a_test(), None);
        let mut cluster = Cluster::new(nodes.unwrap_or_else(|_| unreachable!("no seed is malformed")), LIMIT);
        let (now, slot) = (Moment::now(), Slot::of("lock:k"));
        let in_flight = InFlight { sequence: 1, slot, since: now, redirects: 0, unanswered, asking: false };
        cluster.slot_queues.entry(slot).or_insert_with(SlotQueue::new).sent(0, &in_flight);
        cluster.on_reply(now, 0, Route::Slot(in_flight), 1, request, reply).map(|(_, reply)| reply)
    }

    /// The script may have given the lock back by then.
    #[test]
    fn a_release_that_was_refused_in_the_middle_is_sent_again_and_may_have_been_done() {
        let nodes = ClusterNodes::new([], NodeSettings::for_a_test(), None);
        let mut cluster = Cluster::new(nodes.unwrap_or_else(|_| unreachable!("no seed is malformed")), LIMIT);
        let (now, slot) = (Moment::now(), Slot::of("lock:k"));
        let in_flight =
            InFlight { sequence: 1, slot, since: now, redirects: 0, unanswered: false, asking: false };
        cluster.slot_queues.entry(slot).or_insert_with(SlotQueue::new).sent(0, &in_flight);
        let request = release();
        let words = "TRYAGAIN Script attempted to access a non local key in a cluster node";
        let refused = || Reply::Refused(Refusal::Transient(words.into()));
        let mut reply = |now, in_flight, request, reply| {
            cluster.on_reply(now, 0, Route::Slot(in_flight), 1, request, reply).map(|(_, reply)| reply)
        };
        assert_eq!(reply(now, in_flight, request.clone(), refused()), None, "it waits");
        let late = now.after(LIMIT);
        let told = reply(late, in_flight, request, refused());
        assert!(matches!(told, Some(Reply::Refused(Refusal::OutcomeUnknown(_)))), "{told:?}");
        let waits = cluster.slot_queues.get_mut(&slot).map(|queue| queue.take_overdue(late, LIMIT));
        let [deferred] = &waits.unwrap_or_default()[..] else { unreachable!("it waits") };
        assert!(deferred.in_flight.unanswered, "so that one that finds no lock counts as done");
    }

    /// As with the reply 2 of release.lua, where the first release has freed the lock.
    #[test]
    fn a_release_that_may_have_been_done_is_still_in_doubt_when_its_script_continues() {
        let nodes = ClusterNodes::new([], NodeSettings::for_a_test(), None);
        let mut cluster = Cluster::new(nodes.unwrap_or_else(|_| unreachable!("no seed is malformed")), LIMIT);
        let (now, slot) = (Moment::now(), Slot::of("lock:k"));
        for refusal in [Refusal::Unfinished, Refusal::NoScript] {
            let in_flight =
                InFlight { sequence: 1, slot, since: now, redirects: 0, unanswered: true, asking: false };
            cluster.slot_queues.entry(slot).or_insert_with(SlotQueue::new).sent(0, &in_flight);
            let request = release();
            let told = cluster.on_reply(now, 0, Route::Slot(in_flight), 1, request, Reply::Refused(refusal));
            assert!(told.is_none(), "{told:?}");
            let queue = cluster.slot_queues.get_mut(&slot);
            let ready = queue.map(|queue| queue.take_ready(now)).unwrap_or_default();
            let [deferred] = &ready[..] else { unreachable!("it is sent again at once") };
            assert!(deferred.in_flight.unanswered, "so that one that finds no lock counts as done");
        }
    }

    #[test]
    fn redirects_to_ever_new_nodes_take_no_more_connections_than_a_cluster_has() {
        let seed = ["redis://127.0.0.1:1/".to_owned()];
        let nodes = ClusterNodes::new(seed, NodeSettings::for_a_test(), None);
        let mut cluster =
            Cluster::new(nodes.unwrap_or_else(|_| unreachable!("the seed is an address")), LIMIT);
        let address = |node: usize| format!("10.0.{}.{}:1", node / 250, node % 250).into();
        let all: Vec<_> = (0..2000).map(|node| cluster.redirected_to(&address(node), None)).collect();
        assert_eq!(cluster.members.len(), MOST_PRIMARIES);
        assert!(all.iter().take(MOST_PRIMARIES).all(Option::is_some));
        assert!(all.iter().skip(MOST_PRIMARIES).all(Option::is_none));
        assert_eq!(cluster.redirected_to(&address(7), None), Some(7), "one that is known");
    }

    #[test]
    fn a_release_that_was_done_over_the_connection_that_broke_is_done() {
        assert_eq!(answered(true, Reply::NotHeld), Some(Reply::Done));
        assert_eq!(answered(false, Reply::NotHeld), Some(Reply::NotHeld));
    }

    /// The server knows of a result that it has stored, and of a lock that it has let expire later.
    #[test]
    fn a_result_or_a_ticket_that_no_node_knows_of_counts_as_not_stored() {
        let once = Once {
            fingerprint: "-".into(),
            lasts: LIMIT,
            reruns: true,
            ignores: None,
            result: OnceLock::new(),
        };
        let kind = OnceRequest::of(Arc::new(once), Run::Done(b"7".as_slice().into()));
        let (result, ticket) =
            (Request { kind, ..release() }, Request { action: Action::ExpireLater, ..release() });
        for request in [result, ticket] {
            let told = answered_to(request.clone(), true, Reply::NotHeld);
            assert!(matches!(told, Some(Reply::Refused(Refusal::OutcomeUnknown(_)))), "{told:?}");
            assert_eq!(answered_to(request, false, Reply::NotHeld), Some(Reply::NotHeld));
        }
    }
}
