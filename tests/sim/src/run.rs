//! Runs a plan, and says what was seen.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redlock_runtime::simulation::RuntimeNumber;
use redlock_runtime::{LockError, LockManager};
use tokio::time::{Instant, sleep, sleep_until};

use crate::callers::{key, perform};
use crate::commands::Commands;
use crate::coverage::{self, Coverage};
use crate::exits;
use crate::faults::{self, FOREIGN};
use crate::groups;
use crate::leads;
use crate::once;
use crate::oracle::{CallId, Oracle, Seen, Violation};
use crate::plan::{Fault, Plan, Topology, What};
use crate::promises::{Promises, Stored};
use crate::room::{Room, caller_of};
use crate::server::{Bytes, DEFAULT_USER, Server, Version};
use crate::world::{Fate, ProcessClock, ProcessId, ServerId, World, spawn};
use crate::{tickets, ticks};

/// How often the oracle looks.
const LOOK: Duration = Duration::from_millis(50);

/// How long the fleet has to end everything.
const PATIENCE: Duration = Duration::from_secs(90);

thread_local! {
    static ORACLE: RefCell<Option<Oracle>> = const { RefCell::new(None) };
    static ERRORS: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Does something with the oracle of this run, if there is one.
pub fn judge(work: impl FnOnce(&mut Oracle)) {
    let oracle = ORACLE.with(|oracle| oracle.borrow_mut().take());
    if let Some(mut oracle) = oracle {
        work(&mut oracle);
        ORACLE.with(|place| *place.borrow_mut() = Some(oracle));
    }
}

/// Counts the error that a caller has got.
pub(crate) fn tell(error: Option<LockError>) {
    let Some(error) = error else { return };
    let name = match error {
        LockError::Busy { .. } => "busy",
        LockError::TimedOut { .. } => "timed out",
        LockError::QueueFull { .. } => "queue full",
        LockError::TickTaken { .. } => "tick taken",
        LockError::KeyReused { .. } => "key reused",
        LockError::Interrupted { .. } => "interrupted",
        LockError::NotStored { .. } => "not stored",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::Misconfigured { .. } => "misconfigured",
        LockError::ManagerClosed { .. } => "manager closed",
        _ => "another",
    };
    ERRORS.with(|errors| *errors.borrow_mut().entry(name).or_default() += 1);
}

/// What a run has seen.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The first property that was violated.
    pub violation: Option<Violation>,
    /// What happened, if that was wanted.
    pub trace: Vec<String>,
    /// The locks that were held.
    pub holds: u64,
    /// The calls of the plan.
    pub calls: u64,
    /// Virtual time.
    pub lasted: Duration,
    /// The faults by their kinds.
    pub faults: BTreeMap<&'static str, u64>,
    /// What attempts have met in which states.
    pub met: Coverage,
    /// The errors that callers have got.
    pub errors: BTreeMap<&'static str, u64>,
}

/// A fleet that runs.
pub struct Fleet {
    /// The processes of the plan, in its order.
    pub processes: Vec<ProcessId>,
    /// The servers of the plan, in its order.
    pub servers: Vec<ServerId>,
    /// Where locks live.
    pub topology: Topology,
    /// Behind a sentinel, the number of the primary.
    pub primary: Cell<usize>,
    /// A server is slow.
    pub slow: Cell<bool>,
    /// How many servers refuse something now.
    pub refusals: Cell<u32>,
    /// The runtimes of each process.
    pub runtimes: RefCell<Vec<Vec<RuntimeNumber>>>,
}

impl Fleet {
    /// The server that has all locks, where one has.
    #[must_use]
    pub fn primary(&self) -> Option<ServerId> {
        match self.topology {
            Topology::One(_) | Topology::Sentinel(_) => self.servers.get(self.primary.get()).copied(),
            Topology::Quorum(..) | Topology::Cluster(..) => None,
        }
    }
}

/// Runs a plan.
///
/// # Panics
///
/// Where no runtime can be built.
#[must_use]
pub fn run(plan: &Plan, traced: bool) -> Report {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
    else {
        unreachable!("a runtime without sockets needs nothing of the system")
    };
    let mut report = runtime.block_on(simulate(plan, traced));
    World::end();
    drop(runtime);
    report.met = coverage::take();
    report
}

