//! The nodes of a quorum: killed and started again without their data, stopped, cut off from single
//! workers, with locks of a foreign client, and with a clock that jumps.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::chaos::checker::{Loss, LossDetection};
use crate::chaos::environment::proxies::{FaultyProxy, unasked};
use crate::chaos::environment::{Environment, HAND_OVER, Sample, Watches, client, cut, flush_scripts};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::chaos::workload::fleet::{Fleet, Role};
use crate::{RedisServer, now};

/// The faults of a run.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The number of nodes.
    pub nodes: usize,
    /// How many nodes at once may be down, or have forgotten their locks.
    pub forget: usize,
    /// The longest time that a node is down, in milliseconds.
    pub away: u64,
    /// The pause from one restart to the next. A node has no vote until locks from before its
    /// restart have expired.
    pub rest: Duration,
    /// Stopped nodes, and connections that are cut or silent.
    pub network: bool,
    /// A clock of one node that jumps.
    pub clock: bool,
    /// Replies for which no command has asked, of all nodes to one worker.
    pub stray_replies: bool,
    /// The ttls of the locks, in milliseconds, to choose from.
    pub ttls: [u64; 4],
    /// The longest stay of a caller that does not look at its lease, in milliseconds.
    pub overrun: u64,
    /// The workers.
    pub fleet: Fleet,
    /// The checks of the waiters.
    pub liveness: Liveness,
}

/// The checks of the waiters, and the faults that they exclude.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Only the checks that the injected faults happen to allow.
    Unwatched,
    /// No lock stays free while callers wait: every worker reaches a quorum all the time.
    FreeLocks,
    /// A lock is handed over at once: there are no faults.
    HandOver,
}

impl Plan {
    /// All faults, at any minority.
    pub fn everything(nodes: usize) -> Self {
        let ttls = [100, 200, 500, 1000];
        // The longest ttl, and a second: a server reports its uptime in whole seconds.
        let rest = Duration::from_secs(2);
        Self {
            nodes,
            forget: (nodes - 1) / 2,
            away: 400,
            rest,
            network: true,
            clock: true,
            stray_replies: false,
            ttls,
            overrun: 300,
            fleet: Fleet::MIXED,
            liveness: Liveness::Unwatched,
        }
    }

    /// Crowds of waiters, while a minority of the nodes is unwell.
    pub fn crowded(nodes: usize) -> Self {
        Self {
            clock: false,
            ttls: [1000; 4],
            fleet: Fleet::CROWDS,
            liveness: Liveness::FreeLocks,
            ..Self::everything(nodes)
        }
    }

    /// Crowds of waiters, without faults.
    pub fn hand_over(nodes: usize) -> Self {
        Self {
            forget: 0,
            network: false,
            fleet: Fleet { roles: &[(Role::Crowds, 2)], ..Fleet::CALM },
            liveness: Liveness::HandOver,
            ..Self::crowded(nodes)
        }
    }

    /// Three nodes, without faults.
    pub fn quiet() -> Self {
        Self { forget: 0, network: false, clock: false, ..Self::everything(3) }
    }

    /// Three nodes, which say what nobody has asked for.
    pub fn stray_replies() -> Self {
        let fleet = Fleet { roles: &[(Role::Rests, 5)], ..Fleet::CALM };
        Self { stray_replies: true, fleet, ..Self::quiet() }
    }

    fn minority(&self) -> usize {
        (self.nodes - 1) / 2
    }
}

/// The servers of a quorum.
pub struct QuorumNodes {
    plan: Plan,
    servers: Vec<Node>,
    /// Between some workers and a node.
    proxies: Vec<FaultyProxy>,
    /// When the clock of a node has jumped ahead.
    losses: Vec<Loss>,
    watches: Watches,
    /// When a worker last could not reach a node.
    disturbed: Instant,
}

struct Node {
    server: RedisServer,
    /// The port for workers.
    port: u16,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Stopped(Instant),
    Down(Instant),
    /// Up, but a lock from before its restart may still last.
    Forgetful(Instant),
}

impl QuorumNodes {
    /// `port`: the port for workers of the server of that number.
    pub fn new(plan: Plan, mut port: impl FnMut(usize, &RedisServer) -> u16) -> Self {
        let forgets = plan.forget > 0;
        let start = |number| {
            let server = if forgets { RedisServer::start() } else { RedisServer::durable() };
            // A node that may have forgotten a lock has no vote yet.
            let begins = plan.liveness == Liveness::FreeLocks && forgets;
            let state = if begins { State::Forgetful(Instant::now() + plan.rest) } else { State::Well };
            Node { port: port(number, &server), server, state }
        };
        Self {
            plan,
            servers: (0..plan.nodes).map(start).collect(),
            proxies: Vec::new(),
            losses: Vec::new(),
            watches: Watches::default(),
            disturbed: Instant::now(),
        }
    }

    fn count(&self, is: impl Fn(State) -> bool) -> usize {
        self.servers.iter().filter(|node| is(node.state)).count()
    }

