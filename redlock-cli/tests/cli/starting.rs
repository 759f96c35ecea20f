//! Each test has a command that writes the time into a file, again and again, and deaf to SIGTERM; and a
//! tool that is frozen or killed at an exact point of its start.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use kit::{RedisServer, eventually};
use nix::sys::signal::Signal::{self, SIGKILL, SIGSTOP};

use crate::ending::now;
use crate::tool::{LOST, Running, Said, Scratch, said, signal_to, tool, watchdog_of};
use crate::traced::{COMMAND, Point, WATCHDOG, stopped_at};

const PLAIN: [&str; 3] = ["run", "--ttl", "3s"];

/// The lease reaches the watchdog within the last of them; the tool makes about sixteen before.
const CALLS: usize = 19;

struct Beats(Scratch);

impl Beats {
    fn script(&self) -> String {
        format!(
            "trap '' TERM; while kill -0 {}; do date +%s%N >>{}; sleep 0.05; done",
            std::process::id(),
            self.0.path()
        )
    }

    /// When the command was last seen.
    fn last(&self) -> Option<u64> {
        self.0.text().lines().filter_map(|line| line.parse().ok()).max()
    }
}

/// What is left of a tool that got the signal at this point, once its lock is free. `None` where the machine
/// allows no tracing.
fn hit(point: Point, signal: Signal, run: &[&str]) -> Option<(Running, Beats)> {
    let server = RedisServer::start();
    let beats = Beats(Scratch::new());
    let script = beats.script();
    let arguments = [run, &["k", "--", "sh", "-c", &script]].concat();
    let tool = stopped_at(point, &server, &arguments, |_| Some(signal))?;
    eventually("its lock is free", || server.run::<u32>("EXISTS lock:k") == 0);
    let free = now();
    // A command that still runs writes the time often in it.
    thread::sleep(Duration::from_millis(300));
    let late = beats.last().map_or(0, |last| last.saturating_sub(free));
    assert_eq!(late, 0, "{signal} at {point:?}, {run:?}: the command ran {late} ns beside the next holder");
    Some((tool, beats))
}

#[test]
fn a_tool_that_is_frozen_while_it_starts_its_command_leaves_none_behind_its_lease() {
    for point in [WATCHDOG, COMMAND] {
        let Some((tool, beats)) = hit(point, SIGSTOP, &PLAIN) else { return };
        let last = beats.last();
        tool.signal("-CONT");
        let Said { code, err, .. } = tool.said();
        assert_eq!((code, beats.last()), (Some(LOST), last), "{point:?}: {err}");
    }
}

#[test]
fn a_tool_that_is_killed_while_it_starts_its_command_leaves_none_behind_its_lock() {
    for point in [WATCHDOG, COMMAND] {
        let Some((tool, _)) = hit(point, SIGKILL, &PLAIN) else { return };
        // Its streams are closed, so its watchdog has ended, too.
        assert_eq!(tool.said().code, None, "{point:?}");
    }
}

#[test]
fn so_it_is_with_a_leader_and_a_tick() {
    for run in [&["run", "--leader", "--ttl", "3s"][..], &["run", "--tick", "366d", "--ttl", "3s"]] {
        for signal in [SIGSTOP, SIGKILL] {
            if hit(COMMAND, signal, run).is_none() {
                return;
            }
        }
    }
}

/// The end of each call to the system is a point, from the start of what becomes the command on.
#[test]
fn at_no_call_of_its_start_does_a_tool_that_is_killed_or_frozen_leave_a_command_behind() {
    let hits: Vec<_> =
        (1..=CALLS).step_by(2).flat_map(|calls| [(calls, SIGKILL), (calls, SIGSTOP)]).collect();
    for some in hits.chunks(3) {
        thread::scope(|scope| {
            for (calls, signal) in some.iter().copied() {
                scope.spawn(move || hit(Point { calls, ..COMMAND }, signal, &PLAIN));
            }
        });
    }
}

#[test]
fn a_command_whose_watchdog_is_killed_before_it_starts_does_not_start() {
    let server = RedisServer::start();
    let ran = Scratch::new();
    let kill = |tool| {
        signal_to("-KILL", watchdog_of(tool));
        None
    };
    let arguments = ["run", "k", "--", "touch", ran.path()];
    let Some(tool) = stopped_at(COMMAND, &server, &arguments, kill) else { return };
    let said = tool.said();
    assert_eq!(said.code, Some(69));
    assert!(said.err.ends_with("redlocked: cannot start touch: its watchdog has ended\n"), "{}", said.err);
    assert!(!fs::exists(ran.path()).unwrap() && server.keys().is_empty());
}

#[test]
fn a_command_whose_watchdog_stands_still_starts_when_that_goes_on() {
    let server = RedisServer::start();
    let beats = Beats(Scratch::new());
    let mut watchdog = 0;
    let freeze = |tool| {
        watchdog = watchdog_of(tool);
        signal_to("-STOP", watchdog);
        None
    };
    let script = beats.script();
    let arguments = [&PLAIN[..], &["k", "--", "sh", "-c", &script]].concat();
    let Some(tool) = stopped_at(COMMAND, &server, &arguments, freeze) else { return };
    let left = || server.run::<i64>("PTTL lock:k");
    for _ in 0..2 {
        eventually("its lease gets shorter", || left() < 2_500);
        eventually("it renews", || left() > 2_500);
    }
    assert_eq!(beats.last(), None);
    signal_to("-CONT", watchdog);
    eventually("the command runs", || beats.last().is_some());
    tool.signal("-TERM");
    assert_eq!(tool.said().code, Some(137));
}

/// What a process is given: its descriptors, and the signals that it ignores and blocks.
#[test]
fn the_command_is_given_what_the_tool_was_given_and_nothing_else() {
    let server = RedisServer::start();
    let script = "find /proc/$$/fd -type l -printf '%f %l\\n'; grep -E '^Sig(Blk|Ign)' /proc/self/status; \
                  ulimit -a; pwd; umask; echo $0 $1";
    let command = ["sh", "-c", script, "first", "second"];
    let input = fs::File::open("/dev/zero").unwrap();
    let told = |mut command: Command| {
        let output = command.stdin(input.try_clone().unwrap()).stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Each has a pipe of its own.
        text.lines().filter(|line| !line.starts_with("1 pipe:")).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]);
    let expected = told(plain);
    assert!(expected.contains(&"0 /dev/zero".to_owned()), "{expected:?}");
    assert_eq!(told(tool(&server.url(), &[&["run", "k", "--"], &command[..]].concat())), expected);
}

#[test]
fn nobody_else_gets_through_the_gate() {
    let said = said("", &["gate", "echo", "inside"]);
    assert_eq!((said.code, &*said.out), (Some(69), ""));
}
