//! One server: its [`Plan`] says which faults are injected how often, and which workers run.

mod faults;
mod plans;

use std::fs;
use std::time::{Duration, Instant};

use redlocked::LockManager;

use crate::chaos::checker::{Loss, LossDetection};
use crate::chaos::environment::proxies::FaultyProxy;
use crate::chaos::environment::{Connect, Environment, HAND_OVER, Sample, client, look_at_keys};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::chaos::workload::fleet::{Fleet, Role};
use crate::chaos::workload::report::IO_TIMEOUT;
use crate::{RedisServer, Rewriter, eventually};
use faults::run_all;
pub use plans::Plan;

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// The user whose rights are taken and given back.
const USER: &str = "shop";

/// One server, its network and its user.
pub struct OneServer {
    plan: Plan,
    server: RedisServer,
    rewriter: Option<Rewriter>,
    state: State,
    proxies: Vec<FaultyProxy>,
    denied_until: Option<Instant>,
    full_until: Option<Instant>,
    /// With the commands that end it.
    refuses_until: Option<(Instant, &'static [&'static str])>,
    /// When the processes of a long queue die.
    kills_at: Option<Instant>,
    /// With the number of the key. Then it is left to its waiters for a while.
    taken_until: Option<(Instant, u64)>,
    left_until: Option<Instant>,
    /// A manager that force-releases and inspects, and holds nothing.
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
    /// The server keeps its data, unless the plan flushes them.
    pub fn of(plan: Plan) -> Self {
        Self::new(plan, None)
    }

    /// With this text of a script replaced by that.
    pub fn rewritten(plan: Plan, words: (&'static str, &'static str)) -> Self {
        Self::new(plan, Some(words))
    }

    fn new(plan: Plan, words: Option<(&'static str, &'static str)>) -> Self {
        let user = ["--user", USER, "on", ">pass", "~*", "&*", "+@all"].map(str::to_owned);
        let server =
            if plan.is_deadly() { RedisServer::durable_with(&user) } else { RedisServer::start_with(&user) };
        if plan.refuses() {
            cannot_save(&server);
        }
        let rewriter = words.map(|(pattern, replacement)| Rewriter::to(server.port(), pattern, replacement));
        Self {
            plan,
            server,
            rewriter,
            state: State::Well,
            proxies: Vec::new(),
            denied_until: None,
            full_until: None,
            refuses_until: None,
            kills_at: None,
            taken_until: None,
            left_until: None,
            operator: None,
            watch: None,
            losses: Vec::new(),
            disturbances: Vec::new(),
        }
    }

    /// The port to which workers, and the proxies of some, connect.
    fn port(&self) -> u16 {
        self.rewriter.as_ref().map_or(self.server.port(), Rewriter::port)
    }

    fn client(&self) -> Option<redis::Connection> {
        client(&self.server)
    }

    fn operator(&mut self) -> LockManager {
        let start = || LockManager::builder(self.server.url()).io_timeout(IO_TIMEOUT).connect_lazy().unwrap();
        self.operator.get_or_insert_with(start).clone()
    }

    /// The holders of its keys may have lost them.
    fn lost(&mut self, loss: Loss) {
        self.disturbances.push(loss.keys.clone());
        self.losses.push(loss);
    }

    fn any_key(&self, random: &mut Random) -> u64 {
        let keys = self.plan.fleet.keys();
        keys[random.index(keys.len())]
    }
}

/// It has failed to save. That is a reason to refuse as soon as it is configured to be one.
fn cannot_save(server: &RedisServer) {
    let _: String = server.run("CONFIG SET stop-writes-on-bgsave-error no");
    let (_, directory): (String, String) = server.run("CONFIG GET dir");
    fs::remove_dir_all(&directory).unwrap();
    let _: String = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query(&mut server.client()).unwrap();
    let _: redis::RedisResult<String> = server.try_run("BGSAVE");
    eventually("it has failed to save", || {
        server.run::<String>("INFO persistence").contains("rdb_last_bgsave_status:err")
    });
}

fn url(port: u16) -> String {
    format!("redis://{USER}:pass@127.0.0.1:{port}/")
}

