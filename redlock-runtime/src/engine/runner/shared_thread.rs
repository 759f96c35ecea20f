//! The thread that several loops share. It runs the loops of managers with `own_thread`, and loops
//! that no runtime of their callers runs, once enough loops have a
//! [`FallbackRuntime`](super::FallbackRuntime) each.
//!
//! A process has one such thread, which starts with the first of these loops. So a program with a
//! manager for each tenant has one thread and one runtime for all of them. Each loop is a task: if a
//! loop panics, the others go on.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::base::host::{self, OfThisProcess};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The handle of the thread.
#[derive(Clone)]
pub(super) struct SharedThread {
    tasks: UnboundedSender<Task>,
}

static OF_THE_PROCESS: OfThisProcess<SharedThread> = OfThisProcess::new();

impl SharedThread {
    /// Starts the thread, if it does not run yet.
    ///
    /// # Errors
    ///
    /// The system starts no thread, or threads are simulated.
    pub(super) fn of_this_process() -> io::Result<Self> {
        if host::has_one_thread() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        OF_THE_PROCESS.get_or_start(|| {
            let (tasks, queued) = unbounded_channel();
            host::start_thread("redlocked", run_all(queued))?;
            Ok(Self { tasks })
        })
    }

    /// Runs `task` until it ends.
    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _ = self.tasks.send(Box::pin(task));
    }
}

/// Never ends: the process has a handle.
async fn run_all(mut queued: UnboundedReceiver<Task>) {
    while let Some(task) = queued.recv().await {
        host::spawn(task);
    }
}
