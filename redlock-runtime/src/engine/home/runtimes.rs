//! The runtimes of callers, and the loops that they run.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Home;
use crate::ground::host::Runtime;
use crate::ground::host::sync::Ordering;

/// The place of a loop that no task polls.
pub(super) const NOWHERE: u64 = 0;

/// The place of a loop that has a thread of its own.
pub(super) const OWN_THREAD: u64 = 1;

/// The loops that callers' runtimes run.
static HOMES: Mutex<Vec<Weak<Home>>> = Mutex::new(Vec::new());

/// Notes a loop that a caller's runtime runs.
pub(super) fn add(home: &Arc<Home>) {
    let mut homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
    homes.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(home)));
    homes.push(Arc::downgrade(home));
}

/// The loops that the runtime of this thread runs.
pub(super) fn homes_here() -> Vec<Arc<Home>> {
    let here = here();
    let homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = homes.iter().filter_map(Weak::upgrade).collect();
    drop(homes);
    all.into_iter().filter(|home| home.place.load(Ordering::SeqCst) == here).collect()
}

/// The number of the runtime that this thread is in; zero outside.
pub(super) fn here() -> u64 {
    Runtime::current().map_or(NOWHERE, |runtime| runtime.number())
}
