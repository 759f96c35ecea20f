//! A blocked caller: it polls the loop until it has its outcome, or waits while another thread
//! polls.
//!
//! A caller that finds no thread polling takes the turn: it polls its future, then the loop, then
//! its future again, until that is ready. Any other caller waits for its own outcome. The first of
//! those that wait asks the loop's own thread for its turn, which that thread hands over between
//! two polls. A caller that leaves the turn checks last for commands that were sent meanwhile. It
//! passes the turn to the loop's own thread if there are any, if another caller is blocked, or if
//! the loop has moved, because that thread then ends.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::{FallbackRuntime, PolledBy, Turns, has_ended};
use crate::base::alarm::Alarm;
use crate::base::clock::{Clock, Moment};
use crate::base::host::sync::Ordering;
use crate::engine::runner::{Blocked, LoopRunner};
use crate::engine::wakers::NotingWaker;

/// How late a caller may return after its limit, when the loop has a deadline of its own about
/// then. That saves a timer.
const SLACK: Duration = Duration::from_millis(20);

/// How often the runtime polls for I/O events at least, while callers poll the loop.
const IO_POLL_INTERVAL: Duration = Duration::from_millis(5);

impl FallbackRuntime {
    /// Blocks this thread until `future` is ready. Polls the loop meanwhile, unless another thread
    /// does.
    pub(in crate::engine::runner) fn block_on<F: Future>(
        &self,
        runner: &Arc<LoopRunner>,
        limit: Option<Moment>,
        mut future: Pin<&mut F>,
    ) -> Blocked<F::Output> {
        if let Some(blocked) = self.wait(runner, limit, future.as_mut()) {
            return blocked;
        }
        CallerTurn::new(self, runner).poll_until(limit, future)
    }

    /// Waits for the outcome while another thread polls. `None` when this caller does from now on.
    fn wait<F: Future>(
        &self,
        runner: &Arc<LoopRunner>,
        limit: Option<Moment>,
        mut future: Pin<&mut F>,
    ) -> Option<Blocked<F::Output>> {
        let mut turns = self.turns();
        if turns.begin(self) {
            return None;
        }
        if turns.has_ended {
            return Some(Blocked::Elsewhere);
        }
        let alarm = Arc::new(Alarm::default());
        let asks = turns.polled_by == PolledBy::OwnThread
            && self.blocked.load(Ordering::SeqCst) == 0
            && turns.asks.is_none()
            && turns.keeps_until <= Moment::now();
        if asks {
            turns.asks = Some(Arc::clone(&alarm));
            self.is_asked.store(true, Ordering::SeqCst);
        }
        self.blocked.fetch_add(1, Ordering::SeqCst);
        drop(turns);
        let mut waiting = Waiting { own: self, runner, alarm, asks, has_turn: false };
        let waker = Waker::from(Arc::clone(&waiting.alarm));
        let mut cx = Context::from_waker(&waker);
        let mut outcome = future.as_mut().poll(&mut cx);
        // The loop sends what the future has asked for, before the turn changes.
        if asks && let Some(waker) = self.waker.get() {
            waker.cx().waker().wake_by_ref();
        }
        loop {
            if let Poll::Ready(output) = outcome {
                return Some(Blocked::Ready(output));
            }
            if !waiting.alarm.wait(limit.map(|at| (&Clock::System, at))) {
                return Some(Blocked::TimedOut);
            }
            if waiting.gets_turn() {
                return None;
            }
            outcome = future.as_mut().poll(&mut cx);
        }
    }
}

impl Turns {
    /// True when no thread polls: this caller does from now on.
    fn begin(&mut self, own: &FallbackRuntime) -> bool {
        let begins = self.polled_by == PolledBy::NoThread && !self.has_ended;
        if begins {
            self.polled_by = PolledBy::Caller;
            own.is_polled.store(true, Ordering::SeqCst);
        }
        begins
    }
}

/// A caller that waits while another thread polls.
struct Waiting<'a> {
    own: &'a FallbackRuntime,
    runner: &'a Arc<LoopRunner>,
    alarm: Arc<Alarm>,
    /// It has asked the loop's own thread for its turn: no other caller waits, or has waited just
    /// now.
    asks: bool,
    has_turn: bool,
}

impl Waiting<'_> {
    /// True when the loop's own thread has given its turn to this caller.
    fn gets_turn(&mut self) -> bool {
        if self.asks {
            let given = self.own.turns().given_to.take_if(|to| Arc::ptr_eq(to, &self.alarm));
            self.has_turn = given.is_some();
        }
        self.has_turn
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.has_turn {
            return;
        }
        if self.asks {
            let mut turns = self.own.turns();
            if turns.given_to.take_if(|to| Arc::ptr_eq(to, &self.alarm)).is_some() {
                drop(turns);
                drop(CallerTurn::new(self.own, self.runner));
                return;
            }
            turns.asks = None;
            self.own.is_asked.store(false, Ordering::SeqCst);
        }
        self.own.blocked.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While a caller polls the loop.
struct CallerTurn<'a> {
    own: &'a FallbackRuntime,
    runner: &'a Arc<LoopRunner>,
    /// The loop has more to do at once.
    has_more: Cell<bool>,
    /// The runtime has polled for I/O events, and has run its tasks.
    has_polled_io: Cell<bool>,
}