fn soon(random: &mut Random, from: u64, to: u64) -> Instant {
    Instant::now() + Duration::from_millis(random.between(from, to))
}

impl Environment for OneServer {
    fn fleet(&self) -> Fleet {
        self.plan.fleet
    }

    fn address(&mut self, random: &mut Random) -> String {
        const MOST_PROXIES: usize = 12;
        let [plain, late] = self.plan.proxied_percent;
        let which = random.between(0, 100);
        if which >= plain + late || self.proxies.len() >= MOST_PROXIES {
            return url(self.port());
        }
        let new = if which < plain { FaultyProxy::new } else { FaultyProxy::late };
        let proxy = new(0, self.port());
        let url = url(proxy.port());
        self.proxies.push(proxy);
        url
    }

    fn ttls(&self) -> [u64; 4] {
        TTLS
    }

    fn inject_fault(&mut self, random: &mut Random, log: &mut EventLog) {
        if self.state == State::Well {
            random.pick(self.plan.faults)(self, random, log);
        }
    }

    fn heal(&mut self, all: bool, _: &mut EventLog) {
        let is_over = |until: Instant| all || until <= Instant::now();
        for proxy in &mut self.proxies {
            proxy.heal(all);
        }
        match self.state {
            State::Stopped(until) if is_over(until) => {
                self.server.resume();
                self.state = State::Well;
            }
            State::Down(until) if is_over(until) => {
                self.server.restart();
                // It has read its rights again.
                self.denied_until = None;
                self.state = State::Well;
            }
            _ => {}
        }
        if let Some((_, number)) = self.taken_until.filter(|(until, _)| is_over(*until))
            && self.server.try_run::<u32>(&format!("DEL lock:{}", key(number))).is_ok()
        {
            self.taken_until = None;
            self.left_until = Some(Instant::now() + Duration::from_secs(6));
            self.disturbances.push(Some(vec![number]));
        }
        if self.full_until.is_some() {
            // A lock that is free stays so for now.
            self.disturbances.push(None);
        }
        if self.full_until.is_some_and(is_over)
            && self.server.try_run::<String>("CONFIG SET maxmemory 0").is_ok()
        {
            self.full_until = None;
        }
        if let Some((_, end)) = self.refuses_until.take_if(|(until, _)| is_over(*until)) {
            run_all(self, end);
        }
        if self.state == State::Well && self.denied_until.is_some_and(is_over) {
            let given = self.server.try_run::<String>(&format!("ACL SETUSER {USER} +@all"));
            if given.is_ok() {
                self.denied_until = None;
            }
        }
    }

    fn foreign_client(&self) -> Option<Connect> {
        if !self.plan.fleet.foreign_client {
            return None;
        }
        let client = redis::Client::open(self.server.url()).unwrap();
        Some(Box::new(move || client.get_connection_with_timeout(Duration::from_millis(500)).ok()))
    }

    /// `None` while a worker may not reach the server.
    fn sample(&mut self) -> Option<Sample> {
        if self.state != State::Well
            || !self.proxies.iter().all(FaultyProxy::is_open)
            || self.denied_until.is_some()
            || self.refuses_until.is_some()
        {
            return None;
        }
        let mut watch = self.watch.take().or_else(|| self.client())?;
        let sample = look_at_keys(&mut watch, &self.plan.fleet.keys())?;
        self.watch = Some(watch);
        Some(sample)
    }

    fn kills(&mut self) -> Option<Role> {
        self.kills_at.take_if(|at| *at <= Instant::now()).map(|_| Role::LongQueue)
    }

    fn disturbances(&mut self) -> Vec<Option<Vec<u64>>> {
        std::mem::take(&mut self.disturbances)
    }

    fn loss_detection(&self) -> LossDetection {
        self.plan.detection
    }

    fn hands_over_within(&self) -> Option<Duration> {
        self.plan.hands_over.then_some(HAND_OVER)
    }

    fn delays_answers(&self) -> bool {
        self.plan.proxied_percent != [0; 2]
    }

    fn used_within(&self) -> Option<Duration> {
        self.plan.used_within
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
