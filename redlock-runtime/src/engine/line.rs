//! Where requests go: to one node, or to the nodes of a quorum. The table does not know the difference.

use std::task::{Context, Poll};

use super::link::{Link, News, Node};
use super::protocol::Request;
use super::quorum::Quorum;
use super::{EngineSettings, Id};
use crate::clock::Moment;

pub(super) enum Line {
    One(Link),
    Quorum(Quorum),
}

impl Line {
    /// To one node, or to several.
    pub(super) fn new(nodes: Vec<Node>, settings: EngineSettings) -> Self {
        let mut links: Vec<Link> =
            nodes.into_iter().map(|node| Link::new(node, settings.io_timeout)).collect();
        match links.pop() {
            Some(link) if links.is_empty() => Self::One(link),
            last => Self::Quorum(Quorum::new(links.into_iter().chain(last).collect(), settings)),
        }
    }

    /// True when another batch may be sent.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::One(link) => link.has_room(),
            Self::Quorum(quorum) => quorum.has_room(),
        }
    }

    /// Sends `requests`, in this order. `now` was read before.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        match self {
            Self::One(link) => link.send(cx, now, requests),
            Self::Quorum(quorum) => quorum.send(cx, now, requests),
        }
    }

    /// False while a quorum still gives back what nobody waits for. On one node the table waits for each release.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Quorum(quorum) => quorum.is_idle(),
        }
    }

    /// When to look again, whatever happens.
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::One(link) => link.due(),
            Self::Quorum(quorum) => quorum.due(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<News> {
        match self {
            Self::One(link) => link.poll(cx, now),
            Self::Quorum(quorum) => quorum.poll(cx, now),
        }
    }
}
