//! The clock of a tokio runtime, which a test may pause and advance.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::Moment;
use crate::base::host::is_without_panic;

/// All managers of a runtime share it.
#[derive(Clone)]
pub(crate) struct RuntimeClock(Arc<Shared>);

struct Shared {
    handle: Handle,
    state: Mutex<RuntimeClockState>,
}

#[derive(Default)]
struct RuntimeClockState {
    /// While the runtime did not run, time went on, perhaps without its clock.
    ahead: Duration,
    /// Since then, on the runtime's clock and on the system's, the runtime does not run.
    blocked_since: Option<(Moment, Moment)>,
    /// The runtime has ended.
    has_ended: bool,
}

static CLOCKS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// One instant on both clocks.
static START: LazyLock<(std::time::Instant, Moment)> =
    LazyLock::new(|| (std::time::Instant::now(), Moment::now()));

impl RuntimeClock {
    /// `None` outside tokio, in a multi-thread runtime, which cannot be paused, and in a runtime
    /// without timers.
    pub(crate) fn of_caller() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        if handle.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return None;
        }
        // Tokio tells of missing timers only by a panic.
        if !is_without_panic(|| drop(tokio::time::sleep(Duration::ZERO))) {
            return None;
        }
        let mut clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        clocks.retain(|clock| clock.strong_count() > 0);
        if let Some(clock) =
            clocks.iter().filter_map(Weak::upgrade).find(|clock| clock.handle.id() == handle.id())
        {
            return Some(Self(clock));
        }
        let clock = Arc::new(Shared { handle, state: Mutex::default() });
        clocks.push(Arc::downgrade(&clock));
        Some(Self(clock))
    }

    pub(crate) fn now(&self) -> Moment {
        self.state().now(self.read())
    }

    pub(crate) fn runtime(&self) -> Option<&Handle> {
        (!self.state().has_ended).then_some(&self.0.handle)
    }

    /// True when it stands still: it moves only when the test or the idle runtime moves it.
    pub(crate) fn is_paused(&self) -> bool {
        let before = std::time::Instant::now();
        let now = self.instant();
        !(before <= now && now <= std::time::Instant::now())
    }

    /// The runtime does not run its tasks: from now on the time of the system counts, so that waits
    /// end.
    pub(crate) fn on_blocked(&self) {
        let runtime = self.read();
        self.state().blocked_since.get_or_insert_with(|| (runtime, Moment::now()));
    }

    pub(crate) fn on_ended(&self) {
        self.on_blocked();
        self.state().has_ended = true;
    }

    /// The runtime runs its tasks again.
    pub(crate) fn on_running(&self) {
        let runtime = self.read();
        let mut state = self.state();
        if !state.has_ended {
            let lead = state.lead(runtime);
            state.ahead += lead;
            state.blocked_since = None;
        }
    }

    fn read(&self) -> Moment {
        let (start, moment) = *START;
        let now = self.instant();
        // The clock of a runtime may have been paused before the start.
        let nanos = moment.after(now.saturating_duration_since(start)).to_nanos();
        let before = start.saturating_duration_since(now).as_nanos();
        Moment::from_nanos(nanos.saturating_sub(u64::try_from(before).unwrap_or(u64::MAX)))
    }

    fn instant(&self) -> std::time::Instant {
        // While a thread ends, tokio allows no look at the runtime.
        match Handle::try_current() {
            Err(error) if error.is_thread_local_destroyed() => std::time::Instant::now(),
            _ => {
                let _here = self.0.handle.enter();
                Instant::now().into_std()
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, RuntimeClockState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuntimeClockState {
    fn now(&self, runtime: Moment) -> Moment {
        runtime.after(self.ahead + self.lead(runtime))
    }

    /// By how much the system's clock has gone on for longer than the runtime's, which does not
    /// run.
    fn lead(&self, runtime: Moment) -> Duration {
        self.blocked_since.map_or(Duration::ZERO, |(then, system)| {
            Moment::now().since(system).saturating_sub(runtime.since(then))
        })
    }
}
