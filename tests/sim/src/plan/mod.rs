//! A plan: all that will be done to a fleet and by its callers, drawn from a seed. What it leaves
//! open, such as how long each byte takes, the same seed decides while it runs.

mod backlog;
mod elections;
mod kinds;
mod matters;
mod once;
mod shares;
mod stuck;
mod tickets;
mod ticks;

use std::time::Duration;

use fastrand::Rng;
use redlock_runtime::{OnInterrupted, TickMissed};

use self::kinds::{KINDS, Kind, drawn};
use self::matters::{MATTERS, Matter};
use self::stuck::STUCK;
use crate::mutants::Mutant;
use crate::room::Want;
use crate::server::Version;
use crate::world::{CutKind, Latency};

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides what the plan leaves open.
    pub seed: u64,
    /// The servers.
    pub topology: Topology,
    /// How long callers call, in milliseconds.
    pub length: u64,
    /// How long bytes take.
    pub latency: Latency,
    /// One in so many polls comes later than it could; 0 for none.
    pub reorder: u32,
    /// The setting of all managers: one release in 128 leaves the lock free for others.
    pub foreign_clients: bool,
    /// Access rules let a client end another connection, so that late requests over it are dropped.
    pub may_kill: bool,
    /// The processes of the fleet.
    pub processes: Vec<ProcessPlan>,
    /// What callers do, in no order.
    pub calls: Vec<Call>,
    /// What goes wrong: when, in milliseconds, and what.
    pub faults: Vec<(u64, Fault)>,
    /// A defect in the scripts of all servers.
    pub mutant: Option<&'static Mutant>,
}

/// Where locks live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// One server.
    One(Version),
    /// So many servers, each with one vote.
    Quorum(Version, usize),
    /// A Cluster of so many primaries.
    Cluster(Version, usize),
    /// A primary, a replica, and the sentinel that watches them, in this order.
    Sentinel(Version),
}

impl Plan {
    /// A fleet of so many processes with one server, in which nothing happens yet.
    #[must_use]
    pub fn quiet(seed: u64, processes: usize) -> Self {
        Self {
            seed,
            topology: Topology::One(Version::Redis70),
            length: 1_000,
            latency: Latency { usual: 1, late: 0, lateness: 0 },
            reorder: 0,
            processes: vec![ProcessPlan::default(); processes],
            calls: Vec::new(),
            faults: Vec::new(),
            foreign_clients: true,
            may_kill: true,
            mutant: None,
        }
    }

    /// A caller of that process, at that millisecond.
    #[must_use]
    pub fn with_call(mut self, at: u64, process: usize, what: What) -> Self {
        self.calls.push(Call { at, process, runtime: 0, what });
        self
    }
}

impl Topology {
    /// How many servers there are.
    #[must_use]
    pub fn servers(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Quorum(_, servers) | Self::Cluster(_, servers) => servers,
            Self::Sentinel(_) => 3,
        }
    }

    /// The version of all servers.
    #[must_use]
    pub fn version(self) -> Version {
        match self {
            Self::One(version)
            | Self::Quorum(version, _)
            | Self::Cluster(version, _)
            | Self::Sentinel(version) => version,
        }
    }
}

/// A process of the fleet, with one manager.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPlan {
    /// Parts per million by which its clock is fast.
    pub fast: i64,
    /// The setting of its manager.
    pub cohort: u32,
    /// The setting of its manager.
    pub own_thread: bool,
    /// The setting of its manager.
    pub max_waiters: u32,
    /// The setting of its manager, in milliseconds.
    pub io_timeout: u64,
    /// How many runtimes its callers are in.
    pub runtimes: usize,
}

impl Default for ProcessPlan {
    fn default() -> Self {
        Self { fast: 0, cohort: 0, own_thread: false, max_waiters: 100_000, io_timeout: 1_000, runtimes: 1 }
    }
}

/// What one caller does.
#[derive(Clone, Debug)]
pub struct Call {
    /// When, in milliseconds.
    pub at: u64,
    /// The number of its process in the plan.
    pub process: usize,
    /// The number of its runtime in the process.
    pub runtime: usize,
    /// The rest.
    pub what: What,
}

