//! A second process that ends the command when the first cannot: because it was killed, or stands
//! still.
//!
//! The first one says again and again until when the lease lasts, on the clock that all processes
//! of the machine share. The second one ends the group before that time, or at once when the first
//! one is gone: then it also releases the lock, once the group has ended.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use redlocked::LockError;
use redlocked::inspect::LockInfo;
use serde_json::{Value, json};

use super::gate::{self, Gate};
use super::this_program;
use crate::args::ServerArgs;
use crate::exit::{Failure, OK};
use crate::lock_text::{epoch, printable};
use crate::stderr::tell;

/// The first argument of the second process.
pub(crate) const COMMAND: &str = "watchdog";

/// Goes on while the machine is suspended, where the system has such a clock. It is that of the
/// leases.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// How long it may take to see that the clock has jumped, after the machine was suspended.
const PAUSE: Duration = Duration::from_millis(250);

/// What the second process has to know, for the time when it is alone.
pub(crate) struct Task {
    /// The time between SIGTERM and SIGKILL.
    pub(crate) kill_after: Duration,
    pub(crate) server: ServerArgs,
    /// `None` where the server did not say who holds the lock: it is not released then.
    pub(crate) held: Option<Held>,
}

/// The lock of the first process, as others see it.
#[derive(PartialEq, Eq)]
pub(crate) struct Held {
    key: String,
    name: Option<String>,
    function: Option<String>,
    asked: Option<u64>,
}

impl Held {
    pub(crate) fn of(lock: &LockInfo) -> Self {
        let holder = lock.holder();
        Self {
            key: lock.key().to_owned(),
            name: holder.name().map(ToOwned::to_owned),
            function: holder.function().map(ToOwned::to_owned),
            asked: holder.asked().map(epoch),
        }
    }
}

impl Task {
    /// One line. The address may have a password, so it is neither an argument nor in the
    /// environment.
    fn write(&self) -> String {
        let ServerArgs { url, prefix, ca, allow_eviction } = &self.server;
        let held = self.held.as_ref().map(|Held { key, name, function, asked }| {
            json!({ "key": key, "name": name, "function": function, "asked": asked })
        });
        let ms = u64::try_from(self.kill_after.as_millis()).unwrap_or(u64::MAX);
        let server = json!({ "url": url, "prefix": prefix, "ca": ca, "allow_eviction": allow_eviction });
        let task = json!({ "kill_after_ms": ms, "server": server, "held": held });
        format!("{task}\n")
    }

    fn read(line: &str) -> Option<Self> {
        let task: Value = serde_json::from_str(line).ok()?;
        let text = |of: &Value, field: &str| of[field].as_str().map(ToOwned::to_owned);
        let held = |of: &Value| {
            let (name, function) = (text(of, "name"), text(of, "function"));
            Some(Held { key: text(of, "key")?, name, function, asked: of["asked"].as_u64() })
        };
        let server = &task["server"];
        Some(Self {
            kill_after: Duration::from_millis(task["kill_after_ms"].as_u64()?),
            server: ServerArgs {
                url: text(server, "url"),
                prefix: text(server, "prefix"),
                ca: text(server, "ca").map(Into::into),
                allow_eviction: server["allow_eviction"].as_bool()?,
            },
            held: held(&task["held"]),
        })
    }
}

pub(crate) fn now() -> io::Result<Duration> {
    Ok(clock_gettime(CLOCK)?.into())
}

// In the first process ----------------------------------------------------------------------------

/// The second process. It ends with this.
pub(crate) struct Watchdog {
    /// `None` when it has ended before its time.
    commands: Option<UnixStream>,
    gate: Gate,
}

