//! Where the loop of an engine runs.
//!
//! It runs as a task on the runtime of its callers, where an outcome crosses no thread. A watchdog,
//! one thread for the process, moves the loop to a runtime of its own when that runtime is dropped
//! or does not run it in time. Callers without a runtime have such a one from the start, which a
//! blocked caller or a thread of its own polls. No manager delays the renewals of another. The
//! state of the loop has no I/O, so a move is a new connection and nothing more: held locks are
//! renewed over it, and requests without an answer are repeated.
//!
//! With the clock of a runtime that a test may pause, the loop belongs to that runtime.
//!
//! The loop returns from its thread to a runtime of its callers when no lock is held or asked for.
//! The time until it may return doubles each time that a runtime stalls it within [`STEADY`].

mod fallback_runtime;
mod loop_lock;
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
use stall_watch::{StallWatchdog, Watch};

/// A runtime that has run the loop for this long is trusted again after it stalls the loop.
const STEADY: Duration = Duration::from_secs(10);

/// How long the loop stays on its own thread after a runtime has stalled it, the first time and at
/// most.
const COOL_DOWN: Duration = Duration::from_secs(1);
const LONGEST_COOL_DOWN: Duration = Duration::from_secs(60);

/// How often the watchdog looks at a loop with waiters that has nothing to do: a grant must not lie
/// unread. An answer that is due sooner is looked for after [`LONGEST_DELAY`].
const HEARTBEAT: Duration = Duration::from_millis(500);

/// How late a runtime may be with a deadline: half of the time until then, but so long at least and
/// at most. A renewal is due after a third of its ttl, so a move is in time.
const LEAST_DELAY: Duration = Duration::from_millis(20);
const LONGEST_DELAY: Duration = Duration::from_millis(100);

/// How long a runtime whose clock the loop has may take to poll a woken loop: on a busy machine, a
/// move would let the clock jump past a renewal.
const PATIENCE: Duration = Duration::from_secs(1);

const NEVER: u64 = u64::MAX;

/// The place of a loop that no task polls.
const UNPOLLED: u64 = 0;

/// The place of a loop that has a thread of its own.
const OWN_THREAD: u64 = 1;

/// The loops that callers' runtimes run.
static RUNNERS: RunnersMutex<Vec<Weak<LoopRunner>>> = RunnersMutex::new(Vec::new());

pub(super) struct LoopRunner {
    watchdog: StallWatchdog,
    /// The clock that the loop's deadlines are on.
    clock: Clock,
    /// The user has said that the runtimes of callers have I/O and timers.
    is_sure: bool,
    state: LoopLock<State>,
    /// The runtime of the loop, where no runtime of its callers runs it.
    own: Mutex<Option<Arc<FallbackRuntime>>>,
    /// The number of the runtime that polls the loop.
    place: AtomicU64,
    /// Grows with each move, so the task that was left behind ends.
    moves: AtomicU64,
    /// The polls so far.
    polled: AtomicU64,
    /// The commands so far, and how many of them had been sent at the last poll.
    sent: AtomicU64,
    seen: AtomicU64,
    /// So many of them the loop has read and written, as far as the connection takes requests.
    written: AtomicU64,
    /// When the runtime is late with the next deadline of the loop, and when the watchdog looks
    /// next, on the lease clock; [`NEVER`] without one.
    late_at: AtomicU64,
    look_at: AtomicU64,
    /// The watchdog looks after [`LOOK_AGAIN`](stall_watch::LOOK_AGAIN) at the latest.
    is_watched: AtomicBool,
    watch: Mutex<Watch>,
    /// The next deadline of the loop on its own thread, as of the last poll, or [`NEVER`], and
    /// whether a caller waited for an outcome.
    due: AtomicU64,
    is_awaited: AtomicBool,
    /// From then on the loop may return to a runtime of its callers.
    returns_at: AtomicU64,
}

struct State {
    /// `None` once the loop has ended.
    event_loop: Option<EventLoop>,
    /// The waker of the task that polls it.
    waker: Option<Waker>,
    /// The number of the thread that has polled it last since the move.
    polled_on: Option<u64>,
    /// The loop is being polled; still so after that only if it has panicked.
    is_polled: bool,
    /// The time of the last move.
    since: Moment,
    /// How long the loop stays on its own thread.
    cool_down: Duration,
}