/// What a caller does. All times are in milliseconds.
#[expect(clippy::large_enum_variant, reason = "a plan has few of them, and most are holds")]
#[derive(Clone, Debug)]
pub enum What {
    /// It takes locks, holds them and gives them back.
    Hold(Hold),
    /// It asks who holds a lock.
    Inspect(u8),
    /// It lists all locks.
    List,
    /// It takes the lock away from its holder.
    ForceRelease(u8),
    /// It takes the place of one of its holders away.
    Revoke(u8),
    /// It sets how many permits there are, in the place of the numbers of the callers, or clears that.
    SetPermits(u8, Option<u32>),
    /// It runs a body that polls another task, which asks for the same lock.
    Nested(u8),
}

/// The request of a caller, and what it does with the lock.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the hold")]
#[derive(Clone, Debug)]
pub struct Hold {
    /// The locks; several are taken as one.
    pub keys: Vec<u8>,
    /// Those of several that it has beside readers, whatever it allows.
    pub shares: Vec<u8>,
    /// The ttl.
    pub ttl: u64,
    /// False: the caller cannot see a fencing token, and none is drawn.
    pub fenced: bool,
    /// How many may be inside with it, itself included: 1 for an exclusive lock, 0 for any number.
    pub allows: u32,
    /// For how many it counts, of those that it allows.
    pub takes: u32,
    /// The longest wait; `None` forever.
    pub wait: Option<u64>,
    /// The caller drops the call after so long, if it has no lock then. One with a body that runs once
    /// drops it in the body, too.
    pub leaves_after: Option<u64>,
    /// How long the caller holds it.
    pub hold: u64,
    /// It asks for other ttls: each after so long in the lock.
    pub extend: Vec<(u64, u64)>,
    /// It has the lock alone, and beside others after so long in it.
    pub downgrades: Option<u16>,
    /// False: the lease is not renewed.
    pub renew: bool,
    /// The key stays taken for so long.
    pub min_hold: Option<u64>,
    /// It is a start under a rate: as many as it allows in its `min_hold`. Its caller holds nothing.
    pub starts: bool,
    /// The lease ends after so long.
    pub max_hold: Option<u64>,
    /// The process forks while it has the lock.
    pub forks: bool,
    /// It redeems the last ticket of its lock instead of asking for it; without one it does nothing.
    pub redeems: bool,
    /// In the end it gives the lock away.
    pub gives: Option<Gift>,
    /// It is for the tick of its call, and this says what becomes of one whose run has not ended well.
    /// A tick lasts [`TICK`].
    pub tick: Option<TickMissed>,
    /// Its body runs once, and it wants the result, whoever has run it.
    pub once: Option<Once>,
    /// It is a candidate, which leads again and again until it leaves: for as long as it holds the
    /// lock else, and so its body ends.
    pub leads: Option<BodyEnds>,
    /// What the caller does else in the end.
    pub way: Way,
    /// Then it blocks its runtime for so long, in the same poll.
    pub blocks: u64,
    /// Or its process ends, in the same poll. A [`Run`](Way::Run) releases in the background then.
    pub exits: bool,
}

impl Hold {
    /// One lock for a moment, after a wait without a limit.
    #[must_use]
    pub fn of(key: u8) -> Self {
        Self {
            keys: vec![key],
            shares: Vec::new(),
            ttl: 10_000,
            fenced: true,
            allows: 1,
            takes: 1,
            wait: None,
            leaves_after: None,
            hold: 0,
            extend: Vec::new(),
            downgrades: None,
            renew: true,
            min_hold: None,
            starts: false,
            max_hold: None,
            forks: false,
            redeems: false,
            gives: None,
            tick: None,
            once: None,
            leads: None,
            way: Way::Release,
            blocks: 0,
            exits: false,
        }
    }
}

impl Hold {
    /// What it wants of its lock.
    #[must_use]
    pub fn want(&self) -> Want {
        Want { allows: self.allows, takes: self.takes }
    }

    /// What it wants of one of its locks.
    #[must_use]
    pub fn want_of(&self, key: u8) -> Want {
        if self.shares.contains(&key) { Want::READER } else { self.want() }
    }