impl Watchdog {
    /// It opens the gate when the first lease arrives.
    pub(crate) fn start(task: &Task, gate: Gate) -> io::Result<Self> {
        let (commands, input) = UnixStream::pair()?;
        // It may be stopped, and must not stop this process.
        commands.set_nonblocking(true)?;
        let mut command = this_program(COMMAND)?;
        command.stdin(Stdio::from(OwnedFd::from(input))).stdout(gate.for_watchdog()?);
        // What the terminal sends to this process is not meant for it.
        command.process_group(0).spawn()?;
        let mut watchdog = Self { commands: Some(commands), gate };
        watchdog.send(&task.write(), false);
        Ok(watchdog)
    }

    /// The group may live for so long after this time.
    pub(crate) fn lease(&mut self, group: Pid, now: Duration, left: Duration) {
        self.send(&format!("{group} {}\n", (now + left).as_nanos()), left.is_zero());
    }

    /// The group has ended. Returns why there was no command in it.
    pub(crate) fn dismiss(mut self) -> Option<String> {
        self.send("done\n", true);
        self.gate.refusal()
    }

    /// `may_have_ended`: it has nothing more to do, and has ended the group itself where this
    /// process was frozen.
    fn send(&mut self, command: &str, may_have_ended: bool) {
        let Some(commands) = &mut self.commands else { return };
        match commands.write_all(command.as_bytes()) {
            // It does not read at the moment: a later one will do.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) if may_have_ended => self.commands = None,
            Err(_) => {
                self.commands = None;
                self.gate.close();
                let message =
                    "the watchdog has ended: if this process is killed, the command goes on without the lock";
                tell(message);
            }
            Ok(()) => {}
        }
    }
}

// In the second process ---------------------------------------------------------------------------

enum Order {
    /// The group ends before this time.
    Until(Pid, Duration),
    Done,
    /// The first process has ended.
    Gone,
}

impl Order {
    /// `None` where the first process has ended in the middle of it.
    fn parse(line: &str) -> Option<Self> {
        if line.is_empty() {
            return Some(Self::Gone);
        }
        let line = line.strip_suffix('\n')?;
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
    let mut orders = Orders::new()?;
    let Some(task) = orders.line(None).and_then(|line| Task::read(&line)) else { return Ok(OK) };
    // Without a command there is nothing to end.
    if let Some(Order::Until(group, until)) = orders.next(None)
        && let Some(left) = watch(&mut orders, group, until, task.kill_after)?
        && let Some(held) = &task.held
    {
        let key = printable(&held.key);
        let end = if release(&task.server, held, left)? {
            "the lock is released"
        } else {
            "the lock ends with its lease"
        };
        tell(&format!("the process that held `{key}` was killed: its command was ended, and {end}"));
    }
    Ok(OK)
}

/// Whether the lock was still that of the first process, and is no more. It has so much time:
/// nobody else can have it meanwhile.
fn release(server: &ServerArgs, held: &Held, left: Duration) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = async {
        let Ok(locks) = server.connect().await else { return Ok(false) };
        match locks.inspect(&held.key).await? {
            // By its token: a release that arrives late finds another one.
            Some(lock) if Held::of(&lock) == *held => {
                locks.force_release_from(&held.key, lock.holder()).await
            }
            _ => Ok::<_, LockError>(false),
        }
    };
    let outcome = runtime.block_on(async { tokio::time::timeout(left, ask).await });
    Ok(matches!(outcome, Ok(Ok(true))))
}

/// Standard input. Its end is the end of the first process.
struct Orders {
    input: BufReader<UnixStream>,
    /// What has come of the next line.
    line: String,
}

impl Orders {
    fn new() -> io::Result<Self> {
        let input = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { input: BufReader::new(input), line: String::new() })
    }

    /// The next one, if it was sent already or comes within this time; `None` is no limit.
    fn next(&mut self, limit: Option<Duration>) -> Option<Order> {
        self.line(limit).and_then(|line| Order::parse(&line))
    }

    /// An empty line is the end.
    fn line(&mut self, limit: Option<Duration>) -> Option<String> {
        // Zero is refused. Some systems refuse all where the first process has ended: then no read waits.
        let _ = self.input.get_ref().set_read_timeout(limit.map(|limit| limit.max(Duration::from_millis(1))));
        match self.input.read_line(&mut self.line) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
            // What cannot be read is not said.
            Err(_) => Some(String::new()),
            Ok(_) => Some(std::mem::take(&mut self.line)),
        }
    }
}

