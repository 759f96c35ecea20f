//! One server, and what goes wrong with it: a [`Plan`] says what, how often, and who is there.

use std::time::{Duration, Instant};

use redlocked::LockManager;

use super::caller::key;
use super::checker::{Loss, Told};
use super::company::{Company, Role};
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Connect, Ground, Sample, client, cut, flush_scripts, hold_clients, look_at_keys};
use super::support::{RedisServer, Rewriter, now};
use super::visit::IO_TIMEOUT;
use super::ways::Way;

const TTLS: [u64; 4] = [100, 200, 500, 2500];

/// Whose rights are taken and given back.
const USER: &str = "shop";

/// What may be missing, and is done without.
const RIGHTS: &[(u64, &str)] = &[
    (1, "-publish -subscribe"),
    (1, "-client|tracking"),
    (1, "-client|kill"),
    (1, "-client|kill -client|tracking"),
];

/// A lock that is handed over has its next holder inside after this, behind a thousand other requests on a busy machine;
/// a waiter that was not told finds out by itself, mostly later.
const HAND_OVER: Duration = Duration::from_millis(500);

type Deed = fn(&mut OneServer, &mut Dice, &mut Deeds);

/// Who is there, and what is done to them.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) company: Company,
    /// Each with its weight.
    deeds: &'static [(u64, Deed)],
    /// So many in a hundred workers are behind a way of ours: each kind.
    behind_ways: [u64; 2],
    /// What is missing, each with its weight, and for how many milliseconds at most.
    rights: &'static [(u64, &'static str)],
    denied: u64,
    /// When a holder whose lock is taken away knows it: promptly, where nothing else goes wrong.
    told: Told,
    /// Whether a lock that is waited for is handed over at once: where nothing goes wrong at all.
    hands_over: bool,
}

impl Plan {
    /// Nothing but a connection that is cut, scripts that are forgotten, and workers that are frozen and killed.
    pub(crate) const WELL: Self = Self {
        company: Company::ROAMERS,
        deeds: &[(24, cut_one), (20, forget_scripts), (8, stand_still), (6, rest)],
        behind_ways: [0; 2],
        rights: RIGHTS,
        denied: 0,
        told: Told::AtItsEnd,
        hands_over: false,
    };

    /// Everything that a server can suffer without forgetting a lock.
    pub(crate) const UNWELL: Self = Self {
        company: Company {
            roles: &[(Role::Roams, 8), (Role::Keeps, 1), (Role::Extends, 1)],
            ..Company::ROAMERS
        },
        deeds: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, close_way),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (30, rest),
        ],
        behind_ways: [30, 20],
        rights: RIGHTS,
        denied: 1000,
        told: Told::AtItsEnd,
        hands_over: false,
    };

    /// And it forgets, and operators take locks away.
    pub(crate) const FORGETFUL: Self = Self {
        deeds: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, close_way),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (10, flush),
            (10, delete_queue),
            (15, force_release),
            (15, rest),
        ],
        ..Self::UNWELL
    };

    /// A server that is well, behind ways over which requests arrive when their connection has long been replaced, for a
    /// user that has not the rights to do something about it.
    pub(crate) const LATE: Self = Self {
        company: Company { roles: &[(Role::Keeps, 8)], ..Self::OPERATED.company },
        deeds: &[(20, close_way), (20, take_rights), (2, squat), (1, inspect), (20, rest)],
        behind_ways: [0, 100],
        rights: &[(1, "-publish -subscribe"), (1, "-client|kill"), (10, "-client|kill -client|tracking")],
        denied: 16_000,
        told: Told::AtItsEnd,
        ..Self::OPERATED
    };

    /// The same, behind ways over which no answers come, with locks that change their ttl.
    pub(crate) const SILENT: Self = Self {
        company: Company { roles: &[(Role::Extends, 8)], ..Self::OPERATED.company },
        deeds: &[(12, close_way), (1, cut_one), (2, squat), (1, inspect), (20, rest)],
        behind_ways: [90, 0],
        ..Self::LATE
    };

    /// Operators that take locks away, and workers that do it to themselves: who had one is told.
    pub(crate) const OPERATED: Self = Self {
        company: Company {
            roles: &[(Role::Roams, 4), (Role::Keeps, 2), (Role::Extends, 2)],
            freezes: 0,
            kills: 0,
            stranger: false,
            pace: (20, 60),
            absence: 0,
        },
        deeds: &[(20, force_release), (1, flush), (5, delete_queue), (20, inspect), (60, rest)],
        behind_ways: [0; 2],
        rights: RIGHTS,
        denied: 0,
        told: Told::Promptly,
        hands_over: false,
    };

    /// Hundreds of waiters, some of whose processes die, and operators that flush and delete.
    pub(crate) const CROWDED: Self = Self {
        company: Company {
            roles: &[(Role::Crowds, 5)],
            freezes: 0,
            kills: 5,
            stranger: false,
            pace: (20, 60),
            absence: 5000,
        },
        deeds: &[(2, flush), (3, delete_queue), (1, force_release), (5, inspect), (150, rest)],
        behind_ways: [0; 2],
        rights: RIGHTS,
        denied: 0,
        told: Told::AtItsEnd,
        hands_over: false,
    };

    /// Bursts of calls, while nothing goes wrong.
    pub(crate) const BURSTS: Self = Self {
        company: Company { roles: &[(Role::Bursts, 2)], ..Self::OPERATED.company },
        deeds: &[(1, inspect), (20, rest)],
        hands_over: true,
        ..Self::OPERATED
    };

    /// Calls that are dropped by the thousand, while nothing goes wrong.
    pub(crate) const DROPPED: Self = Self {
        company: Company { roles: &[(Role::Drops, 2)], ..Self::OPERATED.company },
        deeds: &[(1, rest)],
        ..Self::OPERATED
    };
}

