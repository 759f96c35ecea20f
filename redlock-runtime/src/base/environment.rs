//! Whether the environment of this process may name the server of the process-wide manager.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// From now on it names none: that of a test may name the server of production.
#[cfg(feature = "testing")]
pub(crate) fn ignore() {
    IS_IGNORED.store(true, Ordering::Relaxed);
}

/// True in a process that has called `ignore`.
pub(crate) fn is_ignored() -> bool {
    IS_IGNORED.load(Ordering::Relaxed)
}
