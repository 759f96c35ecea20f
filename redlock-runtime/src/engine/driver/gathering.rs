//! The commands of callers that can run now are read together.
//!
//! A worker thread of tokio runs the task that was woken last before those that were woken earlier: a loop that is woken by
//! the first of many callers would read its command, and write it, before the second caller runs, and so on for each of them.
//! So the loop lets the other tasks run once. With a server that has little else to do, the command would only be late.

use super::answered::FEWEST;
use crate::ground::host;

#[derive(Default)]
pub(super) struct Gathering {
    /// The loop is polled by a worker thread.
    is_needed: bool,
    has_waited: bool,
}

impl Gathering {
    /// For a loop in this runtime.
    pub(super) fn here() -> Self {
        Self { is_needed: host::runtime_has_workers(), has_waited: false }
    }

    /// True when the loop is to wait for the other tasks before it goes on: not twice in a row.
    pub(super) fn waits(&mut self, has_commands: bool, in_flight: usize) -> bool {
        self.has_waited = self.is_needed && !self.has_waited && has_commands && in_flight >= FEWEST;
        self.has_waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_waits_once_while_the_server_has_work() {
        let mut gathering = Gathering { is_needed: true, has_waited: false };
        assert!(!gathering.waits(false, FEWEST), "nobody has asked");
        assert!(!gathering.waits(true, FEWEST - 1), "the server would idle");
        assert!(gathering.waits(true, FEWEST));
        assert!(!gathering.waits(true, FEWEST), "it has waited");
        assert!(gathering.waits(true, FEWEST));
    }

    #[tokio::test]
    async fn a_thread_that_runs_its_tasks_in_order_needs_none() {
        assert!(!Gathering::here().waits(true, FEWEST));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_worker_thread_does_not_run_its_tasks_in_order() {
        assert!(Gathering::here().waits(true, FEWEST));
    }
}