impl<'a> CallerTurn<'a> {
    fn new(own: &'a FallbackRuntime, runner: &'a Arc<LoopRunner>) -> Self {
        Self { own, runner, has_more: Cell::new(true), has_polled_io: Cell::new(false) }
    }

    fn poll_until<F: Future>(self, limit: Option<Moment>, mut future: Pin<&mut F>) -> Blocked<F::Output> {
        let (mut caller, mut early) = (None, None);
        let mut sleep = pin!(None);
        let blocked = self.own.runtime(poll_fn(|cx| {
            let waker = self.own.waker(cx);
            // In the poll that wakes the caller, its future is polled, too.
            let caller = caller.get_or_insert_with(|| waker.beside());
            waker.poll_begins();
            let mut outcome =
                early.take().map_or_else(|| poll_if_woken(caller, future.as_mut()), Poll::Ready);
            // The loop reads in this poll what the caller has sent.
            waker.poll_begins();
            let turn = self.runner.poll_or_end(self.own.moves, &mut waker.cx());
            if outcome.is_pending() {
                outcome = poll_if_woken(caller, future.as_mut());
            }
            self.has_more.set(waker.poll_ends() || turn.is_ready());
            match outcome {
                Poll::Ready(output) if self.has_polled_io.get() || !self.must_poll_io() => {
                    return Poll::Ready(Blocked::Ready(output));
                }
                Poll::Ready(output) => {
                    early = Some(output);
                    cx.waker().wake_by_ref();
                }
                Poll::Pending if has_ended(turn) => return Poll::Ready(Blocked::Elsewhere),
                Poll::Pending => {
                    if limit.is_some_and(|limit| is_over(limit, self.runner.due(), sleep.as_mut(), cx)) {
                        return Poll::Ready(Blocked::TimedOut);
                    }
                    if self.has_more.get() || caller.is_set() {
                        cx.waker().wake_by_ref();
                    }
                }
            }
            self.has_polled_io.set(true);
            Poll::Pending
        }));
        blocked.unwrap_or(Blocked::Elsewhere)
    }

    /// True when the runtime has not polled for I/O events for long, because callers had their outcomes
    /// at once.
    fn must_poll_io(&self) -> bool {
        let io_polled_at = Moment::from_nanos(self.own.io_polled_at.load(Ordering::Relaxed));
        Moment::now().since(io_polled_at) > IO_POLL_INTERVAL
    }
}

impl Drop for CallerTurn<'_> {
    fn drop(&mut self) {
        let now = Moment::now();
        if self.has_polled_io.get() {
            self.own.io_polled_at.store(now.to_nanos(), Ordering::Relaxed);
        }
        let mut turns = self.own.turns();
        turns.polled_by = PolledBy::NoThread;
        turns.left_at = now;
        turns.due = self.runner.due();
        // Before the last check of the commands and the moves: a caller that sends one, or moves the
        // loop, after that check sees that no thread polls.
        self.own.is_polled.store(false, Ordering::SeqCst);
        let is_needed = self.has_more.get()
            || self.own.blocked.load(Ordering::SeqCst) > 0
            || self.runner.is_awaited()
            || self.runner.has_moved(self.own.moves);
        if is_needed {
            turns.pass_on(now);
        }
        if is_needed || turns.wakes_at.is_none_or(|at| turns.polls_at() < at) {
            self.own.changed.notify_one();
        }
    }
}

/// The limit is over. The loop is polled at `due`, so a timer is only needed for an earlier limit.
fn is_over(
    limit: Moment,
    due: Option<Moment>,
    mut sleep: Pin<&mut Option<Sleep>>,
    cx: &mut Context<'_>,
) -> bool {
    if due.is_some_and(|due| due <= limit.after(SLACK)) {
        return false;
    }
    let left = limit.since(Moment::now());
    if left.is_zero() {
        return true;
    }
    if sleep.is_none() {
        sleep.set(Some(sleep_until(Instant::now() + left)));
    }
    sleep.as_pin_mut().is_some_and(|sleep| sleep.poll(cx).is_ready())
}

fn poll_if_woken<F: Future>(waker: &NotingWaker, future: Pin<&mut F>) -> Poll<F::Output> {
    if waker.take() { future.poll(&mut waker.cx()) } else { Poll::Pending }
}
