//! The watchdog: one thread for the process, which moves loops that their runtime does not poll in
//! time.
//!
//! It sleeps until a loop would be late with its next deadline, or with a command. A loop that was
//! not polled by then gets a wake-up, and a little later a thread of its own.
//!
//! No check is lost. A check clears `check_at` before it reads the state of the loop. So if a thread
//! changes that state, and then finds a check due, that check reads the changed state.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::{COOL_DOWN, LoopRunner, NEVER, OWN_THREAD, PATIENCE, UNPOLLED};
use crate::base::clock::{Moment, RuntimeClock};
use crate::base::host::sync::{AtomicUsize, Ordering};
use crate::base::host::{self, OfThisProcess};

/// How long a runtime may take to poll a loop after a command from outside, and after a wake-up.
pub(super) const CHECK_AFTER: Duration = Duration::from_millis(20);

/// How long after a check the watchdog checks a loop again that its runtime has polled.
pub(super) const RECHECK_AFTER: Duration = Duration::from_millis(100);

/// How long a runtime may take to poll a loop after a check that finds a new command: one that was
/// sent since the check before.
const READS_WITHIN: Duration = Duration::from_millis(50);

/// The handle of the watchdog.
#[derive(Clone)]
pub(super) struct StallWatchdog {
    calls: UnboundedSender<WatchdogMessage>,
    own_threads: Arc<AtomicUsize>,
}

enum WatchdogMessage {
    Run(Pin<Box<dyn Future<Output = ()> + Send>>),
    Check(Weak<LoopRunner>, Moment),
}

static OF_THE_PROCESS: OfThisProcess<StallWatchdog> = OfThisProcess::new();

impl StallWatchdog {
    /// Starts the thread, if it does not run yet.
    pub(super) fn of_this_process() -> io::Result<Self> {
        if let Some(world) = host::world() {
            let kept = world.kept();
            if let Some(watchdog) = kept.as_deref().and_then(<dyn Any + Send + Sync>::downcast_ref::<Self>) {
                return Ok(watchdog.clone());
            }
            let started = Self::start()?;
            world.keep(Arc::new(started.clone()));
            return Ok(started);
        }
        OF_THE_PROCESS.get_or_start(Self::start)
    }

    fn start() -> io::Result<Self> {
        let (calls, received) = unbounded_channel();
        host::start_thread("redlocked-guard", run_checks(received))?;
        Ok(Self { calls, own_threads: Arc::default() })
    }

    /// Runs a loop that can have no thread of its own.
    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _ = self.calls.send(WatchdogMessage::Run(Box::pin(task)));
    }

    /// Returns how many loops of the process have a thread each.
    pub(super) fn own_threads(&self) -> &Arc<AtomicUsize> {
        &self.own_threads
    }

    pub(super) fn schedule_check(&self, runner: &Arc<LoopRunner>, at: Moment) {
        let _ = self.calls.send(WatchdogMessage::Check(Arc::downgrade(runner), at));
    }
}

/// A check that is due.
struct Check {
    at: Moment,
    runner: Weak<LoopRunner>,
}

/// What the watchdog knows about a loop. No other thread reads it.
#[derive(Default)]
pub(super) struct Watch {
    /// The numbers of polls and of commands at the last check, or at the last request for one.
    polled: u64,
    sent: u64,
    /// When the loop moves: the last check found it late, and woke it.
    moves_at: Option<Moment>,
    /// The watchdog was late itself, so it cannot judge the runtime: it checks once more.
    is_excused: bool,
}

async fn run_checks(mut calls: UnboundedReceiver<WatchdogMessage>) {
    let mut checks: BinaryHeap<Reverse<Check>> = BinaryHeap::new();
    loop {
        let now = Moment::now();
        while checks.peek().is_some_and(|check| check.0.at <= now) {
            let next = checks.pop().and_then(|Reverse(check)| check.take(Moment::now()));
            checks.extend(next.map(Reverse));
        }
        let call = match checks.peek() {
            Some(Reverse(check)) => {
                let left = check.at.since(Moment::now());
                let Ok(call) = timeout(left, calls.recv()).await else { continue };
                call
            }
            None => calls.recv().await,
        };
        match call {
            Some(WatchdogMessage::Run(task)) => host::spawn(task),
            Some(WatchdogMessage::Check(runner, at)) => {
                if let Some(runner) = runner.upgrade() {
                    runner.watch().notes(&runner);
                }
                checks.push(Reverse(Check { at, runner }));
            }
            // Never: the process has a handle.
            None => return,
        }
    }
}

