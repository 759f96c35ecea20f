//! A Redis Cluster: its primaries are killed and stopped until their replicas take over, or hand over when they are told
//! to; slots move; nodes are cut off from their clients and replicas, and flushed.
//!
//! Clients, and replicas, reach each node through a way of ours: a node announces that port instead of its own. Nodes
//! talk to each other directly, so a node that is cut off stays in office.
//!
//! What is promised is what one server promises, but for locks that a failover or a flush has forgotten. Those excuse
//! two inside until whoever had such a lock knows it: as it cannot be renewed, a ttl later at most.

use std::thread;
use std::time::{Duration, Instant};

use super::caller::key;
use super::checker::{Loss, Told};
use super::company::{Company, Role};
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Ground, client, cut, flush_scripts};
use super::support::{Proxy, RedisCluster, RedisServer, Rewriter, eventually, now, owns};

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// A shard is well when it has looked so for this long: an election may be under way.
const STEADY: Duration = Duration::from_millis(500);

pub(crate) enum Way {
    Open(Proxy),
    Rewritten(Rewriter),
}

/// What happens to the nodes themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unrest {
    Nothing,
    /// Each to a replica that has not heard the latest.
    Failovers,
    /// What their user may do differs among them, and changes.
    Rights,
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
            _ => Company::ROAMERS,
        }
    }
}

pub(crate) struct Shards {
    cluster: RedisCluster,
    ways: Vec<Way>,
    unrest: Unrest,
    slots: Vec<u16>,
    /// Until when, on each node, the user may not be told of anything.
    denied: Vec<Option<Instant>>,
    state: State,
    closed: Option<(usize, Instant)>,
    /// Of each shard, the primary as we know it, and when we last saw that it is.
    primaries: Vec<(usize, u64)>,
    looked: Instant,
    losses: Vec<Loss>,
}

/// One shard at a time: without a majority of the primaries there is no failover.
#[derive(Clone, Copy)]
enum State {
    Well,
    Killed {
        node: usize,
        back: Instant,
    },
    Stopped {
        node: usize,
        back: Instant,
    },
    /// Until one of the two is the primary of the other, and everybody knows it.
    Settling {
        node: usize,
        loses: bool,
        steady: Option<(Instant, u64)>,
    },
}

impl Shards {
    pub(crate) fn everything() -> Self {
        Self::new(RedisCluster::start(), Unrest::Everything, |server| Way::Open(Proxy::to(server.port())))
    }

    pub(crate) fn new(cluster: RedisCluster, unrest: Unrest, way: impl Fn(&RedisServer) -> Way) -> Self {
        let ways: Vec<Way> = cluster.nodes.iter().map(way).collect();
        let keys = unrest.company().keys();
        let slots = keys.iter().map(|number| cluster.slot_of(&format!("lock:{}", key(*number)))).collect();
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
    pub(crate) fn denied(dice: &mut Dice) -> Self {
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

    /// How often a script was changed on its way.
    pub(crate) fn rewritten(&self) -> u64 {
        self.ways.iter().map(Way::rewritten).sum()
    }

    /// For another run, with other ways.
    pub(crate) fn into_cluster(self) -> RedisCluster {
        self.cluster
    }

    fn announce(&self, node: usize) {
        let command = format!("CONFIG SET cluster-announce-port {}", self.ways[node].port());
        eventually("it announces its way", || self.cluster.nodes[node].try_run::<String>(&command).is_ok());
    }

    /// The other one of its shard.
    fn twin(&self, node: usize) -> usize {
        (node + self.cluster.nodes.len() / 2) % self.cluster.nodes.len()
    }

    /// The one of that shard that is the primary, when the other replicates it.
    fn primary_of(&self, node: usize) -> Option<usize> {
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
        self.slots.iter().zip(0..).filter(|(slot, _)| is_here(**slot)).map(|(_, number)| number).collect()
    }

    /// From now on, until somebody says until when.
    fn begins_to_lose(&mut self, node: usize) {
        let keys = Some(self.keys_of(node));
        self.losses.push(Loss { keys, from: now(), to: u64::MAX, told: Told::AtItsEnd });
    }

    fn has_lost(&mut self, to: u64) {
        if let Some(loss) = self.losses.last_mut() {
            loss.to = to;
        }
    }

    /// Perhaps when its replica has not heard the latest.
    fn kill(&mut self, node: usize, behind: bool, dice: &mut Dice, deeds: &mut Deeds) {
        let twin = self.twin(node);
        self.begins_to_lose(node);
        if behind {
            self.cluster.nodes[twin].pause();
            if let Some(mut client) = client(&self.cluster.nodes[node]) {
                let _ = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").query::<u32>(&mut client);
            }
            thread::sleep(Duration::from_millis(dice.between(20, 200)));
        }
        self.cluster.nodes[node].kill();
        if behind {
            self.cluster.nodes[twin].resume();
        }
        deeds.add(
            "primaries killed",
            format!("{node}{}", if behind { ", its replica is behind" } else { "" }),
        );
        self.state = State::Killed { node, back: soon(dice, 10, 2000) };
    }

    fn stop(&mut self, node: usize, dice: &mut Dice, deeds: &mut Deeds) {
        self.begins_to_lose(node);
        self.cluster.nodes[node].pause();
        let longest = [300, 900, 5000][dice.index(3)];
        let back = soon(dice, longest / 2, longest);
        deeds.add("primaries stopped", format!("{node}, up to {longest} ms"));
        self.state = State::Stopped { node, back };
    }

    /// As operators do it; nothing is forgotten.
    fn hand_over(&mut self, node: usize, deeds: &mut Deeds) {
        let twin = self.twin(node);
        let Some(mut client) = client(&self.cluster.nodes[twin]) else {
            return;
        };
        if redis::cmd("CLUSTER").arg("FAILOVER").query::<String>(&mut client).is_ok() {
            deeds.add("primaries told to hand over", node);
            self.state = State::Settling { node, loses: false, steady: None };
        }
    }

    fn move_slot(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let slot = self.slots[dice.index(self.slots.len())];
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
    }

    /// Whether anybody has taken over unasked, as happens on a machine that is too busy for a node to answer in time.
    fn look(&mut self, deeds: &mut Deeds) {
        self.looked = Instant::now();
        for shard in 0..self.primaries.len() {
            let (known, since) = self.primaries[shard];
            let Some(primary) = self.primary_of(shard) else {
                continue;
            };
            self.primaries[shard] = (primary, now());
            if primary != known {
                deeds.add("failovers of themselves", known);
                self.losses.push(Loss { keys: None, from: since, to: u64::MAX, told: Told::AtItsEnd });
                self.has_lost(now());
            }
        }
    }

    fn flush(&mut self, node: usize, deeds: &mut Deeds) {
        if let Some(mut client) = client(&self.cluster.nodes[node]) {
            self.begins_to_lose(node);
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

    /// One step back to normal, if it is time.
    fn recover(&mut self, all: bool) {
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
                        // It was back before anybody took over.
                        self.losses.pop();
                    } else if loses {
                        self.has_lost(at);
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

fn role(node: &RedisServer) -> Option<String> {
    redis::cmd("INFO").arg("replication").query(&mut client(node)?).ok()
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
        if !is_well || (which < 60 && self.unrest == Unrest::Nothing) {
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

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Also on replicas.
    fn keys(&self) -> Vec<String> {
        let keys = self.cluster.nodes.iter().flat_map(RedisServer::keys);
        keys.filter(|name| !name.ends_with("%clock")).collect()
    }
}
