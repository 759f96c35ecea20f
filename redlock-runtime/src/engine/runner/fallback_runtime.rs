//! The runtime of a loop that no runtime of its callers runs. One thread at a time polls it: a
//! caller that is blocked, whose outcome then crosses no thread, or else a thread of its own.
//!
//! That thread sleeps while blocked callers come and go, so a lock that is held for a moment does
//! not wake it. It polls from the next deadline of the loop on, and as soon as it must: when a
//! command was sent, or an outcome is awaited, that no blocked caller polls for. Of several blocked
//! callers none polls for the others: they leave that to this thread.

mod blocked_callers;

use std::future::{Future, poll_fn};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::{LONGEST_DELAY, LoopRunner, PollTask};
use crate::base::alarm::Alarm;
use crate::base::clock::Moment;
use crate::base::host;
use crate::base::host::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, ThreadBuilder,
};
use crate::engine::event_loop::PollOutcome;
use crate::engine::wakers::NotingWaker;

/// How long no caller must have polled before the loop's own thread does without a reason.
const QUIET: Duration = LONGEST_DELAY;

/// How long that thread keeps polling once it had to: where callers overlap, the turn does not go
/// to and fro.
const KEEPS: Duration = Duration::from_millis(100);

/// How many loops have a thread each, at most. Further loops run on the shared thread, so that a
/// program with a thousand managers does not have a thousand threads.
const MOST: usize = 64;

pub(super) struct FallbackRuntime {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    /// The number of the runtime.
    number: u64,
    /// The number of the move of the loop to this runtime.
    moves: u64,
    /// How many loops of the process have a thread each.
    threads: Arc<AtomicUsize>,
    /// The waker of the loop, the same for every thread that polls.
    waker: OnceLock<NotingWaker>,
    is_polled: AtomicBool,
    /// The blocked callers that do not poll.
    blocked: AtomicUsize,
    /// One of them asks the loop's own thread for its turn.
    is_asked: AtomicBool,
    /// When a caller last polled for I/O events, on the lease clock.
    io_polled_at: AtomicU64,
    turns: Mutex<Turns>,
    /// Wakes the loop's own thread.
    changed: Condvar,
}

/// Which thread polls the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolledBy {
    NoThread,
    /// Its own thread, which may still have to wake up.
    OwnThread,
    Caller,
}

struct Turns {
    polled_by: PolledBy,
    /// The loop has ended, or has moved away.
    has_ended: bool,
    /// The caller that asks the loop's own thread for its turn.
    asks: Option<Arc<Alarm>>,
    /// The caller that has got it.
    given_to: Option<Arc<Alarm>>,
    /// Until then the loop's own thread keeps its turn.
    keeps_until: Moment,
    /// When the last caller stopped polling.
    left_at: Moment,
    /// The next deadline of the loop then.
    due: Option<Moment>,
    /// When the loop's own thread wakes up by itself.
    wakes_at: Option<Moment>,
}

impl Turns {
    /// The loop's own thread has the turn, and keeps it for some time.
    fn pass_on(&mut self, now: Moment) {
        self.polled_by = PolledBy::OwnThread;
        self.keeps_until = now.after(KEEPS);
    }

    /// Returns when the loop's own thread polls next, if no caller does until then.
    fn polls_at(&self) -> Moment {
        let quiet_at = self.left_at.after(QUIET);
        self.due.map_or(quiet_at, |due| due.min(quiet_at))
    }
}