/// Opens the gate for the group, and returns when that has ended, or its time is over: with what is left of
/// the lease, if the first process is gone and the group has ended.
fn watch(
    orders: &mut Orders,
    group: Pid,
    mut until: Duration,
    kill_after: Duration,
) -> io::Result<Option<Duration>> {
    let mut is_open = false;
    let mut is_gone = loop {
        let terminate_at = until.saturating_sub(kill_after);
        if !is_open && now()? < terminate_at {
            gate::open();
            is_open = true;
        }
        match orders.next(Some(terminate_at.saturating_sub(now()?).min(PAUSE))) {
            Some(Order::Until(_, later)) => until = later,
            Some(Order::Done) => return Ok(None),
            Some(Order::Gone) => break true,
            None if now()? < terminate_at => {}
            None => break false,
        }
    };
    let lease_end = until;
    let until = until.min(now()? + kill_after);
    // It may have ended, here and below.
    let _ = killpg(group, Signal::SIGTERM);
    // A stopped process cannot end.
    let _ = killpg(group, Signal::SIGCONT);
    let pause =
        |until: Duration| Ok::<_, io::Error>(until.saturating_sub(now()?).min(Duration::from_millis(20)));
    while now()? < until && !has_ended(group) {
        match orders.next(Some(Duration::ZERO)) {
            Some(Order::Done) => return Ok(None),
            Some(Order::Gone) => is_gone = true,
            Some(Order::Until(..)) | None => {}
        }
        std::thread::sleep(pause(until)?);
    }
    // All of them at once, also those that are just starting others. Once the group has ended,
    // another one may get its number: but not while a process of it has not been collected.
    if !is_collected(group) {
        let _ = killpg(group, Signal::SIGKILL);
    }
    while is_gone && now()? < lease_end {
        if has_ended(group) {
            return Ok(Some(lease_end.saturating_sub(now()?)));
        }
        std::thread::sleep(pause(lease_end)?);
    }
    Ok(None)
}

/// No process has its number.
fn is_collected(group: Pid) -> bool {
    killpg(group, None) == Err(Errno::ESRCH)
}

/// No process of it runs. In some containers, no other process collects those that have ended.
fn has_ended(group: Pid) -> bool {
    is_collected(group) || is_dead(group).unwrap_or(false)
}

/// `None` where the system does not tell.
fn is_dead(group: Pid) -> Option<bool> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let texts = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    let mut states = texts.filter_map(|text| {
        // Behind the name of the program: its state, its parent, its group.
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let (state, of) = (fields.next()?.to_owned(), fields.nth(1)?.parse::<i32>().ok()?);
        (of == group.as_raw()).then_some(state)
    });
    let first = states.next()?;
    Some(std::iter::once(first).chain(states).all(|state| matches!(&*state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let held =
            Held { key: "k\n".to_owned(), name: Some("web:7".to_owned()), function: None, asked: Some(7) };
        let server = ServerArgs {
            url: Some("redis://:p@h/".to_owned()),
            prefix: Some(String::new()),
            ca: Some("/ca".into()),
            allow_eviction: true,
        };
        let task = Task { kill_after: Duration::from_millis(1500), server, held: Some(held) };
        let line = task.write();
        assert_eq!(line.lines().count(), 1, "{line}");
        let read = Task::read(&line);
        assert!(read.is_some_and(|read| read.held == task.held
            && read.kill_after == task.kill_after
            && read.server.url == task.server.url
            && read.server.prefix == task.server.prefix
            && read.server.ca == task.server.ca
            && read.server.allow_eviction));
        assert!(Task::read("").is_none());
    }
}