    /// Every worker reaches it, and it votes.
    fn is_well(&self, node: usize) -> bool {
        self.servers[node].state == State::Well
            && self.proxies.iter().all(|proxy| proxy.to != node || proxy.is_open())
    }

    fn well(&self) -> Vec<usize> {
        (0..self.plan.nodes).filter(|node| self.is_well(*node)).collect()
    }

    /// A connection to one of the nodes that answer.
    fn client(&self, random: &mut Random) -> Option<redis::Connection> {
        let is_up = |node: &&Node| matches!(node.state, State::Well | State::Forgetful(_));
        let up: Vec<&Node> = self.servers.iter().filter(is_up).collect();
        if up.is_empty() { None } else { client(&up[random.index(up.len())].server) }
    }

    /// Kills one node, or several at once.
    fn kill(&mut self, random: &mut Random, log: &mut EventLog) {
        let back = soon(random, 10, self.plan.away);
        let forgetful = self.count(|state| matches!(state, State::Down(_) | State::Forgetful(_)));
        for _ in forgetful..self.plan.forget {
            let node = random.index(self.servers.len());
            if let Node { server, state: state @ State::Well, .. } = &mut self.servers[node] {
                server.kill();
                *state = State::Down(back);
                log.add("nodes killed", node);
            }
        }
    }

    fn stop(&mut self, random: &mut Random, log: &mut EventLog) {
        if self.count(|state| matches!(state, State::Stopped(_))) >= self.plan.minority() {
            return;
        }
        let longest = [300, 600, 2000][random.index(3)];
        let back = soon(random, 50, longest);
        let node = random.index(self.servers.len());
        if let Node { server, state: state @ State::Well, .. } = &mut self.servers[node] {
            server.pause();
            *state = State::Stopped(back);
            log.add("nodes stopped", node);
        }
    }

    fn part(&mut self, random: &mut Random, log: &mut EventLog) {
        if self.proxies.is_empty() {
            return;
        }
        let proxy = random.index(self.proxies.len());
        self.proxies[proxy].disrupt(1500, random, log);
    }

