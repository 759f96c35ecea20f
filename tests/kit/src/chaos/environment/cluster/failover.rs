//! Failovers: primaries are killed, stopped, or ordered to hand over to their replicas, until the
//! shard is stable again.

use std::thread;
use std::time::{Duration, Instant};

use super::{ClusterNodes, STEADY, soon};
use crate::chaos::checker::{Loss, LossDetection};
use crate::chaos::environment::client;
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::{RedisServer, now};

/// One shard at a time: without a majority of the primaries there is no failover.
#[derive(Clone, Copy)]
pub(crate) enum State {
    Well,
    Killed {
        node: usize,
        back: Instant,
    },
    Stopped {
        node: usize,
        back: Instant,
    },
    /// The shard recovers until one node replicates the other, and all nodes agree.
    Settling {
        node: usize,
        loses: bool,
        steady: Option<(Instant, u64)>,
    },
}

impl ClusterNodes {
    /// The other node of its shard.
    pub(crate) fn twin(&self, node: usize) -> usize {
        (node + self.cluster.nodes.len() / 2) % self.cluster.nodes.len()
    }

    /// The primary of that shard, when the other node replicates it.
    pub(crate) fn primary_of(&self, node: usize) -> Option<usize> {
        let twin = self.twin(node);
        let [a, b] = [node, twin].map(|node| role(&self.cluster.nodes[node]));
        let leads = |role: &str| role.contains("role:master") && role.contains("connected_slaves:1");
        let follows = |role: &str| role.contains("role:slave") && role.contains("master_link_status:up");
        match (a?, b?) {
            (a, b) if leads(&a) && follows(&b) => Some(node),
            (a, b) if leads(&b) && follows(&a) => Some(twin),
            _ => None,
        }
    }

    fn is_settled(&self, node: usize) -> bool {
        const REPLICAS: usize = 3;
        let agrees = |node: &RedisServer| {
            let nodes = client(node)
                .and_then(|mut client| redis::cmd("CLUSTER").arg("NODES").query(&mut client).ok());
            nodes.is_some_and(|nodes: String| {
                !nodes.contains("fail")
                    && nodes.lines().filter(|line| line.contains("slave")).count() == REPLICAS
            })
        };
        self.primary_of(node).is_some() && self.cluster.nodes.iter().all(agrees)
    }

    /// A loss begins now and lasts until `loss_ends`.
    pub(crate) fn begins_to_lose(&mut self, node: usize) {
        let keys = Some(self.keys_of(node));
        self.begins_to_forget(keys, now());
    }

    /// These keys, and all that is stored beside them.
    pub(crate) fn begins_to_forget(&mut self, keys: Option<Vec<u64>>, from: u64) {
        let detection = LossDetection::AtLeaseEnd;
        self.losses.push(Loss { keys, from, to: u64::MAX, detection, of_records: true });
    }

    pub(crate) fn loss_ends(&mut self, to: u64) {
        if let Some(loss) = self.losses.last_mut() {
            loss.to = to;
        }
    }

    /// Kills a primary, sometimes while its replica is behind.
    pub(crate) fn kill(&mut self, node: usize, behind: bool, random: &mut Random, log: &mut EventLog) {
        let twin = self.twin(node);
        self.begins_to_lose(node);
        if behind {
            self.cluster.nodes[twin].pause();
            if let Some(mut client) = client(&self.cluster.nodes[node]) {
                let _ = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").query::<u32>(&mut client);
            }
            thread::sleep(Duration::from_millis(random.between(20, 200)));
        }
        self.cluster.nodes[node].kill();
        if behind {
            self.cluster.nodes[twin].resume();
        }
        log.add("primaries killed", format!("{node}{}", if behind { ", its replica is behind" } else { "" }));
        self.state = State::Killed { node, back: soon(random, 10, 2000) };
    }

    pub(crate) fn stop(&mut self, node: usize, random: &mut Random, log: &mut EventLog) {
        self.begins_to_lose(node);
        self.cluster.nodes[node].pause();
        let longest = [300, 900, 5000][random.index(3)];
        let back = soon(random, longest / 2, longest);
        log.add("primaries stopped", format!("{node}, up to {longest} ms"));
        self.state = State::Stopped { node, back };
    }

    /// A manual failover, as operators do it; no lock is forgotten.
    pub(crate) fn hand_over(&mut self, node: usize, log: &mut EventLog) {
        let twin = self.twin(node);
        let Some(mut client) = client(&self.cluster.nodes[twin]) else {
            return;
        };
        if redis::cmd("CLUSTER").arg("FAILOVER").query::<String>(&mut client).is_ok() {
            log.add("primaries told to hand over", node);
            self.state = State::Settling { node, loses: false, steady: None };
        }
    }

    /// Records failovers that no fault caused: on a busy machine a node may answer too late.
    pub(crate) fn look(&mut self, log: &mut EventLog) {
        self.looked = Instant::now();
        for shard in 0..self.primaries.len() {
            let (known, since) = self.primaries[shard];
            let Some(primary) = self.primary_of(shard) else {
                continue;
            };
            self.primaries[shard] = (primary, now());
            if primary != known {
                log.add("failovers of themselves", known);
                self.begins_to_forget(None, since);
                self.loss_ends(now());
            }
        }
    }

    /// Takes one step back to normal, if it is time.
    pub(crate) fn recover(&mut self, all: bool) {
        let is_over = |until: Instant| all || until <= Instant::now();
        match self.state {
            State::Killed { node, back } if is_over(back) => {
                let twin = self.twin(node);
                if role(&self.cluster.nodes[twin]).is_some_and(|role| role.contains("role:master")) {
                    self.cluster.nodes[node].restart();
                    self.announce(node);
                    self.state = State::Settling { node, loses: true, steady: None };
                }
            }
            State::Stopped { node, back } if is_over(back) => {
                self.cluster.nodes[node].resume();
                self.state = State::Settling { node, loses: true, steady: None };
            }
            State::Settling { node, loses, steady } if self.is_settled(node) => {
                let (since, at) = steady.unwrap_or_else(|| (Instant::now(), now()));
                self.state = State::Settling { node, loses, steady: Some((since, at)) };
                if since.elapsed() > STEADY {
                    let primary = self.primary_of(node).unwrap_or(node);
                    if loses && primary == node {
                        // The node was back before its replica took over.
                        self.losses.pop();
                    } else if loses {
                        self.loss_ends(at);
                    }
                    let shards = self.primaries.len();
                    self.primaries[node % shards] = (primary, now());
                    self.state = State::Well;
                }
            }
            State::Settling { node, loses, .. } => {
                self.state = State::Settling { node, loses, steady: None };
            }
            _ => {}
        }
    }
}

fn role(node: &RedisServer) -> Option<String> {
    redis::cmd("INFO").arg("replication").query(&mut client(node)?).ok()
}