impl FallbackRuntime {
    /// Starts the thread. If there can be none, or there are enough, returns the task.
    pub(super) fn start(task: PollTask) -> Result<Arc<Self>, PollTask> {
        let threads = Arc::clone(task.runner.watchdog.own_threads());
        // It may be more for a moment, when several start at once.
        if host::has_one_thread() || threads.load(Ordering::SeqCst) >= MOST {
            return Err(task);
        }
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return Err(task);
        };
        let now = Moment::now();
        let turns = Turns {
            polled_by: PolledBy::OwnThread,
            has_ended: false,
            asks: None,
            given_to: None,
            keeps_until: now,
            left_at: now,
            due: None,
            wakes_at: None,
        };
        threads.fetch_add(1, Ordering::SeqCst);
        let own = Arc::new(Self {
            number: host::number_of(runtime.handle()),
            runtime: Some(runtime),
            moves: task.moves,
            threads,
            waker: OnceLock::new(),
            is_polled: AtomicBool::new(false),
            blocked: AtomicUsize::new(0),
            is_asked: AtomicBool::new(false),
            io_polled_at: AtomicU64::new(0),
            turns: Mutex::new(turns),
            changed: Condvar::new(),
        });
        let handed_over = Arc::new(Mutex::new(Some(task)));
        let take =
            |from: &Mutex<Option<PollTask>>| from.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (there, runs) = (Arc::clone(&handed_over), Arc::clone(&own));
        let thread = ThreadBuilder::new().name("redlocked".to_owned()).spawn(move || {
            if let Some(task) = take(&there) {
                runs.run(&task);
            }
        });
        match thread {
            Ok(_) => Ok(own),
            Err(_) => take(&handed_over).map_or(Ok(own), Err),
        }
    }

    /// True when it is the runtime with this number.
    pub(super) fn is(&self, number: u64) -> bool {
        self.number == number
    }

    /// A command was sent, or the loop has moved: some thread must poll.
    pub(super) fn wake(&self) {
        if self.is_polled.load(Ordering::SeqCst) {
            return;
        }
        let mut turns = self.turns();
        if turns.polled_by == PolledBy::NoThread {
            turns.pass_on(Moment::now());
            self.changed.notify_one();
        }
    }

    /// The thread of the loop.
    fn run(&self, task: &PollTask) {
        let mut turns = self.turns();
        loop {
            turns = self.sleep(turns);
            turns.polled_by = PolledBy::OwnThread;
            self.is_polled.store(true, Ordering::SeqCst);
            drop(turns);
            let has_ended = self.poll_until_asked(&task.runner);
            turns = self.turns();
            if has_ended {
                turns.polled_by = PolledBy::NoThread;
                turns.has_ended = true;
                return;
            }
            // `None` when that caller has its outcome by now.
            if let Some(alarm) = turns.asks.take() {
                turns.polled_by = PolledBy::Caller;
                self.is_asked.store(false, Ordering::SeqCst);
                self.blocked.fetch_sub(1, Ordering::SeqCst);
                turns.given_to = Some(Arc::clone(&alarm));
                alarm.wake();
            }
        }
    }

    /// Sleeps while callers poll, or come and go, and nothing is due.
    fn sleep<'a>(&'a self, mut turns: MutexGuard<'a, Turns>) -> MutexGuard<'a, Turns> {
        loop {
            let (now, polls_at) = (Moment::now(), turns.polls_at());
            match turns.polled_by {
                PolledBy::OwnThread => return turns,
                PolledBy::NoThread if polls_at <= now => return turns,
                PolledBy::NoThread | PolledBy::Caller => {}
            }
            // A caller that has polled for longer wakes this thread when it stops.
            turns.wakes_at = Some(polls_at).filter(|polls_at| now < *polls_at);
            turns = match turns.wakes_at {
                Some(at) => {
                    let waited = self.changed.wait_timeout(turns, at.since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Polls until a caller asks for its turn. True when the loop has ended.
    fn poll_until_asked(&self, runner: &Arc<LoopRunner>) -> bool {
        self.runtime(poll_fn(|cx| {
            let waker = self.waker(cx);
            waker.poll_begins();
            let turn = runner.poll_or_end(self.moves, &mut waker.cx());
            let has_more = waker.poll_ends() || turn.is_ready();
            if has_ended(turn) {
                return Poll::Ready(true);
            }
            if self.is_asked.load(Ordering::SeqCst) {
                return Poll::Ready(false);
            }
            if has_more {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }))
        .unwrap_or(true)
    }

    fn waker(&self, cx: &Context<'_>) -> &NotingWaker {
        self.waker.get_or_init(|| NotingWaker::new(cx.waker()))
    }

    /// `None` only while it is dropped.
    fn runtime<F: Future>(&self, future: F) -> Option<F::Output> {
        self.runtime.as_ref().map(|runtime| runtime.block_on(future))
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FallbackRuntime {
    fn drop(&mut self) {
        self.threads.fetch_sub(1, Ordering::SeqCst);
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime inside the caller's runtime would panic.
            runtime.shutdown_background();
        }
    }
}

fn has_ended(turn: Poll<PollOutcome>) -> bool {
    matches!(turn, Poll::Ready(PollOutcome::Ended | PollOutcome::NoClock))
}