    /// One worker gets replies that it has not asked for, of each node one.
    fn say_unasked(&self, random: &mut Random, log: &mut EventLog) {
        let worker = random.index(self.proxies.len() / self.plan.nodes) * self.plan.nodes;
        let (proxies, reply) = (&self.proxies[worker..worker + self.plan.nodes], unasked(random));
        let said = thread::scope(|scope| {
            let threads: Vec<_> = proxies.iter().map(|proxy| scope.spawn(|| proxy.say(reply))).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
        if said > 0 {
            log.add("stray replies", format!("of {said} nodes, {}", reply.trim_end()));
        }
    }

    /// A foreign client takes a lock on one node only.
    fn squat(&mut self, random: &mut Random, log: &mut EventLog) {
        let keys = self.plan.fleet.keys();
        let (name, lasts) =
            (format!("lock:{}", key(keys[random.index(keys.len())])), random.between(20, 200));
        if let Some(mut client) = self.client(random) {
            let mut set = redis::cmd("SET");
            set.arg(&name).arg("squatter").arg("NX").arg("PX").arg(lasts);
            let _: Option<String> = set.query(&mut client).unwrap();
            self.disturbed = Instant::now();
            log.add("locks taken by a foreign client", &name);
        }
    }

    /// Ahead: every lock on that node ends now, and its clock of fencing tokens may be ahead of the
    /// time. Back: every lock lasts longer.
    fn step(&mut self, random: &mut Random, log: &mut EventLog) {
        const AHEAD: &str = "for _, k in ipairs(redis.call('KEYS', 'lock:k*')) do redis.call('PEXPIRE', k, 1) end \
             local now = redis.call('TIME') local time = now[1] * 1000000 + now[2] + ARGV[1] * 1000 \
             if time > (tonumber(redis.call('GET', 'lock:%clock')) or 0) then \
             redis.call('SET', 'lock:%clock', string.format('%.0f', time)) end";
        const BACK: &str = "for _, k in ipairs(redis.call('KEYS', 'lock:k*')) do \
             redis.call('PEXPIRE', k, redis.call('PTTL', k) + ARGV[1]) end";
        let (script, by) = (if random.percent(70) { AHEAD } else { BACK }, random.between(1, 500));
        let Some(mut client) = self.client(random) else {
            return;
        };
        let from = now();
        let _: () = redis::cmd("EVAL").arg(script).arg(0).arg(by).query(&mut client).unwrap();
        if script == AHEAD {
            // The keys have a millisecond left. Without those votes, two callers may be inside for
            // any time.
            let to = now() + 2_000_000;
            self.losses.push(Loss {
                keys: None,
                from,
                to,
                detection: LossDetection::Never,
                of_records: false,
            });
        }
        log.add("clocks stepped", if script == AHEAD { "ahead" } else { "back" });
    }
}

fn soon(random: &mut Random, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(random.between(from, to))
}

impl Environment for QuorumNodes {
    fn fleet(&self) -> Fleet {
        self.plan.fleet
    }

    /// Each worker has proxies to one minority of the nodes, the same for its whole life: these can
    /// be closed.
    fn address(&mut self, random: &mut Random) -> String {
        const MOST_PROXIES: usize = 20;
        let mut ports: Vec<u16> = self.servers.iter().map(|node| node.port).collect();
        if self.plan.stray_replies {
            for (node, port) in ports.iter_mut().enumerate() {
                self.proxies.push(FaultyProxy::new(node, *port));
                *port = self.proxies[self.proxies.len() - 1].port();
            }
        }
        if self.plan.network {
            let first = random.index(ports.len());
            for node in (first..first + self.plan.minority()).map(|node| node % self.plan.nodes) {
                let proxies: Vec<&FaultyProxy> =
                    self.proxies.iter().filter(|proxy| proxy.to == node).collect();
                let port = if proxies.len() < MOST_PROXIES / self.plan.nodes {
                    let proxy = FaultyProxy::new(node, ports[node]);
                    let port = proxy.port();
                    self.proxies.push(proxy);
                    port
                } else {
                    proxies[random.index(proxies.len())].port()
                };
                ports[node] = port;
            }
        }
        ports.iter().map(|port| format!("redis://127.0.0.1:{port}/")).collect::<Vec<_>>().join(",")
    }

    fn ttls(&self) -> [u64; 4] {
        self.plan.ttls
    }

    fn overrun(&self) -> u64 {
        self.plan.overrun
    }

    fn inject_fault(&mut self, random: &mut Random, log: &mut EventLog) {
        /// A lost connection is open again after this, on a busy machine.
        const CONNECTED: Duration = Duration::from_millis(500);
        let is_enough = self.plan.liveness == Liveness::FreeLocks && self.disturbed.elapsed() < CONNECTED;
        match random.between(0, 100) {
            _ if self.plan.stray_replies => self.say_unasked(random, log),
            _ if self.plan.liveness == Liveness::HandOver => {}
            0..75 | 85..95 if is_enough => {}
            25..40 if self.plan.network => self.stop(random, log),
            40..65 if self.plan.network => self.part(random, log),
            0..65 => self.kill(random, log),
            65..75 => {
                if let Some(mut client) = self.client(random) {
                    self.disturbed = Instant::now();
                    cut(&mut client, random, log);
                }
            }
            75..85 => {
                if let Some(mut client) = self.client(random) {
                    flush_scripts(&mut client, log);
                }
            }
            85..95 => self.squat(random, log),
            95.. if self.plan.clock => self.step(random, log),
            _ => {}
        }
    }

    fn heal(&mut self, all: bool, _: &mut EventLog) {
        let is_over = |until: Instant| all || until <= Instant::now();
        for proxy in &mut self.proxies {
            proxy.heal(all);
        }
        for Node { server, state, .. } in &mut self.servers {
            match *state {
                State::Stopped(until) if is_over(until) => {
                    server.resume();
                    *state = State::Well;
                }
                State::Down(until) if is_over(until) => {
                    server.restart();
                    *state = State::Forgetful(Instant::now() + self.plan.rest);
                }
                State::Forgetful(until) if is_over(until) => *state = State::Well,
                _ => {}
            }
        }
        if self.well().len() < self.plan.nodes {
            self.disturbed = Instant::now();
        }
    }

    /// The locks that may have the votes of a quorum; `None` while a worker may not reach one.
    fn sample(&mut self) -> Option<Sample> {
        let well = self.well();
        let unknown = self.plan.nodes - well.len();
        if unknown > self.plan.minority() {
            return None;
        }
        let servers = well.iter().map(|node| &self.servers[*node].server);
        let samples = self.watches.look(servers, &self.plan.fleet.keys())?;
        let (from, to) = (samples.first()?.from, samples.last()?.to);
        let mut votes: HashMap<(String, String), usize> = HashMap::new();
        for lock in samples.into_iter().flat_map(|sample| sample.locks) {
            *votes.entry(lock).or_default() += 1;
        }
        let needed = self.plan.nodes / 2 + 1 - unknown;
        let locks = votes.into_iter().filter(|(_, votes)| *votes >= needed).map(|(lock, _)| lock);
        Some(Sample { from, to, locks: locks.collect() })
    }

    fn delays_answers(&self) -> bool {
        self.plan.network
    }

    fn hands_over_within(&self) -> Option<Duration> {
        (self.plan.liveness == Liveness::HandOver).then_some(HAND_OVER)
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// With what helps to find out whose they were.
    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for (number, Node { server, .. }) in self.servers.iter().enumerate() {
            for key in server.keys() {
                let value: Option<String> = server.run(&format!("GET {key}"));
                let owner = value
                    .as_deref()
                    .and_then(|value| value.split_once('@'))
                    .map(|(_, owner)| owner.to_owned());
                let lasts: i64 = server.run(&format!("PTTL {key}"));
                keys.push(format!("{key} of {owner:?} on node {number} for {lasts} ms"));
            }
        }
        keys
    }
}
