//! Where requests go: to one node, or to the nodes of a quorum. The table does not know the difference.

use std::task::{Context, Poll};

use super::Id;
use super::link::{Link, News, Node};
use super::protocol::Request;
use super::quorum::{Quorum, QuorumSettings};
use crate::clock::Moment;

pub(super) enum Line {
    One(Link),
    Quorum(Quorum),
}

impl Line {
    /// To one node, or to several.
    pub(super) fn new(nodes: Vec<Node>, settings: QuorumSettings) -> Self {
        let link = |node| Link::new(node, settings.io_timeout);
        match <[Node; 1]>::try_from(nodes) {
            Ok([node]) => Self::One(link(node)),
            Err(nodes) => Self::Quorum(Quorum::new(
                nodes.into_iter().map(|node| link(node.into_one_of_several())).collect(),
                settings,
            )),
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
