//! Where requests go: to one node, to the nodes of a quorum, or to the nodes of a Cluster. The
//! table sees one transport.
//!
//! The event loop hands over requests while there is room, and polls for events: replies, pushes, and
//! connections that come and go. Requests for one lock keep their order. A link sends at once and
//! answers in order; a quorum puts each request to all nodes and answers when a majority has
//! decided; a Cluster sends by the slot of the name, follows redirects, and repeats by itself what
//! a node could not answer.

pub(crate) mod address;
pub(super) mod cluster;
pub(super) mod link;
mod listing;
mod quorum;
mod window;

use std::task::{Context, Poll};

use super::EngineSettings;
use super::multi_key::MultiKey;
use super::protocol::{Id, Request};
use super::redis::node::RedisNode;
use crate::base::clock::{Clock, Moment};
use crate::base::token::Token;
use crate::engine::redis::node::cluster_layout::ClusterNodes;
use cluster::Cluster;
use link::{Link, Node, TransportEvent};
use quorum::Quorum;

/// The servers that have the locks.
pub(crate) enum Deployment {
    /// One node, or the nodes of a quorum.
    Nodes(Vec<Node>),
    Cluster(Box<ClusterNodes>),
}

impl Deployment {
    pub(super) fn multi_key(&self) -> MultiKey {
        match self {
            Self::Nodes(nodes) if nodes.len() == 1 => MultiKey::Any,
            Self::Nodes(_) => MultiKey::Never,
            Self::Cluster(_) => MultiKey::SameSlot,
        }
    }

    /// The clock that leases are measured by. Locks in memory may have that of the caller's
    /// runtime.
    pub(super) fn choose_clock(&mut self) -> Clock {
        let Self::Nodes(nodes) = self else {
            return Clock::System;
        };
        let clock = if nodes.iter().all(Node::is_in_memory) { Clock::of_caller() } else { Clock::System };
        for node in nodes {
            node.set_clock(&clock);
        }
        clock
    }

    /// True if a node is in memory.
    pub(super) fn has_memory(&self) -> bool {
        matches!(self, Self::Nodes(nodes) if nodes.iter().any(Node::is_in_memory))
    }

    /// True if no server has the locks.
    #[cfg(not(feature = "testing"))]
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self, Self::Nodes(nodes) if nodes.iter().all(Node::is_in_memory))
    }

    /// The only node, if it is in memory.
    #[cfg(feature = "testing")]
    pub(super) fn node_in_memory(&self) -> Option<&super::memory::MemoryNode> {
        match self {
            Self::Nodes(nodes) => match nodes.as_slice() {
                [Node::Memory(node)] => Some(node),
                _ => None,
            },
            Self::Cluster(_) => None,
        }
    }

    /// The only server, if it is a Redis server.
    pub(crate) fn one_server(&self) -> Option<&RedisNode> {
        match self {
            Self::Nodes(nodes) => match nodes.as_slice() {
                [Node::Redis(node)] => Some(node),
                _ => None,
            },
            Self::Cluster(_) => None,
        }
    }
}

pub(super) enum Transport {
    One(Link),
    Quorum(Quorum),
    Cluster(Cluster),
}

impl Transport {
    pub(super) fn new(deployment: Deployment, settings: EngineSettings, now: Moment) -> Self {
        let nodes = match deployment {
            Deployment::Nodes(nodes) => nodes,
            Deployment::Cluster(nodes) => return Self::Cluster(Cluster::new(*nodes, settings.io_timeout)),
        };
        let identities = nodes.iter().find_map(Node::identities).cloned().unwrap_or_default();
        let mut links: Vec<Link> =
            nodes.into_iter().map(|node| Link::new(node, settings.io_timeout)).collect();
        match links.pop() {
            Some(link) if links.is_empty() => Self::One(link),
            last => {
                Self::Quorum(Quorum::new(links.into_iter().chain(last).collect(), identities, settings, now))
            }
        }
    }

    /// Returns how many requests that are not urgent may be sent; `None` when no request may be
    /// sent.
    pub(super) fn room(&self) -> Option<usize> {
        match self {
            Self::One(link) => link.room(),
            Self::Quorum(quorum) => Some(quorum.room()),
            Self::Cluster(cluster) => cluster.room(),
        }
    }

    /// Removes a request for a lock. False if it may have been sent.
    pub(super) fn take_back(&mut self, id: Id, name: &str, token: &Token) -> bool {
        match self {
            // A link sends at once, and a quorum takes votes back when the release comes.
            Self::One(_) | Self::Quorum(_) => false,
            Self::Cluster(cluster) => cluster.take_back(id, name, token),
        }
    }

    /// The unanswered requests of the only server. Others answer one by one.
    pub(super) fn in_flight(&self) -> usize {
        match self {
            Self::One(link) => link.in_flight(),
            Self::Quorum(_) | Self::Cluster(_) => 0,
        }
    }

    /// True when it sends on what it gets.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::One(link) => link.is_up(),
            Self::Quorum(_) => true,
            Self::Cluster(cluster) => cluster.room().is_some(),
        }
    }

    /// While the process may end next, releases are sent however much is in flight.
    pub(super) fn set_flushing(&mut self, is_flushing: bool) {
        match self {
            Self::One(link) => link.set_flushing(is_flushing),
            Self::Quorum(quorum) => quorum.set_flushing(is_flushing),
            Self::Cluster(cluster) => cluster.set_flushing(is_flushing),
        }
    }

    /// Writes what was sent, as far as the connections take it now.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        match self {
            Self::One(link) => link.write(cx),
            Self::Quorum(quorum) => quorum.write(cx),
            Self::Cluster(cluster) => cluster.write(cx),
        }
    }

    /// Sends `requests`, in this order for each lock. `now` was read before.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        match self {
            Self::One(link) => link.send(cx, now, requests, false),
            Self::Quorum(quorum) => quorum.send(cx, now, requests),
            Self::Cluster(cluster) => cluster.send(cx, now, requests),
        }
    }

    /// False while a quorum still sends releases that the table does not wait for.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::One(_) | Self::Cluster(_) => true,
            Self::Quorum(quorum) => quorum.is_idle(),
        }
    }

    /// True while it connects, or awaits an answer; in a quorum, an answer that counts.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::One(link) => link.is_busy(),
            Self::Quorum(quorum) => !quorum.is_idle(),
            Self::Cluster(cluster) => cluster.is_busy(),
        }
    }

    /// Another runtime polls it from now on: connects again. True when the table must wait for that.
    pub(super) fn restart(&mut self, now: Moment) -> bool {
        match self {
            // The node keeps its inbox.
            Self::One(link) if link.needs_no_runtime() => false,
            Self::One(link) => link.restart().is_some(),
            Self::Quorum(quorum) => quorum.restart(now),
            Self::Cluster(cluster) => {
                cluster.restart(now);
                false
            }
        }
    }

    /// True when a node in memory that was down has to be polled before the commands since then are
    /// handled.
    pub(super) fn take_mended(&mut self) -> bool {
        match self {
            Self::One(link) => link.take_mended(),
            Self::Quorum(_) | Self::Cluster(_) => false,
        }
    }

    /// Returns when to poll again at the latest.
    #[inline]
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::One(link) => link.due(),
            Self::Quorum(quorum) => quorum.due(),
            Self::Cluster(cluster) => cluster.due(),
        }
    }

    #[inline]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TransportEvent> {
        match self {
            Self::One(link) => link.poll(cx, now),
            Self::Quorum(quorum) => quorum.poll(cx, now),
            Self::Cluster(cluster) => cluster.poll(cx, now),
        }
    }
}
