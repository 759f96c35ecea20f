//! Chooses the runtime that polls the event loop of an engine, and moves the loop if that runtime
//! stalls.
//!
//! The loop runs as a task on the runtime of its callers, so that an outcome does not cross
//! threads. If that runtime is dropped, or does not poll the loop in time, a watchdog moves the
//! loop to its own runtime. The watchdog is one thread for the process.
//!
//! If the callers have no runtime, the loop has its own runtime from the start. A blocked caller
//! or a thread polls it. If many loops of the process have a thread each, the next ones share one
//! thread. Each manager has its own loop, so a slow server of one manager does not delay the
//! renewals of another. The state of the loop contains no I/O, so a move only opens a new
//! connection: the loop renews held locks over it, and repeats requests without an answer.
//!
//! The loop returns from its own thread to a runtime of its callers when no lock is held or
//! requested. The time until it may return doubles each time that a runtime stalls it within
//! [`STEADY`]. A loop that uses the clock of a runtime, because a test may pause that clock,
//! always returns to that runtime.

mod fallback_runtime;
mod loop_lock;
mod shared_thread;
mod stall_watch;

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex as RunnersMutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::event_loop::{EventLoop, PollOutcome};
use crate::base::clock::{Clock, Moment, RuntimeClock};
use crate::base::host::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::base::host::{self, Runtime, runtime_has_drivers};
use fallback_runtime::FallbackRuntime;
use loop_lock::{Locked, LoopLock};
use shared_thread::SharedThread;
use stall_watch::{StallWatchdog, Watch};

/// A runtime that stalls the loop after running it for this long gets the shortest cool-down
/// again.
const STEADY: Duration = Duration::from_secs(10);

/// How long the loop stays on its own thread after a runtime has stalled it: the first time, and
/// the longest.
const COOL_DOWN: Duration = Duration::from_secs(1);
const LONGEST_COOL_DOWN: Duration = Duration::from_secs(60);

/// How often the watchdog checks an idle loop that has waiters, because a grant may have arrived.
/// A loop with a request in flight is checked after [`LONGEST_DELAY`].
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The bounds of the delay after which a runtime counts as late: half of the time until the
/// loop's deadline. A renewal is due after a third of its TTL, so the loop moves in time.
const LEAST_DELAY: Duration = Duration::from_millis(20);
const LONGEST_DELAY: Duration = Duration::from_millis(100);

/// How long a runtime may take to poll a woken loop that uses its clock. A shorter time would move
/// the loop on a busy machine, and the clock would jump past a renewal.
const PATIENCE: Duration = Duration::from_secs(1);

const NEVER: u64 = u64::MAX;

/// The value of `place` while no task polls the loop.
const UNPOLLED: u64 = 0;

/// The value of `place` while the loop runs on its own thread, or the shared one.
const OWN_THREAD: u64 = 1;

/// The loops that callers' runtimes run.
static RUNNERS: RunnersMutex<Vec<Weak<LoopRunner>>> = RunnersMutex::new(Vec::new());

pub(super) struct LoopRunner {
    watchdog: StallWatchdog,
    /// The clock of the loop's deadlines.
    clock: Clock,
    /// The user states that the callers' runtimes have I/O and timers.
    callers_have_drivers: bool,
    state: LoopLock<RunnerState>,
    /// The loop's own runtime, while no runtime of its callers polls it.
    own: Mutex<Option<Arc<FallbackRuntime>>>,
    /// The number of the runtime that polls the loop.
    place: AtomicU64,
    /// The number of moves; a task of an earlier move ends.
    moves: AtomicU64,
    /// The number of polls.
    polled: AtomicU64,
    /// The number of commands that callers have sent: now, and at the last poll.
    sent: AtomicU64,
    seen: AtomicU64,
    /// The number of commands that the loop has read, and whose requests it has written, as far
    /// as the connection accepts them.
    written: AtomicU64,
    /// When the runtime counts as late with the next deadline of the loop, and when the watchdog
    /// checks next; both on the lease clock, or [`NEVER`].
    late_at: AtomicU64,
    check_at: AtomicU64,
    /// True when the watchdog checks within [`RECHECK_AFTER`](stall_watch::RECHECK_AFTER).
    is_watched: AtomicBool,
    watch: Mutex<Watch>,
    /// The next deadline of the loop on its own thread, or [`NEVER`], and whether a caller waits
    /// for an outcome; both as of the last poll.
    due: AtomicU64,
    is_awaited: AtomicBool,
    /// When the loop may return to a runtime of its callers.
    returns_at: AtomicU64,
}