pub(crate) struct OneServer {
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
    pub(crate) fn of(plan: Plan) -> Self {
        Self::behind(plan, |_| None)
    }

    /// With this in a script replaced by that.
    pub(crate) fn rewritten(plan: Plan, (pattern, replacement): (&'static str, &'static str)) -> Self {
        Self::behind(plan, |server| Some(Rewriter::to(server.port(), pattern, replacement)))
    }

    fn behind(plan: Plan, rewriter: impl FnOnce(&RedisServer) -> Option<Rewriter>) -> Self {
        let user = ["--user", USER, "on", ">pass", "~*", "&*", "+@all"].map(str::to_owned);
        let is_killed = plan.deeds.iter().any(|(_, deed)| std::ptr::fn_addr_eq(*deed, kill as Deed));
        let server =
            if is_killed { RedisServer::durable_with(&user) } else { RedisServer::start_with(&user) };
        Self {
            plan,
            rewriter: rewriter(&server),
            server,
            state: State::Well,
            ways: Vec::new(),
            denied_until: None,
            operator: None,
            watch: None,
            losses: Vec::new(),
            disturbances: Vec::new(),
        }
    }

    /// How often a script was changed on its way.
    pub(crate) fn rewrites(&self) -> u64 {
        self.rewriter.as_ref().map_or(0, Rewriter::rewritten)
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

fn rest(_: &mut OneServer, _: &mut Dice, _: &mut Deeds) {}

fn cut_one(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        cut(&mut client, dice, deeds);
    }
}

fn forget_scripts(ground: &mut OneServer, _: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        flush_scripts(&mut client, deeds);
    }
}

fn stand_still(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        hold_clients(&mut client, dice, deeds);
    }
}

fn stop(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let longest = [300, 600, 2000][dice.index(3)];
    let lasts = dice.between(50, longest);
    ground.server.pause();
    ground.state = State::Stopped(Instant::now() + Duration::from_millis(lasts));
    deeds.add("servers stopped", format!("for {lasts} ms"));
}

fn kill(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    ground.server.kill();
    ground.state = State::Down(soon(dice, 10, 400));
    deeds.add("servers killed", "it keeps its data");
}

fn close_way(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if !ground.ways.is_empty() {
        let way = dice.index(ground.ways.len());
        ground.ways[way].close(3000, dice, deeds);
    }
}

/// A client of another kind takes a lock, and lets it expire.
fn squat(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let (name, lasts) = (format!("lock:{}", key(ground.any_key(dice))), dice.between(20, 500));
    if let Some(mut client) = ground.client() {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg("squatter").arg("NX").arg("PX").arg(lasts);
        let _ = set.query::<Option<String>>(&mut client);
        deeds.add("locks squatted on", &name);
    }
}

fn take_rights(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let rights = dice.pick(ground.plan.rights);
    if ground.denied_until.is_none()
        && ground.server.try_run::<String>(&format!("ACL SETUSER {USER} {rights}")).is_ok()
    {
        ground.denied_until = Some(soon(dice, ground.plan.denied / 2, ground.plan.denied));
        deeds.add("rights taken", rights);
    }
}

fn flush(ground: &mut OneServer, _: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        let from = now();
        let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
        ground.lost(None, from);
        deeds.add("flushes", "FLUSHALL");
    }
}

fn delete_queue(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let name = format!("lock:{}%queue", key(number));
    if let Some(mut client) = ground.client() {
        let there: u32 = redis::cmd("DEL").arg(&name).query(&mut client).unwrap();
        if there > 0 {
            ground.disturbances.push(Some(vec![number]));
            deeds.add("queues deleted", &name);
        }
    }
}

/// By a manager outside of the workers, or by hand.
fn force_release(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let from = now();
    let done = if dice.percent(50) {
        ground.operator().force_release_blocking(&key(number)).is_ok_and(|holder| holder.is_some())
    } else {
        let by_hand = ground.server.try_run::<u32>(&format!("DEL lock:{}", key(number)));
        by_hand.map_or(true, |deleted| deleted > 0)
    };
    if done {
        ground.lost(Some(vec![number]), from);
        deeds.add("locks taken away", key(number));
    }
}

fn inspect(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let _ = ground.operator().inspect_blocking(&key(number));
    deeds.add("locks inspected", key(number));
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

    fn keys(&self) -> Vec<String> {
        self.server.keys()
    }
}