    /// A ticket, a tick, a body that runs once and an election are for one caller alone. Each of several keys has its own kind.
    fn may_share(&self) -> bool {
        self.keys.len() == 1
            && self.tick.is_none()
            && self.once.is_none()
            && !self.redeems
            && self.gives.is_none()
            && self.leads.is_none()
            && !self.starts
    }
}

/// How long a tick lasts.
pub const TICK: Duration = Duration::from_secs(1);

/// How a caller asks for the result of a body that runs once. The result is the number of the call
/// that has run it.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// How long the result is kept, in milliseconds.
    pub lasts: u64,
    /// What the key stands for, if the caller says so.
    pub by: Option<u8>,
    /// What becomes of a body that was interrupted.
    pub on_interrupted: OnInterrupted,
    /// The body fails: it has no result.
    pub fails: bool,
    /// A caller that gets the error of an interrupted body lets it run again, as an operator does.
    pub clears: bool,
    /// The body is in a task of its own, so a caller that leaves does not stop it.
    pub spawn: bool,
}

/// A ticket that a caller asks for.
#[derive(Clone, Copy, Debug)]
pub struct Gift {
    /// How long it lasts.
    pub lasts: u64,
    /// The caller drops the call after so long, if it has no ticket then.
    pub leaves_after: Option<u64>,
}

/// What the body of a leader does in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyEnds {
    /// It returns, and the candidate leaves.
    Returns,
    /// It resigns, and the candidate waits again.
    Resigns,
    /// It fails, and the candidate waits again after a pause.
    Fails,
    /// It fails, the candidate gets the error, and waits again.
    StopsOnError,
    /// It blocks its thread for longer than any term lasts then, and the candidate waits again.
    Blocks,
}

/// How a caller uses a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A guard, released in the end.
    Release,
    /// A guard, dropped in the end.
    Drop,
    /// A body, in which it cannot see a fencing token.
    Run,
}

