//! What this library takes from the machine that it runs on: clocks, random numbers, hash seeds,
//! names, runtimes and threads. A simulation takes the place of all of it.

mod machine;
#[cfg(feature = "__names")]
pub(crate) mod names;
pub(crate) mod world;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

#[cfg(not(feature = "__simulation"))]
pub(crate) use foldhash::{HashMap, HashSet};
#[cfg(feature = "testing")]
pub(crate) use machine::is_without_panic;
pub(crate) use machine::{number_of, thread_number};
pub(crate) use world::world;

/// The names of the synchronisation over which the threads of an engine meet. `tests/threads` has
/// others in their place, each use of which is a point where another thread may go on.
pub(crate) mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::Builder as ThreadBuilder;
}

/// False where the program has no simulation: what only a simulation asks is not called there.
pub(crate) const IS_SIMULATED: bool = cfg!(feature = "__simulation");

/// In a simulation, the seeds of hash maps are the same in each run, and so is the order of the
/// entries.
#[cfg(feature = "__simulation")]
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

#[cfg(feature = "__simulation")]
pub(crate) type HashSet<T> = std::collections::HashSet<T, foldhash::fast::FixedState>;

/// The lease clock, in nanoseconds since an arbitrary start.
pub(crate) fn lease_clock() -> u64 {
    match world() {
        Some(world) => world.lease_clock(),
        None => machine::lease_clock(),
    }
}

/// Since 1970.
pub(crate) fn wall_clock() -> Duration {
    match world() {
        Some(world) => world.wall_clock(),
        None => machine::wall_clock(),
    }
}

/// Returns the time of the wall clock so long ago, in whole seconds: for people.
pub(crate) fn wall_clock_before(duration: Duration) -> Option<NonZeroU64> {
    NonZeroU64::new(wall_clock().saturating_sub(duration).as_secs())
}

pub(crate) fn process_id() -> u32 {
    match world() {
        Some(world) => world.process_id(),
        None => std::process::id(),
    }
}

/// The name of the host, as it is in tokens.
pub(crate) fn name() -> &'static str {
    if world().is_some() { "simulated" } else { machine::name() }
}

/// Fills `bytes` from the random source of the operating system.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    match world() {
        Some(world) => world.random(bytes),
        None => return getrandom::fill(bytes),
    }
    Ok(())
}

/// The time of this tokio runtime, unless its clock stands still or was moved: then it differs from
/// the system's.
pub(crate) fn running_clock() -> Option<Instant> {
    if world().is_some() { Some(Instant::now()) } else { machine::running_clock() }
}

/// True when a test has paused the clock of this tokio runtime.
#[cfg(not(feature = "testing"))]
pub(crate) fn clock_stands_still() -> bool {
    world().is_none() && machine::clock_stands_still()
}

/// True when this thread has no other thread beside it that could do its work.
pub(crate) fn has_one_thread() -> bool {
    world().is_some()
}

/// Lets another thread go on that has what this one wants, for longer from try to try.
pub(crate) fn pause(tries: u32) {
    machine::pause(tries);
}

/// The addresses of a host, each with that port, in the order of the resolver.
pub(crate) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(feature = "__names")]
    if let Some(addresses) = names::addresses(host) {
        return Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect());
    }
    Ok(lookup_host((host, port)).await?.collect())
}

/// A connection to a simulated server; `None` on the machine.
pub(crate) fn simulated_connection(host: &str, port: u16) -> Option<world::Connecting> {
    world().map(|world| world.connect(host, port))
}

/// Starts a thread that runs `work` in a runtime. In a box, as each task: the code that runs tasks
/// is in the program once for each type of them, for each kind of runtime.
pub(crate) fn start_thread(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    match world() {
        Some(world) => {
            world.start_thread(Box::pin(work));
            Ok(())
        }
        None => machine::start_thread(name, Box::pin(work)),
    }
}

/// A value that a process has once, from its first use on. A forked child starts its own, because
/// it has no thread of its parent.
pub(crate) struct OfThisProcess<T>(std::sync::Mutex<Option<(u32, T)>>);

impl<T: Clone> OfThisProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(std::sync::Mutex::new(None))
    }

    pub(crate) fn get_or_start(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let process = std::process::id();
        if let Some((of, value)) = &*kept
            && *of == process
        {
            return Ok(value.clone());
        }
        let started = start()?;
        *kept = Some((process, started.clone()));
        Ok(started)
    }
}

/// Runs `work` in the runtime of this task, which is one.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    let work: world::Work = Box::pin(work);
    match world() {
        Some(world) => world.spawn(world.runtime(), work),
        None => drop(tokio::spawn(work)),
    }
}

/// A runtime that can run tasks.
#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Handle),
    Simulated(world::RuntimeNumber),
}

impl Runtime {
    /// Returns the runtime of this thread. `None` outside.
    pub(crate) fn current() -> Option<Self> {
        match world() {
            Some(world) => Some(Self::Simulated(world.runtime())),
            None => Handle::try_current().ok().map(Self::Tokio),
        }
    }

    /// No other runtime has it, and none has 0 or 1.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Tokio(handle) => number_of(handle),
            Self::Simulated(number) => *number,
        }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let work: world::Work = Box::pin(work);
        match (self, world()) {
            (Self::Simulated(number), Some(world)) => world.spawn(*number, work),
            (Self::Simulated(_), None) => {}
            (Self::Tokio(handle), _) => drop(handle.spawn(work)),
        }
    }
}

/// True when the runtime of this thread, which is `here`, has sockets, timers and a clock that
/// runs.
pub(crate) fn runtime_has_drivers(here: &Runtime) -> bool {
    world().is_some() || machine::runtime_has_drivers(here.number())
}

/// True when the tasks of this runtime run one at a time.
pub(crate) fn runtime_has_one_thread() -> bool {
    let workers = || Handle::try_current().map(|handle| handle.metrics().num_workers());
    world().is_some() || workers().is_ok_and(|workers| workers == 1)
}

/// True when threads of this runtime run its tasks, and not the thread that waits for them.
pub(crate) fn runtime_has_workers() -> bool {
    let flavor = || Handle::try_current().map(|handle| handle.runtime_flavor());
    world().is_none() && flavor().is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread)
}