struct RunnerState {
    /// `None` once the loop has ended.
    event_loop: Option<EventLoop>,
    /// The waker of the task that polls it.
    waker: Option<Waker>,
    /// The number of the thread that polled it last, since the last move.
    polled_on: Option<u64>,
    /// True during a poll, and after it only if the loop panicked.
    is_polled: bool,
    /// The time of the last move.
    moved_at: Moment,
    /// How long the loop stays on its own thread.
    cool_down: Duration,
}

impl LoopRunner {
    /// Creates a runner whose loop no task polls yet.
    pub(super) fn new(event_loop: EventLoop, callers_have_drivers: bool) -> io::Result<Arc<Self>> {
        let clock = event_loop.clock().clone();
        let state = RunnerState {
            event_loop: Some(event_loop),
            waker: None,
            polled_on: None,
            is_polled: false,
            moved_at: Moment::now(),
            cool_down: Duration::ZERO,
        };
        Ok(Arc::new(Self {
            watchdog: StallWatchdog::of_this_process()?,
            clock,
            callers_have_drivers,
            state: LoopLock::new(state),
            own: Mutex::new(None),
            place: AtomicU64::new(UNPOLLED),
            moves: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            written: AtomicU64::new(0),
            late_at: AtomicU64::new(NEVER),
            check_at: AtomicU64::new(NEVER),
            is_watched: AtomicBool::new(false),
            watch: Mutex::default(),
            due: AtomicU64::new(NEVER),
            is_awaited: AtomicBool::new(false),
            returns_at: AtomicU64::new(0),
        }))
    }

