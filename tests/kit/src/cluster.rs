//! A Redis Cluster of three primaries and three replicas, on free loopback ports.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{REDIS_SERVER, RedisServer, end_with_this_process, spawn};
use crate::{LIMIT, eventually, free_port, unique};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// Its nodes are killed when this is dropped.
pub struct RedisCluster {
    /// The primaries at the start, then their replicas. Their ports are those that the test itself
    /// uses.
    pub nodes: Vec<RedisServer>,
    /// How they name their ports to each other and to clients.
    port_setting: &'static str,
}

impl RedisCluster {
    /// Ready: every node knows the slots, and each replica replicates. No replica takes over because a busy machine stops
    /// a node for a moment.
    pub fn start() -> Self {
        let cluster = Self::that_fails_over();
        for node in &cluster.nodes {
            let _: String = node.run("CONFIG SET cluster-node-timeout 4000");
        }
        cluster
    }

    /// [`start`](Self::start), for a test in which a node fails: its replica takes over after a second.
    pub fn that_fails_over() -> Self {
        Self::of_nodes("port", Vec::new)
    }

    /// `more`: settings for each node.
    pub fn of_nodes(port_setting: &'static str, more: impl Fn() -> Vec<String>) -> Self {
        let nodes = (0..2 * PRIMARIES).map(|_| start_node(&more)).collect();
        let cluster = Self { nodes, port_setting };
        let first = &cluster.nodes[0];
        let bus = bus_port(first);
        for (number, node) in cluster.nodes.iter().enumerate() {
            let _: String = node.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            if number < PRIMARIES {
                // Not by range: that is a command of Redis 7.0.
                let slots = number * SLOTS / PRIMARIES..(number + 1) * SLOTS / PRIMARIES;
                let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
                let _: String = node.run(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
            }
            let _: String = node.run(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", cluster.port_of(first)));
        }
        let all = |what: &str, line: &str| {
            eventually(what, || {
                cluster.nodes.iter().all(|node| node.run::<String>("CLUSTER INFO").contains(line))
            });
        };
        all("all nodes know each other", "cluster_known_nodes:6");
        for (replica, primary) in cluster.nodes[PRIMARIES..].iter().zip(&cluster.nodes) {
            let id: String = primary.run("CLUSTER MYID");
            eventually("the primary is known there", || replica.run::<String>("CLUSTER NODES").contains(&id));
            let _: String = replica.run(&format!("CLUSTER REPLICATE {id}"));
        }
        all("the cluster works", "cluster_state:ok");
        eventually("all nodes see the same", || {
            let count = |node: &RedisServer| {
                let nodes: String = node.run("CLUSTER NODES");
                nodes.lines().filter(|line| line.contains("slave")).count()
            };
            cluster.nodes.iter().all(|node| count(node) == PRIMARIES)
        });
        for replica in &cluster.nodes[PRIMARIES..] {
            eventually("it replicates", || {
                replica.run::<String>("INFO replication").contains("master_link_status:up")
            });
        }
        cluster
    }

    /// One that lives as long as this process, for tests that share it.
    pub fn of_this_process() -> &'static Self {
        static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| {
            let cluster = RedisCluster::start();
            end_with_this_process(&cluster.nodes);
            cluster
        });
        &CLUSTER
    }

    /// Two of the nodes: the others are found.
    pub fn url(&self) -> String {
        self.url_of("redis+cluster", "127.0.0.1")
    }

    /// [`url`](Self::url) with this scheme and host.
    pub fn url_of(&self, scheme: &str, host: &str) -> String {
        let [a, b] = [&self.nodes[1], &self.nodes[4]].map(|node| self.port_of(node));
        format!("{scheme}://{host}:{a},{host}:{b}")
    }

    /// As clients know it.
    pub fn port_of(&self, node: &RedisServer) -> u16 {
        // Without asking: it may be stopped.
        if self.port_setting == "port" {
            return node.port();
        }
        let (_, port): (String, u16) = node.run(&format!("CONFIG GET {}", self.port_setting));
        port
    }

    /// The slot of a key, hash tag or not.
    pub fn slot_of(&self, name: &str) -> u16 {
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(name).query(&mut self.nodes[0].client()).unwrap()
    }

    /// The node that has the slot of this name, as it says itself.
    pub fn owner_of(&self, name: &str) -> &RedisServer {
        let slot = self.slot_of(name);
        let mut owner = None;
        eventually("a node has the slot", || {
            owner = self.primaries().into_iter().find(|node| owns(node, slot));
            owner.is_some()
        });
        owner.unwrap()
    }

    /// The replicas at the start that are primaries now, because a node did not answer in time.
    pub fn promoted(&self) -> Vec<u16> {
        let is_replica =
            |node: &&RedisServer| self.nodes[PRIMARIES..].iter().any(|other| other.port() == node.port());
        self.primaries().into_iter().filter(is_replica).map(RedisServer::port).collect()
    }

    /// Those that are alive and are primaries.
    pub fn primaries(&self) -> Vec<&RedisServer> {
        let is_primary = |node: &&RedisServer| {
            let Some(mut client) = node.connect() else {
                return false;
            };
            let role = redis::cmd("INFO").arg("replication").query::<String>(&mut client);
            role.is_ok_and(|role| role.contains("role:master"))
        };
        self.nodes.iter().filter(is_primary).collect()
    }

    /// Every key but the clocks of fencing tokens, which stay.
    pub fn keys(&self) -> Vec<String> {
        self.primaries().iter().flat_map(|node| node.keys()).collect()
    }