/// What goes wrong. Processes and servers by their numbers in the plan, times in milliseconds.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connections between them end.
    Cut(usize, usize, CutKind),
    /// Nothing passes between them for so long; then it arrives late.
    Part(usize, usize, u64),
    /// The server sends a reply that no command has asked for.
    Unasked(usize, usize, &'static str),
    /// All bytes take longer for so long.
    Slow(Latency, u64),
    /// The process stops for so long.
    Freeze(usize, u64),
    /// A runtime of the process does not run its tasks for so long.
    Starve(usize, usize, u64),
    /// A runtime of the process is dropped with its tasks. Another one takes its number.
    DropRuntime(usize, usize),
    /// The process is killed.
    Kill(usize),
    /// Its host loses power: no server notices that its connections have ended.
    PowerOff(usize),
    /// The clock of the process goes ahead.
    ClockAhead(usize, u64),
    /// The server stops for so long.
    FreezeServer(usize, u64),
    /// The server ends, with its data or without, and is back after so long.
    Restart(usize, bool, u64),
    /// All its data is gone.
    Flush(usize),
    /// Its data are those of so long before.
    OldData(usize, u64),
    /// Reloads at once: no client is notified.
    Reload(usize, u64),
    /// Its clock jumps by so much.
    ServerClock(usize, i64),
    /// It needs so many microseconds for each byte, for so long.
    SlowServer(usize, u64, u64),
    /// Behind a sentinel, the replica becomes the primary, without what was written in so long
    /// before. In a Cluster, the slot of the first lock moves to that server.
    FailOver(usize, u64),
    /// The lock is gone.
    Delete(u8),
    /// The queue of the lock is gone.
    DeleteQueue(u8),
    /// A client of another kind takes the lock, if it is free, for so long.
    Foreign(u8, u64),
    /// The server refuses a command of ours for so long.
    Forbid(usize, &'static str, u64),
    /// The server refuses writes for so long.
    RefuseWrites(usize, u64),
    /// The server is full for so long: it refuses what may need more memory.
    Full(usize, u64),
    /// The manager of the process shuts down.
    ShutDown(usize),
}

impl Fault {
    /// Its kind, for the report.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cut(_, _, CutKind::Reset) => "connection reset",
            Self::Cut(_, _, CutKind::LateRequests(_)) => "connection lost, requests late",
            Self::Cut(_, _, CutKind::HalfOpen(_)) => "connection half-open",
            Self::Part(..) => "partition",
            Self::Unasked(..) => "reply that nothing asked for",
            Self::Slow(..) => "slow network",
            Self::Freeze(..) => "process frozen",
            Self::Starve(..) => "runtime starved",
            Self::DropRuntime(..) => "runtime dropped",
            Self::Kill(_) => "process killed",
            Self::PowerOff(_) => "host without power",
            Self::ClockAhead(..) => "clock ahead",
            Self::FreezeServer(..) => "server frozen",
            Self::Restart(_, true, _) => "server restarted",
            Self::Restart(_, false, _) => "server restarted without data",
            Self::Flush(_) => "flush",
            Self::OldData(..) => "older data",
            Self::Reload(..) => "older data at once",
            Self::ServerClock(_, jump) if *jump < 0 => "server's clock back",
            Self::ServerClock(..) => "server's clock ahead",
            Self::SlowServer(..) => "slow server",
            Self::FailOver(..) => "failover, or slot moved",
            Self::Delete(_) => "lock deleted",
            Self::DeleteQueue(_) => "queue deleted",
            Self::Foreign(..) => "foreign client",
            Self::Forbid(..) => "command forbidden",
            Self::RefuseWrites(..) => "writes refused",
            Self::Full(..) => "server full",
            Self::ShutDown(_) => "manager shut down",
        }
    }

    /// Its kind, when it changes what a server stores, lets a client do, or takes for the time.
    #[must_use]
    pub fn meddling(&self) -> Option<&'static str> {
        let meddles = matches!(
            self,
            Self::Restart(_, false, _)
                | Self::Flush(_)
                | Self::OldData(..)
                | Self::Reload(..)
                | Self::ServerClock(..)
                | Self::Delete(_)
                | Self::DeleteQueue(_)
                | Self::Foreign(..)
                | Self::Forbid(..)
                | Self::RefuseWrites(..)
                | Self::Full(..)
        );
        meddles.then(|| self.kind())
    }

    /// True when processes that connect meanwhile work without queues.
    #[must_use]
    pub fn forbids_queues(&self) -> bool {
        matches!(self, Self::Forbid(_, "publish" | "subscribe" | "zadd" | "zrange", _))
    }

    /// True when locks may be gone, so that two callers may be inside until the holder learns of
    /// it.
    #[must_use]
    pub fn loses_locks(&self) -> bool {
        matches!(
            self,
            Self::Restart(_, false, _)
                | Self::Flush(_)
                | Self::OldData(..)
                | Self::Reload(..)
                | Self::Delete(_)
        )
    }
}

const VERSIONS: [Version; 6] = [
    Version::Redis5,
    Version::Redis62,
    Version::Redis70,
    Version::Redis8,
    Version::Valkey8,
    Version::Valkey9,
];

/// What callers allow, where several kinds meet.
const ALLOWED: [u32; 6] = [0, 0, 2, 3, 3, 1];

/// How many permits an operator sets; with `None` the numbers of the callers count.
const CENTRAL: [Option<u32>; 6] = [None, Some(1), Some(2), Some(2), Some(3), Some(6)];