    /// Makes sure that the loop is polled soon, because a caller has sent a command.
    pub(super) fn on_sent(self: &Arc<Self>) {
        self.sent.fetch_add(1, Ordering::SeqCst);
        match self.place.load(Ordering::SeqCst) {
            UNPOLLED => self.start(),
            OWN_THREAD => {
                if self.may_return() {
                    self.return_to_caller();
                }
                self.own().iter().for_each(|own| own.wake());
            }
            // The runtime polls the loop when the caller's task yields. But the task may compute
            // for long, or the caller may be a blocking thread.
            place if place == here() => {
                if !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst) {
                    self.schedule_check(Moment::now().after(stall_watch::RECHECK_AFTER));
                }
            }
            _ => self.schedule_check(Moment::now().after(stall_watch::CHECK_AFTER)),
        }
    }

    /// Writes what callers have sent, on the thread of the caller, because the process may end
    /// before the loop is polled. Without a connection, it writes nothing.
    pub(super) fn flush(&self) {
        let sent = self.sent.load(Ordering::SeqCst);
        let is_written = || self.written.load(Ordering::SeqCst) >= sent;
        let Some(mut state) = self.state.lock_soon(is_written) else {
            return;
        };
        let RunnerState { event_loop: Some(event_loop), is_polled: false, .. } = &mut *state else {
            return;
        };
        if flush_or_end(event_loop) {
            self.written.fetch_max(sent, Ordering::SeqCst);
        } else {
            // The loop has panicked and its state is unknown: callers get an error.
            state.event_loop = None;
        }
    }

    /// Lets the loop end once everything is released, because the last handle was dropped.
    pub(super) fn on_closed(self: &Arc<Self>) {
        if self.place.load(Ordering::SeqCst) == UNPOLLED {
            let mut state = self.state();
            if state
                .event_loop
                .as_ref()
                .is_none_or(|event_loop| event_loop.is_idle() && !event_loop.has_commands())
            {
                state.event_loop = None;
                return;
            }
        }
        self.on_sent();
    }

    /// Starts the loop on the caller's runtime if that can run it, else on its own thread.
    pub(super) fn start(self: &Arc<Self>) {
        // The check of a runtime may wait for another thread's panic hook, so it comes before the
        // state is locked.
        let here = || Runtime::current().filter(|here| self.may_return() && self.runs_on(here));
        let runner = self.clock.runtime().cloned().map(Runtime::Tokio).or_else(here);
        let mut state = self.state();
        if self.place.load(Ordering::SeqCst) == UNPOLLED && state.event_loop.is_some() {
            match runner {
                Some(runtime) => self.move_to(state, &runtime),
                None => self.move_to_own_thread(&mut state),
            }
        }
    }

    /// True when `here`, the runtime of this thread, can run the loop. With `panic = "abort"` it
    /// cannot be checked, and the user's statement counts.
    fn runs_on(&self, here: &Runtime) -> bool {
        if self.callers_have_drivers && cfg!(panic = "abort") {
            host::running_clock().is_some()
        } else {
            runtime_has_drivers(here)
        }
    }

    fn may_return(&self) -> bool {
        self.clock.of_runtime().is_none()
            && self.returns_at.load(Ordering::Relaxed) <= Moment::now().to_nanos()
    }

    /// Moves the loop from its own thread to the caller's runtime, if it is idle except for the
    /// command of that caller.
    fn return_to_caller(self: &Arc<Self>) {
        if let Some(runtime) = Runtime::current()
            && !self.own().as_ref().is_some_and(|own| own.is(runtime.number()))
            && self.is_idle_on_own_thread(self.try_state().as_deref())
        {
            if !self.runs_on(&runtime) {
                self.returns_at.store(NEVER, Ordering::Relaxed);
            } else if let Some(state) = self.try_state()
                && self.is_idle_on_own_thread(Some(&state))
            {
                self.move_to(state, &runtime);
            }
        }
    }

    fn is_idle_on_own_thread(&self, state: Option<&RunnerState>) -> bool {
        self.place.load(Ordering::SeqCst) == OWN_THREAD
            && state.and_then(|state| state.event_loop.as_ref()).is_some_and(EventLoop::is_idle)
    }

    fn move_to(self: &Arc<Self>, mut state: Locked<'_, RunnerState>, runtime: &Runtime) {
        let moves = self.leave(&mut state);
        self.place.store(runtime.number(), Ordering::SeqCst);
        add_runner(self);
        // A runtime that is being dropped drops the task at once.
        drop(state);
        runtime.spawn(poll_loop(PollTask { runner: Arc::clone(self), moves }));
        // Before its first poll, only this check detects that the runtime does not run it.
        self.schedule_check(Moment::now().after(LONGEST_DELAY));
    }

    fn move_to_own_thread(self: &Arc<Self>, state: &mut RunnerState) {
        let moves = self.leave(state);
        self.place.store(OWN_THREAD, Ordering::SeqCst);
        match FallbackRuntime::start(PollTask { runner: Arc::clone(self), moves }) {
            Ok(own) => *self.own() = Some(own),
            Err(task) => match SharedThread::of_this_process() {
                Ok(thread) => thread.run(poll_loop(task)),
                Err(_) => self.watchdog.run(poll_loop(task)),
            },
        }
    }

    /// Takes the loop away from the task that polls it. Returns the number of the move.
    fn leave(&self, state: &mut RunnerState) -> u64 {
        let moves = self.moves.fetch_add(1, Ordering::SeqCst) + 1;
        if let RunnerState { event_loop: Some(event_loop), waker: waker @ Some(_), .. } = state {
            event_loop.leave();
            // That task ends.
            waker.take().into_iter().for_each(Waker::wake);
        }
        self.own().take().into_iter().for_each(|own| own.wake());
        state.polled_on = None;
        state.moved_at = Moment::now();
        moves
    }

    /// Moves a loop that its runtime has stalled to its own thread, where it stays for `at_least`.
    fn take_over(self: &Arc<Self>, state: &mut RunnerState, at_least: Duration) {
        self.cool_down(state, at_least);
        self.move_to_own_thread(state);
        if let Some(clock) = self.clock.of_runtime()
            && let Some(runtime) = clock.runtime()
        {
            clock.on_blocked();
            let runner = Arc::clone(self);
            runtime.spawn(async move { runner.on_unblocked() });
        }
    }

    /// Moves a loop that uses the clock of its runtime back, because that runtime runs tasks
    /// again.
    fn on_unblocked(self: &Arc<Self>) {
        let state = self.state();
        if let Some(clock) = self.clock.of_runtime()
            && let Some(runtime) = clock.runtime()
            && state.event_loop.is_some()
            && self.place.load(Ordering::SeqCst) == OWN_THREAD
        {
            clock.on_running();
            self.move_to(state, &Runtime::Tokio(runtime.clone()));
        }
    }

    /// Sets until when the loop stays on its own thread. The time doubles if a runtime stalls the
    /// loop within [`STEADY`].
    fn cool_down(&self, state: &mut RunnerState, at_least: Duration) {
        let now = Moment::now();
        let before = if now.since(state.moved_at) < STEADY { 2 * state.cool_down } else { Duration::ZERO };
        state.cool_down = before.max(at_least).min(LONGEST_COOL_DOWN);
        self.returns_at.store(now.after(state.cool_down).to_nanos(), Ordering::Relaxed);
    }

    /// Moves the loop if the thread that polls it is about to block. A thread of `spawn_blocking`
    /// is in the same runtime, but does not poll the loop.
    fn on_blocked(self: &Arc<Self>) {
        let mut state = self.state();
        let polls = state.polled_on.is_none_or(|thread| thread == host::thread_number());
        if polls && self.place.load(Ordering::SeqCst) == here() && state.event_loop.is_some() {
            self.take_over(&mut state, STEADY);
        }
    }

    /// Moves the loop, because its runtime has dropped the task of this move.
    fn on_dropped(self: &Arc<Self>, moves: u64) {
        let mut state = self.state();
        if self.moves.load(Ordering::SeqCst) != moves {
            return;
        }
        if state.is_polled {
            // The loop has panicked and its state is unknown: callers get an error.
            state.event_loop = None;
        }
        let Some(event_loop) = &mut state.event_loop else {
            return;
        };
        self.clock.of_runtime().into_iter().for_each(RuntimeClock::on_ended);
        // The process may end next, so what callers have released is written now.
        event_loop.flush();
        // This comes before the last check for commands: a caller that sends one after the check
        // finds the loop unpolled, and starts it.
        self.place.store(UNPOLLED, Ordering::SeqCst);
        if event_loop.is_idle() && !event_loop.has_commands() {
            if Moment::now().since(state.moved_at) < STEADY {
                self.cool_down(&mut state, COOL_DOWN);
            }
            let _ = self.leave(&mut state);
        } else {
            self.take_over(&mut state, COOL_DOWN);
        }
    }

    /// Polls the loop for the task of this move.
    fn poll(self: &Arc<Self>, moves: u64, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        let mut state = self.state();
        if self.moves.load(Ordering::SeqCst) != moves {
            return Poll::Ready(PollOutcome::Ended);
        }
        let sent = self.sent.load(Ordering::SeqCst);
        let RunnerState { event_loop: Some(event_loop), waker, polled_on, is_polled, .. } = &mut *state
        else {
            return Poll::Ready(PollOutcome::Ended);
        };
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        *polled_on = Some(host::thread_number());
        *is_polled = true;
        let polled = event_loop.poll(cx);
        *is_polled = false;
        self.polled.fetch_add(1, Ordering::SeqCst);
        self.seen.store(sent, Ordering::SeqCst);
        if polled.is_pending() && !event_loop.has_commands() {
            self.written.store(sent, Ordering::SeqCst);
        }
        match polled {
            Poll::Ready(PollOutcome::Ended) => state.event_loop = None,
            Poll::Ready(PollOutcome::NoClock) => {
                self.take_over(&mut state, LONGEST_COOL_DOWN);
                self.returns_at.store(NEVER, Ordering::Relaxed);
            }
            Poll::Ready(PollOutcome::Again | PollOutcome::AfterOthers) => {
                self.set_late_at(Some(Moment::now().after(LONGEST_DELAY)));
            }
            Poll::Pending if self.place.load(Ordering::SeqCst) == OWN_THREAD => {
                let due = event_loop.due().map(|due| self.clock.on_system(Moment::now(), due));
                self.due.store(due.map_or(NEVER, Moment::to_nanos), Ordering::SeqCst);
                self.is_awaited.store(event_loop.is_awaited(), Ordering::SeqCst);
            }
            Poll::Pending => self.set_late_at(self.late_at(event_loop)),
        }
        polled
    }

    /// Returns when a runtime that has not polled the loop again counts as late: after the loop's
    /// deadline, or at the next heartbeat.
    #[inline]
    fn late_at(&self, event_loop: &EventLoop) -> Option<Moment> {
        let now = Moment::now();
        let delay = |due: Moment| (due.since(now) / 2).clamp(LEAST_DELAY, LONGEST_DELAY);
        let due = event_loop.due().map(|due| self.clock.on_system(now, due));
        let late_at = due.map(|due| due.max(now).after(delay(due)));
        let heartbeat = if event_loop.has_requests() {
            Some(LONGEST_DELAY)
        } else {
            event_loop.has_waiters().then_some(HEARTBEAT)
        };
        late_at.into_iter().chain(heartbeat.map(|heartbeat| now.after(heartbeat))).min()
    }

    /// Polls the loop as [`poll`](Self::poll), but catches a panic of the loop, which must not end
    /// this thread. Callers then get an error.
    fn poll_or_end(self: &Arc<Self>, moves: u64, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        catch_unwind(AssertUnwindSafe(|| self.poll(moves, cx))).unwrap_or_else(|_| {
            self.on_dropped(moves);
            Poll::Ready(PollOutcome::Ended)
        })
    }

    /// Blocks this thread, which is in no runtime, until `future` is ready. Meanwhile the thread polls
    /// the loop, if the loop has its own runtime.
    pub(super) fn poll_until<F: Future>(
        self: &Arc<Self>,
        limit: Option<Moment>,
        future: Pin<&mut F>,
    ) -> Blocked<F::Output> {
        let own = self.own().clone();
        let limit = limit.map(|at| self.clock.on_system(Moment::now(), at));
        own.map_or(Blocked::Elsewhere, |own| own.block_on(self, limit, future))
    }

    /// Returns the next deadline of the loop.
    fn due(&self) -> Option<Moment> {
        Some(self.due.load(Ordering::SeqCst)).filter(|due| *due != NEVER).map(Moment::from_nanos)
    }

    /// True while a caller waits for an outcome, or the loop has an unread command.
    fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst) || self.has_unread()
    }

    /// True when the loop has moved since the move with this number.
    fn has_moved(&self, moves: u64) -> bool {
        self.moves.load(Ordering::SeqCst) != moves
    }

    /// True while the loop has an unread command.
    fn has_unread(&self) -> bool {
        self.sent.load(Ordering::SeqCst) != self.seen.load(Ordering::SeqCst)
    }

    /// Sets when the runtime is late with the loop's next deadline.
    fn set_late_at(self: &Arc<Self>, late_at: Option<Moment>) {
        self.late_at.store(late_at.map_or(NEVER, Moment::to_nanos), Ordering::SeqCst);
        if let Some(late_at) = late_at
            && self.place.load(Ordering::SeqCst) != OWN_THREAD
        {
            self.schedule_check(late_at);
        }
    }

    /// Lets the watchdog check the loop at that time, unless it checks sooner.
    fn schedule_check(self: &Arc<Self>, at: Moment) {
        if self.check_at.fetch_min(at.to_nanos(), Ordering::SeqCst) > at.to_nanos() {
            self.watchdog.schedule_check(self, at);
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<Arc<FallbackRuntime>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Locked<'_, RunnerState> {
        self.state.lock()
    }

    /// Returns `None` while another thread polls or moves the loop.
    fn try_state(&self) -> Option<Locked<'_, RunnerState>> {
        self.state.try_lock()
    }
}

