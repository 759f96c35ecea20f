//! Runs a future without a runtime: the thread blocks until the engine answers, and polls the
//! engine meanwhile where it can.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use crate::engine::handle::Engine;
use crate::engine::home::{Blocked, about_to_block};
use crate::ground::alarm::Alarm;
use crate::ground::clock::{Clock, Moment};

/// Blocks this thread until `future` is ready, which waits for this engine. On a worker of a
/// multi-thread tokio runtime the worker's other tasks move to another thread first.
/// `Handle::block_on` and `blocking_recv` would panic there.
pub(crate) fn block_on<F: Future>(engine: &Engine, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = block_on_until(engine, None, future.as_mut()) {
            return output;
        }
    }
}

/// [`block_on`], until `limit` at most. Works also while the thread ends.
pub(crate) fn block_on_until<F: Future>(
    engine: &Engine,
    limit: Option<(&Clock, Moment)>,
    future: F,
) -> Option<F::Output> {
    // Inside a task, tokio's channels answer "pending" once the task's budget is spent, and the
    // budget is not refilled while this thread waits.
    let mut future = pin!(task::unconstrained(future));
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            task::block_in_place(|| wait_until_ready(limit, future))
        }
        Ok(_) => {
            about_to_block();
            wait_until_ready(limit, future)
        }
        // A thread that is ending may have no place for a runtime.
        Err(error) if error.is_thread_local_destroyed() => wait_until_ready(limit, future),
        Err(_) => match engine.poll_until(limit.map(|(_, at)| at), future.as_mut()) {
            Blocked::Ready(output) => Some(output),
            Blocked::TimedOut => None,
            Blocked::Elsewhere => wait_until_ready(limit, future),
        },
    }
}

fn wait_until_ready<F: Future>(
    limit: Option<(&Clock, Moment)>,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending if alarm.wait(limit) => {}
            Poll::Pending => return None,
        }
    }
}
