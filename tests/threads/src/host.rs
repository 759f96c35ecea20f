//! A machine on which each use of synchronisation is a point where another thread may go on, and
//! whose clock leaps.

use std::any::Any;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::Rng;

use crate::tokio::runtime::{Handle, block_on};
use crate::tokio::time::Instant;
use sync::{AtomicU64, Mutex, Ordering};

/// The names as they are in `redlock-runtime/src/base/host/sync.rs`.
pub(crate) mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::Builder as ThreadBuilder;
}

shuttle::lazy_static! {
    static ref CLOCK: AtomicU64 = AtomicU64::new(1_000_000_000_000);
    static ref TIMING: AtomicU64 = AtomicU64::new(0);
    static ref NUMBERS: AtomicU64 = AtomicU64::new(10);
    static ref KEPT: Mutex<Option<Arc<dyn Any + Send + Sync>>> = Mutex::new(None);
}

shuttle::thread_local! {
    static NUMBER: u64 = new_number();
}

/// No other thread or runtime has it.
pub(crate) fn new_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::SeqCst)
}

pub(crate) fn lease_clock() -> u64 {
    const STEPS: [u64; 4] = [0, 1, 30_000_000, 200_000_000];
    let step = STEPS[shuttle::rand::thread_rng().gen_range(0..STEPS.len())];
    CLOCK.fetch_add(step, Ordering::SeqCst) + step
}

/// So much time goes by.
pub(crate) fn passes(time: Duration) {
    CLOCK.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(0), Ordering::SeqCst);
}

/// A thread waits for a time limit while it lives.
pub(crate) struct Timing;

impl Timing {
    pub(crate) fn begins() -> Self {
        TIMING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        TIMING.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn is_timing() -> bool {
    TIMING.load(Ordering::SeqCst) > 0
}

pub(crate) fn running_clock() -> Option<Instant> {
    Some(Instant::now())
}

/// No schedule has so many loops that one needs it.
pub(crate) struct OfThisProcess<T>(std::marker::PhantomData<T>);

impl<T> OfThisProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(std::marker::PhantomData)
    }

    pub(crate) fn get_or_start(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        start()
    }
}

pub(crate) fn has_one_thread() -> bool {
    false
}

pub(crate) fn number_of(handle: &Handle) -> u64 {
    handle.number()
}

pub(crate) fn thread_number() -> u64 {
    NUMBER.with(|number| *number)
}

pub(crate) fn pause(_: u32) {
    shuttle::thread::yield_now();
}

pub(crate) fn start_thread(_: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    drop(shuttle::thread::spawn(move || block_on(work)));
    Ok(())
}

pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::thread::spawn(move || block_on(work)));
}

#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Handle),
}

impl Runtime {
    pub(crate) fn current() -> Option<Self> {
        Handle::current().map(Self::Tokio)
    }

    pub(crate) fn number(&self) -> u64 {
        let Self::Tokio(handle) = self;
        handle.number()
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Self::Tokio(handle) = self;
        handle.spawn(work);
    }
}

pub(crate) fn runtime_has_drivers(_: &Runtime) -> bool {
    true
}

/// What is kept for the process is kept for one run of a scenario.
#[derive(Clone, Copy)]
pub(crate) struct World;

pub(crate) fn world() -> Option<World> {
    Some(World)
}

impl World {
    pub(crate) fn kept(self) -> Option<Arc<dyn Any + Send + Sync>> {
        KEPT.lock().unwrap().clone()
    }

    pub(crate) fn keep(self, kept: Arc<dyn Any + Send + Sync>) {
        *KEPT.lock().unwrap() = Some(kept);
    }
}

/// The end of the process.
pub(crate) fn forget() {
    let kept = KEPT.lock().unwrap().take();
    drop(kept);
}