impl Plan {
    /// The plan of a seed: a few seconds.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        if let Some(plan) = backlog::of(seed) {
            return plan;
        }
        let mut random = Rng::with_seed(seed);
        if random.bool() {
            let number = random.usize(0..MATTERS.len() + STUCK.len());
            let stuck = STUCK.iter().map(|(_, matter)| matter);
            let matter = *MATTERS.iter().chain(stuck).nth(number).unwrap_or(&MATTERS[0]);
            return Self::of_one_matter(seed, &mut random, matter);
        }
        let kind = KINDS[random.usize(0..KINDS.len())];
        let version = VERSIONS[random.usize(0..VERSIONS.len())];
        let topology = match random.u32(0..8) {
            0 => Topology::Quorum(version, 3),
            1 => Topology::Cluster(version, 3),
            2 => Topology::Sentinel(version),
            _ => Topology::One(version),
        };
        let length = random.u64(500..6_000);
        let mut plan = drawn(seed, &mut random, kind, topology, length, 1);
        plan.set_fenced(random.u32(0..3));
        plan.share();
        plan
    }

    /// In one of four plans, callers of all kinds meet at each lock.
    fn share(&mut self) {
        let mut random = Rng::with_seed(!self.seed);
        if random.u32(0..4) == 0 && !matches!(self.topology, Topology::Quorum(..)) {
            self.mix_kinds(&mut random);
            self.set_permits(&mut random);
        }
        self.weigh(&mut Rng::with_seed(self.seed.rotate_left(32)));
        self.downgrade(&mut Rng::with_seed(self.seed.rotate_left(16)));
        self.share_some(&mut Rng::with_seed(self.seed.rotate_left(48)));
    }

    /// In two of three plans, callers of several keys share some of these. It is drawn by itself.
    fn share_some(&mut self, random: &mut Rng) {
        if random.u32(0..3) == 0 || matches!(self.topology, Topology::Quorum(..)) {
            return;
        }
        for Call { process, what, .. } in &mut self.calls {
            if let What::Hold(hold) = what
                && self.processes[*process].cohort == 0
                && hold.keys.len() > 1
            {
                hold.shares = hold.keys.iter().copied().filter(|_| random.bool()).collect();
            }
        }
    }

    /// In one of three plans, some that have their locks alone have them beside others after a while. It is drawn by
    /// itself.
    fn downgrade(&mut self, random: &mut Rng) {
        if random.u32(0..3) > 0 || matches!(self.topology, Topology::Quorum(..)) {
            return;
        }
        for Call { process, what, .. } in &mut self.calls {
            let after = random.bool().then(|| random.u16(0..300));
            if let What::Hold(hold) = what
                && self.processes[*process].cohort == 0
                && hold.may_share()
                && hold.allows == 1
            {
                hold.downgrades = after.filter(|after| u64::from(*after) <= hold.hold);
            }
        }
    }

    /// In one of four plans, some that share their locks take several permits. It is drawn by itself.
    fn weigh(&mut self, random: &mut Rng) {
        if random.u32(0..4) > 0 {
            return;
        }
        let sets_permits = self.sets_permits();
        for call in &mut self.calls {
            if let What::Hold(hold) = &mut call.what
                && hold.allows > 1
                && !hold.starts
            {
                hold.takes = random.u32(1..=hold.allows);
                if sets_permits && hold.takes > 1 {
                    // There may be fewer until the end.
                    hold.wait = hold.wait.or(Some(3_000));
                }
            }
        }
    }

    /// Callers of all kinds meet at each lock. A quorum, a cohort and a ticket have exclusive locks
    /// only. It is drawn by itself: all else in the plan stays.
    fn mix_kinds(&mut self, random: &mut Rng) {
        for Call { process, what, .. } in &mut self.calls {
            let kind = ALLOWED[random.usize(0..ALLOWED.len())];
            if let What::Hold(hold) = what
                && self.processes[*process].cohort == 0
                && hold.may_share()
            {
                hold.allows = kind;
            }
        }
    }

    /// In three of four plans, an operator sets how many permits a lock has, again and again. Not where a server may
    /// forget that.
    fn set_permits(&mut self, random: &mut Rng) {
        let forgets = |fault: &Fault| {
            matches!(
                fault,
                Fault::Restart(_, false, _)
                    | Fault::Flush(_)
                    | Fault::OldData(..)
                    | Fault::Reload(..)
                    | Fault::FailOver(..)
            )
        };
        let of_permits = |call: &Call| match &call.what {
            What::Hold(hold) if hold.allows > 1 && hold.min_hold.is_none() => Some((call.at, hold.keys[0])),
            _ => None,
        };
        let calls: Vec<_> = self.calls.iter().filter_map(of_permits).collect();
        let forgets = self.faults.iter().any(|(_, fault)| forgets(fault));
        if calls.is_empty() || forgets || random.u32(0..4) == 0 {
            return;
        }
        for _ in 0..random.usize(1..8) {
            let (at, key) = calls[random.usize(0..calls.len())];
            let permits = CENTRAL[random.usize(0..CENTRAL.len())];
            let process = random.usize(0..self.processes.len());
            let what = What::SetPermits(key, permits);
            self.calls.push(Call { at: at + random.u64(0..300), process, runtime: 0, what });
        }
    }

    /// Each second caller sees a fencing token; with 1 all do, and with 2 nobody.
    fn set_fenced(&mut self, which: u32) {
        for (number, call) in self.calls.iter_mut().enumerate() {
            if let What::Hold(hold) = &mut call.what {
                // The number of a term is a fencing token.
                hold.fenced = hold.leads.is_some() || which == 1 || which == 0 && number % 2 == 0;
            }
        }
    }

    fn of_one_matter(seed: u64, random: &mut Rng, matter: Matter) -> Self {
        let mut plan = Self::quiet(seed, 0);
        plan.topology = Topology::One(VERSIONS[random.usize(0..VERSIONS.len())]);
        plan.latency.usual = random.u64(0..4);
        plan.reorder = [0, 0, 10][random.usize(0..3)];
        plan.foreign_clients = false;
        let mut plan = matter(plan, random);
        plan.set_fenced(random.u32(0..3));
        plan.share();
        plan
    }

    /// What plans can be [about](Self::about).
    pub fn matters() -> impl Iterator<Item = &'static str> {
        STUCK.iter().map(|(name, _)| *name)
    }

    /// The plan of a seed about the matter of that name.
    #[must_use]
    pub fn about(matter: &str, seed: u64) -> Option<Self> {
        let (_, matter) = STUCK.iter().find(|(name, _)| *name == matter)?;
        Some(Self::of_one_matter(seed, &mut Rng::with_seed(seed), *matter))
    }

    /// A long run of a fleet of ten processes, whose callers are of all kinds.
    #[must_use]
    pub fn fleet(seed: u64, length: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let topology = Topology::One(Version::Redis70);
        let mut plan = drawn(seed, &mut random, Kind::All, topology, length, length / 6_000);
        let process = plan.processes[0];
        // As many runtimes as any process had for which faults were drawn.
        plan.processes = vec![ProcessPlan { cohort: 0, runtimes: 2, ..process }; 10];
        for call in &mut plan.calls {
            call.process = random.usize(0..10);
            call.runtime = 0;
        }
        plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Kill(_) | Fault::PowerOff(_)));
        plan.mix_kinds(&mut Rng::with_seed(!seed));
        plan
    }

    /// The shortest wait of a caller that waits at all, in milliseconds.
    #[must_use]
    pub fn shortest_wait(&self) -> u64 {
        let waits = self.calls.iter().filter_map(|call| match &call.what {
            What::Hold(hold) => hold.wait.filter(|wait| *wait > 0),
            _ => None,
        });
        waits.min().unwrap_or(u64::MAX)
    }

    /// True when a caller gives its lock away, or leads: what that costs, its own tests say.
    #[must_use]
    pub fn has_other_costs(&self) -> bool {
        self.calls.iter().any(
            |call| matches!(&call.what, What::Hold(hold) if hold.gives.is_some() || hold.leads.is_some()),
        )
    }

    /// The shortest `max_hold` of a call, in milliseconds.
    #[must_use]
    pub fn shortest_hold(&self) -> u64 {
        let longest = self.calls.iter().filter_map(|call| match &call.what {
            What::Hold(hold) => hold.max_hold,
            _ => None,
        });
        longest.min().unwrap_or(u64::MAX)
    }

    /// True when an operator sets how many permits there are.
    #[must_use]
    pub fn sets_permits(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.what, What::SetPermits(..)))
    }

    /// True when nothing goes wrong, so that every call succeeds or waits too long.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let meddles = |call: &Call| match &call.what {
            What::ForceRelease(_) | What::Revoke(_) | What::SetPermits(..) => true,
            What::Hold(hold) => hold.exits,
            _ => false,
        };
        self.faults.is_empty() && !self.calls.iter().any(meddles)
    }
}