/// The end of a blocked caller's wait.
pub(crate) enum Blocked<T> {
    Ready(T),
    TimedOut,
    /// Another thread polls the loop: wait without polling.
    Elsewhere,
}

/// Moves the loops that this thread polls to their own threads. Call it before the thread blocks.
pub(crate) fn about_to_block() {
    for runner in runners_here() {
        runner.on_blocked();
    }
}

/// The task that polls the loop.
async fn poll_loop(task: PollTask) {
    while poll_fn(|cx| task.runner.poll(task.moves, cx)).await.lets_others_run().await {}
}

/// The state of the task that polls the loop. Its drop shows that the runtime has dropped the task.
struct PollTask {
    runner: Arc<LoopRunner>,
    moves: u64,
}

impl Drop for PollTask {
    fn drop(&mut self) {
        self.runner.on_dropped(self.moves);
    }
}

/// Registers a loop that a caller's runtime runs.
fn add_runner(runner: &Arc<LoopRunner>) {
    let mut runners = RUNNERS.lock().unwrap_or_else(PoisonError::into_inner);
    runners.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(runner)));
    runners.push(Arc::downgrade(runner));
}

/// Returns the loops that the runtime of this thread runs.
fn runners_here() -> Vec<Arc<LoopRunner>> {
    let here = here();
    let runners = RUNNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = runners.iter().filter_map(Weak::upgrade).collect();
    drop(runners);
    all.into_iter().filter(|runner| runner.place.load(Ordering::SeqCst) == here).collect()
}

