//! The terminal: lent to the command when it asks for it.
//!
//! The command starts in the background of its terminal, in a group of its own: a group that reads
//! the terminal or changes its settings is stopped by the system. This process then lends it the
//! terminal, if it has it itself.

use std::fs::File;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

pub(crate) struct Terminal {
    tty: Option<File>,
    is_lent: bool,
}

impl Terminal {
    pub(crate) fn of_this_process() -> Self {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok();
        Self { tty, is_lent: false }
    }

    /// False when this process is in the background itself.
    pub(crate) fn lend(&mut self, to: Pid) -> bool {
        let Some(tty) = &self.tty else { return false };
        if tcgetpgrp(tty) == Ok(getpgrp()) {
            self.is_lent = tcsetpgrp(tty, to).is_ok();
        }
        self.is_lent
    }

    /// Returns whether it was lent.
    pub(crate) fn take_back(&mut self) -> bool {
        if let Some(tty) = self.tty.as_ref().filter(|_| self.is_lent) {
            // From the background, where this would stop the process.
            let blocked = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK);
            // Without the terminal, as after a hang-up, there is nothing to take.
            let _ = tcsetpgrp(tty, getpgrp());
            if let Ok(before) = blocked {
                let _ = before.thread_set_mask();
            }
        }
        std::mem::replace(&mut self.is_lent, false)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Returns when the process is continued.
pub(crate) fn stop_this_process() {
    // To the thread, not to the process: so no line below runs before the stop. It fails for an
    // unknown signal only.
    let _ = raise(Signal::SIGSTOP);
}