async fn simulate(plan: &Plan, traced: bool) -> Report {
    let world = World::begin(plan.seed, plan.latency, traced);
    world.reorder(plan.reorder);
    let servers = groups::start(&world, plan.topology);
    ORACLE.with(|oracle| {
        let plan = Rc::new(plan.clone());
        let promises = match servers.as_slice() {
            [server] => Promises::of(&plan).with_server(*server),
            _ => Promises::of(&plan),
        };
        let mut judge = Oracle::with(promises, Commands::of(&plan));
        let is_refusal = |fault: &Fault| matches!(fault, Fault::RefuseWrites(..) | Fault::Forbid(..));
        if !plan.is_calm() || plan.latency.late > 0 {
            let most = plan.processes.iter().map(|process| process.io_timeout).max();
            judge.late_answers = Duration::from_millis(most.unwrap_or(0));
        }
        judge.votes = matches!(plan.topology, Topology::Quorum(..));
        judge.passes_queues = plan.faults.iter().any(|(_, fault)| fault.forbids_queues());
        judge.only_refuses = plan.faults.iter().all(|(_, fault)| is_refusal(fault));
        judge.learns_by_renewals = plan.topology.version() == Version::Redis5;
        judge.has_late_requests = plan.latency.late > 0 && plan.latency.lateness > 30;
        *oracle.borrow_mut() = Some(judge);
    });
    ERRORS.with(|errors| errors.borrow_mut().clear());
    forget_other_runs(plan);
    prepare(&world, plan, &servers);
    let processes: Vec<_> = plan
        .processes
        .iter()
        .map(|process| world.add_process(ProcessClock { fast: process.fast, ahead: 0 }))
        .collect();
    let runtimes =
        plan.processes.iter().map(|process| (0..process.runtimes).map(|_| world.new_runtime()).collect());
    let fleet = Rc::new(Fleet {
        topology: plan.topology,
        primary: Cell::new(0),
        runtimes: RefCell::new(runtimes.collect()),
        slow: Cell::new(false),
        refusals: Cell::new(0),
        processes,
        servers,
    });
    let mut managers: Vec<_> = (0..plan.processes.len()).map(|number| start(plan, &fleet, number)).collect();
    let start = Instant::now();
    let mut report = Report { calls: u64::try_from(plan.calls.len()).unwrap_or(0), ..Report::default() };
    let mut due = all_due(plan, &mut report);
    let end = start + Duration::from_millis(plan.length);
    let mut next_look = start + LOOK;
    let slack = slack(plan);
    loop {
        let next_due = due.first_key_value().map(|(at, _)| start + Duration::from_millis(*at));
        let next = next_due.map_or(next_look, |due| due.min(next_look));
        sleep_until(next).await;
        while let Some(entry) = due.first_entry()
            && start + Duration::from_millis(*entry.key()) <= Instant::now()
        {
            for due in entry.remove() {
                match due {
                    Due::Call(id) => call(plan, &fleet, &managers, id),
                    Due::Deed(deed) => deed(&world, &fleet),
                    // The manager of a dead process ends with the others, after the last call.
                    Due::ShutDown(number) if world.is_dead(fleet.processes[number]) => {}
                    Due::ShutDown(number) => shut_down(&fleet, number, managers[number].take()),
                }
            }
        }
        if Instant::now() >= next_look {
            next_look += LOOK;
            look(plan, &fleet, slack);
        }
        if world.spins() {
            judge(|oracle| {
                oracle.violated("no loop waits for nothing", "a task is polled for ever".to_owned());
            });
        }
        let has_calls = has_calls();
        if has_violation() || (Instant::now() >= end && due.is_empty() && !has_calls) {
            break;
        }
        if Instant::now() > end + PATIENCE + PATIENCE {
            judge(|oracle| {
                oracle.violated("each caller gets an outcome", "calls are still under way".to_owned());
            });
            break;
        }
    }
    if !has_violation() {
        wind_up(plan, &fleet, &mut managers, slack).await;
    }
    report.lasted = Instant::now() - start;
    let oracle = ORACLE.with(|oracle| oracle.borrow_mut().take()).unwrap_or_default();
    report.violation = oracle.violation().cloned();
    report.holds = oracle.holds;
    report.errors = ERRORS.with(|errors| std::mem::take(&mut *errors.borrow_mut()));
    report.trace = world.take_trace();
    if plan.is_calm() && report.violation.is_none() {
        report.violation = unexpected(plan, &report.errors);
    }
    report
}

