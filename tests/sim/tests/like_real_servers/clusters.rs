//! Two nodes of a Cluster, real and simulated: which commands they execute, where they send the
//! others, and what they tell when a slot moves.

use std::rc::Rc;

use kit::{RedisServer, eventually};
use redlocked_sim::server::{ClientId, Layout, Node, Server, ServerSettings, Shard, Version, slot_of};

use crate::pair::version_of;
use crate::real::{Connection, is_fence};
use crate::scripts::{self, sharded};
use crate::wire::{Said, encoded, words};

/// Slots from here on are served by neither.
const END: u16 = 16_000;
const HALF: u16 = 8_192;

struct Nodes {
    real: [RedisServer; 2],
    simulated: [Server; 2],
    version: Version,
    layout: Layout,
    names: [Node; 2],
}

/// A client of one node.
struct Client {
    node: usize,
    real: Connection,
    simulated: ClientId,
}

impl Nodes {
    fn start() -> Option<Self> {
        let settings =
            ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"].map(str::to_owned);
        let real = [(); 2].map(|()| RedisServer::start_with(&settings));
        let version = version_of(&real[0])?;
        for (node, slots) in [(0, 0..HALF), (1, HALF..END)] {
            let _: String = real[node].run(&format!("CLUSTER SET-CONFIG-EPOCH {}", node + 1));
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let _: String = real[node].run(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
        }
        let _: String = real[0].run(&format!("CLUSTER MEET 127.0.0.1 {}", real[1].port()));
        eventually("both know both", || {
            real.iter().all(|node| {
                let info: String = node.run("CLUSTER INFO");
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16000")
            })
        });
        let nodes = [0, 1].map(|node| Node {
            id: real[node].run("CLUSTER MYID"),
            host: "127.0.0.1".to_owned(),
            port: real[node].port(),
        });
        let shard = |node: &Node| Shard { primary: node.clone(), replicas: Vec::new() };
        let mut layout = Layout::even(nodes.iter().map(shard).collect());
        layout.assign(END..=u16::MAX, None);
        let simulated = [0, 1].map(|node: usize| {
            let settings =
                ServerSettings { cluster: true, port: nodes[node].port, ..ServerSettings::default() };
            Server::new(version, settings)
        });
        let mut started = Self { real, simulated, version, layout, names: nodes };
        started.tell_all();
        Some(started)
    }

    fn tell_all(&mut self) {
        let layout = Rc::new(self.layout.clone());
        for node in &mut self.simulated {
            node.set_layout(0, &layout);
        }
    }

    fn connect(&mut self, node: usize) -> Client {
        let real = Connection::open(self.real[node].port());
        let simulated = self.simulated[node].connect(0, "127.0.0.1:1");
        let mut client = Client { node, real, simulated };
        if self.version.speaks_resp3() {
            client.real.ask(&["HELLO", "3"]);
            self.simulated[node].receive(0, simulated, &encoded(&words(&["HELLO", "3"])));
            self.simulated[node].take_output();
        }
        client
    }

    /// All that the client receives until the answer to a `PING` behind these commands.
    #[track_caller]
    fn compare(&mut self, what: &str, client: &mut Client, commands: &[&[&str]]) {
        const FENCE: &str = "fence";
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encoded(&words(command))).collect();
        client.real.send(&bytes);
        let real = client.real.until(FENCE);
        let server = &mut self.simulated[client.node];
        server.receive(0, client.simulated, &bytes);
        server.receive(0, client.simulated, &encoded(&words(&["PING", FENCE])));
        let (mut simulated, mut rest) = (Vec::new(), Vec::new());
        for (to, bytes) in server.take_output() {
            assert_eq!(to, client.simulated);
            rest.extend(bytes);
        }
        while let Some((said, length)) = Said::read(&rest) {
            rest.drain(..length);
            if !is_fence(&said, FENCE) {
                simulated.push(said);
            }
        }
        let [real, simulated] = [real, simulated].map(|all| all.into_iter().map(sorted).collect::<Vec<_>>());
        assert_eq!(real, simulated, "{:?}, {what}, node {}: {commands:?}", self.version, client.node);
    }

    /// Runs a command on a real node, as an operator.
    fn run(&self, node: usize, command: &str) {
        let _: String = self.real[node].run(command);
    }
}

