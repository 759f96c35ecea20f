//! A Redis Cluster: its primaries are killed and stopped until their replicas take over, or hand
//! over on command; slots move; nodes are cut off from their clients and replicas, and flushed.
//!
//! Clients, and replicas, reach each node through a proxy of ours: a node announces that port
//! instead of its own. Nodes talk to each other directly, so a node that is cut off stays primary.
//!
//! The promises are those of one server, except for locks that a failover or a flush has forgotten.
//! Those excuse two callers inside until the holder notices: the lock cannot be renewed, so a ttl
//! later at most.

mod failover;

use std::thread;
use std::time::{Duration, Instant};

use crate::chaos::checker::Loss;
use crate::chaos::environment::proxies::unasked;
use crate::chaos::environment::{Environment, HAND_OVER, Sample, Watches, client, cut, flush_scripts};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::chaos::workload::fleet::{Fleet, Role};
use crate::{Proxy, RedisCluster, RedisServer, Rewriter, eventually, now, owns};
use failover::State;

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// The slot of no lock of the workers.
const NOBODYS: u16 = 7;

/// A shard is well when it has looked well for this long: an election may be under way.
const STEADY: Duration = Duration::from_millis(500);

/// Between the workers and one node.
pub enum NodeProxy {
    /// It can be cut and silenced.
    Plain(Proxy),
    /// It breaks a script.
    Rewriting(Rewriter),
}

/// The faults of the nodes themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClusterFaults {
    /// The nodes stay well.
    Nothing,
    /// Failovers, some to a replica that is behind.
    Failovers,
    /// The rights of the user differ among the nodes, and change.
    Rights,
    /// Flushes and moved slots, under crowds of waiters.
    Crowds,
    /// None, under bursts of calls.
    Bursts,
    /// Replies for which no command has asked.
    StrayReplies,
    /// The nodes refuse all calls for a while, because nobody has one of the slots.
    Refusals,
    /// The first of these, all at once.
    Everything,
}

/// The user whose rights are taken and given back.
const USER: &str = "shop";

/// The missing rights without which a node cannot push to a waiter.
const NOTICES: [&str; 2] = [
    "-publish -subscribe -spublish -ssubscribe",
    "-publish -subscribe -spublish -ssubscribe -client|tracking",
];

impl ClusterFaults {
    fn fleet(self) -> Fleet {
        match self {
            Self::Rights => Fleet {
                roles: &[(Role::Mixed, 2), (Role::LongHolds, 6)],
                freezes: 0,
                kills: 0,
                ..Fleet::MIXED
            },
            Self::Crowds => Fleet::CROWDS,
            Self::Bursts => Fleet::BURSTS,
            Self::StrayReplies => Fleet { roles: &[(Role::Rests, 6)], ..Fleet::CALM },
            Self::Refusals => Fleet { roles: &[(Role::EndsRefused, 3), (Role::Mixed, 2)], ..Fleet::CALM },
            _ => Fleet::OF_ALL_KINDS,
        }
    }
}

/// The nodes of a Cluster, and how each shard is.
pub struct ClusterNodes {
    cluster: RedisCluster,
    proxies: Vec<NodeProxy>,
    faults: ClusterFaults,
    /// The slot of each key.
    slots: Vec<(u64, u16)>,
    /// Until when, on each node, the user may not receive pushes.
    denied: Vec<Option<Instant>>,
    state: State,
    closed: Option<(usize, Instant)>,
    /// With the owner of the slot that nobody has.
    refuses_until: Option<(Instant, usize)>,
    /// The primary of each shard as last seen, and when that was.
    primaries: Vec<(usize, u64)>,
    looked: Instant,
    losses: Vec<Loss>,
    watches: Watches,
    disturbances: Vec<Option<Vec<u64>>>,
}

impl ClusterNodes {
    /// A Cluster of its own, over proxies that can be cut.
    pub fn start(faults: ClusterFaults) -> Self {
        Self::new(RedisCluster::that_fails_over(), faults, |server| {
            NodeProxy::Plain(Proxy::to(server.port()))
        })
    }

