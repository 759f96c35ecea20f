//! The command starts in two steps: as a process that waits at a gate, and becomes the command once the
//! watchdog opens it. So the watchdog knows the command before that can do anything, wherever the first
//! process is killed or stands still.
//!
//! The gate is a pair of sockets. The process that waits has one of them as its standard input, and gets
//! the standard input of the command through it. The first process and the watchdog share the other one:
//! when both have ended, the gate stays closed, and the process that waits ends.

use std::convert::Infallible;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::stdio::dup2_stdin;

use crate::exit::{Failure, NO_COMMAND};

/// The first argument of the process that waits; the command and its arguments follow.
pub(crate) const COMMAND: &str = "gate";

/// With the standard input of this process, and to open the gate.
const BYTE: [u8; 1] = [0];

// In the first process ----------------------------------------------------------------------------

/// The end of those who may open it.
pub(crate) struct Gate(UnixStream);

impl Gate {
    /// With the standard input of the process that waits.
    pub(crate) fn new() -> io::Result<(Self, Stdio)> {
        let (opens, waits) = UnixStream::pair()?;
        // The process that waits may be stopped, and must not stop this one.
        opens.set_nonblocking(true)?;
        let stdin = io::stdin();
        let descriptors = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&opens, &[IoSlice::new(&BYTE)], &mut control, SendFlags::empty())?;
        Ok((Self(opens), OwnedFd::from(waits).into()))
    }

    /// The standard output of the watchdog.
    pub(crate) fn for_watchdog(&self) -> io::Result<Stdio> {
        Ok(OwnedFd::from(self.0.try_clone()?).into())
    }

    /// If it is still closed, it stays so: the watchdog has ended.
    pub(crate) fn close(&self) {
        // The process that waits may have ended.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Why there was no command, once the process that waited has ended.
    pub(crate) fn refusal(&mut self) -> Option<String> {
        let mut text = String::new();
        // A command that was started closes the other end, and says nothing.
        let _ = self.0.read_to_string(&mut text);
        (!text.is_empty()).then_some(text)
    }
}

// In the watchdog ---------------------------------------------------------------------------------

pub(crate) fn open() {
    let mut gate = io::stdout();
    // The process that waits may have been killed.
    let _ = gate.write_all(&BYTE).and_then(|()| gate.flush());
}

// In the process that waits -----------------------------------------------------------------------

/// `redlocked gate`.
pub(crate) fn gate() -> Result<u8, Failure> {
    let gate = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Err(error) = become_command(&gate);
    // The first process may have ended.
    let _ = write!(&gate, "{error}");
    Ok(NO_COMMAND)
}

fn become_command(mut gate: &UnixStream) -> io::Result<Infallible> {
    let stdin = received(gate)?;
    gate.read_exact(&mut [0]).map_err(|_| io::Error::other("its watchdog has ended"))?;
    dup2_stdin(&stdin)?;
    // The command inherits one of the two.
    drop(stdin);
    let mut words = std::env::args_os().skip(2);
    let program = words.next().unwrap_or_default();
    Err(Command::new(program).args(words).exec())
}

/// The standard input of the first process.
fn received(gate: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(gate, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::empty())?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.next().ok_or_else(|| io::Error::other("only `redlocked run` calls `redlocked gate`"))
}
