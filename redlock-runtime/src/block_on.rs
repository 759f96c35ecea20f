//! Runs a future without a runtime: the thread blocks until the engine answers, and polls the
//! engine meanwhile where it can.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use crate::base::alarm::Alarm;
use crate::base::clock::{Clock, Moment};
use crate::engine::handle::Engine;
use crate::engine::runner::{Blocked, about_to_block};

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
    let mut output = None;
    block_on_any(
        engine,
        limit,
        &mut poll_fn(|cx| future.as_mut().poll(cx).map(|ready| output = Some(ready))),
    );
    output
}

/// A future of any type: the code that waits is in the program once.
type Any<'a> = &'a mut (dyn Future<Output = ()> + Unpin);

fn block_on_any(engine: &Engine, limit: Option<(&Clock, Moment)>, future: Any<'_>) {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            task::block_in_place(|| wait_until_ready(limit, future));
        }
        Ok(_) => {
            about_to_block();
            wait_until_ready(limit, future);
        }
        // A thread that is ending may have no place for a runtime.
        Err(error) if error.is_thread_local_destroyed() => wait_until_ready(limit, future),
        Err(_) => {
            let mut future = future;
            if let Blocked::Elsewhere = engine.poll_until(limit.map(|(_, at)| at), Pin::new(&mut future)) {
                wait_until_ready(limit, future);
            }
        }
    }
}

fn wait_until_ready(limit: Option<(&Clock, Moment)>, future: Any<'_>) {
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    loop {
        if Pin::new(&mut *future).poll(&mut cx).is_ready() || !alarm.wait(limit) {
            return;
        }
    }
}
