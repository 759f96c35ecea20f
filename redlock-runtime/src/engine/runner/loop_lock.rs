//! The lock around a loop: the task that polls the loop has it, or a caller that writes what it has
//! sent.
//!
//! A caller waits only for a moment. The loop may call code of the program (a waker, a callback),
//! which may wait for what that caller has locked, or drop a guard on the thread that polls.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use crate::base::host;
use crate::base::host::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// How often a caller tries at most: for some 100 ms.
const TRIES: u32 = 500;

/// The holder of a lock that no thread has.
const NO_THREAD: u64 = 0;

pub(super) struct LoopLock<T> {
    inner: Mutex<T>,
    /// The number of the thread that has it, for that thread alone.
    holder: AtomicU64,
}

impl<T> LoopLock<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), holder: AtomicU64::new(NO_THREAD) }
    }

    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.locked(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `None` while a thread has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(self.locked(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.locked(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for a moment, until `is_done`. `None` then, when this very thread has it, and when
    /// another one keeps it for longer.
    pub(super) fn lock_soon(&self, is_done: impl Fn() -> bool) -> Option<Locked<'_, T>> {
        for tries in 0..TRIES {
            if is_done() {
                return None;
            }
            if let Some(locked) = self.try_lock() {
                return Some(locked);
            }
            if self.holder.load(Ordering::Relaxed) == host::thread_number() {
                return None;
            }
            host::pause(tries);
        }
        None
    }

    fn locked<'a>(&'a self, inner: MutexGuard<'a, T>) -> Locked<'a, T> {
        self.holder.store(host::thread_number(), Ordering::Relaxed);
        Locked { inner, holder: &self.holder }
    }
}

/// While this thread has the lock.
pub(super) struct Locked<'a, T> {
    inner: MutexGuard<'a, T>,
    holder: &'a AtomicU64,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.holder.store(NO_THREAD, Ordering::Relaxed);
    }
}