impl LoopRunner {
    /// A loop that no task polls yet. With `is_sure`, the runtimes of callers are known to have I/O
    /// and timers.
    pub(super) fn new(event_loop: EventLoop, is_sure: bool) -> io::Result<Arc<Self>> {
        let clock = event_loop.clock().clone();
        let state = State {
            event_loop: Some(event_loop),
            waker: None,
            polled_on: None,
            is_polled: false,
            since: Moment::now(),
            cool_down: Duration::ZERO,
        };
        Ok(Arc::new(Self {
            watchdog: StallWatchdog::of_this_process()?,
            clock,
            is_sure,
            state: LoopLock::new(state),
            own: Mutex::new(None),
            place: AtomicU64::new(UNPOLLED),
            moves: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            written: AtomicU64::new(0),
            late_at: AtomicU64::new(NEVER),
            look_at: AtomicU64::new(NEVER),
            is_watched: AtomicBool::new(false),
            watch: Mutex::default(),
            due: AtomicU64::new(NEVER),
            is_awaited: AtomicBool::new(false),
            returns_at: AtomicU64::new(0),
        }))
    }

    /// A caller has sent a command.
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
            // The loop has its turn when the caller's task pauses. The task may compute first, or
            // be no task: it may be a thread beside those that run the loop.
            place if place == here() => {
                if !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst) {
                    self.look_at(Moment::now().after(stall_watch::LOOK_AGAIN));
                }
            }
            _ => self.look_at(Moment::now().after(stall_watch::LOOK)),
        }
    }

    /// Writes what callers have sent, on the thread of the caller: wherever the loop runs, the
    /// process may end next. Without a connection there is nothing to write to.
    pub(super) fn flush(&self) {
        let sent = self.sent.load(Ordering::SeqCst);
        let is_written = || self.written.load(Ordering::SeqCst) >= sent;
        let Some(mut state) = self.state.lock_soon(is_written) else {
            return;
        };
        let State { event_loop: Some(event_loop), is_polled: false, .. } = &mut *state else {
            return;
        };
        if flush_or_end(event_loop) {
            self.written.fetch_max(sent, Ordering::SeqCst);
        } else {
            // The loop has panicked and its state is unknown: callers get an error.
            state.event_loop = None;
        }
    }

    /// The last handle is gone: the loop ends once everything is released.
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

    /// Begins to run: where the caller is, or else on a thread of its own.
    pub(super) fn start(self: &Arc<Self>) {
        // This is asked before the state is locked: the look at a runtime may wait for another
        // thread's panic hook.
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

    /// True when the runtime of this thread, which is `here`, can run the loop. Where that cannot be
    /// found out, the user's word counts.
    fn runs_on(&self, here: &Runtime) -> bool {
        if self.is_sure && cfg!(panic = "abort") {
            host::running_clock().is_some()
        } else {
            runtime_has_drivers(here)
        }
    }

    fn may_return(&self) -> bool {
        self.clock.of_runtime().is_none()
            && self.returns_at.load(Ordering::Relaxed) <= Moment::now().to_nanos()
    }

    /// From its own thread to the caller's runtime, if the loop is idle except for the command of that
    /// caller.
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

    fn is_idle_on_own_thread(&self, state: Option<&State>) -> bool {
        self.place.load(Ordering::SeqCst) == OWN_THREAD
            && state.and_then(|state| state.event_loop.as_ref()).is_some_and(EventLoop::is_idle)
    }

    fn move_to(self: &Arc<Self>, mut state: Locked<'_, State>, runtime: &Runtime) {
        let moves = self.leave(&mut state);
        self.place.store(runtime.number(), Ordering::SeqCst);
        add_runner(self);
        // A runtime that is being dropped drops the task at once.
        drop(state);
        runtime.spawn(poll_loop(PollTask { runner: Arc::clone(self), moves }));
        // Until its first poll, nothing else tells that the runtime does not run it.
        self.look_at(Moment::now().after(LONGEST_DELAY));
    }

    fn move_to_own_thread(self: &Arc<Self>, state: &mut State) {
        let moves = self.leave(state);
        self.place.store(OWN_THREAD, Ordering::SeqCst);
        match FallbackRuntime::start(PollTask { runner: Arc::clone(self), moves }) {
            Ok(own) => *self.own() = Some(own),
            Err(task) => self.watchdog.run(poll_loop(task)),
        }
    }

    /// Takes the loop away from the task that polls it. Returns the number of the move.
    fn leave(&self, state: &mut State) -> u64 {
        let moves = self.moves.fetch_add(1, Ordering::SeqCst) + 1;
        if let State { event_loop: Some(event_loop), waker: waker @ Some(_), .. } = state {
            event_loop.leave();
            // That task ends.
            waker.take().into_iter().for_each(Waker::wake);
        }
        self.own().take().into_iter().for_each(|own| own.wake());
        state.polled_on = None;
        state.since = Moment::now();
        moves
    }

    /// The runtime has stalled the loop, which moves to its own thread and stays there for some
    /// time.
    fn take_over(self: &Arc<Self>, state: &mut State, at_least: Duration) {
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

    /// A loop on the clock of its runtime is back as soon as that runs tasks.
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

    /// Sets until when the loop stays on its own thread. The time doubles where a runtime stalls it
    /// within [`STEADY`].
    fn cool_down(&self, state: &mut State, at_least: Duration) {
        let now = Moment::now();
        let before = if now.since(state.since) < STEADY { 2 * state.cool_down } else { Duration::ZERO };
        state.cool_down = before.max(at_least).min(LONGEST_COOL_DOWN);
        self.returns_at.store(now.after(state.cool_down).to_nanos(), Ordering::Relaxed);
    }

    /// The caller blocks this thread, in the runtime that runs the loop: perhaps the thread that
    /// polls it, perhaps one of `spawn_blocking`.
    fn on_blocked(self: &Arc<Self>) {
        let mut state = self.state();
        let polls = state.polled_on.is_none_or(|thread| thread == host::thread_number());
        if polls && self.place.load(Ordering::SeqCst) == here() && state.event_loop.is_some() {
            self.take_over(&mut state, STEADY);
        }
    }

    /// The task of this move is dropped: its runtime is.
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
        // The process may end next: what callers have released meanwhile is written now.
        event_loop.flush();
        // Before the last look at the commands: a caller that sends one after that look finds the
        // loop nowhere, and settles it.
        self.place.store(UNPOLLED, Ordering::SeqCst);
        if event_loop.is_idle() && !event_loop.has_commands() {
            if Moment::now().since(state.since) < STEADY {
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
        let State { event_loop: Some(event_loop), waker, polled_on, is_polled, .. } = &mut *state else {
            return Poll::Ready(PollOutcome::Ended);
        };
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        *polled_on = Some(host::thread_number());
        *is_polled = true;
        let turn = event_loop.poll(cx);
        *is_polled = false;
        self.polled.fetch_add(1, Ordering::SeqCst);
        self.seen.store(sent, Ordering::SeqCst);
        if turn.is_pending() && !event_loop.has_commands() {
            self.written.store(sent, Ordering::SeqCst);
        }
        match turn {
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
        turn
    }

    /// When a runtime that has not polled the loop again is late: after its deadline, or with the
    /// next heartbeat.
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

    /// [`poll`](Self::poll), for a thread that a panic of the loop must not end. Callers then get
    /// an error.
    fn poll_or_end(self: &Arc<Self>, moves: u64, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        catch_unwind(AssertUnwindSafe(|| self.poll(moves, cx))).unwrap_or_else(|_| {
            self.on_dropped(moves);
            Poll::Ready(PollOutcome::Ended)
        })
    }

    /// Blocks this thread, which is in no runtime, until `future` is ready. Polls the loop
    /// meanwhile, if that is on a runtime of its own.
    pub(super) fn poll_until<F: Future>(
        self: &Arc<Self>,
        limit: Option<Moment>,
        future: Pin<&mut F>,
    ) -> Blocked<F::Output> {
        let own = self.own().clone();
        let limit = limit.map(|at| self.clock.on_system(Moment::now(), at));
        own.map_or(Blocked::Elsewhere, |own| own.block_on(self, limit, future))
    }

    /// The next deadline of the loop.
    fn due(&self) -> Option<Moment> {
        Some(self.due.load(Ordering::SeqCst)).filter(|due| *due != NEVER).map(Moment::from_nanos)
    }

    /// True while a caller waits for an outcome, or has sent what the loop has not read.
    fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst) || self.has_unread()
    }

    /// True while the loop has not read each command.
    fn has_unread(&self) -> bool {
        self.sent.load(Ordering::SeqCst) != self.seen.load(Ordering::SeqCst)
    }

    /// From this time on, the runtime is late with the loop's next deadline.
    fn set_late_at(self: &Arc<Self>, late_at: Option<Moment>) {
        self.late_at.store(late_at.map_or(NEVER, Moment::to_nanos), Ordering::SeqCst);
        if let Some(late_at) = late_at
            && self.place.load(Ordering::SeqCst) != OWN_THREAD
        {
            self.look_at(late_at);
        }
    }

    /// The watchdog looks at that time, if not sooner.
    fn look_at(self: &Arc<Self>, at: Moment) {
        if self.look_at.fetch_min(at.to_nanos(), Ordering::SeqCst) > at.to_nanos() {
            self.watchdog.look_at(self, at);
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<Arc<FallbackRuntime>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Locked<'_, State> {
        self.state.lock()
    }

    /// `None` while the loop is polled or moved.
    fn try_state(&self) -> Option<Locked<'_, State>> {
        self.state.try_lock()
    }
}

/// How the wait of a blocked caller ends.
pub(crate) enum Blocked<T> {
    Ready(T),
    TimedOut,
    /// This thread does not poll the loop: wait without.
    Elsewhere,
}

/// Call before this thread blocks: if it is the only one of its runtime, the loops there move to
/// threads of their own.
pub(crate) fn about_to_block() {
    for runner in runners_here() {
        runner.on_blocked();
    }
}

/// The task that polls the loop.
async fn poll_loop(task: PollTask) {
    while poll_fn(|cx| task.runner.poll(task.moves, cx)).await.lets_others_run().await {}
}

/// What a task has that polls the loop: its drop shows that the runtime has dropped the task.
struct PollTask {
    runner: Arc<LoopRunner>,
    moves: u64,
}

impl Drop for PollTask {
    fn drop(&mut self) {
        self.runner.on_dropped(self.moves);
    }
}

/// Notes a loop that a caller's runtime runs.
fn add_runner(runner: &Arc<LoopRunner>) {
    let mut runners = RUNNERS.lock().unwrap_or_else(PoisonError::into_inner);
    runners.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(runner)));
    runners.push(Arc::downgrade(runner));
}

