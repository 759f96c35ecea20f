//! What callers hold of an engine: the way to it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::command::Command;
use super::multi_key::MultiKey;
use super::protocol::Id;

/// The way to the engine. The thread ends when the last of these is gone and everything is released.
pub(crate) struct Engine {
    commands: UnboundedSender<Command>,
    next_id: AtomicU64,
    multi_key: MultiKey,
    io_timeout: Duration,
    /// In which process the thread is: a forked child has none.
    process: AtomicU32,
}

impl Engine {
    pub(super) fn new(commands: UnboundedSender<Command>, multi_key: MultiKey, io_timeout: Duration) -> Self {
        Self {
            commands,
            next_id: AtomicU64::new(1),
            multi_key,
            io_timeout,
            process: AtomicU32::new(std::process::id()),
        }
    }

    /// False in a forked child, in which no thread listens to commands.
    pub(crate) fn is_here(&self) -> bool {
        self.is_in(std::process::id())
    }

    fn is_in(&self, process: u32) -> bool {
        self.process.load(Ordering::Relaxed) == process
    }

    /// An engine whose thread comes to nothing: commands wait where this reads them.
    #[cfg(test)]
    pub(crate) fn stuck() -> (Self, tokio::sync::mpsc::UnboundedReceiver<Command>) {
        let (commands, waiting) = unbounded_channel();
        let engine = Self::new(commands, MultiKey::Any, Duration::from_millis(20));
        (engine, waiting)
    }

    /// As if this were another process from now on.
    #[cfg(test)]
    pub(crate) fn fork(&self) {
        self.process.fetch_xor(1, Ordering::Relaxed);
    }

    pub(crate) fn new_id(&self) -> Id {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How long the server may take to answer.
    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// Which keys may be in one call.
    pub(crate) fn multi_key(&self) -> MultiKey {
        self.multi_key
    }

    /// Never blocks. A command to an engine that has died, or is in another process, is dropped, and with it the sender of
    /// the answer, which is how its caller hears of it.
    pub(crate) fn send(&self, command: Command) {
        self.send_from(std::process::id(), command);
    }

    /// The same, for a caller that has just asked for the number of its process, which is a system call.
    pub(crate) fn send_from(&self, process: u32, command: Command) {
        if self.is_in(process) {
            let _ = self.commands.send(command);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.is_here() {
            // Nothing is touched that the thread may have been in the middle of when its process forked.
            let (nowhere, _) = unbounded_channel();
            std::mem::forget(std::mem::replace(&mut self.commands, nowhere));
        }
    }
}

/// What a caller hears when no thread answers. In the same process, no way to that is known.
pub(crate) const ENGINE_GONE: &str = "this lock manager has no thread in this process, which was forked after it was started: connect a new one";