/// What is noted of a run begins again.
fn forget_other_runs(plan: &Plan) {
    tickets::begin();
    ticks::begin();
    once::begin(plan);
    leads::begin(plan);
    exits::begin(plan);
}

/// What a plan changes in its servers before anything happens.
fn prepare(world: &World, plan: &Plan, servers: &[ServerId]) {
    for server in servers {
        if !plan.may_kill {
            world.with_server(*server, |server, _| server.deny(DEFAULT_USER, "client|kill"));
        }
        if let Some(mutant) = plan.mutant {
            world.with_server(*server, |server, _| server.rewrite_scripts(|script| mutant.rewritten(script)));
        }
    }
}

/// By millisecond: what callers do then, and what goes wrong.
fn all_due(plan: &Plan, report: &mut Report) -> BTreeMap<u64, Vec<Due>> {
    let mut due: BTreeMap<u64, Vec<Due>> = BTreeMap::new();
    for id in 0..plan.calls.len() {
        due.entry(plan.calls[id].at).or_default().push(Due::Call(id));
        if matches!(&plan.calls[id].what, What::Hold(hold) if hold.forks) {
            *report.faults.entry("process forked").or_default() += 1;
        }
    }
    for (at, fault) in &plan.faults {
        *report.faults.entry(fault.kind()).or_default() += 1;
        if let Fault::ShutDown(process) = fault {
            due.entry(*at).or_default().push(Due::ShutDown(*process));
        }
        for (after, deed) in faults::deeds(fault) {
            due.entry(at + after).or_default().push(Due::Deed(deed));
        }
    }
    due
}

enum Due {
    Call(CallId),
    Deed(faults::Deed),
    ShutDown(usize),
}

/// The manager of a process ends in the middle of the run.
fn shut_down(fleet: &Fleet, number: usize, manager: Option<LockManager>) {
    let (process, runtime) = (fleet.processes[number], fleet.runtimes.borrow()[number][0]);
    let Some(manager) = manager else { return };
    spawn(process, runtime, async move {
        let (start, began) = (Instant::now(), World::here().now());
        let outcome = manager.shutdown(Duration::from_secs(5)).await;
        World::here().note(|| format!("process {} has shut down: {outcome:?}", process.0));
        judge(|oracle| oracle.on_shut_down(process, began, start.elapsed(), outcome.as_ref().err()));
    });
}

/// In a fleet that nothing disturbs, calls end with a lock, or because others have it.
fn unexpected(plan: &Plan, errors: &BTreeMap<&'static str, u64>) -> Option<Violation> {
    let is_far = plan.latency.late > 0;
    // Redis 5 cannot tell the type of a key in `SCAN`.
    let lists = plan.topology.version() != Version::Redis5;
    // A hold that is shorter than the way of an answer.
    let is_short = is_far && plan.shortest_hold() < 2 * plan.latency.lateness;
    let error = errors.keys().find(|error| match **error {
        "busy" | "timed out" | "queue full" | "tick taken" | "lost" | "key reused" | "interrupted"
        | "not stored" => false,
        "unavailable" => !is_far && plan.shortest_wait() > 250,
        "misconfigured" => lists && !is_short,
        _ => true,
    })?;
    Some(Violation { property: "a calm fleet gives no errors", what: (*error).to_owned() })
}

fn has_violation() -> bool {
    ORACLE.with(|oracle| oracle.borrow().as_ref().is_some_and(|oracle| oracle.violation().is_some()))
}

fn has_calls() -> bool {
    let mut has_calls = false;
    judge(|oracle| has_calls = oracle.has_calls());
    has_calls
}

/// What bytes may take at most, several times: in nanoseconds.
fn slack(plan: &Plan) -> u64 {
    (6 * (plan.latency.usual + plan.latency.lateness) + 50) * 1_000_000
}

/// The longest ttl that any process uses: in a quorum, all have to know it.
fn longest_ttl(plan: &Plan) -> Duration {
    let ttls = plan.calls.iter().filter_map(|call| match &call.what {
        What::Hold(hold) => hold.extend.iter().map(|(_, ttl)| *ttl).chain([hold.ttl]).max(),
        _ => None,
    });
    Duration::from_millis(ttls.max().unwrap_or(0))
}

