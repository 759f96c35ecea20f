//! A thread of its own for a loop.

use std::future::poll_fn;
use std::io;

use crate::engine::driver::Driver;
use crate::ground::host;

/// Runs the loop on a thread of its own for as long as it lasts.
pub(in crate::engine) fn run(mut driver: Driver) -> io::Result<()> {
    let turns = async move { while poll_fn(|cx| driver.poll(cx)).await.lets_others_run().await {} };
    host::start_thread("redlocked", turns).map_err(|(error, _)| error)
}