    /// The keys that start so; other tests may use the cluster, too.
    pub fn keys_of(&self, prefix: &str) -> Vec<String> {
        self.keys().into_iter().filter(|key| key.starts_with(prefix)).collect()
    }

    /// Moves a slot, with all that is in it, as operators do. `meanwhile` is called when all keys
    /// have been moved and the slot has not.
    pub fn migrate(&self, slot: u16, to: &RedisServer, meanwhile: impl FnOnce()) {
        self.try_migrate(slot, to, meanwhile).unwrap();
    }

    /// [`migrate`](Self::migrate) that may fail: on a busy machine a node that does not answer in
    /// time is replaced.
    pub fn try_migrate(
        &self,
        slot: u16,
        to: &RedisServer,
        meanwhile: impl FnOnce(),
    ) -> redis::RedisResult<()> {
        let start = Instant::now();
        while !self.agrees_on_the_epoch() {
            if start.elapsed() > LIMIT / 4 {
                return Err((redis::ErrorKind::Client, "the nodes do not agree on the epoch").into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        let from = self.primaries().into_iter().find(|node| owns(node, slot));
        let from = from.ok_or((redis::ErrorKind::Client, "no node has the slot"))?;
        let ids = [from.try_run::<String>("CLUSTER MYID")?, to.try_run("CLUSTER MYID")?];
        let _: String = to.try_run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]))?;
        let _: String = from.try_run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1]))?;
        loop {
            let keys: Vec<String> = from.try_run(&format!("CLUSTER GETKEYSINSLOT {slot} 10"))?;
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.port_of(to)).arg("").arg(0).arg(5000).arg("KEYS").arg(&keys);
            let _: String = migrate.query(&mut from.client())?;
        }
        meanwhile();
        let others = self.primaries().into_iter().filter(|node| node.port() != to.port());
        for node in [to].into_iter().chain(others) {
            let command = format!("CLUSTER SETSLOT {slot} NODE {}", ids[1]);
            // Since Valkey 8.0 a replica has to confirm it, for which a busy machine needs its
            // time.
            let has_no_replica =
                |error: &redis::RedisError| error.code() == Some("NOREPLICAS") && start.elapsed() < LIMIT;
            while let Err(error) = node.try_run::<String>(&command) {
                if !has_no_replica(&error) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// All nodes that answer know of the same latest epoch, that of the slot that was moved last. A
    /// node that is given a slot and does not know of it takes its own for the latest, and yields
    /// to the node that had the slot: then each of the two says that the other one has it.
    fn agrees_on_the_epoch(&self) -> bool {
        let infos = self.nodes.iter().filter_map(|node| node.try_run::<String>("CLUSTER INFO").ok());
        let epochs: HashSet<String> = infos
            .filter_map(|info| {
                let line = info.lines().find(|line| line.starts_with("cluster_current_epoch:"));
                line.map(str::to_owned)
            })
            .collect();
        epochs.len() == 1
    }
}

/// Whether a node has a slot, as it says itself.
pub fn owns(node: &RedisServer, slot: u16) -> bool {
    let Some(mut client) = node.connect() else {
        return false;
    };
    let Ok(nodes) = redis::cmd("CLUSTER").arg("NODES").query::<String>(&mut client) else {
        return false;
    };
    let Some(line) = nodes.lines().find(|line| line.contains("myself,master")) else {
        return false;
    };
    line.split(' ').skip(8).any(|range| match range.split_once('-') {
        _ if range.starts_with('[') => false,
        Some((first, last)) => (first.parse().unwrap()..=last.parse().unwrap()).contains(&slot),
        None => range.parse() == Ok(slot),
    })
}

/// Where the other nodes reach this one: `id address:port@bus,name myself,…`.
fn bus_port(node: &RedisServer) -> u16 {
    let nodes: String = node.run("CLUSTER NODES");
    let own = nodes.lines().find(|line| line.contains("myself")).unwrap();
    let (_, bus) = own.split_once('@').unwrap();
    bus.split([' ', ',']).next().unwrap().parse().unwrap()
}

/// Up to Redis 6.2, the nodes reach each other at the client's port plus this one, and it is the
/// default later on.
const TO_BUS: u16 = 10_000;

/// A port whose counterpart is free, too, as it was a moment ago.
fn free_port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let bus = port.checked_add(TO_BUS);
        if bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok()) {
            return port;
        }
    }
}

fn start_node(more: impl Fn() -> Vec<String>) -> RedisServer {
    for _ in 0..50 {
        let directory = std::env::temp_dir().join(unique("redlocked-test"));
        fs::create_dir_all(&directory).unwrap();
        let port = free_port_with_bus();
        let mut settings = vec![
            "--cluster-enabled yes".to_owned(),
            "--cluster-node-timeout 1000".to_owned(),
            "--cluster-replica-validity-factor 0".to_owned(),
            "--repl-diskless-sync-delay 0".to_owned(),
        ];
        settings = settings.iter().flat_map(|setting| setting.split(' ').map(str::to_owned)).collect();
        settings.extend(more());
        let process = spawn(Path::new(REDIS_SERVER), port, None, false, &settings, &directory);
        let mut node = RedisServer {
            process,
            program: REDIS_SERVER.into(),
            port,
            password: None,
            durable: false,
            more: settings,
            directory,
            reserved: None,
        };
        if node.is_up() {
            return node;
        }
    }
    panic!("redis-server does not start on any port");
}
