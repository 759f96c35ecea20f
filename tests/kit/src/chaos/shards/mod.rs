//! A Redis Cluster: its primaries are killed and stopped until their replicas take over, or hand over when they are told
//! to; slots move; nodes are cut off from their clients and replicas, and flushed.
//!
//! Clients, and replicas, reach each node through a way of ours: a node announces that port instead of its own. Nodes
//! talk to each other directly, so a node that is cut off stays in office.
//!
//! What is promised is what one server promises, but for locks that a failover or a flush has forgotten. Those excuse
//! two inside until whoever had such a lock knows it: as it cannot be renewed, a ttl later at most.

mod failover;

use std::thread;
use std::time::{Duration, Instant};

use super::caller::key;
use super::checker::{Loss, Told};
use super::company::{Company, Role};
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Ground, HAND_OVER, Sample, Watches, client, cut, flush_scripts};
use crate::{Proxy, RedisCluster, RedisServer, Rewriter, eventually, now, owns};
use failover::State;

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// A shard is well when it has looked so for this long: an election may be under way.
const STEADY: Duration = Duration::from_millis(500);

/// Between the workers and one node.
pub enum Way {
    /// It can be cut and silenced.
    Open(Proxy),
    /// It breaks a script.
    Rewritten(Rewriter),
}

/// What happens to the nodes themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unrest {
    /// The nodes stay well.
    Nothing,
    /// Each to a replica that has not heard the latest.
    Failovers,
    /// What their user may do differs among them, and changes.
    Rights,
    /// Their data and slots, behind crowds of waiters.
    Crowds,
    /// Nothing at all, behind bursts of calls.
    Bursts,
    /// All of it but bursts.
    Everything,
}

/// Whose rights are taken and given back.
const USER: &str = "shop";

/// What may be missing for a waiter to be told.
const NOTICES: [&str; 2] = [
    "-publish -subscribe -spublish -ssubscribe",
    "-publish -subscribe -spublish -ssubscribe -client|tracking",
];

impl Unrest {
    fn company(self) -> Company {
        match self {
            Self::Rights => Company {
                roles: &[(Role::Roams, 2), (Role::Keeps, 6)],
                freezes: 0,
                kills: 0,
                ..Company::ROAMERS
            },
            Self::Crowds => Company::CROWDS,
            Self::Bursts => Company::BURSTS,
            _ => Company::ROAMERS,
        }
    }
}

/// The nodes of a Cluster, and how each shard is.
pub struct Shards {
    cluster: RedisCluster,
    ways: Vec<Way>,
    unrest: Unrest,
    /// Of each key.
    slots: Vec<(u64, u16)>,
    /// Until when, on each node, the user may not be told of anything.
    denied: Vec<Option<Instant>>,
    state: State,
    closed: Option<(usize, Instant)>,
    /// Of each shard, the primary as we know it, and when we last saw that it is.
    primaries: Vec<(usize, u64)>,
    looked: Instant,
    losses: Vec<Loss>,
    watches: Watches,
    disturbances: Vec<Option<Vec<u64>>>,
}

impl Shards {
    /// In a Cluster of its own, over ways that can be cut.
    pub fn start(unrest: Unrest) -> Self {
        Self::new(RedisCluster::start(), unrest, |server| Way::Open(Proxy::to(server.port())))
    }

