//! The lines in which a worker process reports its calls and holds.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use redlocked::election::Term;
use redlocked::{LockError, LockGuard};

use crate::chaos::workload::ticker::Ticker;
use crate::{between, now, say};

/// How long a call waits for one answer at most. Shorter than some servers are stopped.
pub(crate) const IO_TIMEOUT: Duration = Duration::from_millis(600);

/// The parameters of a call, and the number of its hold.
#[derive(Clone, Copy)]
pub struct CallParams {
    pub(crate) key: u64,
    /// The number of the call and of its hold in this process.
    pub(crate) hold: u64,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    /// How many it allows inside together, 0 for any number; `None` where it has the lock alone.
    pub(crate) allows: Option<u64>,
}

/// Reports when a call begins and returns, its outcome, and how late it is. Dropped without an
/// outcome, it was cancelled.
pub struct CallReport {
    hold: u64,
    outcome: u64,
    ticker: Arc<Ticker>,
    /// The deadline of the next step.
    limit: Cell<u64>,
    late: Cell<Duration>,
}

impl CallReport {
    pub(crate) fn begin(call_params: CallParams, ticker: &Arc<Ticker>) -> Self {
        let (wait, at) = (u64::try_from(call_params.wait.as_millis()).unwrap(), now());
        say("call", &[call_params.hold, call_params.key, wait, at]);
        // One try may last as long as the answer to it.
        let limit = after(at, if call_params.wait.is_zero() { IO_TIMEOUT } else { call_params.wait });
        let (limit, late) = (Cell::new(limit), Cell::default());
        Self { hold: call_params.hold, outcome: 0, ticker: Arc::clone(ticker), limit, late }
    }

    /// The call has the lock.
    pub(crate) fn enters(&self) {
        self.note_return(now());
        self.limit.set(u64::MAX);
    }

    /// The release begins: it must be answered, or given up, in time.
    pub(crate) fn leaves(&self) {
        self.limit.set(after(now(), IO_TIMEOUT));
    }

    fn note_return(&self, at: u64) {
        let limit = self.limit.get().max(self.ticker.has_started());
        let late = between(limit, at).saturating_sub(self.ticker.stolen(limit, at));
        self.late.set(self.late.get().max(late));
    }

    /// The numbers are those of `checker::calls::OUTCOMES`.
    pub(crate) fn comes_back<T>(mut self, outcome: &Result<T, LockError>) {
        self.note_return(now());
        self.outcome = match outcome {
            Ok(_) => 1,
            Err(error) if error.is_busy() => 2,
            Err(LockError::Lost { .. }) => 3,
            Err(LockError::Unavailable { .. } | LockError::Misconfigured { .. }) => 4,
            Err(_) => 5,
        };
    }
}

impl Drop for CallReport {
    fn drop(&mut self) {
        let late = u64::try_from(self.late.get().as_micros()).unwrap();
        say("back", &[self.hold, self.outcome, now(), late]);
    }
}

/// Reports when a hold begins, goes on and ends. It always reads the clock before the lease: a
/// holder that is frozen in between reports too early a deadline, never too late a one.
pub struct HoldReport<'a> {
    /// What is left of the lease.
    remaining: Box<dyn Fn() -> Duration + 'a>,
    hold: u64,
    /// The deadline of the lease as the holder last saw it.
    deadline: Cell<u64>,
}

impl<'a> HoldReport<'a> {
    /// `None` when the lease is over already: the holder is not inside.
    pub(crate) fn begin(guard: &'a LockGuard, call_params: CallParams) -> Option<Self> {
        Self::of_one(guard, call_params, guard.fencing_token())
    }

    /// A hold of one of the locks of the guard.
    pub(crate) fn of_one(guard: &'a LockGuard, call_params: CallParams, fence: u64) -> Option<Self> {
        Self::of_lease(|| guard.remaining(), call_params, fence, u64::MAX)
    }

    /// A hold of one of the locks of the guard, which its caller has had since it called, or later: while it waited
    /// for the next one, it has renewed the lease.
    pub(crate) fn of_one_since(
        guard: &'a LockGuard,
        call_params: CallParams,
        fence: u64,
        called: u64,
    ) -> Option<Self> {
        Self::of_lease(|| guard.remaining(), call_params, fence, called)
    }

    /// The term of a leader.
    pub(crate) fn of_term(term: &'a Term, call_params: CallParams) -> Option<Self> {
        Self::of_lease(|| term.remaining(), call_params, term.fencing_token(), u64::MAX)
    }

    fn of_lease(
        remaining: impl Fn() -> Duration + 'a,
        call_params: CallParams,
        fence: u64,
        called: u64,
    ) -> Option<Self> {
        let entered = now();
        let deadline = deadline(remaining(), entered)?;
        // A lease is shorter than the ttl, and counts from when the caller asked for it.
        let asked = deadline.saturating_sub(u64::try_from(call_params.ttl.as_nanos()).unwrap());
        let asked = asked.min(called);
        let mut numbers = vec![call_params.hold, call_params.key, fence, asked, entered, deadline];
        numbers.extend(call_params.allows);
        say("entered", &numbers);
        let (remaining, deadline) = (Box::new(remaining), Cell::new(deadline));
        Some(Self { remaining, hold: call_params.hold, deadline })
    }

    /// Before it asks for another ttl. A shorter one ends the lease early from when it is sent, and
    /// a holder that is frozen then reports it no more.
    pub(crate) fn asks_for(&self, ttl: Duration) {
        say("asks", &[self.hold, now(), after(now(), ttl)]);
    }

    /// Before the lock is given away into a ticket that lasts so long: then others may have it,
    /// although the answer is late.
    pub(crate) fn gives_away(self, lasts: Duration) -> Leaving {
        self.look();
        self.asks_for(lasts);
        let leaving = Leaving { hold: self.hold, asked: now() };
        // It has no guard to look at any more.
        std::mem::forget(self);
        leaving
    }

    /// False when the lock is not held any more.
    pub(crate) fn look(&self) -> bool {
        let at = now();
        if let Some(deadline) = deadline((self.remaining)(), at) {
            self.deadline.set(deadline);
            say("seen", &[self.hold, at, deadline]);
            return true;
        }
        if at < self.deadline.replace(0) {
            say("over", &[self.hold, at]);
        }
        false
    }
}

/// A hold that ends when its lock was given away.
pub struct Leaving {
    hold: u64,
    asked: u64,
}

impl Leaving {
    /// Without a ticket, the lock may have been lost since it was asked for.
    pub(crate) fn ends(self, has_ticket: bool) {
        say("left", &[self.hold, if has_ticket { now() } else { self.asked }]);
    }
}

impl Drop for HoldReport<'_> {
    fn drop(&mut self) {
        self.look();
        say("left", &[self.hold, now()]);
    }
}

fn deadline(remaining: Duration, at: u64) -> Option<u64> {
    let left = u64::try_from(remaining.as_nanos()).unwrap();
    (left > 0).then(|| at + left)
}

fn after(at: u64, time: Duration) -> u64 {
    at + u64::try_from(time.as_nanos()).unwrap()
}