    /// This Cluster, over a proxy of this kind to each node.
    pub fn new(
        cluster: RedisCluster,
        faults: ClusterFaults,
        proxy: impl Fn(&RedisServer) -> NodeProxy,
    ) -> Self {
        let proxies: Vec<NodeProxy> = cluster.nodes.iter().map(proxy).collect();
        let keys = faults.fleet().keys();
        let slot = |number| (number, cluster.slot_of(&format!("lock:{}", key(number))));
        let slots = keys.into_iter().map(slot).collect();
        let mut shards = Self {
            cluster,
            proxies,
            faults,
            slots,
            denied: vec![None; 2 * 3],
            state: State::Well,
            closed: None,
            refuses_until: None,
            primaries: Vec::new(),
            looked: Instant::now(),
            losses: Vec::new(),
            watches: Watches::default(),
            disturbances: Vec::new(),
        };
        for node in 0..shards.proxies.len() {
            shards.announce(node);
        }
        eventually("every node knows the proxies", || {
            let known = |node: &RedisServer| {
                let nodes: String = node.run("CLUSTER NODES");
                shards.proxies.iter().all(|proxy| nodes.contains(&format!(":{}@", proxy.port())))
            };
            shards.cluster.nodes.iter().all(known)
        });
        for shard in 0..shards.proxies.len() / 2 {
            let mut primary = None;
            eventually("it replicates again", || {
                primary = shards.primary_of(shard);
                primary.is_some()
            });
            shards.primaries.extend(primary.map(|node| (node, now())));
        }
        shards
    }

    /// Nothing but rights and connections: at first they are missing.
    pub fn denied(random: &mut Random) -> Self {
        let user = ["--user", USER, "on", ">pass", "~*", "&*", "+@all"];
        let cluster = RedisCluster::of_nodes("port", || user.map(str::to_owned).to_vec());
        let mut shards =
            Self::new(cluster, ClusterFaults::Rights, |server| NodeProxy::Plain(Proxy::to(server.port())));
        for node in 0..shards.denied.len() {
            shards.deny(node, random);
        }
        shards
    }

    fn deny(&mut self, node: usize, random: &mut Random) {
        let rights = NOTICES[random.index(NOTICES.len())];
        if self.denied[node].is_none() {
            let _ = self.cluster.nodes[node].try_run::<String>(&format!("ACL SETUSER {USER} {rights}"));
            self.denied[node] = Some(soon(random, 500, 4000));
        }
    }

    fn give_back(&mut self, all: bool) {
        let is_over = |until: Instant| all || until <= Instant::now();
        for (node, until) in self.cluster.nodes.iter().zip(&mut self.denied) {
            if until.take_if(|until| is_over(*until)).is_some() {
                let _ = node.try_run::<String>(&format!("ACL SETUSER {USER} +@all"));
            }
        }
    }

    /// A foreign client takes a lock, and lets it expire.
    fn squat(&self, random: &mut Random, log: &mut EventLog) {
        let keys = self.faults.fleet().keys();
        let name = format!("lock:{}", key(keys[random.index(keys.len())]));
        let set = format!("SET {name} squatter NX PX {}", random.between(20, 500));
        let _ = self.cluster.owner_of(&name).try_run::<Option<String>>(&set);
        log.add("locks taken by a foreign client", &name);
    }

    /// The Cluster, for another run with other proxies.
    pub fn into_cluster(self) -> RedisCluster {
        self.cluster
    }

    fn announce(&self, node: usize) {
        let command = format!("CONFIG SET cluster-announce-port {}", self.proxies[node].port());
        eventually("it announces its proxy", || self.cluster.nodes[node].try_run::<String>(&command).is_ok());
    }

    /// Any primary, while all are well.
    fn some_primary(&self, random: &mut Random) -> Option<usize> {
        let ports: Vec<u16> = self.cluster.primaries().iter().map(|node| node.port()).collect();
        let port = *ports.get(random.index(ports.len().max(1)))?;
        self.cluster.nodes.iter().position(|node| node.port() == port)
    }

    /// Those that no other primary has.
    fn keys_of(&self, node: usize) -> Vec<u64> {
        let port = self.cluster.nodes[node].port();
        let others: Vec<_> =
            self.cluster.primaries().into_iter().filter(|node| node.port() != port).collect();
        let is_here = |slot: u16| !others.iter().any(|other| owns(other, slot));
        self.slots.iter().filter(|(_, slot)| is_here(*slot)).map(|(number, _)| *number).collect()
    }

    fn move_slot(&mut self, random: &mut Random, log: &mut EventLog) {
        let (_, slot) = self.slots[random.index(self.slots.len())];
        let others: Vec<&RedisServer> =
            self.cluster.primaries().into_iter().filter(|node| !owns(node, slot)).collect();
        if others.len() == 2 {
            let pause = Duration::from_millis([0, 0, 20, 100][random.index(4)]);
            let (to, from) = (others[random.index(2)], now());
            log.add("slots moved", slot);
            if self.cluster.try_migrate(slot, to, || thread::sleep(pause)).is_err() {
                log.add("slots moved in vain", slot);
                self.start_afresh(slot, from);
            }
        }
    }

