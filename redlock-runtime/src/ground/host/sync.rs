//! The names of the synchronisation over which the threads of an engine meet. `tests/threads` has
//! others in their place, each use of which is a point where another thread may go on.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub(crate) use std::thread::Builder as ThreadBuilder;
