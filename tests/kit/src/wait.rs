//! Waiting for a condition, with a limit.

use std::io::Write;
use std::time::{Duration, Instant};

/// The usual unit.
pub const SECOND: Duration = Duration::from_secs(1);

/// The longest that any condition may take on a slow machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Waits until `condition` holds; fails the test with `what` when it does not within [`LIMIT`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(LIMIT, what, condition);
}

/// [`eventually`] with another limit.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Tells that the test stops here because of the version of the server or of what the machine
/// lacks, also where the harness hides what a test prints.
pub fn skipped(reason: &str) -> bool {
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    true
}
