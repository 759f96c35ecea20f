//! The link to a node: connecting, up or down, and its batches of requests in flight.
//!
//! A link connects, and connects again after each end of a connection, with pauses that double
//! while that fails. A batch is written when it is submitted, so batches go out in their order, and
//! a release follows its acquire. Replies come in the order of the requests, so only the oldest
//! batch is polled; a grant may be told before them, any other push after them. A connection ends
//! when an answer is overdue, or says that the next connection may do what this one refuses; its
//! unanswered requests are handed back. Where an idle connection does not answer soon, a second one
//! is opened beside it, and takes over if it answers first.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::window::Window;
use crate::base::capabilities::Abilities;
use crate::base::clock::{Clock, Moment};
use crate::base::span::Span;
use crate::engine::memory::{MemoryNode, Replies};
use crate::engine::protocol::{
    ConnectionEvent, Disconnected, Id, Push, PushKind, Refusal, Reply, Request, ServerInfo,
};
use crate::engine::redis::connect::server_identity::ServerIdentities;
use crate::engine::redis::node::RedisNode;
use crate::engine::redis::requests::connection::{ExpectedBatch, INBOX_MOVED, RedisConnection, UNREAD};
use crate::engine::slots::Slots;
use crate::engine::timers::Backoff;
use crate::engine::wakers::Arrivals;

/// Batches in flight at most; then the next batch grows.
const WINDOW: usize = 32;

/// Pushes taken at once.
const PUSHES: usize = 256;

/// How long after access rules have taken the hand-off away a new connection looks whether it is
/// back; doubled each time.
const LOOK_AGAIN: Backoff = Backoff { shortest: Duration::from_secs(5), longest: Duration::from_secs(300) };

/// After a connection that has ended because of a reply that no script gives, for so long the next
/// one does not: then the server itself is to blame.
const IN_DOUBT: Duration = Duration::from_secs(10);

/// Between attempts to connect.
const RECONNECT: Backoff =
    Backoff { shortest: Duration::from_millis(20), longest: Duration::from_millis(500) };

pub(in crate::engine) const ELSEWHERE: &str =
    "the manager has moved to another thread, and reconnects from there";

/// The node that has the lock.
#[derive(Clone)]
pub(crate) enum Node {
    Redis(Box<RedisNode>),
    Memory(MemoryNode),
}

impl Node {
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Only a node in memory has a clock of this process.
    pub(super) fn set_clock(&mut self, clock: &Clock) {
        if let Self::Memory(node) = self {
            node.set_clock(clock);
        }
    }

    /// In a quorum, the servers of all its nodes.
    pub(super) fn identities(&self) -> Option<&Arc<ServerIdentities>> {
        match self {
            Self::Redis(node) => node.identities(),
            Self::Memory(_) => None,
        }
    }
}

struct Connection {
    kind: ConnectionKind,
    pushes: Pushes,
}

impl Connection {
    fn hands_over(&self) -> bool {
        match &self.kind {
            ConnectionKind::Redis(connection) => connection.abilities().hands_over,
            ConnectionKind::Memory { .. } => true,
        }
    }
}

/// The events that the server sends without a request.
struct Pushes {
    arrivals: Arrivals<ConnectionEvent>,
    /// Taken from the channel, many at once: tokio lets a task take only some 128 one by one.
    taken: Vec<ConnectionEvent>,
}

impl Pushes {
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        if self.taken.is_empty() {
            ready!(self.arrivals.poll(cx, &mut self.taken, PUSHES));
            self.taken.reverse();
        }
        Poll::Ready(self.taken.pop())
    }

    /// Returns how many more may wait.
    fn room(&self) -> usize {
        UNREAD.saturating_sub(self.arrivals.len() + self.taken.len())
    }

    /// The next push, if it is a grant.
    fn poll_grant(&mut self, cx: &mut Context<'_>) -> Option<Push> {
        let Poll::Ready(Some(next)) = self.poll(cx) else {
            return None;
        };
        match next {
            ConnectionEvent::Push(push @ Push { kind: PushKind::Granted { .. }, .. }) => Some(push),
            next => {
                self.taken.push(next);
                None
            }
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "one for each connection, which is in a box")]
enum ConnectionKind {
    Redis(RedisConnection),
    Memory { node: MemoryNode, inbox: UnboundedSender<ConnectionEvent> },
}

