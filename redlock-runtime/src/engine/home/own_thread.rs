//! Threads of ours, each with a runtime: the guardian's, and that of a loop.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::engine::driver::{Driver, Turn};

/// Runs the loop on a thread of its own for as long as it lasts.
pub(in crate::engine) fn run(mut driver: Driver) -> io::Result<()> {
    let turns = async move {
        while poll_fn(|cx| driver.poll(cx)).await == Turn::Again {
            // The runtime looks for I/O events.
            yield_now().await;
        }
    };
    start_thread("redlocked", turns).map_err(|(error, _)| error)
}

/// Starts a thread that runs `work` in a runtime. If there can be none, returns the work.
pub(super) fn start_thread<W>(name: &str, work: W) -> Result<(), (io::Error, W)>
where
    W: Future<Output = ()> + Send + 'static,
{
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Err((error, work)),
    };
    let (hand_over, handed_over) = mpsc::channel::<(Runtime, W)>();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Ok((runtime, work)) = handed_over.recv() {
            // A task: the runtime polls a woken task before it looks for more I/O events.
            let _ = runtime.block_on(async { tokio::spawn(work).await });
        }
    });
    if let Err(error) = thread {
        // Dropping a runtime inside the caller's runtime would panic.
        runtime.shutdown_background();
        return Err((error, work));
    }
    let _ = hand_over.send((runtime, work));
    Ok(())
}
