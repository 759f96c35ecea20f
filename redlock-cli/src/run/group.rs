//! The process group of the command.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::exit_code_of;
use crate::exit::OS;

/// A process group of its own. Processes that leave it, as daemons do, are no part of it.
pub(crate) struct Group {
    /// The process of the command, which leads the group.
    id: Pid,
    /// Once the command has ended.
    pub(crate) code: Option<u8>,
}

impl Group {
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        // Processes of the group that outlive the command become children of this process, which
        // can collect them: in a container, often no other process does.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)?;
        let child = command.process_group(0).spawn()?;
        let id = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        Ok(Self { id, code: None })
    }

    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// True when the command and all other processes of the group have ended.
    pub(crate) fn has_ended(&self) -> bool {
        // Until the command is collected, its number stands for no other group.
        self.code.is_some() && killpg(self.id, None) == Err(Errno::ESRCH)
    }

    /// A stopped process gets the signal when it continues.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.has_ended() {
            // It may end at any time.
            let _ = killpg(self.id, signal);
        }
    }

    /// Collects the processes that have ended. Returns the signal that has stopped the command
    /// since the last call.
    pub(crate) fn collect(&mut self) -> Option<Signal> {
        let mut stopped_by = None;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(id, code)) if id == self.id => {
                    self.code = Some(u8::try_from(code & 0xff).unwrap_or(u8::MAX));
                }
                Ok(WaitStatus::Signaled(id, signal, _)) if id == self.id => {
                    self.code = Some(exit_code_of(signal as i32));
                }
                Ok(WaitStatus::Stopped(id, signal)) if id == self.id => stopped_by = Some(signal),
                Ok(WaitStatus::StillAlive) => return stopped_by,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => {
                    // There are no children, so the command has ended, and how cannot be known.
                    self.code.get_or_insert(OS);
                    return stopped_by;
                }
            }
        }
    }
}
