//! One node of a quorum: the link to it, whether it may vote, and the releases that it has not
//! heard.
//!
//! A release that found the node down is owed to it, as long as the node may still have the key,
//! and is the first request when the node is up again. A node that may have lost its data in a
//! restart does not vote until every lock from before has expired. The link is polled only when its
//! waker has been woken or its timer is due, so a call to five nodes does not poll five links for
//! each answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::NO_CALLER;
use crate::base::clock::Moment;
use crate::engine::outbox::Outbox;
use crate::engine::protocol::{Action, Id, Request, ServerInfo};
use crate::engine::topology::link::{Link, TransportEvent};
use crate::engine::wakers::NotingWaker;

/// Releases that are kept for a node that is down. Beyond that, its keys expire.
const MOST_OWED: usize = 10_000;

pub(super) struct Member {
    pub(super) link: Link,
    /// Requests to send, in this order.
    pub(super) outbox: Outbox,
    state: MemberState,
    /// The waker that the link is polled with: an answer of one node does not make the engine poll
    /// all of them.
    waker: Option<NotingWaker>,
    /// Releases that the node has not heard, and when each key has expired anyway.
    owed: VecDeque<(Moment, Request)>,
    /// How many of these were sent and not answered.
    owed_sent: usize,
}

enum MemberState {
    Up {
        since: Moment,
        server_info: ServerInfo,
        tracks_changes: bool,
    },
    Down {
        reason: Arc<str>,
        is_permanent: bool,
        /// Connecting has failed since.
        tried: bool,
        /// When the connection ended.
        since: Option<Moment>,
    },
}

impl Member {
    pub(super) fn new(link: Link) -> Self {
        let state = MemberState::Down {
            reason: "a node is not connected yet".into(),
            is_permanent: false,
            tried: false,
            since: None,
        };
        Self { link, outbox: Outbox::default(), state, waker: None, owed: VecDeque::new(), owed_sent: 0 }
    }

    /// Polls the link, but only if it has woken the engine or its timer is due.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        let is_due = self.link.due().is_some_and(|due| due <= now);
        let waker = NotingWaker::kept(&mut self.waker, cx.waker());
        if !waker.take() && !is_due {
            return Poll::Pending;
        }
        let event = self.link.poll(&mut waker.cx(), now);
        if event.is_ready() {
            // More may follow.
            waker.set();
        }
        event
    }

    /// Sends as much as there is room for.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        while let Some(room) = self.link.room()
            && self.outbox.has_any(room)
        {
            let requests = self.outbox.take(room, |_| true);
            self.send(cx, now, requests);
        }
        while self.link.takes_releases() {
            let releases = self.outbox.take_releases(|_| true);
            if releases.is_empty() {
                break;
            }
            self.send(cx, now, releases);
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        let waker = NotingWaker::kept(&mut self.waker, cx.waker());
        self.link.send(&mut waker.cx(), now, requests, false);
    }

    /// Writes what was sent, as far as the connection takes it now.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        let waker = NotingWaker::kept(&mut self.waker, cx.waker());
        self.link.write(&mut waker.cx());
    }

    pub(super) fn room(&self) -> usize {
        if !self.is_up() {
            return usize::MAX;
        }
        self.link.room().map_or(0, |room| room.saturating_sub(self.outbox.len()))
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, MemberState::Up { .. })
    }

    pub(super) fn tracks_changes(&self) -> bool {
        matches!(self.state, MemberState::Up { tracks_changes: true, .. })
    }

    /// Returns how long it takes to answer, while it is up.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match &self.state {
            MemberState::Up { server_info, .. } => Some(server_info.round_trip),
            MemberState::Down { .. } => None,
        }
    }

    /// Why the node is down; `None` while it is up.
    pub(super) fn absence(&self) -> Option<&Arc<str>> {
        match &self.state {
            MemberState::Up { .. } => None,
            MemberState::Down { reason, .. } => Some(reason),
        }
    }

    pub(super) fn is_permanent(&self) -> bool {
        matches!(self.state, MemberState::Down { is_permanent: true, .. })
    }

    /// It is down, and connecting has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, MemberState::Down { tried: true, .. })
    }

    /// Why the node may not vote: after a restart it may have forgotten a lock, until all locks
    /// from before have expired. The Redlock algorithm calls this the delayed restart.
    pub(super) fn abstention(&self, now: Moment, max_ttl: Duration) -> Option<Arc<str>> {
        match &self.state {
            MemberState::Up { since, server_info, .. } if !server_info.durable => {
                let up_for = server_info.up_for + now.since(*since);
                let left = max_ttl.saturating_sub(up_for);
                (!left.is_zero()).then(|| {
                    format!("a node has restarted {up_for:.1?} ago and votes again in {left:.1?}").into()
                })
            }
            _ => None,
        }
    }

    /// The node is up: the releases that it has not heard are sent first.
    pub(super) fn up(&mut self, now: Moment, server_info: ServerInfo, tracks_changes: bool) {
        self.state = MemberState::Up { since: now, server_info, tracks_changes };
        for (_, request) in self.owed.drain(..).filter(|(until, _)| *until > now) {
            self.outbox.push((NO_CALLER, request));
            self.owed_sent += 1;
        }
    }

    /// The node has answered a release that was sent late.
    pub(super) fn owed_answered(&mut self) {
        self.owed_sent = self.owed_sent.saturating_sub(1);
    }

    /// True while the node is about to hear a late release: the engine does not end before. It does
    /// not wait for a node that cannot be reached.
    pub(super) fn is_owed(&self) -> bool {
        match self.state {
            MemberState::Up { .. } => self.owed_sent > 0,
            MemberState::Down { tried, .. } => !tried && !self.owed.is_empty(),
        }
    }

    /// The connection is gone, and these requests have no answer.
    pub(super) fn down(&mut self, now: Moment, reason: Arc<str>, unanswered: Vec<(Id, Request)>) {
        let since = match &self.state {
            MemberState::Up { .. } => Some(now),
            MemberState::Down { since, .. } => *since,
        };
        self.state = MemberState::Down { reason, is_permanent: false, tried: false, since };
        let unsent = self.outbox.take_all();
        self.owed_sent = 0;
        for (_, request) in unanswered.into_iter().chain(unsent) {
            if request.action == Action::Release {
                self.owe(now, request);
            }
        }
    }

    pub(super) fn unreachable(&mut self, reason: Arc<str>, is_permanent: bool) {
        let since = match &self.state {
            MemberState::Up { .. } => None,
            MemberState::Down { since, .. } => *since,
        };
        self.state = MemberState::Down { reason, is_permanent, tried: true, since };
    }

    /// Keeps a release until the node is up again, if it may still have the key: it was up within
    /// the last ttl.
    pub(super) fn owe(&mut self, now: Moment, request: Request) {
        if let MemberState::Down { since: Some(since), .. } = self.state
            && now.since(since) < request.ttl
        {
            if self.owed.len() >= MOST_OWED {
                self.owed.pop_front();
            }
            self.owed.push_back((now.after(request.ttl), request));
        }
    }
}
