//! One server, and what goes wrong with it: a [`Plan`] says what, how often, and who is there.

mod faults;
mod plans;

use std::time::{Duration, Instant};

use redlocked::LockManager;

use super::checker::{Loss, Told};
use super::company::Company;
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Connect, Ground, HAND_OVER, Sample, client, look_at_keys};
use super::visit::IO_TIMEOUT;
use super::ways::Way;
use crate::{RedisServer, Rewriter};
pub use plans::Plan;

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// Whose rights are taken and given back.
const USER: &str = "shop";

/// One server, its network and its user.
pub struct OneServer {
    plan: Plan,
    server: RedisServer,
    rewriter: Option<Rewriter>,
    state: State,
    ways: Vec<Way>,
    denied_until: Option<Instant>,
    /// A client of our own kind, that holds nothing.
    operator: Option<LockManager>,
    watch: Option<redis::Connection>,
    losses: Vec<Loss>,
    disturbances: Vec<Option<Vec<u64>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Stopped(Instant),
    Down(Instant),
}

impl OneServer {
    /// It keeps its data, unless it is told to forget them.
    pub fn of(plan: Plan) -> Self {
        Self::new(plan, None)
    }

    /// With this in a script replaced by that.
    pub fn rewritten(plan: Plan, words: (&'static str, &'static str)) -> Self {
        Self::new(plan, Some(words))
    }

    fn new(plan: Plan, words: Option<(&'static str, &'static str)>) -> Self {
        let user = ["--user", USER, "on", ">pass", "~*", "&*", "+@all"].map(str::to_owned);
        let server =
            if plan.is_deadly() { RedisServer::durable_with(&user) } else { RedisServer::start_with(&user) };
        let rewriter = words.map(|(pattern, replacement)| Rewriter::to(server.port(), pattern, replacement));
        Self {
            plan,
            server,
            rewriter,
            state: State::Well,
            ways: Vec::new(),
            denied_until: None,
            operator: None,
            watch: None,
            losses: Vec::new(),
            disturbances: Vec::new(),
        }
    }

    /// Where workers, and the ways of some, connect to.
    fn port(&self) -> u16 {
        self.rewriter.as_ref().map_or(self.server.port(), Rewriter::port)
    }

    fn client(&self) -> Option<redis::Connection> {
        client(&self.server)
    }

    fn operator(&mut self) -> LockManager {
        let start = || LockManager::builder(self.server.url()).io_timeout(IO_TIMEOUT).start().unwrap();
        self.operator.get_or_insert_with(start).clone()
    }

    /// Whoever had one of these may not have it any more.
    fn lost(&mut self, keys: Option<Vec<u64>>, from: u64) {
        self.disturbances.push(keys.clone());
        self.losses.push(Loss::now(keys, from, self.plan.told));
    }

    fn any_key(&self, dice: &mut Dice) -> u64 {
        let keys = self.plan.company.keys();
        keys[dice.index(keys.len())]
    }
}

fn url(port: u16) -> String {
    format!("redis://{USER}:pass@127.0.0.1:{port}/")
}

fn soon(dice: &mut Dice, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(dice.between(from, to))
}

impl Ground for OneServer {
    fn company(&self) -> Company {
        self.plan.company
    }

    fn address(&mut self, dice: &mut Dice) -> String {
        const MOST_WAYS: usize = 12;
        let [plain, late] = self.plan.behind_ways;
        let which = dice.between(0, 100);
        if which >= plain + late || self.ways.len() >= MOST_WAYS {
            return url(self.port());
        }
        let new = if which < plain { Way::new } else { Way::late };
        let way = new(0, self.port());
        let url = url(way.port());
        self.ways.push(way);
        url
    }

    fn ttls(&self) -> [u64; 4] {
        TTLS
    }

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        if self.state == State::Well {
            dice.pick(self.plan.deeds)(self, dice, deeds);
        }
    }

    fn heal(&mut self, all: bool, _: &mut Deeds) {
        let is_over = |until: Instant| all || until <= Instant::now();
        for way in &mut self.ways {
            way.heal(all);
        }
        match self.state {
            State::Stopped(until) if is_over(until) => {
                self.server.resume();
                self.state = State::Well;
            }
            State::Down(until) if is_over(until) => {
                self.server.restart();
                // It has read its rights anew.
                self.denied_until = None;
                self.state = State::Well;
            }
            _ => {}
        }
        if self.state == State::Well && self.denied_until.is_some_and(is_over) {
            let given = self.server.try_run::<String>(&format!("ACL SETUSER {USER} +@all"));
            if given.is_ok() {
                self.denied_until = None;
            }
        }
    }

    fn client_of_another_kind(&self) -> Option<Connect> {
        if !self.plan.company.stranger {
            return None;
        }
        let client = redis::Client::open(self.server.url()).unwrap();
        Some(Box::new(move || client.get_connection_with_timeout(Duration::from_millis(500)).ok()))
    }

    /// Not while a worker may not reach the server.
    fn sample(&mut self) -> Option<Sample> {
        if self.state != State::Well || !self.ways.iter().all(Way::is_open) || self.denied_until.is_some() {
            return None;
        }
        let mut watch = self.watch.take().or_else(|| self.client())?;
        let sample = look_at_keys(&mut watch, &self.plan.company.keys())?;
        self.watch = Some(watch);
        Some(sample)
    }

    fn disturbances(&mut self) -> Vec<Option<Vec<u64>>> {
        std::mem::take(&mut self.disturbances)
    }

    fn told(&self) -> Told {
        self.plan.told
    }

    fn hands_over_within(&self) -> Option<Duration> {
        self.plan.hands_over.then_some(HAND_OVER)
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn rewrites(&self) -> u64 {
        self.rewriter.as_ref().map_or(0, Rewriter::rewritten)
    }

    fn keys(&self) -> Vec<String> {
        self.server.keys()
    }
}
