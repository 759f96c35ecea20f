//! The nodes of a quorum: killed and started again without their data, stopped, cut off from single workers, squatted
//! on, and with a clock that jumps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::caller::key;
use super::checker::{Loss, Told};
use super::company::{Company, Role};
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Ground, HAND_OVER, Sample, Watches, client, cut, flush_scripts};
use super::ways::Way;
use crate::{RedisServer, now};

/// What may go wrong.
#[derive(Clone, Copy)]
pub struct Plan {
    /// How many there are.
    pub nodes: usize,
    /// So many nodes at once may be down, or have forgotten what was held before.
    pub forget: usize,
    /// The longest that one is down, in milliseconds.
    pub away: u64,
    /// How long after a restart the next one may be. Until a lock from before has expired a node has no vote.
    pub rest: Duration,
    /// Stopped nodes, and connections that are cut or silent.
    pub network: bool,
    /// One node's clock.
    pub clock: bool,
    /// Of the locks, in milliseconds, to choose from.
    pub ttls: [u64; 4],
    /// The longest stay of a caller that does not look at its lease, in milliseconds.
    pub overrun: u64,
    /// The workers.
    pub company: Company,
    /// What is watched of the waiters.
    pub liveness: Liveness,
}

/// What is watched of the waiters, and what goes wrong no more for that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Whatever happens to be seen.
    Unwatched,
    /// That no lock is free meanwhile: every worker reaches a quorum all the time.
    FreeLocks,
    /// That a lock is handed over at once: nothing goes wrong.
    HandOver,
}

impl Plan {
    /// Everything, at any minority.
    pub fn everything(nodes: usize) -> Self {
        let ttls = [100, 200, 500, 1000];
        // The longest ttl, and a second: what a server was up for is told in whole ones.
        let rest = Duration::from_secs(2);
        Self {
            nodes,
            forget: (nodes - 1) / 2,
            away: 400,
            rest,
            network: true,
            clock: true,
            ttls,
            overrun: 300,
            company: Company::ROAMERS,
            liveness: Liveness::Unwatched,
        }
    }

    /// Crowds of waiters, while a minority of the nodes is unwell.
    pub fn crowded(nodes: usize) -> Self {
        Self {
            clock: false,
            ttls: [1000; 4],
            company: Company::CROWDS,
            liveness: Liveness::FreeLocks,
            ..Self::everything(nodes)
        }
    }

    /// Crowds of waiters, while nothing goes wrong.
    pub fn hand_over(nodes: usize) -> Self {
        Self {
            forget: 0,
            network: false,
            company: Company { roles: &[(Role::Crowds, 2)], ..Company::CALM },
            liveness: Liveness::HandOver,
            ..Self::crowded(nodes)
        }
    }

    /// Nothing, to three nodes.
    pub fn quiet() -> Self {
        Self { forget: 0, network: false, clock: false, ..Self::everything(3) }
    }

    fn minority(&self) -> usize {
        (self.nodes - 1) / 2
    }
}

/// The servers of a quorum.
pub struct Nodes {
    plan: Plan,
    servers: Vec<Node>,
    /// Between some workers and a node.
    ways: Vec<Way>,
    /// When one's clock has jumped ahead.
    losses: Vec<Loss>,
    watches: Watches,
    /// When a worker last was without a node.
    disturbed: Instant,
}

struct Node {
    server: RedisServer,
    /// Where workers find it.
    port: u16,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Stopped(Instant),
    Down(Instant),
    /// Up, and some lock from before may not be over.
    Forgetful(Instant),
}

