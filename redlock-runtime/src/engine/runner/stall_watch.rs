//! The watchdog: one thread for the process, which moves loops that their runtime does not poll in
//! time.
//!
//! It sleeps until a loop would be late with its next deadline, or with a command. A loop that was
//! not polled by then gets a wake-up, and a little later a thread of its own.
//!
//! No look is lost: a look forgets that it was due before it reads the state of the loop, so
//! whoever changes that state and finds a look due has changed it before that look reads it.

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
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A loop that was polled since the last look is looked at again after this.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long a runtime may take to poll a loop after a look that finds a command which was sent
/// since the look before.
const READS_WITHIN: Duration = Duration::from_millis(50);

/// The handle of the watchdog.
#[derive(Clone)]
pub(super) struct StallWatchdog {
    calls: UnboundedSender<WatchdogMessage>,
    own_threads: Arc<AtomicUsize>,
}

enum WatchdogMessage {
    Run(Pin<Box<dyn Future<Output = ()> + Send>>),
    Look(Weak<LoopRunner>, Moment),
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
        host::start_thread("redlocked-guard", guard(received))?;
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

    pub(super) fn look_at(&self, runner: &Arc<LoopRunner>, at: Moment) {
        let _ = self.calls.send(WatchdogMessage::Look(Arc::downgrade(runner), at));
    }
}

/// A look that is due.
struct Look {
    at: Moment,
    runner: Weak<LoopRunner>,
}

/// What the watchdog knows of a loop. No other thread reads it.
#[derive(Default)]
pub(super) struct Watch {
    /// The polls, and the commands so far, when it looked last or was asked to look.
    polled: u64,
    sent: u64,
    /// The loop was woken at the last look, because it was late, and moves at this time.
    moves_at: Option<Moment>,
    /// The watchdog was late itself, which says nothing about the runtime: it looks once more.
    is_excused: bool,
}

async fn guard(mut calls: UnboundedReceiver<WatchdogMessage>) {
    let mut looks: BinaryHeap<Reverse<Look>> = BinaryHeap::new();
    loop {
        let now = Moment::now();
        while looks.peek().is_some_and(|look| look.0.at <= now) {
            let next = looks.pop().and_then(|Reverse(look)| look.take(Moment::now()));
            looks.extend(next.map(Reverse));
        }
        let call = match looks.peek() {
            Some(Reverse(look)) => {
                let left = look.at.since(Moment::now());
                let Ok(call) = timeout(left, calls.recv()).await else { continue };
                call
            }
            None => calls.recv().await,
        };
        match call {
            Some(WatchdogMessage::Run(task)) => host::spawn(task),
            Some(WatchdogMessage::Look(runner, at)) => {
                if let Some(runner) = runner.upgrade() {
                    runner.watch().notes(&runner);
                }
                looks.push(Reverse(Look { at, runner }));
            }
            // Never: the process has a handle.
            None => return,
        }
    }
}

impl Look {
    /// Returns the next look at this loop.
    fn take(self, now: Moment) -> Option<Self> {
        let runner = self.runner.upgrade()?;
        let at = self.at.to_nanos();
        // Fails when another look at this loop was due sooner.
        runner.look_at.compare_exchange(at, NEVER, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        runner.is_watched.store(false, Ordering::SeqCst);
        let next = runner.watch().look(&runner, self.at, now);
        if next == NEVER || runner.look_at.fetch_min(next, Ordering::SeqCst) <= next {
            return None;
        }
        if next <= now.after(LOOK_AGAIN).to_nanos() {
            runner.is_watched.store(true, Ordering::SeqCst);
        }
        Some(Self { at: Moment::from_nanos(next), ..self })
    }
}

impl Watch {
    /// Somebody has asked for a look at this loop. Returns what is new since the last look or note.
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

    /// Looks at a loop. Returns when to look again.
    fn look(&mut self, runner: &Arc<LoopRunner>, at: Moment, now: Moment) -> u64 {
        let News { is_polled, is_unread } = self.notes(runner);
        let late_at = runner.late_at.load(Ordering::SeqCst);
        if let UNPOLLED | OWN_THREAD = runner.place.load(Ordering::SeqCst) {
            (self.moves_at, self.is_excused) = (None, false);
            return NEVER;
        }
        if is_polled {
            // A runtime that is busy with locks is looked at again, so that not each lock wakes the
            // watchdog.
            return now.after(LOOK_AGAIN).to_nanos().min(late_at.max(now.after(LOOK).to_nanos()));
        }
        let is_due = late_at <= now.to_nanos();
        // No deadline comes while the clock stands still.
        let stands_still = runner.clock.of_runtime().is_some_and(RuntimeClock::is_paused);
        if !is_unread && (!is_due || stands_still) {
            (self.moves_at, self.is_excused) = (None, false);
            let reads_at = if runner.has_unread() { now.after(READS_WITHIN).to_nanos() } else { NEVER };
            return if is_due { reads_at } else { reads_at.min(late_at) };
        }
        if now.since(at) > LOOK && !self.is_excused {
            self.is_excused = true;
            return now.after(LOOK).to_nanos();
        }
        let Some(mut state) = runner.try_state() else {
            return now.after(LOOK).to_nanos();
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
                let moves_at = now.after(runner.clock.of_runtime().map_or(LOOK, |_| PATIENCE));
                self.moves_at = Some(moves_at);
                moves_at.to_nanos()
            }
        }
    }
}

/// What has become of a loop since the last look.
struct News {
    is_polled: bool,
    is_unread: bool,
}

impl PartialEq for Look {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Look {}

impl PartialOrd for Look {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Look {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
