//! A blocked thread's waker.

use std::sync::{Arc, PoisonError};
use std::task::Wake;

use crate::base::clock::{Clock, Moment};
use crate::base::host::sync::{Condvar, Mutex};

/// Set by the waker, until the thread that waits for it returns. A thread that is ending cannot
/// park, but can wait for this.
#[derive(Default)]
pub(crate) struct Alarm {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    /// Waits until it is set, and unsets it. False when it was not set before `limit`, on that
    /// clock.
    pub(crate) fn wait(&self, limit: Option<(&Clock, Moment)>) -> bool {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let Some((clock, limit)) = limit else {
                is_set = self.changed.wait(is_set).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = limit.since(clock.now());
            if left.is_zero() {
                return false;
            }
            is_set = self.changed.wait_timeout(is_set, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_set = false;
        true
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}
