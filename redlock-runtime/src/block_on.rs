//! Waiting for a future without a runtime: the thread parks until the engine answers.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use crate::clock::Moment;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until `future` is ready. Inside a multi-thread tokio runtime the worker's other tasks
/// are moved away first. `Handle::block_on` and `blocking_recv` are no alternatives: they panic there.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = block_on_until(None, future.as_mut()) {
            return output;
        }
    }
}

/// The same, but no longer than until `over`.
pub(crate) fn block_on_until<F: Future>(over: Option<Moment>, future: F) -> Option<F::Output> {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(|| park_until_ready(over, future)),
        _ => park_until_ready(over, future),
    }
}

fn park_until_ready<F: Future>(over: Option<Moment>, future: F) -> Option<F::Output> {
    // Inside a task, tokio's channels answer "pending" once the task's budget is spent, and the budget is not refilled
    // while this thread waits.
    let mut future = pin!(task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => match over.map(|over| over.since(Moment::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            },
        }
    }
}

/// Set by the future, waited for by a thread, which may be ending and then cannot park any more.
#[derive(Default)]
struct Alarm {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_one();
    }
}

/// Blocks this thread until `future` is ready, but no longer than `limit`. For threads outside of tokio.
pub(crate) fn wait_for<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let over = Moment::now().after(limit);
    let mut future = pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = over.since(Moment::now());
        if left.is_zero() {
            return None;
        }
        let rung = alarm.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = alarm.bell.wait_timeout_while(rung, left, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}
