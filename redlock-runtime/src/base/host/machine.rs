//! The machine as it is.

use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use super::world::Work;

/// `std::time::Instant` stands still during suspend on Linux (`CLOCK_MONOTONIC`) and on Apple's
/// systems (`CLOCK_UPTIME_RAW`): a laptop or a VM that wakes up would believe in a lease that ended
/// hours ago. On Windows it goes on. Never the wall clock: it can jump.
#[cfg(all(any(target_os = "linux", target_os = "android", target_vendor = "apple"), not(miri)))]
pub(super) fn lease_clock() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(target_vendor = "apple")]
    // Unlike the clock of this name on Linux, it goes on during sleep.
    const CLOCK: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: ClockId = ClockId::Boottime;
    let now = clock_gettime(CLOCK);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(any(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")), miri))]
pub(super) fn lease_clock() -> u64 {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

static NAME: LazyLock<String> = LazyLock::new(|| {
    // Miri's `uname` leaves parts of its answer unset.
    let host = if cfg!(miri) { OsString::new() } else { gethostname::gethostname() };
    let host = host.to_string_lossy();
    let clean: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect();
    if clean.is_empty() { "unknown-host".to_owned() } else { clean }
});

pub(super) fn name() -> &'static str {
    &NAME
}

pub(super) fn running_clock() -> Option<Instant> {
    let before = std::time::Instant::now();
    let now = Instant::now();
    (before <= now.into_std() && now.into_std() <= std::time::Instant::now()).then_some(now)
}

#[cfg(not(feature = "testing"))]
pub(super) fn clock_stands_still() -> bool {
    if running_clock().is_some() {
        return false;
    }
    // It was paused, but it may have been resumed since.
    let (then, start) = (Instant::now(), std::time::Instant::now());
    while start.elapsed().is_zero() {
        std::hint::spin_loop();
    }
    Instant::now() == then
}

/// `here` is the number of the runtime of this thread.
pub(super) fn runtime_has_drivers(here: u64) -> bool {
    /// The last runtime that had them.
    static HAS_THEM: AtomicU64 = AtomicU64::new(0);
    let has_drivers = HAS_THEM.load(Ordering::Relaxed) == here
        || is_without_panic(|| {
            drop(tokio::time::sleep(Duration::ZERO));
            if let Ok(socket) = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                && socket.set_nonblocking(true).is_ok()
            {
                drop(UdpSocket::from_std(socket));
            }
        });
    if has_drivers {
        HAS_THEM.store(here, Ordering::Relaxed);
    }
    has_drivers && running_clock().is_some()
}

/// No other thread has it.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // The number has no destructor, so it lives for as long as its thread.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

pub(crate) fn number_of(handle: &Handle) -> u64 {
    let mut number = Number(0);
    handle.id().hash(&mut number);
    number.0.wrapping_add(2)
}

/// Hashes one number to itself.
struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

pub(super) fn pause(tries: u32) {
    const YIELDS: u32 = 100;
    if tries < YIELDS { thread::yield_now() } else { thread::sleep(Duration::from_micros(250)) }
}

pub(super) fn start_thread(name: &str, work: Work) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handed_over = Arc::new(Mutex::new(Some((runtime, work))));
    let take = |from: &Mutex<Option<_>>| from.lock().unwrap_or_else(PoisonError::into_inner).take();
    let there = Arc::clone(&handed_over);
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Some((runtime, work)) = take(&there) {
            // A task: the runtime polls a woken task before it looks for more I/O events.
            let _ = runtime.block_on(async { tokio::spawn(work).await });
        }
    });
    if let Err(error) = thread {
        // Dropping a runtime inside the caller's runtime would panic.
        if let Some((runtime, _)) = take(&handed_over) {
            Runtime::shutdown_background(runtime);
        }
        return Err(error);
    }
    Ok(())
}

/// Asks what tokio answers only by a panic. False when `question` panics, or cannot be asked:
/// because the program aborts on panics, or this thread is panicking.
///
/// The panic hook of the program, which may end the process, does not hear of it: for some
/// microseconds a hook stands in its place that hands the panics of other threads on to it. Call it
/// without a lock that a panic hook may need.
pub(crate) fn is_without_panic(question: impl FnOnce()) -> bool {
    if cfg!(panic = "abort") || thread::panicking() {
        return false;
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = Arc::new(take_hook());
    let (others, asks) = (Arc::clone(&programs), thread::current().id());
    let ours: PanicHook = Box::new(move |panic| {
        if thread::current().id() != asks {
            others(panic);
        }
    });
    let address = ptr::from_ref(&*ours).cast::<()>();
    set_hook(ours);
    let answered = catch_unwind(AssertUnwindSafe(question));
    let found = take_hook();
    if ptr::from_ref(&*found).cast::<()>() == address {
        // No thread runs it any more, so it is the only other owner.
        drop(found);
        Arc::into_inner(programs).into_iter().for_each(set_hook);
    } else {
        // The program has set another one meanwhile.
        set_hook(found);
    }
    answered.is_ok()
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

type PanicHook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync + 'static>;