    /// The keys of the slot are on both nodes: the slot stays at its old node, without its keys.
    fn start_afresh(&mut self, slot: u16, from: u64) {
        for node in &self.cluster.nodes {
            let _ = node.try_run::<String>(&format!("CLUSTER SETSLOT {slot} STABLE"));
        }
        eventually("everything is flushed", || {
            let primaries = self.cluster.primaries();
            primaries.len() == 3 && primaries.iter().all(|node| node.try_run::<String>("FLUSHALL").is_ok())
        });
        self.begins_to_forget(None, from);
        self.loss_ends(now());
        self.disturbances.push(None);
    }

    fn delete_queue(&mut self, random: &mut Random, log: &mut EventLog) {
        let (number, _) = self.slots[random.index(self.slots.len())];
        let there = self.cluster.primaries().into_iter().find_map(|node| {
            let is_it = |name: &String| name.contains("%queue") && name.ends_with(&key(number));
            let queue = node.keys().into_iter().find(is_it)?;
            node.try_run::<u32>(&format!("DEL {queue}")).ok()
        });
        if there.is_some() {
            self.disturbances.push(Some(vec![number]));
            log.add("queues deleted", key(number));
        }
    }

    fn flush(&mut self, node: usize, log: &mut EventLog) {
        if let Some(mut client) = client(&self.cluster.nodes[node]) {
            self.begins_to_lose(node);
            self.disturbances.push(Some(self.keys_of(node)));
            // Another node may have taken over since: then this one refuses.
            let flushed: redis::RedisResult<()> = redis::cmd("FLUSHALL").query(&mut client);
            self.loss_ends(now());
            if flushed.is_ok() {
                log.add("flushes", node);
            }
        }
    }

    fn close(&mut self, node: usize, random: &mut Random, log: &mut EventLog) {
        if let (NodeProxy::Plain(proxy), None) = (&self.proxies[node], self.closed) {
            let refuses = random.percent(50);
            if refuses {
                proxy.refuse(true);
            } else {
                proxy.hold_replies(true);
            }
            self.closed = Some((node, soon(random, 50, 1500)));
            log.add("nodes cut off", format!("{node}, {}", if refuses { "refused" } else { "silent" }));
        }
    }

    /// A client gets a reply that it has not asked for.
    fn say_unasked(&self, node: usize, random: &mut Random, log: &mut EventLog) {
        let reply = unasked(random);
        if let NodeProxy::Plain(proxy) = &self.proxies[node]
            && proxy.say(reply.as_bytes())
        {
            log.add("stray replies", reply.trim_end());
        }
    }

    /// Nobody has a slot, of which no lock is: a node without all slots answers no call.
    fn refuse(&mut self, random: &mut Random, log: &mut EventLog) {
        let owner = self.cluster.nodes.iter().position(|node| owns(node, NOBODYS));
        if let Some(owner) = owner.filter(|_| self.refuses_until.is_none()) {
            let delete = format!("CLUSTER DELSLOTS {NOBODYS}");
            let nodes = &self.cluster.nodes;
            eventually("the cluster is down", || {
                for node in nodes {
                    let _ = node.try_run::<String>(&delete);
                }
                let is_down = |node: &RedisServer| {
                    node.try_run::<String>("CLUSTER INFO")
                        .is_ok_and(|info| info.contains("cluster_state:fail"))
                };
                nodes.iter().all(is_down)
            });
            self.refuses_until = Some((soon(random, 1000, 3000), owner));
            log.add("refusals", "nobody has a slot");
        }
    }

    fn refuse_no_more(&self, owner: usize) {
        let _: String = self.cluster.nodes[owner].run(&format!("CLUSTER ADDSLOTS {NOBODYS}"));
        eventually("the cluster is up", || {
            let is_up = |node: &RedisServer| node.run::<String>("CLUSTER INFO").contains("cluster_state:ok");
            self.cluster.nodes.iter().all(is_up)
        });
    }

    fn open(&mut self) {
        if let Some((node, _)) = self.closed.take()
            && let NodeProxy::Plain(proxy) = &self.proxies[node]
        {
            proxy.refuse(false);
            proxy.hold_replies(false);
        }
    }
}

impl NodeProxy {
    fn port(&self) -> u16 {
        match self {
            Self::Plain(proxy) => proxy.port(),
            Self::Rewriting(rewriter) => rewriter.port(),
        }
    }

    fn rewritten(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Rewriting(rewriter) => rewriter.rewritten(),
        }
    }
}

fn soon(random: &mut Random, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(random.between(from, to))
}

impl Environment for ClusterNodes {
    fn fleet(&self) -> Fleet {
        self.faults.fleet()
    }

    fn address(&mut self, _: &mut Random) -> String {
        let url = self.cluster.url();
        if self.faults == ClusterFaults::Rights {
            url.replace("://", &format!("://{USER}:pass@"))
        } else {
            url
        }
    }

