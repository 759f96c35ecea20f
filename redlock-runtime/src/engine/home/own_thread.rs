//! A thread of our own with a runtime: the guardian's, or that of one engine.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::engine::driver::{Driver, Turn};

/// Runs the loop on a thread of its own.
pub(in crate::engine) fn run(mut driver: Driver) -> io::Result<()> {
    start_thread(async move {
        let turns = async move {
            while poll_fn(|cx| driver.poll(cx)).await == Turn::Again {
                // The runtime looks for I/O events.
                yield_now().await;
            }
        };
        // A task: the runtime polls a woken task before it looks for more I/O events.
        let _ = tokio::spawn(turns).await;
    })
}

/// Starts a thread that runs `work` in a runtime.
pub(super) fn start_thread(work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (hand_over, handed_over) = mpsc::channel::<Runtime>();
    let thread = std::thread::Builder::new().name("redlocked".to_owned()).spawn(move || {
        if let Ok(runtime) = handed_over.recv() {
            runtime.block_on(work);
        }
    });
    if let Err(error) = thread {
        // Dropping a runtime inside the caller's runtime would panic.
        runtime.shutdown_background();
        return Err(error);
    }
    let _ = hand_over.send(runtime);
    Ok(())
}