/// Returns the number of the runtime that this thread is in; zero outside of runtimes.
fn here() -> u64 {
    Runtime::current().map_or(UNPOLLED, |runtime| runtime.number())
}

/// Writes what callers have sent. Returns false if the loop has panicked.
fn flush_or_end(event_loop: &mut EventLoop) -> bool {
    catch_unwind(AssertUnwindSafe(|| event_loop.flush())).is_ok()
}

/// A loop that runs on the [shared thread](SharedThread) until it ends.
pub(super) struct Resident {
    /// `None` once the loop has ended.
    event_loop: LoopLock<Option<EventLoop>>,
}

impl Resident {
    pub(super) fn start(event_loop: EventLoop) -> io::Result<Arc<Self>> {
        let resident = Arc::new(Self { event_loop: LoopLock::new(Some(event_loop)) });
        let task = ResidentTask(Arc::clone(&resident));
        let polls = async move { while poll_fn(|cx| task.0.poll(cx)).await.lets_others_run().await {} };
        match SharedThread::of_this_process() {
            Ok(thread) => thread.run(polls),
            Err(_) => host::start_thread("redlocked", polls)?,
        }
        Ok(resident)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        self.event_loop
            .lock()
            .as_mut()
            .map_or(Poll::Ready(PollOutcome::Ended), |event_loop| event_loop.poll(cx))
    }

    /// Writes what callers have sent, as [`LoopRunner::flush`] does.
    pub(super) fn flush(&self) {
        if let Some(mut event_loop) = self.event_loop.lock_soon(|| false)
            && !event_loop.as_mut().is_none_or(flush_or_end)
        {
            *event_loop = None;
        }
    }
}

/// The state of the task that polls the loop. Its drop ends the loop: callers get an error.
struct ResidentTask(Arc<Resident>);

impl Drop for ResidentTask {
    fn drop(&mut self) {
        *self.0.event_loop.lock() = None;
    }
}
