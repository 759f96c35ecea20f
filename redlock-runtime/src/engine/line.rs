//! The way to where the locks live: one server, or the nodes of a Cluster.

use std::task::{Context, Poll};
use std::time::Duration;

use super::Id;
use super::cluster::{Cluster, ClusterNodes};
use super::link::{Link, News, Node};
use super::protocol::Request;
use crate::clock::Moment;

/// Where locks live.
#[derive(Clone)]
pub(crate) enum Deployment {
    One(Node),
    Cluster(Box<ClusterNodes>),
}

pub(super) enum Line {
    One(Link),
    Cluster(Cluster),
}

impl Line {
    pub(super) fn new(place: Deployment, io_timeout: Duration) -> Self {
        match place {
            Deployment::One(node) => Self::One(Link::new(node, io_timeout)),
            Deployment::Cluster(nodes) => Self::Cluster(Cluster::new(*nodes, io_timeout)),
        }
    }

    /// True when more may be sent.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::One(link) => link.has_room(),
            Self::Cluster(cluster) => cluster.has_room(),
        }
    }

    /// Sends `requests`, in this order for each lock. `now` was read before.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        match self {
            Self::One(link) => link.send(cx, now, requests),
            Self::Cluster(cluster) => cluster.send(cx, now, requests),
        }
    }

    /// When to look again, whatever happens.
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::One(link) => link.due(),
            Self::Cluster(cluster) => cluster.due(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<News> {
        match self {
            Self::One(link) => link.poll(cx, now),
            Self::Cluster(cluster) => cluster.poll(cx, now),
        }
    }
}