fn start(plan: &Plan, fleet: &Fleet, number: usize) -> Option<LockManager> {
    let world = World::here();
    let settings = plan.processes[number];
    let builder = LockManager::builder(groups::url(plan.topology))
        .io_timeout(Duration::from_millis(settings.io_timeout))
        .own_thread(settings.own_thread)
        .max_waiters(settings.max_waiters)
        .max_ttl(longest_ttl(plan))
        .foreign_clients(plan.foreign_clients);
    let builder = if matches!(plan.topology, Topology::One(_) | Topology::Sentinel(_)) {
        builder.cohort(settings.cohort)
    } else {
        builder
    };
    let runtime = fleet.runtimes.borrow()[number][0];
    let started = world.enter(fleet.processes[number], runtime, || builder.connect_lazy());
    match started {
        Ok(manager) => Some(manager),
        Err(error) => {
            judge(|oracle| oracle.violated("a manager starts", error.to_string()));
            None
        }
    }
}

fn call(plan: &Plan, fleet: &Fleet, managers: &[Option<LockManager>], id: CallId) {
    let call = plan.calls[id].clone();
    let process = fleet.processes[call.process];
    let (Some(locks), false) = (managers[call.process].clone(), World::here().is_dead(process)) else {
        return;
    };
    let several = matches!(&call.what, What::Hold(hold) if hold.keys.len() > 1);
    if several && plan.topology.servers() > 1 {
        // A quorum takes no several keys as one.
        return;
    }
    let runtime = fleet.runtimes.borrow()[call.process][call.runtime];
    let settings = plan.processes[call.process];
    spawn(process, runtime, perform(id, process, call, locks, settings));
}

fn look(plan: &Plan, fleet: &Fleet, slack: u64) {
    let world = World::here();
    let is_up = |server: &&ServerId| world.fate(**server) == Fate::Up;
    let seen = match (fleet.primary(), fleet.topology) {
        (Some(primary), _) => is_up(&&primary).then(|| seen(plan, &[primary])),
        (None, Topology::Cluster(..)) => {
            fleet.servers.iter().all(|server| is_up(&server)).then(|| seen(plan, &fleet.servers))
        }
        (None, _) => None,
    };
    let is_healthy = |process: ProcessId| {
        !fleet.slow.get()
            && fleet.refusals.get() == 0
            && world.is_running(process)
            && fleet.servers.iter().all(|server| world.are_joined(process, *server))
    };
    judge(|oracle| oracle.look(seen.as_deref(), is_healthy, slack));
    judge(|oracle| {
        let process = |call: CallId| plan.calls.get(call).map(|call| fleet.processes[call.process]);
        once::look(oracle, |call| process(call).is_some_and(is_healthy), slack);
    });
    judge(|oracle| exits::look(oracle, fleet));
    if let (Some(seen), [server]) = (seen, fleet.servers.as_slice()) {
        let stored = stored(seen, *server);
        judge(|oracle| oracle.look_at(&stored));
        let grants = world.with_server(*server, Server::take_grants);
        judge(|oracle| oracle.look_at_grants(&granted(&grants)));
        let (executed, connections) = world.with_server(*server, |server, _| server.costs());
        judge(|oracle| oracle.look_at_costs(executed, connections));
    }
}

/// The grace of `grace.lua`, in milliseconds.
const GRACE: u64 = 100;

fn stored(seen: Vec<Seen>, server: ServerId) -> Vec<Stored> {
    World::here().with_server(server, |server, now| {
        let numbers = 0..u8::try_from(seen.len()).unwrap_or(u8::MAX);
        let stored = numbers.zip(seen).map(|(number, seen)| {
            let name = format!("lock:{}", seen.key);
            let value = server.value(now, name.as_bytes()).unwrap_or_default();
            let left = server.pttl(now, name.as_bytes()).flatten();
            let waiters = server.members(now, format!("{name}%queue").as_bytes());
            Stored {
                key: number,
                is_over: if seen.room.is_free() { Some(0) } else { in_grace(value, left) },
                room: seen.room,
                is_deserted: seen.is_deserted,
                is_unwatched: waiters.first().is_some_and(|(member, _)| is_dead(member)),
                is_foreign: value.starts_with(FOREIGN),
                is_changed: value.starts_with(FOREIGN) && value != FOREIGN,
                is_marked: value.ends_with(b"!"),
                waiters: waiters.iter().filter_map(|(member, _)| waiter_of(member)).collect(),
            }
        });
        stored.collect()
    })
}

/// For how long the lease of a marked lock has been over.
fn in_grace(value: &[u8], left: Option<u64>) -> Option<u64> {
    left.filter(|left| value.ends_with(b"!") && *left <= GRACE).map(|left| GRACE - left)
}