    /// In this Cluster, over a way of this kind to each node.
    pub fn new(cluster: RedisCluster, unrest: Unrest, way: impl Fn(&RedisServer) -> Way) -> Self {
        let ways: Vec<Way> = cluster.nodes.iter().map(way).collect();
        let keys = unrest.company().keys();
        let slot = |number| (number, cluster.slot_of(&format!("lock:{}", key(number))));
        let slots = keys.into_iter().map(slot).collect();
        let mut shards = Self {
            cluster,
            ways,
            unrest,
            slots,
            denied: vec![None; 2 * 3],
            state: State::Well,
            closed: None,
            primaries: Vec::new(),
            looked: Instant::now(),
            losses: Vec::new(),
            watches: Watches::default(),
            disturbances: Vec::new(),
        };
        for node in 0..shards.ways.len() {
            shards.announce(node);
        }
        eventually("everybody knows the ways", || {
            let known = |node: &RedisServer| {
                let nodes: String = node.run("CLUSTER NODES");
                shards.ways.iter().all(|way| nodes.contains(&format!(":{}@", way.port())))
            };
            shards.cluster.nodes.iter().all(known)
        });
        for shard in 0..shards.ways.len() / 2 {
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
    pub fn denied(dice: &mut Dice) -> Self {
        let user = ["--user", USER, "on", ">pass", "~*", "&*", "+@all"];
        let cluster = RedisCluster::of_nodes("port", || user.map(str::to_owned).to_vec());
        let mut shards = Self::new(cluster, Unrest::Rights, |server| Way::Open(Proxy::to(server.port())));
        for node in 0..shards.denied.len() {
            shards.deny(node, dice);
        }
        shards
    }

    fn deny(&mut self, node: usize, dice: &mut Dice) {
        let rights = NOTICES[dice.index(NOTICES.len())];
        if self.denied[node].is_none() {
            let _ = self.cluster.nodes[node].try_run::<String>(&format!("ACL SETUSER {USER} {rights}"));
            self.denied[node] = Some(soon(dice, 500, 4000));
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

    /// A client of another kind takes a lock, and lets it expire.
    fn squat(&self, dice: &mut Dice, deeds: &mut Deeds) {
        let keys = self.unrest.company().keys();
        let name = format!("lock:{}", key(keys[dice.index(keys.len())]));
        let set = format!("SET {name} squatter NX PX {}", dice.between(20, 500));
        let _ = self.cluster.owner_of(&name).try_run::<Option<String>>(&set);
        deeds.add("locks squatted on", &name);
    }

    /// For another run, with other ways.
    pub fn into_cluster(self) -> RedisCluster {
        self.cluster
    }

    fn announce(&self, node: usize) {
        let command = format!("CONFIG SET cluster-announce-port {}", self.ways[node].port());
        eventually("it announces its way", || self.cluster.nodes[node].try_run::<String>(&command).is_ok());
    }

    /// Any primary, while all are well.
    fn some_primary(&self, dice: &mut Dice) -> Option<usize> {
        let ports: Vec<u16> = self.cluster.primaries().iter().map(|node| node.port()).collect();
        let port = *ports.get(dice.index(ports.len().max(1)))?;
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

    fn move_slot(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let (_, slot) = self.slots[dice.index(self.slots.len())];
        let others: Vec<&RedisServer> =
            self.cluster.primaries().into_iter().filter(|node| !owns(node, slot)).collect();
        if others.len() == 2 {
            let pause = Duration::from_millis([0, 0, 20, 100][dice.index(4)]);
            let (to, from) = (others[dice.index(2)], now());
            deeds.add("slots moved", slot);
            if self.cluster.try_migrate(slot, to, || thread::sleep(pause)).is_err() {
                deeds.add("slots moved in vain", slot);
                self.start_afresh(slot, from);
            }
        }
    }

    /// Some of what is in the slot is here and some there: the slot stays where it is, with nothing in it.
    fn start_afresh(&mut self, slot: u16, from: u64) {
        for node in &self.cluster.nodes {
            let _ = node.try_run::<String>(&format!("CLUSTER SETSLOT {slot} STABLE"));
        }
        eventually("everything is flushed", || {
            let primaries = self.cluster.primaries();
            primaries.len() == 3 && primaries.iter().all(|node| node.try_run::<String>("FLUSHALL").is_ok())
        });
        self.losses.push(Loss { keys: None, from, to: u64::MAX, told: Told::AtItsEnd });
        self.has_lost(now());
        self.disturbances.push(None);
    }

    fn delete_queue(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let (number, _) = self.slots[dice.index(self.slots.len())];
        let there = self.cluster.primaries().into_iter().find_map(|node| {
            let is_it = |name: &String| name.contains("%queue") && name.ends_with(&key(number));
            let queue = node.keys().into_iter().find(is_it)?;
            node.try_run::<u32>(&format!("DEL {queue}")).ok()
        });
        if there.is_some() {
            self.disturbances.push(Some(vec![number]));
            deeds.add("queues deleted", key(number));
        }
    }

    fn flush(&mut self, node: usize, deeds: &mut Deeds) {
        if let Some(mut client) = client(&self.cluster.nodes[node]) {
            self.begins_to_lose(node);
            self.disturbances.push(Some(self.keys_of(node)));
            let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
            self.has_lost(now());
            deeds.add("flushes", node);
        }
    }

    fn close(&mut self, node: usize, dice: &mut Dice, deeds: &mut Deeds) {
        if let (Way::Open(proxy), None) = (&self.ways[node], self.closed) {
            let refuses = dice.percent(50);
            if refuses {
                proxy.refuse(true);
            } else {
                proxy.hold_replies(true);
            }
            self.closed = Some((node, soon(dice, 50, 1500)));
            deeds.add("nodes cut off", format!("{node}, {}", if refuses { "refused" } else { "silent" }));
        }
    }

    fn open(&mut self) {
        if let Some((node, _)) = self.closed.take()
            && let Way::Open(proxy) = &self.ways[node]
        {
            proxy.refuse(false);
            proxy.hold_replies(false);
        }
    }
}

impl Way {
    fn port(&self) -> u16 {
        match self {
            Self::Open(proxy) => proxy.port(),
            Self::Rewritten(rewriter) => rewriter.port(),
        }
    }

    fn rewritten(&self) -> u64 {
        match self {
            Self::Open(_) => 0,
            Self::Rewritten(rewriter) => rewriter.rewritten(),
        }
    }
}

fn soon(dice: &mut Dice, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(dice.between(from, to))
}

impl Ground for Shards {
    fn company(&self) -> Company {
        self.unrest.company()
    }

    fn address(&mut self, _: &mut Dice) -> String {
        let url = self.cluster.url();
        if self.unrest == Unrest::Rights { url.replace("://", &format!("://{USER}:pass@")) } else { url }
    }

    fn ttls(&self) -> [u64; 4] {
        TTLS
    }

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let is_well = matches!(self.state, State::Well);
        let which = dice.between(0, 100);
        let rests = match self.unrest {
            Unrest::Nothing => which < 60,
            Unrest::Crowds => which < 90,
            Unrest::Bursts => true,
            _ => false,
        };
        if !is_well || rests {
            return;
        }
        let Some(node) = self.some_primary(dice) else {
            return;
        };
        match which {
            0..10 if self.unrest == Unrest::Rights => {
                self.deny(node, dice);
                deeds.add("rights taken", node);
            }
            10..30 if self.unrest == Unrest::Rights => self.squat(dice, deeds),
            30..60 if self.unrest == Unrest::Rights => {}
            90..92 if self.unrest == Unrest::Crowds => self.flush(node, deeds),
            92..95 if self.unrest == Unrest::Crowds => self.delete_queue(dice, deeds),
            95..98 if self.unrest == Unrest::Crowds => self.move_slot(dice, deeds),
            0..60 if self.unrest == Unrest::Failovers => self.kill(node, true, dice, deeds),
            0..8 => self.kill(node, dice.percent(50), dice, deeds),
            8..16 => self.stop(node, dice, deeds),
            16..24 => self.hand_over(node, deeds),
            24..44 => self.move_slot(dice, deeds),
            44..56 => self.close(node, dice, deeds),
            56..60 => self.flush(node, deeds),
            _ => {
                let Some(mut client) = client(&self.cluster.nodes[node]) else {
                    return;
                };
                if which < 80 {
                    cut(&mut client, dice, deeds);
                } else {
                    flush_scripts(&mut client, deeds);
                }
            }
        }
    }

    fn heal(&mut self, all: bool, deeds: &mut Deeds) {
        if self.closed.is_some_and(|(_, until)| all || until <= Instant::now()) {
            self.open();
        }
        self.give_back(all);
        self.recover(all);
        if all {
            eventually("the cluster is well again", || {
                self.recover(true);
                let replicates = |(node, _): &(usize, u64)| self.primary_of(*node).is_some();
                matches!(self.state, State::Well) && self.primaries.iter().all(replicates)
            });
        }
        if matches!(self.state, State::Well) && (all || self.looked.elapsed() > STEADY) {
            self.look(deeds);
        }
    }

    /// Not while a worker may not reach a primary.
    fn sample(&mut self) -> Option<Sample> {
        let is_well = matches!(self.state, State::Well) && self.closed.is_none();
        if !is_well || self.denied.iter().any(Option::is_some) {
            return None;
        }
        let samples = self.watches.look(self.cluster.nodes.iter(), &self.company().keys())?;
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

    fn hands_over_within(&self) -> Option<Duration> {
        (self.unrest == Unrest::Bursts).then_some(HAND_OVER)
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn rewrites(&self) -> u64 {
        self.ways.iter().map(Way::rewritten).sum()
    }

    /// Also on replicas.
    fn keys(&self) -> Vec<String> {
        let keys = self.cluster.nodes.iter().flat_map(RedisServer::keys);
        keys.filter(|name| !name.ends_with("%clock")).collect()
    }
}
