//! Processes: each with a clock, runtimes and tasks; they freeze, starve, lose a runtime and die.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use redlock_runtime::simulation::RuntimeNumber;

use super::task::Slot;
use super::{Place, ProcessId, World};

/// The lease clock of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessClock {
    /// Parts per million by which it is fast.
    pub fast: i64,
    /// What it has jumped ahead so far, in nanoseconds: the host was suspended.
    pub ahead: u64,
}

impl ProcessClock {
    /// What it shows at that true time.
    #[must_use]
    pub fn show(&self, now: u64) -> u64 {
        let drift = i128::from(now) * i128::from(self.fast) / 1_000_000;
        let shown = i128::from(now) + drift + i128::from(self.ahead) + 1_000_000_000;
        u64::try_from(shown).unwrap_or(1)
    }
}

pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) clock: ProcessClock,
    pub(super) is_frozen: bool,
    frozen_since: u64,
    pub(super) is_dead: bool,
    /// It was killed, and what is left of it may be dropped.
    pub(super) is_buried: bool,
    pub(super) starved: BTreeSet<RuntimeNumber>,
    /// The runtimes that were dropped.
    pub(super) ended: BTreeSet<RuntimeNumber>,
    /// What the library keeps for the process.
    pub(super) kept: Option<Arc<dyn Any + Send + Sync>>,
    tasks: Vec<(RuntimeNumber, Slot)>,
    parked: Vec<Waker>,
    /// For how long it has not run so far, in nanoseconds, and since when it does not.
    stopped_for: u64,
    stopped_since: Option<u64>,
}

impl Process {
    pub(super) fn new(pid: u32, clock: ProcessClock) -> Self {
        Self {
            pid,
            clock,
            is_frozen: false,
            frozen_since: 0,
            is_dead: false,
            is_buried: false,
            starved: BTreeSet::new(),
            ended: BTreeSet::new(),
            kept: None,
            tasks: Vec::new(),
            parked: Vec::new(),
            stopped_for: 0,
            stopped_since: None,
        }
    }

    pub(super) fn runs(&self, runtime: RuntimeNumber) -> bool {
        !self.is_frozen && !self.is_dead && !self.starved.contains(&runtime)
    }

    pub(super) fn park(&mut self, waker: Waker) {
        self.parked.push(waker);
    }

    pub(super) fn note_task(&mut self, runtime: RuntimeNumber, task: Slot) {
        if self.tasks.len() > 64 {
            // The task that starts this one is locked: it is not done.
            self.tasks.retain(|(_, task)| task.try_lock().map_or(true, |task| task.is_some()));
        }
        self.tasks.push((runtime, task));
    }
}

impl World {
    /// Starts a process. Its first task brings its first runtime.
    pub fn add_process(&self, clock: ProcessClock) -> ProcessId {
        let mut processes = self.processes.borrow_mut();
        let number = processes.len();
        processes.push(Process::new(u32::try_from(1000 + number).unwrap_or(u32::MAX), clock));
        ProcessId(number)
    }

    /// The number of a runtime that no process has yet.
    pub fn new_runtime(&self) -> RuntimeNumber {
        let number = self.next_runtime.get();
        self.next_runtime.set(number + 1);
        number
    }

    /// `SIGSTOP`.
    pub fn freeze(&self, process: ProcessId) {
        let now = self.now();
        self.change(process, |process| {
            if !process.is_frozen {
                (process.is_frozen, process.frozen_since) = (true, now);
            }
        });
    }

    /// `SIGCONT`.
    pub fn thaw(&self, process: ProcessId) {
        self.change(process, |process| process.is_frozen = false);
    }

    /// A task of that runtime blocks its thread.
    pub fn starve(&self, process: ProcessId, runtime: RuntimeNumber) {
        self.change(process, |process| {
            process.starved.insert(runtime);
        });
    }

    /// The task that runs now blocks the thread of its runtime for so long.
    pub fn block(&self, length: Duration) {
        let Place { process, runtime } = self.place.get();
        self.starve(process, runtime);
        drop(tokio::spawn(async move {
            tokio::time::sleep(length).await;
            if let Some(world) = Self::here_if_any() {
                world.change(process, |process| {
                    process.starved.remove(&runtime);
                });
            }
        }));
    }