/// Who was granted a lock, and when, in nanoseconds.
fn granted(grants: &[(u64, Bytes)]) -> Vec<(CallId, u64)> {
    let now = World::here().now();
    let caller = |message: &Bytes| message.split(|byte| *byte == b'|').nth(1).and_then(caller_of);
    let granted = |(ago, message): &(u64, Bytes)| Some((caller(message)?, now.saturating_sub(ago * 1_000)));
    grants.iter().filter_map(granted).collect()
}

/// The number of the caller whose place it is.
fn waiter_of(member: &Bytes) -> Option<CallId> {
    member.split(|byte| *byte == b'|').next().and_then(caller_of)
}

/// True when the processes of the first two waiters are dead.
fn is_deserted(members: &[(Bytes, f64)]) -> bool {
    members.len() > 1 && members.iter().take(2).all(|(member, _)| is_dead(member))
}

/// True when the process of the waiter is dead.
fn is_dead(member: &[u8]) -> bool {
    let member = String::from_utf8_lossy(member);
    let pid = member.split('@').nth(1).and_then(|owner| owner.split([':', '/']).nth(1)?.parse().ok());
    pid.is_some_and(|pid| World::here().has_died(pid))
}

/// The locks on these servers.
fn seen(plan: &Plan, servers: &[ServerId]) -> Vec<Seen> {
    let keys = plan.calls.iter().filter_map(|call| match &call.what {
        What::Hold(hold) => hold.keys.iter().max(),
        _ => None,
    });
    let last = keys.max().copied().unwrap_or(0);
    let may_refuse = plan.sets_permits();
    let empty = |number| Seen { key: key(number), room: Room::default(), is_deserted: false };
    let mut seen: Vec<_> = (0..=last).map(empty).collect();
    for server in servers {
        World::here().with_server(*server, |server, now| {
            for lock in &mut seen {
                lock.room = Room::of(server, now, &lock.key).unwrap_or(std::mem::take(&mut lock.room));
                lock.room.may_refuse = may_refuse;
                let queue = format!("lock:{}%queue", lock.key);
                lock.is_deserted |= is_deserted(&server.members(now, queue.as_bytes()));
            }
        });
    }
    seen
}

/// All is well again; every manager shuts down, and nothing is left.
async fn wind_up(plan: &Plan, fleet: &Fleet, managers: &mut Vec<Option<LockManager>>, slack: u64) {
    let world = World::here();
    faults::heal(&world, fleet);
    for process in &fleet.processes {
        world.bury(*process);
    }
    let shutting_down = Arc::new(());
    for (number, manager) in managers.drain(..).enumerate() {
        let process = fleet.processes[number];
        let runtime = fleet.runtimes.borrow()[number][0];
        if let Some(manager) = manager {
            let is_dead = world.is_dead(process);
            let under_way = Arc::clone(&shutting_down);
            spawn(process, runtime, async move {
                let outcome = manager.shutdown(Duration::from_secs(5)).await;
                if !is_dead && let Err(error) = outcome {
                    judge(|oracle| oracle.violated("a healthy fleet shuts down", error.to_string()));
                }
                drop(under_way);
            });
        }
    }
    let until = Instant::now() + PATIENCE;
    let is_under_way = || Arc::strong_count(&shutting_down) > 1 || world.connections() > 0;
    while is_under_way() && Instant::now() < until && !has_violation() {
        sleep(Duration::from_millis(200)).await;
    }
    sleep(Duration::from_millis(slack / 1_000_000)).await;
    let left = world.connections();
    if left > 0 {
        judge(|oracle| oracle.violated("nothing is left after shutdown", format!("{left} connections")));
    }
    look(plan, fleet, slack);
    // What is left of processes that were killed ends with its leases, and a queue after a minute.
    sleep(PATIENCE).await;
    for server in &fleet.servers {
        let left: Vec<_> = world.with_server(*server, |server, now| {
            let keys = server.keys(now).map(|key| String::from_utf8_lossy(key).into_owned());
            let stays = |key: &str| ["%queue%tick", "%queue%permits"].iter().any(|side| key.contains(side));
            keys.filter(|key| !key.ends_with("%clock") && !stays(key)).collect()
        });
        if !left.is_empty() {
            judge(|oracle| oracle.violated("nothing is left after shutdown", format!("{left:?}")));
        }
    }
}
