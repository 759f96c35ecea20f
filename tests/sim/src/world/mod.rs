//! One thread that is all machines: the time of each, the tasks of each process, and the network
//! between them.
//!
//! Tokio's clock is paused, so time goes on only when every task waits, and then to the next timer
//! at once: in whole milliseconds. What happens within one millisecond happens in an order that the
//! seed decides.

mod connection;
mod network;
mod process;
mod task;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redlock_runtime::simulation::{self, Connecting, RuntimeNumber, Work};
use tokio::time::Instant;

pub use network::{CutKind, Fate, Latency};
use network::{Host, Network};
use process::Process;
pub use process::ProcessClock;
pub use task::{spawn, spawn_here};

use crate::server::{Server, ServerSettings, Version};

thread_local! {
    static HERE: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// When the simulation begins, on the wall: since 1970, to 2026-01-01.
const BEGINNING: Duration = Duration::from_hours(490_896);

/// When the servers started: a node of a quorum that has just started does not vote.
const STARTED: Duration = Duration::from_hours(490_800);

/// A process by its number; 0 is the test itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ProcessId(pub usize);

/// A server by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ServerId(pub usize);

/// Where a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    process: ProcessId,
    runtime: RuntimeNumber,
}

/// The state of everything.
pub struct World {
    started: Instant,
    random: RefCell<fastrand::Rng>,
    place: Cell<Place>,
    is_forked_child: Cell<bool>,
    next_runtime: Cell<RuntimeNumber>,
    processes: RefCell<Vec<Process>>,
    network: RefCell<Network>,
    hosts: RefCell<Vec<Host>>,
    /// One in so many polls comes later than it could; 0 for none.
    reorder: Cell<u32>,
    trace: RefCell<Option<Vec<String>>>,
    /// The polls of tasks at one time.
    polls: Cell<(u64, u32)>,
}

/// The process id of a forked child, without that of its parent.
const CHILDREN: u32 = 1_000_000;

/// So many polls at one time are a loop that waits for nothing.
const SPINS: u32 = 200_000;

impl World {
    /// A world without processes and servers, for this thread. Call it in a runtime whose clock is
    /// paused.
    #[must_use]
    pub fn begin(seed: u64, latency: Latency, traced: bool) -> Rc<Self> {
        let world = Rc::new(Self {
            started: Instant::now(),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            place: Cell::new(Place { process: ProcessId(0), runtime: 2 }),
            is_forked_child: Cell::new(false),
            next_runtime: Cell::new(3),
            processes: RefCell::new(vec![Process::new(0, ProcessClock::default())]),
            network: RefCell::new(Network::new(latency)),
            hosts: RefCell::default(),
            reorder: Cell::new(0),
            trace: RefCell::new(traced.then(Vec::new)),
            polls: Cell::new((0, 0)),
        });
        HERE.with(|here| *here.borrow_mut() = Some(Rc::clone(&world)));
        simulation::set_world(Some(Rc::new(Machine)));
        drop(tokio::spawn(network::deliver()));
        world
    }

    /// This thread is on its machine again.
    pub fn end() {
        simulation::set_world(None);
        HERE.with(|here| drop(here.borrow_mut().take()));
    }

    /// The world of this thread.
    ///
    /// # Panics
    ///
    /// Without one.
    #[must_use]
    pub fn here() -> Rc<Self> {
        HERE.with(|here| here.borrow().clone()).unwrap_or_else(|| unreachable!("this thread has a world"))
    }

    fn here_if_any() -> Option<Rc<Self>> {
        HERE.try_with(|here| here.borrow().clone()).ok().flatten()
    }

