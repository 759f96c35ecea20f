//! The guardian: one thread for the process, which moves loops that their runtime does not poll in time.
//!
//! It sleeps until a loop would be late with its next deadline. A loop that was not polled by then gets a wake-up, and a
//! little later a thread of its own.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::runtimes::{NOWHERE, OWN_THREAD};
use super::{Home, NEVER, PATIENCE, STAY};
use crate::clock::{Moment, RuntimeClock};
use crate::host;

/// How long a runtime may take to poll a loop after a command from outside, and after a wake-up.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A loop that was polled since the last look is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The handle of the guardian.
#[derive(Clone)]
pub(super) struct Guardian {
    calls: UnboundedSender<Call>,
}

enum Call {
    Run(Pin<Box<dyn Future<Output = ()> + Send>>),
    Look(Weak<Home>, Moment),
}

/// Of which process, because a forked child has no thread of its parent.
static OF_THE_PROCESS: Mutex<Option<(u32, Guardian)>> = Mutex::new(None);

impl Guardian {
    /// Starts the thread, if it does not run yet.
    pub(super) fn of_this_process() -> io::Result<Self> {
        if let Some(world) = host::world() {
            let kept = world.kept();
            if let Some(guardian) = kept.as_deref().and_then(<dyn Any + Send + Sync>::downcast_ref::<Self>) {
                return Ok(guardian.clone());
            }
            let started = Self::start()?;
            world.keep(Arc::new(started.clone()));
            return Ok(started);
        }
        let mut guardian = OF_THE_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((of, guardian)) = &*guardian
            && *of == process
        {
            return Ok(guardian.clone());
        }
        let started = Self::start()?;
        *guardian = Some((process, started.clone()));
        Ok(started)
    }

    fn start() -> io::Result<Self> {
        let (calls, inbox) = unbounded_channel();
        host::start_thread("redlocked-guard", guard(inbox)).map_err(|(error, _)| error)?;
        Ok(Self { calls })
    }

    /// Runs a loop that can have no thread of its own.
    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _ = self.calls.send(Call::Run(Box::pin(task)));
    }

    pub(super) fn look_at(&self, home: &Arc<Home>, at: Moment) {
        let _ = self.calls.send(Call::Look(Arc::downgrade(home), at));
    }
}

/// A look that is due.
struct Look {
    at: Moment,
    home: Weak<Home>,
    /// The polls of the loop at the last look.
    polled: u64,
    /// The loop was woken at the last look, because it was late.
    is_woken: bool,
    /// The guardian was late itself, which says nothing about the runtime: it looks once more.
    is_excused: bool,
}

async fn guard(mut calls: UnboundedReceiver<Call>) {
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
            Some(Call::Run(task)) => host::spawn(task),
            Some(Call::Look(home, at)) => {
                let polled = home.upgrade().map_or(0, |home| home.polled.load(Ordering::SeqCst));
                looks.push(Reverse(Look { at, home, polled, is_woken: false, is_excused: false }));
            }
            // Never: the process has a handle.
            None => return,
        }
    }
}

impl Look {
    /// Returns the next look at this loop.
    fn take(mut self, now: Moment) -> Option<Self> {
        let home = self.home.upgrade()?;
        let polled = home.polled.load(Ordering::SeqCst);
        let late_at = home.late_at.load(Ordering::SeqCst);
        let is_due = late_at <= now.to_nanos();
        // No deadline comes while the clock stands still.
        let is_late = home.sent.load(Ordering::SeqCst) != home.seen.load(Ordering::SeqCst)
            || (is_due && !home.clock.of_runtime().is_some_and(RuntimeClock::is_paused));
        let next = if let NOWHERE | OWN_THREAD = home.place.load(Ordering::SeqCst) {
            NEVER
        } else if polled != self.polled {
            // A runtime that is busy with locks is looked at again, so that not each lock wakes the guardian.
            (self.is_woken, self.is_excused) = (false, false);
            now.after(LOOK_AGAIN).to_nanos().min(late_at)
        } else if !is_late {
            (self.is_woken, self.is_excused) = (false, false);
            if is_due { NEVER } else { late_at }
        } else if now.since(self.at) > LOOK && !self.is_excused {
            self.is_excused = true;
            now.after(LOOK).to_nanos()
        } else {
            match home.try_resident() {
                Some(mut resident) if self.is_woken => {
                    home.takes_over(&mut resident, STAY);
                    NEVER
                }
                Some(resident) => {
                    resident.waker.iter().for_each(Waker::wake_by_ref);
                    self.is_woken = true;
                    let patience = home.clock.of_runtime().map_or(LOOK, |_| PATIENCE);
                    now.after(patience).to_nanos()
                }
                None => now.after(LOOK).to_nanos(),
            }
        };
        self.polled = polled;
        self.again_at(&home, now, next)
    }

    /// The look at `next`, or sooner if the loop has another deadline by now.
    fn again_at(self, home: &Home, now: Moment, mut next: u64) -> Option<Self> {
        // Fails when another look at this loop is due sooner.
        let at = self.at.to_nanos();
        home.look_at.compare_exchange(at, next, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        if let NOWHERE | OWN_THREAD = home.place.load(Ordering::SeqCst) {
            return None;
        }
        let late_at = home.late_at.load(Ordering::SeqCst);
        if late_at > now.to_nanos() {
            next = home.look_at.fetch_min(late_at, Ordering::SeqCst).min(late_at);
        }
        (next != NEVER).then(|| Self { at: Moment::from_nanos(next), ..self })
    }
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
