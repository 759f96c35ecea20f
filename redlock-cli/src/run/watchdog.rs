//! A second process that ends the command when the first cannot: because it was killed, or stands still.
//!
//! The first one says again and again until when the lease lasts, on the clock that all processes of the machine share. The second
//! one ends the group before that time, or at once when the first one is gone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::exit::{Failure, OK};

/// The first argument of the second process.
pub(crate) const COMMAND: &str = "watchdog";

/// Goes on while the machine is suspended, where the system has such a clock. It is that of the leases.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// How long it may take to see that the clock has jumped, after the machine was suspended.
const PAUSE: Duration = Duration::from_millis(250);

fn now() -> io::Result<Duration> {
    Ok(clock_gettime(CLOCK)?.into())
}

// In the first process -------------------------------------------------------------------------------------

/// The second process. It ends with this.
pub(crate) struct Watchdog {
    /// `None` when it has ended before its time.
    commands: Option<UnixStream>,
}

impl Watchdog {
    /// `kill_after`: the time between SIGTERM and SIGKILL.
    pub(crate) fn start(kill_after: Duration) -> io::Result<Self> {
        let (commands, input) = UnixStream::pair()?;
        // It may be stopped, and must not stop this process.
        commands.set_nonblocking(true)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND);
        command.stdin(Stdio::from(OwnedFd::from(input))).stdout(Stdio::null());
        // What the terminal sends to this process is not meant for it.
        command.process_group(0).spawn()?;
        let mut watchdog = Self { commands: Some(commands) };
        watchdog.send(&format!("{}\n", kill_after.as_nanos()));
        Ok(watchdog)
    }

    /// The group may live for so long.
    pub(crate) fn lease(&mut self, group: Pid, left: Duration) {
        if let Ok(now) = now() {
            self.send(&format!("{group} {}\n", (now + left).as_nanos()));
        }
    }

    /// The group has ended.
    pub(crate) fn dismiss(mut self) {
        self.send("done\n");
    }

    fn send(&mut self, command: &str) {
        let Some(commands) = &mut self.commands else { return };
        match commands.write_all(command.as_bytes()) {
            // It does not read at the moment: a later one will do.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                self.commands = None;
                let message =
                    "the watchdog has ended: if this process is killed, the command goes on without the lock";
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "redlocked: {message}");
            }
            Ok(()) => {}
        }
    }
}

// In the second process ------------------------------------------------------------------------------------

enum Order {
    /// The group ends before this time.
    Until(Pid, Duration),
    Done,
}

impl Order {
    fn parse(line: &str) -> Option<Self> {
        if line == "done" {
            return Some(Self::Done);
        }
        let (group, nanos) = line.split_once(' ')?;
        Some(Self::Until(Pid::from_raw(group.parse().ok()?), Duration::from_nanos(nanos.parse().ok()?)))
    }
}

/// `redlocked watchdog`.
pub(crate) fn watchdog() -> Result<u8, Failure> {
    // A service manager may signal all processes of a service: this one ends last, and by itself.
    SigSet::all().thread_block().map_err(io::Error::from)?;
    let Some(kill_after) = kill_after() else { return Ok(OK) };
    let orders = orders();
    // Without a command there is nothing to end.
    if let Ok(Order::Until(group, until)) = orders.recv() {
        watch(&orders, group, until, kill_after)?;
    }
    Ok(OK)
}

/// The first line of standard input: the time between SIGTERM and SIGKILL.
fn kill_after() -> Option<Duration> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok()?;
    line.trim().parse().ok().map(Duration::from_nanos)
}

/// From the rest of standard input; the end of it is the end of the first process.
fn orders() -> Receiver<Order> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(io::stdin()).lines().map_while(Result::ok);
        for order in lines.filter_map(|line| Order::parse(&line)) {
            if sender.send(order).is_err() {
                break;
            }
        }
    });
    orders
}

fn watch(orders: &Receiver<Order>, group: Pid, mut until: Duration, kill_after: Duration) -> io::Result<()> {
    loop {
        let terminate_at = until.saturating_sub(kill_after);
        match orders.recv_timeout(terminate_at.saturating_sub(now()?).min(PAUSE)) {
            Ok(Order::Until(_, later)) => until = later,
            Ok(Order::Done) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if now()? < terminate_at => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let until = until.min(now()? + kill_after);
    // It may have ended, here and below.
    let _ = killpg(group, Signal::SIGTERM);
    // A stopped process cannot end.
    let _ = killpg(group, Signal::SIGCONT);
    while now()? < until {
        // Once the group has ended, another one may get its number.
        if matches!(orders.try_recv(), Ok(Order::Done)) || killpg(group, None) == Err(Errno::ESRCH) {
            return Ok(());
        }
        std::thread::sleep(until.saturating_sub(now()?).min(Duration::from_millis(20)));
    }
    // All of them at once, also those that are just starting others.
    let _ = killpg(group, Signal::SIGKILL);
    Ok(())
}