    /// The true time, which no clock shows exactly: nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        nanos(Instant::now() - self.started)
    }

    /// Counts the poll of a task.
    fn counts_poll(&self) {
        let (now, (at, polls)) = (self.now(), self.polls.get());
        if polls <= SPINS {
            self.polls.set((now, if at == now { polls + 1 } else { 1 }));
        }
    }

    /// True when a task was polled again and again while no time passed. From then on no task runs.
    #[must_use]
    pub fn spins(&self) -> bool {
        self.polls.get().1 > SPINS
    }

    /// True once in `of` times; never for 0.
    pub fn chance(&self, of: u32) -> bool {
        of > 0 && self.random.borrow_mut().u32(0..of) == 0
    }

    /// From `range`.
    pub fn number(&self, range: std::ops::Range<u64>) -> u64 {
        self.random.borrow_mut().u64(range)
    }

    /// From now on one in so many polls comes later than it could.
    pub fn reorder(&self, one_in: u32) {
        self.reorder.set(one_in);
    }

    /// Notes what happens, if a trace is wanted.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut *self.trace.borrow_mut() {
            let now = Duration::from_nanos(self.now());
            trace.push(format!("{:>10.3} ms  {}", now.as_secs_f64() * 1000.0, what()));
        }
    }

    /// What was noted.
    pub fn take_trace(&self) -> Vec<String> {
        self.trace.borrow_mut().take().unwrap_or_default()
    }

    /// Does `work` as this process.
    pub fn within<R>(&self, process: ProcessId, work: impl FnOnce() -> R) -> R {
        self.at_place(Place { process, runtime: self.place.get().runtime }, work)
    }

    /// Does `work` as this process, in this runtime of it.
    pub fn enter<R>(&self, process: ProcessId, runtime: RuntimeNumber, work: impl FnOnce() -> R) -> R {
        self.at_place(Place { process, runtime }, work)
    }

    fn at_place<R>(&self, place: Place, work: impl FnOnce() -> R) -> R {
        let before = self.place.replace(place);
        let done = work();
        self.place.set(before);
        done
    }

    /// Does `work` as a child that this process has just forked: with its memory, and another
    /// process id.
    pub fn as_forked_child<R>(&self, work: impl FnOnce() -> R) -> R {
        self.is_forked_child.set(true);
        let done = work();
        self.is_forked_child.set(false);
        done
    }

    /// Starts a server. Its clock is ahead by so many microseconds.
    pub fn add_server(&self, version: Version, settings: ServerSettings, ahead: i64) -> ServerId {
        let port = settings.port;
        let settings =
            ServerSettings { run_id: network::run_id(port, 1), started: micros(STARTED), ..settings };
        let mut hosts = self.hosts.borrow_mut();
        hosts.push(Host::new(Server::new(version, settings), port, ahead));
        ServerId(hosts.len() - 1)
    }

    /// Does `work` with a server and its time, and sends what the server answers.
    pub fn with_server<R>(&self, id: ServerId, work: impl FnOnce(&mut Server, u64) -> R) -> R {
        network::with_server(self, id, work)
    }
}

/// What the library sees of the world.
struct Machine;

impl simulation::World for Machine {
    fn lease_clock(&self) -> u64 {
        let world = World::here();
        let now = world.now();
        world.processes.borrow()[world.place.get().process.0].clock.show(now)
    }

    fn wall_clock(&self) -> Duration {
        BEGINNING + Duration::from_nanos(World::here().now())
    }

    fn process_id(&self) -> u32 {
        let world = World::here();
        let pid = world.processes.borrow()[world.place.get().process.0].pid;
        if world.is_forked_child.get() { CHILDREN + pid } else { pid }
    }

    fn random(&self, bytes: &mut [u8]) {
        World::here().random.borrow_mut().fill(bytes);
    }

    fn runtime(&self) -> RuntimeNumber {
        World::here().place.get().runtime
    }

    fn spawn(&self, runtime: RuntimeNumber, work: Work) {
        let world = World::here();
        let process = world.place.get().process;
        task::start(&world, Place { process, runtime }, work);
    }

    fn start_thread(&self, work: Work) {
        let world = World::here();
        let runtime = world.new_runtime();
        self.spawn(runtime, work);
    }

    fn connect(&self, host: &str, port: u16) -> Connecting {
        connection::connect(&World::here(), host, port)
    }

    fn met(&self, state: &'static str, event: &'static str, what: &'static str) {
        crate::coverage::count(state, event, what);
    }

    fn kept(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let world = World::here();
        world.processes.borrow()[world.place.get().process.0].kept.clone()
    }

    fn keep(&self, kept: Arc<dyn Any + Send + Sync>) {
        let world = World::here();
        world.processes.borrow_mut()[world.place.get().process.0].kept = Some(kept);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
