//! Waiting for a future without a runtime: the thread parks until the engine answers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until `future` is ready. Inside a multi-thread tokio runtime the worker's other tasks
/// are moved away first. `Handle::block_on` and `blocking_recv` are no alternatives: they panic there.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(|| park_until_ready(future)),
        _ => park_until_ready(future),
    }
}

fn park_until_ready<F: Future>(future: F) -> F::Output {
    // Inside a task, tokio's channels answer "pending" once the task's budget is spent; nobody would refill it
    // while this thread waits.
    let mut future = pin!(task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