type Connecting = Pin<Box<dyn Future<Output = Result<Connection, Disconnected>> + Send>>;

enum LinkState {
    Connecting(Connecting),
    Up(Box<Up>),
    Down { until: Moment },
}

struct Up {
    connection: Connection,
    in_flight: VecDeque<Batch>,
    window: Window,
    /// When the server last answered or pushed.
    heard: Moment,
    /// It was idle when the oldest batch was sent: a firewall may have forgotten it, and tells
    /// neither end.
    was_idle: bool,
    /// Opened when the answer over a connection that was idle is late.
    standby: Option<Connecting>,
    /// The last event was a grant that was told before the replies.
    grant_was_first: bool,
    /// When to connect again, to see whether the hand-off is back.
    look_again: Option<Moment>,
    /// The requests that were refused with the answer that ends the connection.
    refused: Vec<(Id, Request)>,
    /// Until then it does not end because of a reply that no script gives.
    in_doubt_until: Option<Moment>,
}

struct Batch {
    sent: Moment,
    requests: Vec<(Id, Request)>,
    replies: Awaited,
}

/// The replies to a batch.
enum Awaited {
    FromServer(ExpectedBatch),
    FromMemory(Replies),
}

impl Awaited {
    /// True for replies that no server sends.
    fn needs_no_wake_up(&self) -> bool {
        match self {
            Self::FromServer(expected) => expected.is_empty(),
            Self::FromMemory(_) => true,
        }
    }
}

/// An event that a transport sends to the table.
pub(crate) enum TransportEvent {
    Connected {
        abilities: Abilities,
        server_info: ServerInfo,
    },
    /// The abilities of a Cluster have changed.
    Abilities(Abilities),
    Unreachable(Disconnected),
    /// The connection ended; these requests have no answer.
    Broke {
        reason: Arc<str>,
        unanswered: Vec<(Id, Request)>,
        /// The requests of which the server has done nothing.
        refused: Vec<(Id, Request)>,
    },
    /// One reply to each request, in their order.
    Replies {
        sent: Moment,
        requests: Vec<(Id, Request)>,
        replies: Vec<Reply>,
    },
    /// A node refuses this request for a lock for now. It is sent again for a while.
    Delayed {
        id: Id,
        reason: Arc<str>,
    },
    Push(Push),
    /// These locks have changed, or, with `None`, any may have.
    Changed(Option<Vec<Arc<str>>>),
    /// The locks in these slots have a connected node again, or another node.
    Returned(Slots),
}

pub(crate) struct Link {
    node: Node,
    io_timeout: Duration,
    failures: u32,
    /// An earlier connection handed locks over; since then, so many did not.
    without_hand_off: Option<u32>,
    /// Until then no connection ends because of a reply that no script gives.
    in_doubt_until: Option<Moment>,
    /// The process may end next.
    is_flushing: bool,
    state: LinkState,
}

impl Link {
    pub(crate) fn new(node: Node, io_timeout: Duration) -> Self {
        let state = LinkState::Connecting(connect(&node, io_timeout));
        Self {
            node,
            io_timeout,
            failures: 0,
            without_hand_off: None,
            in_doubt_until: None,
            is_flushing: false,
            state,
        }
    }

    /// Connects to `node` instead. Returns the unanswered requests.
    pub(super) fn replace(&mut self, node: Node) -> Vec<(Id, Request)> {
        self.node = match (node, &self.node) {
            (Node::Redis(node), Node::Redis(before)) => Node::Redis(Box::new(node.after(before))),
            (node, _) => node,
        };
        self.failures = 0;
        self.switch_to(connect(&self.node, self.io_timeout))
    }

    /// True when no runtime is behind its connection: that of a node in memory has no socket, and a
    /// timer only while a test lets it answer late.
    pub(super) fn needs_no_runtime(&self) -> bool {
        self.node.is_in_memory() && matches!(&self.state, LinkState::Up(up) if up.in_flight.is_empty())
    }

