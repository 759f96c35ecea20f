//! The runtimes of callers: their numbers, and whether they can run a loop.

use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::runtime::Handle;

use super::Home;
use crate::engine::driver::running_clock;

/// The place of a loop that no task polls.
pub(super) const NOWHERE: u64 = 0;

/// The place of a loop that has a thread of its own.
pub(super) const OWN_THREAD: u64 = 1;

/// The loops that callers' runtimes run.
static HOMES: Mutex<Vec<Weak<Home>>> = Mutex::new(Vec::new());

/// Notes a loop that a caller's runtime runs.
pub(super) fn moved_in(home: &Arc<Home>) {
    let mut homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
    homes.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(home)));
    homes.push(Arc::downgrade(home));
}

/// The loops that the runtime of this thread runs.
pub(super) fn homes_here() -> Vec<Arc<Home>> {
    let here = here();
    let homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
    let homes = homes.iter().filter_map(Weak::upgrade);
    homes.filter(|home| home.place.load(Ordering::SeqCst) == here).collect()
}

/// The number of the runtime that this thread is in; zero outside.
pub(super) fn here() -> u64 {
    Handle::try_current().map_or(NOWHERE, |handle| number_of(&handle))
}

pub(super) fn number_of(handle: &Handle) -> u64 {
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

/// True when the runtime of this thread has sockets, timers and a clock that runs. Tokio tells of missing drivers only by a
/// panic, whose message says which method of the runtime's builder enables them.
pub(super) fn can_run_it() -> bool {
    let has_drivers = catch_unwind(AssertUnwindSafe(|| {
        drop(tokio::time::sleep(Duration::ZERO));
        if let Ok(socket) = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            && socket.set_nonblocking(true).is_ok()
        {
            drop(UdpSocket::from_std(socket));
        }
    }));
    has_drivers.is_ok() && running_clock().is_some()
}
