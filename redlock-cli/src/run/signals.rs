//! The signals that this process gets while it waits for the lock, and while the command runs.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use super::terminal::stop_this_process;

/// What a signal asks for.
#[derive(Clone, Copy)]
pub(crate) enum Told {
    /// To end.
    End(Signal),
    /// What concerns the command alone.
    PassOn(Signal),
    /// To stop: Ctrl-Z.
    Suspend,
    /// To look after a child, which has ended or stopped.
    Child,
}

const ALL: [Told; 9] = [
    Told::End(Signal::SIGINT),
    Told::End(Signal::SIGTERM),
    Told::End(Signal::SIGHUP),
    Told::End(Signal::SIGQUIT),
    Told::PassOn(Signal::SIGUSR1),
    Told::PassOn(Signal::SIGUSR2),
    Told::PassOn(Signal::SIGWINCH),
    Told::Suspend,
    Told::Child,
];

impl Told {
    fn signal(self) -> Signal {
        match self {
            Self::End(signal) | Self::PassOn(signal) => signal,
            Self::Suspend => Signal::SIGTSTP,
            Self::Child => Signal::SIGCHLD,
        }
    }
}

pub(crate) struct Signals {
    listeners: Vec<(Listener, Told)>,
}

impl Signals {
    /// A signal that this process was started to ignore, as by `nohup`, stays ignored, by the
    /// command as well.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        // The system tells of children only those that do not ignore them.
        let is_heard = |told: &Told| matches!(told, Told::Child) || ignored & bit(told.signal()) == 0;
        let heard = ALL.into_iter().filter(is_heard);
        let listen = |told: Told| Ok((signal(SignalKind::from_raw(told.signal() as i32))?, told));
        Ok(Self { listeners: heard.map(listen).collect::<io::Result<_>>()? })
    }

    /// Can be dropped and called again.
    pub(crate) async fn recv(&mut self) -> Told {
        poll_fn(|cx| {
            let mut listeners = self.listeners.iter_mut();
            let told =
                listeners.find_map(|(listener, told)| listener.poll_recv(cx).is_ready().then_some(*told));
            told.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Completes with the signal that ends a process without a command.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.recv().await {
                Told::End(signal) => return signal,
                Told::Suspend => stop_this_process(),
                Told::PassOn(_) | Told::Child => {}
            }
        }
    }
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// A bit for each signal; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    field.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