impl Nodes {
    /// `port`: where workers find the server of that number.
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
            ways: Vec::new(),
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
        self.servers[node].state == State::Well && self.ways.iter().all(|way| way.to != node || way.is_open())
    }

    fn well(&self) -> Vec<usize> {
        (0..self.plan.nodes).filter(|node| self.is_well(*node)).collect()
    }

    /// To one of those that answer.
    fn client(&self, dice: &mut Dice) -> Option<redis::Connection> {
        let is_up = |node: &&Node| matches!(node.state, State::Well | State::Forgetful(_));
        let up: Vec<&Node> = self.servers.iter().filter(is_up).collect();
        if up.is_empty() { None } else { client(&up[dice.index(up.len())].server) }
    }

    /// One, or several at the same time.
    fn kill(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let back = soon(dice, 10, self.plan.away);
        let forgetful = self.count(|state| matches!(state, State::Down(_) | State::Forgetful(_)));
        for _ in forgetful..self.plan.forget {
            let node = dice.index(self.servers.len());
            if let Node { server, state: state @ State::Well, .. } = &mut self.servers[node] {
                server.kill();
                *state = State::Down(back);
                deeds.add("nodes killed", node);
            }
        }
    }

    fn stop(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        if self.count(|state| matches!(state, State::Stopped(_))) >= self.plan.minority() {
            return;
        }
        let longest = [300, 600, 2000][dice.index(3)];
        let back = soon(dice, 50, longest);
        let node = dice.index(self.servers.len());
        if let Node { server, state: state @ State::Well, .. } = &mut self.servers[node] {
            server.pause();
            *state = State::Stopped(back);
            deeds.add("nodes stopped", node);
        }
    }

    fn part(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        if self.ways.is_empty() {
            return;
        }
        let way = dice.index(self.ways.len());
        self.ways[way].close(1500, dice, deeds);
    }

    /// Somebody has a lock on one node only.
    fn squat(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        let keys = self.plan.company.keys();
        let (name, lasts) = (format!("lock:{}", key(keys[dice.index(keys.len())])), dice.between(20, 200));
        if let Some(mut client) = self.client(dice) {
            let mut set = redis::cmd("SET");
            set.arg(&name).arg("squatter").arg("NX").arg("PX").arg(lasts);
            let _: Option<String> = set.query(&mut client).unwrap();
            self.disturbed = Instant::now();
            deeds.add("locks squatted on", &name);
        }
    }

    /// Ahead: every lock on that node ends now, and its clock of fencing tokens may be ahead of the time. Back: every
    /// lock lasts longer.
    fn step(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        const AHEAD: &str = "for _, k in ipairs(redis.call('KEYS', 'lock:k*')) do redis.call('PEXPIRE', k, 1) end \
             local now = redis.call('TIME') local time = now[1] * 1000000 + now[2] + ARGV[1] * 1000 \
             if time > (tonumber(redis.call('GET', 'lock:%clock')) or 0) then \
             redis.call('SET', 'lock:%clock', string.format('%.0f', time)) end";
        const BACK: &str = "for _, k in ipairs(redis.call('KEYS', 'lock:k*')) do \
             redis.call('PEXPIRE', k, redis.call('PTTL', k) + ARGV[1]) end";
        let (script, by) = (if dice.percent(70) { AHEAD } else { BACK }, dice.between(1, 500));
        let Some(mut client) = self.client(dice) else {
            return;
        };
        let from = now();
        let _: () = redis::cmd("EVAL").arg(script).arg(0).arg(by).query(&mut client).unwrap();
        if script == AHEAD {
            // The keys have a millisecond left. With their votes gone, two may be inside for as long as they like.
            let to = now() + 2_000_000;
            self.losses.push(Loss { keys: None, from, to, told: Told::Never });
        }
        deeds.add("clocks stepped", if script == AHEAD { "ahead" } else { "back" });
    }
}

fn soon(dice: &mut Dice, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(dice.between(from, to))
}

impl Ground for Nodes {
    fn company(&self) -> Company {
        self.plan.company
    }

    /// Some of the ways there can be closed: those to the same minority of the nodes for as long as a worker lives.
    fn address(&mut self, dice: &mut Dice) -> String {
        const MOST_WAYS: usize = 20;
        let mut ports: Vec<u16> = self.servers.iter().map(|node| node.port).collect();
        if self.plan.network {
            let first = dice.index(ports.len());
            for node in (first..first + self.plan.minority()).map(|node| node % self.plan.nodes) {
                let ways: Vec<&Way> = self.ways.iter().filter(|way| way.to == node).collect();
                let port = if ways.len() < MOST_WAYS / self.plan.nodes {
                    let way = Way::new(node, ports[node]);
                    let port = way.port();
                    self.ways.push(way);
                    port
                } else {
                    ways[dice.index(ways.len())].port()
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

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        /// So long after a connection is lost it is there again, on a busy machine.
        const CONNECTED: Duration = Duration::from_millis(500);
        let is_enough = self.plan.liveness == Liveness::FreeLocks && self.disturbed.elapsed() < CONNECTED;
        match dice.between(0, 100) {
            _ if self.plan.liveness == Liveness::HandOver => {}
            0..75 | 85..95 if is_enough => {}
            25..40 if self.plan.network => self.stop(dice, deeds),
            40..65 if self.plan.network => self.part(dice, deeds),
            0..65 => self.kill(dice, deeds),
            65..75 => {
                if let Some(mut client) = self.client(dice) {
                    self.disturbed = Instant::now();
                    cut(&mut client, dice, deeds);
                }
            }
            75..85 => {
                if let Some(mut client) = self.client(dice) {
                    flush_scripts(&mut client, deeds);
                }
            }
            85..95 => self.squat(dice, deeds),
            95.. if self.plan.clock => self.step(dice, deeds),
            _ => {}
        }
    }

    fn heal(&mut self, all: bool, _: &mut Deeds) {
        let is_over = |until: Instant| all || until <= Instant::now();
        for way in &mut self.ways {
            way.heal(all);
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

    /// What may have the votes of a quorum, while every worker reaches one.
    fn sample(&mut self) -> Option<Sample> {
        let well = self.well();
        let unknown = self.plan.nodes - well.len();
        if unknown > self.plan.minority() {
            return None;
        }
        let servers = well.iter().map(|node| &self.servers[*node].server);
        let samples = self.watches.look(servers, &self.plan.company.keys())?;
        let (from, to) = (samples.first()?.from, samples.last()?.to);
        let mut votes: HashMap<(String, String), usize> = HashMap::new();
        for lock in samples.into_iter().flat_map(|sample| sample.locks) {
            *votes.entry(lock).or_default() += 1;
        }
        let needed = self.plan.nodes / 2 + 1 - unknown;
        let locks = votes.into_iter().filter(|(_, votes)| *votes >= needed).map(|(lock, _)| lock);
        Some(Sample { from, to, locks: locks.collect() })
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
