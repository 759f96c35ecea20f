//! One node of a quorum: its line, whether it may vote, and what it is owed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::member_waker::MemberWaker;
use crate::clock::Moment;
use crate::engine::outbox::Outbox;
use crate::engine::protocol::{Action, Id, Request, ServerInfo};
use crate::engine::transport::link::{Link, TransportEvent};

/// Releases that are remembered for a node that cannot be reached. Beyond that, its keys expire.
const MOST_OWED: usize = 10_000;

pub(super) struct Member {
    pub(super) link: Link,
    /// What is to be sent to it, in this order.
    pub(super) outbox: Outbox,
    state: State,
    /// What the link wakes; as a waker, too.
    waker: Option<(Arc<MemberWaker>, Waker)>,
    /// Releases that it has not heard, and when its key has expired anyway.
    owed: VecDeque<(Moment, Request)>,
    /// Those that it was sent and has not answered.
    paying: usize,
}

enum State {
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
        /// When it was last there.
        since: Option<Moment>,
    },
}

impl Member {
    pub(super) fn new(link: Link) -> Self {
        let state = State::Down {
            reason: "a node is not connected yet".into(),
            is_permanent: false,
            tried: false,
            since: None,
        };
        Self { link, outbox: Outbox::default(), state, waker: None, owed: VecDeque::new(), paying: 0 }
    }

    fn waker(&mut self, engine: &Waker) -> &(Arc<MemberWaker>, Waker) {
        // Another task, or none yet: what is under way wakes the wrong one, and is looked at once more.
        if self.waker.as_ref().is_some_and(|(waker, _)| !waker.is_of(engine)) {
            self.waker = None;
        }
        self.waker.get_or_insert_with(|| {
            let own = MemberWaker::new(engine);
            let waker = Arc::clone(&own).into();
            (own, waker)
        })
    }

    /// What the line has to tell, if it may have something.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        let is_due = self.link.due().is_some_and(|due| due <= now);
        let (own, waker) = self.waker(cx.waker());
        if !own.take() && !is_due {
            return Poll::Pending;
        }
        let (own, waker) = (Arc::clone(own), waker.clone());
        let event = self.link.poll(&mut Context::from_waker(&waker), now);
        if event.is_ready() {
            // There may be more.
            own.ring();
        }
        event
    }

    /// Sends what is to be sent, if there is room.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        while let Some(room) = self.link.room()
            && self.outbox.has_any(room)
        {
            let requests = self.outbox.take(room, |_| true);
            let waker = self.waker(cx.waker()).1.clone();
            self.link.send(&mut Context::from_waker(&waker), now, requests);
        }
    }

    pub(super) fn room(&self) -> usize {
        if !self.is_up() {
            return usize::MAX;
        }
        self.link.room().map_or(0, |room| room.saturating_sub(self.outbox.len()))
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    pub(super) fn tracks_changes(&self) -> bool {
        matches!(self.state, State::Up { tracks_changes: true, .. })
    }

    /// How long its answers take, while it is there.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match &self.state {
            State::Up { server_info, .. } => Some(server_info.round_trip),
            State::Down { .. } => None,
        }
    }

    /// Why it cannot be asked; `None` when it can.
    pub(super) fn absence(&self) -> Option<&Arc<str>> {
        match &self.state {
            State::Up { .. } => None,
            State::Down { reason, .. } => Some(reason),
        }
    }

    pub(super) fn is_permanent(&self) -> bool {
        matches!(self.state, State::Down { is_permanent: true, .. })
    }

    /// An attempt to connect has failed.
    pub(super) fn is_in_trouble(&self) -> bool {
        matches!(self.state, State::Down { tried: true, .. })
    }

    /// Why it has no vote: a node that has restarted may have forgotten a lock, until every lock from before has
    /// expired. The Redlock algorithm calls this the delayed restart.
    pub(super) fn abstention(&self, now: Moment, max_ttl: Duration) -> Option<Arc<str>> {
        match &self.state {
            State::Up { since, server_info, .. } if !server_info.durable => {
                let up_for = server_info.up_for + now.since(*since);
                let left = max_ttl.saturating_sub(up_for);
                (!left.is_zero()).then(|| {
                    format!("a node has restarted {up_for:.1?} ago and votes again in {left:.1?}").into()
                })
            }
            _ => None,
        }
    }

    /// It is there: what it is owed goes out first.
    pub(super) fn up(&mut self, now: Moment, server_info: ServerInfo, tracks_changes: bool) {
        self.state = State::Up { since: now, server_info, tracks_changes };
        for (_, request) in self.owed.drain(..).filter(|(until, _)| *until > now) {
            self.outbox.push((crate::engine::transport::quorum::NOBODY, request));
            self.paying += 1;
        }
    }

    /// It has answered a release that it was owed.
    pub(super) fn paid(&mut self) {
        self.paying = self.paying.saturating_sub(1);
    }

    /// Whether it is about to hear what it is owed: it may be back in a moment, but for one that cannot be reached.
    pub(super) fn is_owed(&self) -> bool {
        match self.state {
            State::Up { .. } => self.paying > 0,
            State::Down { tried, .. } => !tried && !self.owed.is_empty(),
        }
    }

    /// It is gone, and these requests are without an answer.
    pub(super) fn down(&mut self, now: Moment, reason: Arc<str>, unanswered: Vec<(Id, Request)>) {
        let since = match &self.state {
            State::Up { .. } => Some(now),
            State::Down { since, .. } => *since,
        };
        self.state = State::Down { reason, is_permanent: false, tried: false, since };
        let unsent = self.outbox.take_all();
        self.paying = 0;
        for (_, request) in unanswered.into_iter().chain(unsent) {
            if request.action == Action::Release {
                self.owe(now, request);
            }
        }
    }

    pub(super) fn unreachable(&mut self, reason: Arc<str>, is_permanent: bool) {
        let since = match &self.state {
            State::Up { .. } => None,
            State::Down { since, .. } => *since,
        };
        self.state = State::Down { reason, is_permanent, tried: true, since };
    }

    /// A release that it cannot hear now. Only when it may have the key: it was there within the last ttl.
    pub(super) fn owe(&mut self, now: Moment, request: Request) {
        if let State::Down { since: Some(since), .. } = self.state
            && now.since(since) < request.ttl
        {
            if self.owed.len() >= MOST_OWED {
                self.owed.pop_front();
            }
            self.owed.push_back((now.after(request.ttl), request));
        }
    }
}