    /// All runtimes run their tasks again.
    pub fn feed_all(&self, process: ProcessId) {
        self.change(process, |process| process.starved.clear());
    }

    /// `SIGKILL`: nothing of it runs again, and its connections end.
    pub fn kill(&self, process: ProcessId) {
        self.change(process, |process| process.is_dead = true);
        self.cut_all_of(process);
    }

    /// It ends by itself: nothing of it runs again, and its connections end behind what it has written.
    pub fn exit(&self, process: ProcessId) {
        self.change(process, |process| process.is_dead = true);
        self.close_all_of(process);
    }

    /// Ends the process and its host: the servers keep its connections.
    pub fn power_off(&self, process: ProcessId) {
        self.change(process, |process| process.is_dead = true);
    }

    /// What is left of a process that was killed can be dropped: it runs, but reaches no server.
    pub fn bury(&self, process: ProcessId) {
        if self.is_dead(process) {
            self.cut_all_of(process);
        }
        self.change(process, |process| {
            process.is_buried |= process.is_dead;
            (process.is_dead, process.is_frozen) = (false, false);
            process.starved.clear();
        });
    }

    /// Drops a runtime with all its tasks.
    pub fn drop_runtime(&self, process: ProcessId, runtime: RuntimeNumber) {
        let mut dropped = Vec::new();
        self.processes.borrow_mut()[process.0].ended.insert(runtime);
        self.processes.borrow_mut()[process.0].tasks.retain(|(of, task)| {
            if *of == runtime {
                dropped.push(Arc::clone(task));
            }
            *of != runtime
        });
        for task in dropped {
            let work = task.lock().ok().and_then(|mut task| task.take());
            self.at_place(Place { process, runtime }, || drop(work));
        }
    }

    /// The host of the process was suspended for so long: its clock went on, nothing else did.
    pub fn suspend(&self, process: ProcessId, length: Duration) {
        self.processes.borrow_mut()[process.0].clock.ahead += super::nanos(length);
    }

    /// True when nothing keeps the process from running.
    #[must_use]
    pub fn is_running(&self, process: ProcessId) -> bool {
        let process = &self.processes.borrow()[process.0];
        !process.is_frozen && !process.is_dead && process.starved.is_empty()
    }

    /// True after its death.
    #[must_use]
    pub fn is_dead(&self, process: ProcessId) -> bool {
        let process = &self.processes.borrow()[process.0];
        process.is_dead || process.is_buried
    }

    /// True after the death of the process with that id.
    #[must_use]
    pub fn has_died(&self, pid: u32) -> bool {
        let processes = self.processes.borrow();
        processes.iter().any(|process| process.pid == pid && (process.is_dead || process.is_buried))
    }

    /// Since when it is stopped, if it is.
    #[must_use]
    pub fn frozen_since(&self, process: ProcessId) -> Option<u64> {
        let process = &self.processes.borrow()[process.0];
        (process.is_frozen && !process.is_dead).then_some(process.frozen_since)
    }

    /// For how many nanoseconds it has not run so far, or not all of its runtimes.
    #[must_use]
    pub fn stopped_for(&self, process: ProcessId) -> u64 {
        let process = &self.processes.borrow()[process.0];
        process.stopped_for + process.stopped_since.map_or(0, |since| self.now() - since)
    }

    fn change(&self, id: ProcessId, change: impl FnOnce(&mut Process)) {
        let now = self.now();
        let woken = {
            let process = &mut self.processes.borrow_mut()[id.0];
            change(process);
            let is_stopped = process.is_frozen || process.is_dead || !process.starved.is_empty();
            match (is_stopped, process.stopped_since) {
                (true, None) => process.stopped_since = Some(now),
                (false, Some(since)) => {
                    process.stopped_for += now - since;
                    process.stopped_since = None;
                }
                _ => {}
            }
            std::mem::take(&mut process.parked)
        };
        // Tasks that still may not run park again.
        woken.into_iter().for_each(Waker::wake);
    }
}
