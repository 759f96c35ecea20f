//! A thread of its own for a loop.

use std::future::poll_fn;
use std::io;

use tokio::task::yield_now;

use crate::engine::driver::{Driver, Turn};
use crate::host;

/// Runs the loop on a thread of its own for as long as it lasts.
pub(in crate::engine) fn run(mut driver: Driver) -> io::Result<()> {
    let turns = async move {
        while poll_fn(|cx| driver.poll(cx)).await == Turn::Again {
            // The runtime looks for I/O events.
            yield_now().await;
        }
    };
    host::start_thread("redlocked", turns).map_err(|(error, _)| error)
}