/// `CLUSTER SLOTS`: Redis 6.2 and older have no order.
fn sorted(said: Said) -> Said {
    match said {
        Said::List('*', mut ranges) if ranges.iter().all(|range| matches!(range, Said::List(..))) => {
            ranges.sort_by_key(|range| format!("{range:?}"));
            Said::List('*', ranges)
        }
        other => other,
    }
}

/// Names with these properties.
fn name(wanted: impl Fn(u16) -> bool, nth: usize) -> String {
    let names = (0..100_000).map(|number| format!("k{number}"));
    names.filter(|name| wanted(slot_of(name.as_bytes()))).nth(nth).unwrap()
}

const GET: &str = "return redis.call('GET', KEYS[1])";
const GET_ANOTHER: &str = "return redis.call('GET', ARGV[1])";
const EXIST: &str = "return redis.call('EXISTS', unpack(KEYS))";
const SPUBLISH: &str = "return redis.call('SPUBLISH', ARGV[1], 'hello')";

#[test]
fn a_node_executes_what_is_its_own_and_names_the_owner_of_the_rest() {
    let Some(mut nodes) = Nodes::start() else { return };
    let [mine, mine_too] = [0, 1].map(|nth| name(|slot| slot < HALF, nth));
    let others = name(|slot| (HALF..END).contains(&slot), 0);
    let unserved = name(|slot| slot >= END, 0);
    let (mine, mine_too, others, unserved) = (&*mine, &*mine_too, &*others, &*unserved);
    let mut client = nodes.connect(0);
    for command in [
        &["CLUSTER", "SLOTS"][..],
        &["CLUSTER", "MYID"],
        &["CLUSTER", "KEYSLOT", mine],
        &["CLUSTER", "FOO"],
        &["CLUSTER", "SLOTS", "x"],
        &["SET", mine, "v"],
        &["GET", others],
        &["GET", unserved],
        &["EXISTS", mine, mine_too],
        &["EVAL", GET, "1", mine],
        &["EVAL", GET, "1", others],
        &["EVALSHA", "0000000000000000000000000000000000000000", "1", others],
        &["EVAL", GET, "2", mine, others],
        &["EVAL", GET_ANOTHER, "1", mine, mine_too],
        &["EVAL", GET_ANOTHER, "1", mine, others],
        &["EVAL", GET_ANOTHER, "1", mine, unserved],
        &["EVAL", GET_ANOTHER, "0", mine],
        &["SELECT", "1"],
        &["SELECT", "0"],
        &["READONLY"],
        &["GET", others],
        &["READWRITE"],
        &["PUBLISH", others, "x"],
        &["DEL", mine],
    ] {
        nodes.compare("routes", &mut client, &[command]);
    }
    if nodes.version.has_sharded_channels() {
        for command in [
            &["SSUBSCRIBE", others][..],
            &["SSUBSCRIBE", mine, mine_too],
            &["SSUBSCRIBE", mine],
            &["SPUBLISH", others, "x"],
            &["SPUBLISH", mine, "x"],
            &["EVAL", SPUBLISH, "1", mine, mine],
            &["EVAL", SPUBLISH, "1", mine_too, mine],
            &["EVAL", SPUBLISH, "1", mine, others],
            &["PUBSUB", "SHARDNUMSUB", mine, others],
            &["SUNSUBSCRIBE", others],
        ] {
            nodes.compare("sharded channels", &mut client, &[command]);
        }
        // What our scripts do, in a slot of their own.
        let (queue, clock, inbox) = (format!("{{{mine}}}queue"), format!("{{{mine}}}clock"), mine);
        let acquire = sharded(scripts::ACQUIRE);
        let joins = ["a", "b"].map(|who| format!("{who:0>22}@host:1"));
        for token in &joins {
            let words = [
                "EVAL", &*acquire, "3", mine, &*queue, &*clock, &**token, "30000", "join", inbox, "9", "",
                "unfenced",
            ];
            let check = "local found = redis.call('ZCARD', KEYS[1]) return found";
            if token == &joins[0] {
                nodes.compare("acquire", &mut client, &[&words]);
            }
            nodes.compare("the queue", &mut client, &[&["EVAL", check, "1", &*queue]]);
        }
    }
    // Behind this, Valkey 9.1.2 refuses all scripts of all clients until it is started again.
    let across = "return redis.pcall('DEL', ARGV[1], ARGV[2])";
    nodes.compare("keys of two slots", &mut client, &[&["EVAL", across, "1", mine, mine, mine_too]]);
}