    fn ttls(&self) -> [u64; 4] {
        TTLS
    }

    fn inject_fault(&mut self, random: &mut Random, log: &mut EventLog) {
        let is_well = matches!(self.state, State::Well);
        let which = random.between(0, 100);
        let rests = match self.faults {
            ClusterFaults::Nothing => which < 60,
            ClusterFaults::Crowds => which < 90,
            ClusterFaults::Bursts => true,
            _ => false,
        };
        if !is_well || rests {
            return;
        }
        let Some(node) = self.some_primary(random) else {
            return;
        };
        match which {
            0..10 if self.faults == ClusterFaults::Rights => {
                self.deny(node, random);
                log.add("rights taken", node);
            }
            10..30 if self.faults == ClusterFaults::Rights => self.squat(random, log),
            30..60 if self.faults == ClusterFaults::Rights => {}
            _ if self.faults == ClusterFaults::StrayReplies => self.say_unasked(node, random, log),
            0..10 if self.faults == ClusterFaults::Refusals => self.refuse(random, log),
            _ if self.faults == ClusterFaults::Refusals => {}
            90..92 if self.faults == ClusterFaults::Crowds => self.flush(node, log),
            92..95 if self.faults == ClusterFaults::Crowds => self.delete_queue(random, log),
            95..98 if self.faults == ClusterFaults::Crowds => self.move_slot(random, log),
            0..60 if self.faults == ClusterFaults::Failovers => self.kill(node, true, random, log),
            0..8 => self.kill(node, random.percent(50), random, log),
            8..16 => self.stop(node, random, log),
            16..24 => self.hand_over(node, log),
            24..44 => self.move_slot(random, log),
            44..56 => self.close(node, random, log),
            56..60 => self.flush(node, log),
            _ => {
                let Some(mut client) = client(&self.cluster.nodes[node]) else {
                    return;
                };
                if which < 80 {
                    cut(&mut client, random, log);
                } else {
                    flush_scripts(&mut client, log);
                }
            }
        }
    }

    fn heal(&mut self, all: bool, log: &mut EventLog) {
        if self.closed.is_some_and(|(_, until)| all || until <= Instant::now()) {
            self.open();
        }
        self.give_back(all);
        if let Some((_, owner)) = self.refuses_until.take_if(|(until, _)| all || *until <= Instant::now()) {
            self.refuse_no_more(owner);
        }
        self.recover(all);
        if all {
            eventually("the cluster is well again", || {
                self.recover(true);
                let replicates = |(node, _): &(usize, u64)| self.primary_of(*node).is_some();
                matches!(self.state, State::Well) && self.primaries.iter().all(replicates)
            });
        }
        if matches!(self.state, State::Well) && (all || self.looked.elapsed() > STEADY) {
            self.look(log);
        }
    }

    /// Not while a worker may not reach a primary.
    fn sample(&mut self) -> Option<Sample> {
        let is_well = matches!(self.state, State::Well) && self.closed.is_none();
        if !is_well || self.refuses_until.is_some() || self.denied.iter().any(Option::is_some) {
            return None;
        }
        let samples = self.watches.look(self.cluster.nodes.iter(), &self.fleet().keys())?;
        // A key is seen on the one primary that has it.
        samples.into_iter().reduce(|mut all, one| {
            all.to = one.to;
            all.locks.extend(one.locks);
            all
        })
    }

    fn disturbances(&mut self) -> Vec<Option<Vec<u64>>> {
        std::mem::take(&mut self.disturbances)
    }

    fn delays_answers(&self) -> bool {
        !matches!(self.faults, ClusterFaults::Nothing | ClusterFaults::Bursts)
    }

    fn hands_over_within(&self) -> Option<Duration> {
        (self.faults == ClusterFaults::Bursts).then_some(HAND_OVER)
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn rewrites(&self) -> u64 {
        self.proxies.iter().map(NodeProxy::rewritten).sum()
    }

    /// Lists the keys of all nodes, replicas too. Each text says on which node the key is, and how many
    /// waiters it has.
    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for (number, node) in self.cluster.nodes.iter().enumerate() {
            let role = match self.primary_of(number) {
                Some(primary) if primary == number => "a primary",
                Some(_) => "a replica",
                None => "whose shard fails over",
            };
            for key in node.keys().into_iter().filter(|key| !key.ends_with("%clock")) {
                let lasts = node.try_run::<i64>(&format!("PTTL {key}")).unwrap_or_default();
                let waiters = node.try_run::<u64>(&format!("ZCARD {key}")).unwrap_or_default();
                keys.push(format!("{key} on node {number}, {role}, for {lasts} ms, {waiters} waiters"));
            }
        }
        keys
    }
}
