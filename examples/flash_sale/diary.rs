//! The visits to the handler and their times, which show whether there was one at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The visits of one server. All servers of this program are on one machine, so its wall clock is
/// good enough.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<Visit>>>);

/// From when to when, in nanoseconds since 1970.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Visit {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Diary {
    pub(crate) fn enter(&self) -> Inside<'_> {
        Inside { diary: self, from: now() }
    }

    /// The visits since the last call.
    pub(crate) fn take(&self) -> Vec<Visit> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records the visit when it is dropped, however the visit ends.
pub(crate) struct Inside<'a> {
    diary: &'a Diary,
    from: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let visit = Visit { from: self.from, to: now() };
        self.diary.0.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
    }
}

fn now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