    /// Another runtime polls it from now on: connects again. Returns the end of the connection, if
    /// there was one.
    pub(super) fn restart(&mut self) -> Option<TransportEvent> {
        let was_up = matches!(self.state, LinkState::Up(_));
        let unanswered = self.switch_to(connect(&self.node, self.io_timeout));
        was_up.then(|| TransportEvent::Broke { reason: ELSEWHERE.into(), unanswered, refused: Vec::new() })
    }

    /// True when a test has mended its node: it connects without a pause.
    pub(super) fn take_mended(&mut self) -> bool {
        if let LinkState::Down { .. } = self.state
            && let Node::Memory(node) = &self.node
            && node.is_reachable()
        {
            self.state = LinkState::Connecting(connect(&self.node, self.io_timeout));
            return true;
        }
        false
    }

    fn reconnect(&mut self) -> Vec<(Id, Request)> {
        let standby = match &mut self.state {
            LinkState::Up(up) => up.standby.take(),
            _ => None,
        };
        self.switch_to(standby.unwrap_or_else(|| connect(&self.node, self.io_timeout)))
    }

    /// Returns the unanswered requests in the order in which they were sent. The server may have
    /// executed them.
    fn switch_to(&mut self, connecting: Connecting) -> Vec<(Id, Request)> {
        match std::mem::replace(&mut self.state, LinkState::Connecting(connecting)) {
            LinkState::Up(up) => up.in_flight.into_iter().flat_map(|batch| batch.requests).collect(),
            _ => Vec::new(),
        }
    }

    /// The inbox of a node in memory.
    #[cfg(test)]
    pub(crate) fn inbox(&self) -> Option<UnboundedSender<ConnectionEvent>> {
        match &self.state {
            LinkState::Up(up) => match &up.connection.kind {
                ConnectionKind::Memory { inbox, .. } => Some(inbox.clone()),
                ConnectionKind::Redis(_) => None,
            },
            _ => None,
        }
    }