impl Check {
    /// Checks the loop, and returns the next check.
    fn take(self, now: Moment) -> Option<Self> {
        let runner = self.runner.upgrade()?;
        let at = self.at.to_nanos();
        // Fails when another check of this loop was due sooner.
        runner.check_at.compare_exchange(at, NEVER, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        runner.is_watched.store(false, Ordering::SeqCst);
        let next = runner.watch().check(&runner, self.at, now);
        if next == NEVER || runner.check_at.fetch_min(next, Ordering::SeqCst) <= next {
            return None;
        }
        if next <= now.after(RECHECK_AFTER).to_nanos() {
            runner.is_watched.store(true, Ordering::SeqCst);
        }
        Some(Self { at: Moment::from_nanos(next), ..self })
    }
}

impl Watch {
    /// Notes how far the loop is. Returns what is new since the last note.
    fn notes(&mut self, runner: &LoopRunner) -> News {
        let sent = runner.sent.load(Ordering::SeqCst);
        let polled = runner.polled.load(Ordering::SeqCst);
        let news = News {
            is_polled: polled != self.polled,
            // A command that was sent by then is not read yet.
            is_unread: runner.seen.load(Ordering::SeqCst) < self.sent,
        };
        (self.polled, self.sent) = (polled, sent);
        if news.is_polled {
            (self.moves_at, self.is_excused) = (None, false);
        }
        news
    }

    /// Checks a loop, and moves it if its runtime is late. Returns when to check again.
    fn check(&mut self, runner: &Arc<LoopRunner>, at: Moment, now: Moment) -> u64 {
        let News { is_polled, is_unread } = self.notes(runner);
        let late_at = runner.late_at.load(Ordering::SeqCst);
        if let UNPOLLED | OWN_THREAD = runner.place.load(Ordering::SeqCst) {
            (self.moves_at, self.is_excused) = (None, false);
            return NEVER;
        }
        if is_polled {
            // The runtime is busy with locks. Checking it at intervals keeps each lock from waking
            // the watchdog.
            return now.after(RECHECK_AFTER).to_nanos().min(late_at.max(now.after(CHECK_AFTER).to_nanos()));
        }
        let is_due = late_at <= now.to_nanos();
        // No deadline comes while the clock stands still.
        let stands_still = runner.clock.of_runtime().is_some_and(RuntimeClock::is_paused);
        if !is_unread && (!is_due || stands_still) {
            (self.moves_at, self.is_excused) = (None, false);
            let reads_at = if runner.has_unread() { now.after(READS_WITHIN).to_nanos() } else { NEVER };
            return if is_due { reads_at } else { reads_at.min(late_at) };
        }
        if now.since(at) > CHECK_AFTER && !self.is_excused {
            self.is_excused = true;
            return now.after(CHECK_AFTER).to_nanos();
        }
        let Some(mut state) = runner.try_state() else {
            return now.after(CHECK_AFTER).to_nanos();
        };
        match self.moves_at {
            Some(moves_at) if moves_at <= now => {
                self.moves_at = None;
                runner.take_over(&mut state, COOL_DOWN);
                NEVER
            }
            Some(moves_at) => moves_at.to_nanos(),
            None => {
                state.waker.iter().for_each(Waker::wake_by_ref);
                let moves_at = now.after(runner.clock.of_runtime().map_or(CHECK_AFTER, |_| PATIENCE));
                self.moves_at = Some(moves_at);
                moves_at.to_nanos()
            }
        }
    }
}

/// What a loop has done since the last note.
struct News {
    is_polled: bool,
    is_unread: bool,
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Check {}

impl PartialOrd for Check {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Check {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