#[test]
fn a_slot_that_moves_is_asked_for_at_both_ends() {
    let Some(mut nodes) = Nodes::start() else { return };
    let slot_name = name(|slot| slot < HALF, 0);
    let slot = slot_of(slot_name.as_bytes());
    let [here, gone, never] = ["1", "2", "3"].map(|end| format!("{{{slot_name}}}{end}"));
    let (here, gone, never) = (&*here, &*gone, &*never);
    let [mut from, mut to] = [0, 1].map(|node| nodes.connect(node));
    let (resp3, has_sharded) = (nodes.version.speaks_resp3(), nodes.version.has_sharded_channels());
    if resp3 {
        nodes.compare("tracking", &mut from, &[&["CLIENT", "TRACKING", "ON"]]);
    }
    if has_sharded {
        nodes.compare("listen", &mut from, &[&["SSUBSCRIBE", &slot_name]]);
    }
    nodes.compare("set", &mut from, &[&["SET", here, "v"]]);
    nodes.compare("read", &mut from, &[&["GET", here]]);
    let (first, second) = (nodes.names[0].clone(), nodes.names[1].clone());
    nodes.run(1, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", first.id));
    nodes.run(0, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", second.id));
    nodes.simulated[0].set_migrating(slot, Some(second.clone()));
    nodes.simulated[1].set_importing(slot, true);
    let reads = |nodes: &mut Nodes, from: &mut Client, to: &mut Client, when: &str| {
        for command in [
            &["GET", here][..],
            &["GET", gone],
            &["EXISTS", here, gone],
            &["EXISTS", gone, never],
            &["EXISTS", gone, gone],
            &["EVAL", GET, "1", gone],
            &["EVAL", EXIST, "2", here, gone],
            &["EVAL", GET_ANOTHER, "1", here, gone],
        ] {
            nodes.compare(when, from, &[command]);
            nodes.compare(when, to, &[command]);
            nodes.compare(when, to, &[&["ASKING"], command]);
            nodes.compare(when, to, &[&["ASKING"], &["PING"], command]);
        }
    };
    reads(&mut nodes, &mut from, &mut to, "before the keys move");
    if has_sharded {
        nodes.compare("publish", &mut from, &[&["SPUBLISH", &slot_name, "x"]]);
        nodes.compare("publish there", &mut to, &[&["ASKING"], &["SPUBLISH", &slot_name, "x"]]);
        nodes.compare("listen there", &mut to, &[&["ASKING"], &["SSUBSCRIBE", &slot_name]]);
    }
    nodes.run(0, &format!("MIGRATE 127.0.0.1 {} {here} 0 5000", second.port));
    let moved = nodes.simulated[0].take_key(0, here.as_bytes()).unwrap();
    nodes.simulated[1].put_key(0, here.as_bytes(), moved);
    nodes.compare("the key has moved", &mut from, &[]);
    reads(&mut nodes, &mut from, &mut to, "behind the keys");
    for node in [1, 0] {
        nodes.run(node, &format!("CLUSTER SETSLOT {slot} NODE {}", second.id));
    }
    nodes.layout.assign(slot..=slot, Some(1));
    nodes.tell_all();
    nodes.compare("the slot has moved", &mut from, &[]);
    reads(&mut nodes, &mut from, &mut to, "behind the slot");
    nodes.compare("slots", &mut to, &[&["CLUSTER", "SLOTS"]]);
}

#[test]
fn a_server_that_is_part_of_no_cluster_says_so() {
    let real = RedisServer::start();
    let Some(version) = version_of(&real) else { return };
    let mut simulated = Server::new(version, ServerSettings::default());
    let mut client = Connection::open(real.port());
    for command in [&["CLUSTER", "SLOTS"][..], &["ASKING"], &["READONLY"]] {
        let said = simulated.run(0, command);
        assert_eq!(Said::read(&said).map(|(said, _)| said), Some(client.ask(command)), "{command:?}");
    }
}