    /// Returns how many requests that are not urgent the next batch may hold; `None` when no batch
    /// may be sent.
    pub(super) fn room(&self) -> Option<usize> {
        match &self.state {
            LinkState::Up(up) if up.in_flight.len() < WINDOW || self.is_flushing => Some(up.window.room()),
            _ => None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// While the process may end next, any number of batches may be in flight, and releases are sent
    /// without room for them.
    pub(super) fn set_flushing(&mut self, is_flushing: bool) {
        self.is_flushing = is_flushing;
    }

    /// True when releases are sent without room for them.
    pub(super) fn takes_releases(&self) -> bool {
        self.is_flushing && self.is_up()
    }

    /// The unanswered requests.
    pub(super) fn in_flight(&self) -> usize {
        match &self.state {
            LinkState::Up(up) => up.window.used(),
            LinkState::Connecting(_) | LinkState::Down { .. } => 0,
        }
    }

    /// Sends `requests` in one write. The caller has checked the room, and has read `now` before.
    /// `asking`: the node does not own the slots of the requests yet.
    pub(super) fn send(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        requests: Vec<(Id, Request)>,
        asking: bool,
    ) {
        let LinkState::Up(up) = &mut self.state else {
            return;
        };
        up.submit(cx, now, self.io_timeout, requests, asking);
    }

    /// Writes what was sent, as far as the connection takes it now.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        if let LinkState::Up(up) = &mut self.state
            && let ConnectionKind::Redis(connection) = &mut up.connection.kind
        {
            connection.write_left(cx);
        }
    }

    /// True while it connects, or awaits an answer.
    pub(super) fn is_busy(&self) -> bool {
        match &self.state {
            LinkState::Connecting(_) => true,
            LinkState::Up(up) => !up.in_flight.is_empty() || up.standby.is_some(),
            LinkState::Down { .. } => false,
        }
    }

    /// Returns when to poll again at the latest: to reconnect, or because an answer is overdue.
    pub(super) fn due(&self) -> Option<Moment> {
        match &self.state {
            LinkState::Connecting(_) => None,
            LinkState::Down { until } => Some(*until),
            LinkState::Up(up) => up.due(self.io_timeout).into_iter().chain(up.look_again).min(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        loop {
            match &mut self.state {
                LinkState::Down { until } if *until <= now => {
                    self.state = LinkState::Connecting(connect(&self.node, self.io_timeout));
                }
                LinkState::Down { .. } => return Poll::Pending,
                LinkState::Connecting(connecting) => match ready!(connecting.as_mut().poll(cx)) {
                    Ok(connection) => return Poll::Ready(self.on_connected(now, connection)),
                    Err(trouble) => {
                        self.state = LinkState::Down { until: now.after(RECONNECT.pause(self.failures)) };
                        self.failures = self.failures.saturating_add(1);
                        return Poll::Ready(TransportEvent::Unreachable(trouble));
                    }
                },
                LinkState::Up(up) if up.look_again.is_some_and(|at| at <= now) => {
                    let reason = "to see whether access rules allow the hand-off again".into();
                    return Poll::Ready(TransportEvent::Broke {
                        reason,
                        unanswered: self.reconnect(),
                        refused: Vec::new(),
                    });
                }
                LinkState::Up(up) => {
                    let reason = match up.poll(cx, now, self.io_timeout) {
                        Poll::Ready(Ok(event)) => return Poll::Ready(event),
                        Poll::Ready(Err(reason)) => reason,
                        Poll::Pending => ready!(up.poll_standby(cx, now, self.io_timeout, &self.node)),
                    };
                    let refused = std::mem::take(&mut up.refused);
                    self.in_doubt_until = up.in_doubt_until;
                    let unanswered = self.reconnect();
                    return Poll::Ready(TransportEvent::Broke { reason, unanswered, refused });
                }
            }
        }
    }

    fn on_connected(&mut self, now: Moment, connection: Connection) -> TransportEvent {
        self.failures = 0;
        let (abilities, server_info) = match &connection.kind {
            ConnectionKind::Redis(connection) => (connection.abilities(), connection.server_info()),
            ConnectionKind::Memory { .. } => MemoryNode::server_info(now),
        };
        let look_again = if connection.hands_over() {
            self.without_hand_off = Some(0);
            None
        } else {
            let times = self.without_hand_off.as_mut();
            times.map(|times| {
                *times += 1;
                now.after(LOOK_AGAIN.pause(*times - 1))
            })
        };
        self.state = LinkState::Up(Box::new(Up {
            connection,
            in_flight: VecDeque::new(),
            window: Window::new(server_info.round_trip, now),
            heard: now,
            was_idle: false,
            standby: None,
            grant_was_first: false,
            look_again,
            refused: Vec::new(),
            in_doubt_until: self.in_doubt_until,
        }));
        TransportEvent::Connected { abilities, server_info }
    }
}

impl Up {
    fn submit(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        io_timeout: Duration,
        requests: Vec<(Id, Request)>,
        asking: bool,
    ) {
        let room = self.connection.pushes.room();
        let replies = match &mut self.connection.kind {
            ConnectionKind::Redis(connection) => {
                Awaited::FromServer(connection.submit(cx, now, &requests, asking, room))
            }
            ConnectionKind::Memory { node, inbox } => Awaited::FromMemory(node.submit(now, &requests, inbox)),
        };
        if replies.needs_no_wake_up() {
            cx.waker().wake_by_ref();
        }
        self.window.sent(requests.len());
        if self.in_flight.is_empty() {
            self.was_idle = now.since(self.heard) >= io_timeout;
        }
        self.in_flight.push_back(Batch { sent: now, requests, replies });
    }

    /// Since when the server has been silent: it works on one batch after the other.
    fn silent_since(&self) -> Option<Moment> {
        self.in_flight.front().map(|batch| batch.sent.max(self.heard))
    }

    fn due(&self, io_timeout: Duration) -> Option<Moment> {
        let limit = if self.was_idle { self.late(io_timeout).min(io_timeout) } else { io_timeout };
        self.silent_since().map(|since| since.after(limit))
    }

    /// After so long without an answer, a connection that was idle gets a standby.
    fn late(&self, io_timeout: Duration) -> Duration {
        (io_timeout / 4).max(2 * self.window.quickest())
    }

    fn on_answer(&mut self, now: Moment) {
        self.heard = now;
        self.was_idle = false;
        self.standby = None;
    }

    /// Ready, with the reason, when the standby must replace this connection. A server that is only
    /// busy answers here first, because these requests reached it first.
    fn poll_standby(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        io_timeout: Duration,
        node: &Node,
    ) -> Poll<Arc<str>> {
        if self.was_idle && self.due(io_timeout).is_some_and(|due| due <= now) {
            self.was_idle = false;
            self.standby = Some(connect(node, io_timeout));
        }
        let Some(standby) = &mut self.standby else {
            return Poll::Pending;
        };
        if let Ok(connection) = ready!(standby.as_mut().poll(cx)) {
            self.standby = Some(Box::pin(std::future::ready(Ok(connection))));
            Poll::Ready("it was idle, and a new connection to Redis answers where it does not".into())
        } else {
            self.standby = None;
            Poll::Pending
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        io_timeout: Duration,
    ) -> Poll<Result<TransportEvent, Arc<str>>> {
        if let ConnectionKind::Redis(connection) = &mut self.connection.kind {
            connection.drive(cx, self.connection.pushes.room());
        }
        if let Some(grant) = self.poll_grant(cx) {
            self.on_answer(now);
            return Poll::Ready(Ok(TransportEvent::Push(grant)));
        }
        if let Poll::Ready(answered) = self.poll_oldest_batch(cx, now, io_timeout) {
            return Poll::Ready(answered);
        }
        // After the replies: any other push that follows a reply on the wire is delivered after
        // it.
        let Some(pushed) = ready!(self.connection.pushes.poll(cx)) else {
            // Without RESP3 there are no pushes, and none of the end of the connection.
            return Poll::Pending;
        };
        // The server is alive.
        self.on_answer(now);
        Poll::Ready(match pushed {
            ConnectionEvent::Changed(names) => Ok(TransportEvent::Changed(names)),
            ConnectionEvent::Push(push) => Ok(TransportEvent::Push(push)),
            ConnectionEvent::InboxMoved => Err(INBOX_MOVED.into()),
            ConnectionEvent::Closed(reason) => Err(reason),
            ConnectionEvent::Superseded => Err("Sentinel reports another primary now".into()),
        })
    }

    /// A grant that has arrived while replies are awaited.
    ///
    /// It comes before the replies, so that the caller that is inside now runs before those that
    /// are answered: all waiters of the lock wait for it. The table keeps a grant until the request
    /// of its waiter is answered. Not two in a row: a flood of forged ones must not hold the replies
    /// up.
    #[inline]
    fn poll_grant(&mut self, cx: &mut Context<'_>) -> Option<Push> {
        if std::mem::take(&mut self.grant_was_first) || self.in_flight.is_empty() {
            return None;
        }
        let grant = self.connection.pushes.poll_grant(cx);
        self.grant_was_first = grant.is_some();
        grant
    }

    /// Ready with the replies to the oldest batch, or with the reason why the connection ends.
    #[inline]
    fn poll_oldest_batch(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        io_timeout: Duration,
    ) -> Poll<Result<TransportEvent, Arc<str>>> {
        let silent_since = self.silent_since();
        let Some(batch) = self.in_flight.front_mut() else {
            return Poll::Pending;
        };
        let answered = match (&mut batch.replies, &mut self.connection.kind) {
            (Awaited::FromServer(expected), ConnectionKind::Redis(connection)) => {
                connection.poll_replies(expected)
            }
            (Awaited::FromMemory(replies), _) => replies.as_mut().poll(cx),
            (Awaited::FromServer(_), ConnectionKind::Memory { .. }) => Poll::Pending,
        };
        match answered {
            Poll::Ready(Ok(replies)) => match self.in_flight.pop_front() {
                Some(batch) => Poll::Ready(self.on_replies(now, batch, replies)),
                None => Poll::Pending,
            },
            Poll::Ready(Err(broke)) => Poll::Ready(Err(broke.reason)),
            Poll::Pending if silent_since.is_some_and(|since| now.since(since) >= io_timeout) => {
                Poll::Ready(Err(format!("Redis did not answer within {}", Span(io_timeout)).into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns the reason where the replies end the connection.
    #[inline]
    fn on_replies(
        &mut self,
        now: Moment,
        batch: Batch,
        mut replies: Vec<Reply>,
    ) -> Result<TransportEvent, Arc<str>> {
        self.on_answer(now);
        self.window.answered(batch.requests.len(), batch.sent, now);
        if let (Awaited::FromServer(expected), ConnectionKind::Redis(connection)) =
            (&batch.replies, &mut self.connection.kind)
        {
            connection.doubt(now, expected, &batch.requests, &mut replies);
        }
        if replies.iter().any(|reply| matches!(reply, Reply::Refused(_)))
            && let Some(reason) = self.end_after(now, &batch.requests, &replies)
        {
            // The batch counts as unanswered: its requests are sent again over the next connection.
            self.in_flight.push_front(batch);
            return Err(reason);
        }
        if let ConnectionKind::Redis(connection) = &mut self.connection.kind {
            connection.answered(batch.sent, now, &batch.requests, &mut replies);
        }
        let Batch { sent, requests, .. } = batch;
        Ok(TransportEvent::Replies { sent, requests, replies })
    }

    /// Why the connection ends after these replies, among which are refusals; `None` if it does not.
    #[cold]
    fn end_after(&mut self, now: Moment, requests: &[(Id, Request)], replies: &[Reply]) -> Option<Arc<str>> {
        // Another request may have each reply from now on.
        if self.in_doubt_until.is_none_or(|until| until <= now)
            && let Some(reason) = replies.iter().find_map(out_of_order)
        {
            self.in_doubt_until = Some(now.after(IN_DOUBT));
            return Some(reason);
        }
        let hands_over = self.connection.hands_over();
        let reason = replies.iter().find_map(|reply| ends_connection(reply, hands_over))?;
        let is_refused =
            |reply: &Reply| matches!(reply, Reply::Refused(refusal) if refusal.has_done_nothing(true));
        let refused = requests.iter().zip(replies).filter(|(_, reply)| is_refused(reply));
        self.refused = refused.map(|(request, _)| request.clone()).collect();
        Some(reason.into())
    }
}

/// Why the next connection may do what this one refuses. `hands_over`: so its handshake has found.
fn ends_connection(reply: &Reply, hands_over: bool) -> Option<&'static str> {
    match reply {
        Reply::Refused(refusal) if hands_over && refusal.forbids_hand_off() => {
            Some("access rules forbid the hand-off now")
        }
        Reply::Refused(refusal) if refusal.is_of_a_replica() => Some("Redis has become a replica (READONLY)"),
        Reply::Refused(refusal) if refusal.wants_credentials() => {
            Some("Redis asks for a password again (NOAUTH)")
        }
        _ => None,
    }
}

/// Why the replies of a connection may not be those to its requests.
fn out_of_order(reply: &Reply) -> Option<Arc<str>> {
    match reply {
        Reply::Refused(Refusal::OutcomeUnknown(reason)) => Some(Arc::clone(reason)),
        _ => None,
    }
}

fn connect(node: &Node, timeout: Duration) -> Connecting {
    let (inbox, pushes) = unbounded_channel();
    let pushes = Pushes { arrivals: Arrivals::new(pushes), taken: Vec::new() };
    match node {
        Node::Redis(node) => {
            let node = node.as_ref().clone();
            Box::pin(async move {
                let kind = ConnectionKind::Redis(node.connect(timeout, inbox).await?);
                Ok(Connection { kind, pushes })
            })
        }
        Node::Memory(node) => {
            let node = node.clone();
            Box::pin(async move {
                node.connect(timeout, &inbox).await?;
                Ok(Connection { kind: ConnectionKind::Memory { node, inbox }, pushes })
            })
        }
    }
}

#[cfg(test)]
mod tests;
