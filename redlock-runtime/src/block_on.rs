//! Runs a future without a runtime: the thread parks until the engine answers.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use crate::clock::{Clock, Moment};
use crate::engine::home::about_to_block;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until `future` is ready. On a worker of a multi-thread tokio runtime the worker's other tasks move to
/// another thread first. `Handle::block_on` and `blocking_recv` would panic there.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = block_on_until(None, future.as_mut()) {
            return output;
        }
    }
}

/// [`block_on`], until `limit` at most.
pub(crate) fn block_on_until<F: Future>(limit: Option<(&Clock, Moment)>, future: F) -> Option<F::Output> {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(|| park_until_ready(limit, future)),
        Ok(_) => {
            about_to_block();
            park_until_ready(limit, future)
        }
        Err(_) => park_until_ready(limit, future),
    }
}

fn park_until_ready<F: Future>(limit: Option<(&Clock, Moment)>, future: F) -> Option<F::Output> {
    // Inside a task, tokio's channels answer "pending" once the task's budget is spent, and the budget is not refilled
    // while this thread waits.
    let mut future = pin!(task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => match limit.map(|(clock, at)| at.since(clock.now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            },
        }
    }
}

/// Set by the waker. A thread that is ending cannot park, but can wait for this.
#[derive(Default)]
struct Alarm {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// Blocks this thread until `future` is ready, for `limit` at most. For threads outside tokio, also while they end.
pub(crate) fn wait_for<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let ends = Moment::now().after(limit);
    let mut future = pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = ends.since(Moment::now());
        if left.is_zero() {
            return None;
        }
        let is_set = alarm.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = alarm.changed.wait_timeout_while(is_set, left, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}