/// The loops that the runtime of this thread runs.
fn runners_here() -> Vec<Arc<LoopRunner>> {
    let here = here();
    let runners = RUNNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = runners.iter().filter_map(Weak::upgrade).collect();
    drop(runners);
    all.into_iter().filter(|runner| runner.place.load(Ordering::SeqCst) == here).collect()
}

/// The number of the runtime that this thread is in; zero outside.
fn here() -> u64 {
    Runtime::current().map_or(UNPOLLED, |runtime| runtime.number())
}

/// False when the loop has panicked.
fn flush_or_end(event_loop: &mut EventLoop) -> bool {
    catch_unwind(AssertUnwindSafe(|| event_loop.flush())).is_ok()
}

/// A loop with a thread of its own for as long as it lasts.
pub(super) struct Resident {
    /// `None` once the loop has ended.
    event_loop: LoopLock<Option<EventLoop>>,
}

impl Resident {
    pub(super) fn start(event_loop: EventLoop) -> io::Result<Arc<Self>> {
        let resident = Arc::new(Self { event_loop: LoopLock::new(Some(event_loop)) });
        let residence = Residence(Arc::clone(&resident));
        let turns = async move { while poll_fn(|cx| residence.0.poll(cx)).await.lets_others_run().await {} };
        host::start_thread("redlocked", turns)?;
        Ok(resident)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        self.event_loop
            .lock()
            .as_mut()
            .map_or(Poll::Ready(PollOutcome::Ended), |event_loop| event_loop.poll(cx))
    }

    /// As [`LoopRunner::flush`].
    pub(super) fn flush(&self) {
        if let Some(mut event_loop) = self.event_loop.lock_soon(|| false)
            && !event_loop.as_mut().is_none_or(flush_or_end)
        {
            *event_loop = None;
        }
    }
}

/// Dropped with the task that polls the loop, which has ended then: callers get an error.
struct Residence(Arc<Resident>);

impl Drop for Residence {
    fn drop(&mut self) {
        *self.0.event_loop.lock() = None;
    }
}
