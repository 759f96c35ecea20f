//! What a person sees: each test has a terminal of its own, and looks at its screen.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::{RedisServer, eventually};
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use redlocked::{LockGuard, LockManager};

use crate::tool::{LOST, Scratch, signal_to};

const TOOL: &str = env!("CARGO_BIN_EXE_redlocked");

pub(crate) struct Terminal {
    pty: Arc<Pty>,
    screen: Arc<Mutex<vt100::Parser>>,
    child: Child,
}

impl Terminal {
    fn start(server: &RedisServer, program: &str, arguments: &[&str]) -> Self {
        Self::sized(server, program, arguments, 100, 24)
    }

    pub(crate) fn sized(
        server: &RedisServer,
        program: &str,
        arguments: &[&str],
        columns: u16,
        lines: u16,
    ) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(lines, columns)).unwrap();
        let command = Command::new(program).args(arguments);
        let command = command.env_remove("REDIS_URL").env_remove("NO_COLOR").env_remove("REDLOCK_PREFIX");
        let command = command.env("REDLOCK_URL", server.url()).env("TERM", "xterm");
        let child = command.env("tool", TOOL).env("PS1", "prompt> ").spawn(pts).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(lines, columns, 0)));
        let pty = Arc::new(pty);
        let output = Arc::clone(&pty);
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with its last process.
            while let Ok(read @ 1..) = (&*output).read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..read]);
            }
        });
        Self { pty, screen, child }
    }

    fn tool(server: &RedisServer, arguments: &[&str]) -> Self {
        Self::start(server, TOOL, arguments)
    }

    fn types(&mut self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// What is on the screen, where each line fits.
    #[track_caller]
    pub(crate) fn unwrapped(&self) -> String {
        let parser = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let (screen, (lines, _)) = (parser.screen(), parser.screen().size());
        let text = screen.contents();
        assert!((0..lines).all(|line| !screen.row_wrapped(line)), "a line is too long:\n{text}");
        text
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        let mut seen = String::new();
        let limit = std::time::Instant::now() + kit::LIMIT;
        while std::time::Instant::now() < limit {
            seen = self.text();
            if seen.contains(text) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the screen does not show {text:?}:\n{seen}");
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hold(server: &RedisServer, key: &str) -> LockGuard {
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    locks.lock(key).ttl(Duration::from_secs(100)).label("shop::buy").acquire_blocking().unwrap()
}

#[test]
fn list_has_a_header_and_columns_below_each_other() {
    let server = RedisServer::start();
    let _guards = [hold(&server, "a"), hold(&server, "a-much-longer-key")];
    let mut terminal = Terminal::tool(&server, &["list"]);
    assert!(terminal.ends().success());
    terminal.shows("a-much-longer-key");
    let text = terminal.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("KEY                HOLDER  "), "{text}");
    let column = lines[0].find("FUNCTION").unwrap();
    assert!(lines[1..3].iter().all(|line| line[column..].starts_with("shop::buy  ")), "{text}");
}

#[test]
fn a_terminal_has_colours_unless_the_environment_says_otherwise() {
    let server = RedisServer::start();
    let _guard = hold(&server, "k");
    // A CI counts as a terminal with colours, whatever TERM says.
    for (before, command, is_bold) in [
        ("", "list", true),
        ("NO_COLOR=1", "list", false),
        ("TERM=dumb", "list", false),
        ("", "top", true),
        ("NO_COLOR=1", "top", false),
    ] {
        let mut terminal =
            Terminal::start(&server, "sh", &["-c", &format!("unset CI; {before} \"$tool\" {command}")]);
        terminal.shows("shop::buy");
        let at = terminal.text().lines().position(|line| line.starts_with("KEY")).unwrap();
        let screen = terminal.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let header = screen.screen().cell(at.try_into().unwrap(), 0).unwrap();
        assert_eq!(header.bold(), is_bold, "{before} {command}");
        drop(screen);
        terminal.types("q");
        assert!(terminal.ends().success());
    }
}

#[test]
fn release_shows_the_holder_and_takes_the_lock_away_on_yes_alone() {
    let server = RedisServer::start();
    let guard = hold(&server, "k");
    for (answer, code) in [("n\n", 1), ("\n", 1), ("\u{4}", 1), ("yes\n", 0)] {
        assert!(guard.is_held());
        let mut terminal = Terminal::tool(&server, &["release", "k"]);
        terminal.shows("in shop::buy, lease left ");
        terminal.shows("0 waiting. Take it away? [y/N]");
        terminal.types(answer);
        assert_eq!(terminal.ends().code(), Some(code), "{answer:?}");
        terminal.shows(if code == 0 { "released `k`, which was held by " } else { "`k` was not released" });
    }
    eventually("the holder knows", || !guard.is_held());
}

#[test]
fn release_shows_the_one_of_several_that_it_takes_the_lock_from() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let sends = |label: &str| locks.lock("k").permits(2).label(label).acquire_blocking().unwrap();
    let (hung, other) = (sends("hung"), sends("other"));
    for (answer, code) in [("n\n", 1), ("y\n", 0)] {
        assert!(hung.is_held());
        let name = locks.inspect_blocking("k").unwrap().unwrap().holders()[0].name().unwrap().to_owned();
        let mut terminal = Terminal::tool(&server, &["release", "k", "--holder", &format!("{name} in hung")]);
        terminal.shows("`k` is held by 2 of 2 permits: ");
        terminal.shows("in hung, asked ");
        terminal.shows("Take it away? [y/N]");
        terminal.types(answer);
        assert_eq!(terminal.ends().code(), Some(code), "{answer:?}");
        terminal.shows(if code == 0 { "released `k`, which was held by " } else { "`k` was not released" });
        assert!(!terminal.text().contains("in other"), "{}", terminal.text());
    }
    eventually("the holder knows", || !hung.is_held());
    assert!(other.is_held());
}

#[test]
fn an_answer_counts_for_the_holder_that_was_shown() {
    let server = RedisServer::start();
    let guard = hold(&server, "k");
    let mut terminal = Terminal::tool(&server, &["release", "k"]);
    terminal.shows("[y/N]");
    drop(guard);
    let _: () = server.run("SET lock:k x PX 60000");
    terminal.types("y\n");
    assert_eq!(terminal.ends().code(), Some(1));
    terminal.shows("`k` was not released: by now a client of another kind holds it");
    assert_eq!(server.run::<String>("GET lock:k"), "x");
}

#[test]
fn an_error_is_one_line_without_a_trace() {
    let server = RedisServer::start();
    let mut terminal = Terminal::tool(&server, &["list", "--url", "redis://:secret@127.0.0.1:1/"]);
    assert_eq!(terminal.ends().code(), Some(75));
    terminal.shows("redlocked: ");
    let text = terminal.text();
    assert!(!text.contains("secret") && text.trim().lines().count() <= 2, "{text}");
}

#[test]
fn top_shows_locks_as_they_come_and_go_and_gives_the_screen_back() {
    let server = RedisServer::start();
    let guard = hold(&server, "first");
    let shell = "echo before; $tool top --interval 100ms; echo code $?; read -r line; echo \"line: $line\"";
    let mut terminal = Terminal::start(&server, "sh", &["-c", shell]);
    terminal.shows("locks: 1  waiting: 0");
    terminal.shows("first");
    assert!(!terminal.text().contains("before"), "it has a screen of its own");
    let second = hold(&server, "second");
    terminal.shows("locks: 2");
    terminal.shows("second");
    drop((guard, second));
    terminal.shows("no locks under `lock:`");
    terminal.shows("locks: 0");
    assert!(!terminal.text().contains("second"), "{}", terminal.text());
    terminal.types("xq");
    terminal.shows("before\ncode 0");
    // Its line is shown and complete: the terminal is as it was.
    terminal.types("typed\n");
    terminal.shows("typed\nline: typed");
    assert!(terminal.ends().success());
}

#[test]
fn watch_draws_who_holds_a_lock_and_who_held_it() {
    let mut server = RedisServer::start();
    let guard = hold(&server, "注文");
    let mut terminal = Terminal::tool(&server, &["watch", "注文", "--window", "2s"]);
    terminal.shows("`注文`: held by ");
    terminal.shows("in shop::buy for ");
    terminal.shows("█|");
    drop(guard);
    terminal.shows("`注文`: free, 0 waiting");
    terminal.shows("the last holds");
    terminal.shows("  held for ");
    terminal.shows("no caller held the lock");
    server.kill();
    terminal.shows("refused");
    server.restart();
    let _guard = hold(&server, "注文");
    terminal.shows("`注文`: held by ");
    terminal.unwrapped();
    terminal.types("q");
    assert!(terminal.ends().success());
}

/// In the value of the key: the call `n` of a host of its own.
fn call_of(n: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!("{n:0>22}@web-{n}:4711/{now}/shop::buy")
}

#[test]
fn watch_has_room_for_the_holder_the_waiters_and_the_last_holds_of_many_processes() {
    let server = RedisServer::start();
    let terminal = Terminal::sized(&server, TOOL, &["watch", "k"], 80, 24);
    terminal.shows("`k`: free");
    for n in 1..=30 {
        let _: () = server.run(&format!("SET lock:k {} PX 60000", call_of(n)));
        terminal.shows(&format!("`k`: held by web-{n}:4711 in shop::buy for "));
    }
    for n in 31..=36 {
        let _: () = server.run(&format!("ZADD lock:k%queue {n} {}|30000|inbox", call_of(n)));
    }
    terminal.shows("6 waiting");
    terminal.shows("     and 3 more");
    terminal.shows("more processes, which held it earlier");
    // The last row of the frame.
    terminal.shows(" by web-25:4711 in shop::buy");
    let text = terminal.unwrapped();
    for shown in [
        "  1  web-31:4711 in shop::buy, asked ",
        "\nweb-30:4711 ",
        "\nweb-29:4711 ",
        " by web-29:4711 in shop::buy",
    ] {
        assert!(text.contains(shown), "{shown}:\n{text}");
    }
    assert_eq!(text.matches("  held for ").count(), 5, "{text}");
    assert!(!text.contains("\nweb-1:4711 ") && text.lines().count() == 24, "{text}");
}

#[test]
fn watch_does_not_say_who_holds_a_lock_while_redis_is_silent() {
    let server = RedisServer::start();
    let guard = hold(&server, "k");
    let terminal = Terminal::tool(&server, &["watch", "k", "--window", "5s"]);
    terminal.shows("`k`: held by ");
    server.pause();
    terminal.shows("`k`: unknown, Redis has not answered for ");
    terminal.shows("before that: held by ");
    terminal.shows("????|");
    let text = terminal.text();
    server.resume();
    assert!(!text.contains("free") && !text.contains("held for"), "{text}");
    terminal.shows("`k`: held by ");
    drop(guard);
    terminal.shows("`k`: free");
    // The frame is drawn from top to bottom.
    terminal.shows("  held for ");
    assert_eq!(terminal.text().matches("  held for ").count(), 1, "{}", terminal.text());
}

#[test]
fn show_of_many_waiters_leaves_the_holder_on_the_screen() {
    let server = RedisServer::start();
    let _guard = hold(&server, "k");
    for n in 1..=40 {
        let _: () = server.run(&format!("ZADD lock:k%queue {n} {}|30000|inbox", call_of(n)));
    }
    let shell = "$tool show --quick k; read -r line";
    let terminal = Terminal::sized(&server, "sh", &["-c", shell], 80, 24);
    terminal.shows("more: --all shows them");
    let text = terminal.unwrapped();
    assert!(text.starts_with("key:         k\nholder:      ") && text.contains("waiters:     40"), "{text}");
    assert!(text.contains("\n          9  web-9:4711 in shop::buy, asked "), "{text}");
    let terminal = Terminal::sized(&server, TOOL, &["show", "--all", "--quick", "k"], 80, 60);
    terminal.shows("40  web-40:4711");
}

#[test]
fn top_ends_on_ctrl_c_and_goes_on_through_an_outage() {
    let mut server = RedisServer::start();
    let mut terminal = Terminal::tool(&server, &["top", "--interval", "100ms"]);
    terminal.shows("locks: 0");
    server.kill();
    terminal.shows("refused");
    server.restart();
    let _guard = hold(&server, "k");
    terminal.shows("locks: 1");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends().code(), Some(0));
}

#[test]
fn top_cuts_what_does_not_fit() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let _guards: Vec<LockGuard> = (0..50)
        .map(|n| locks.lock(format!("{n:03}-{}", "x".repeat(200))).acquire_blocking().unwrap())
        .collect();
    let terminal = Terminal::tool(&server, &["top"]);
    terminal.shows("locks: 50");
    terminal.shows("019-xxx");
    let text = terminal.text();
    assert!(text.starts_with("20") && text.lines().count() == 24 && !text.contains("020-"), "{text}");
    assert!(text.ends_with("\nand 30 more: a higher terminal or a PATTERN shows them"), "{text}");
}

#[test]
fn a_command_that_reads_from_the_terminal_gets_it() {
    let server = RedisServer::start();
    let script = "printf 'name? '; read -r name; echo \"hello $name\"; exit 4";
    let mut terminal = Terminal::tool(&server, &["run", "k", "--", "sh", "-c", script]);
    terminal.shows("name? ");
    terminal.types("ann\n");
    terminal.shows("hello ann");
    assert_eq!(terminal.ends().code(), Some(4));
}

#[test]
fn the_shell_has_its_terminal_back_after_the_command() {
    let server = RedisServer::start();
    // Without job control, this shell does not take the terminal by itself.
    let shell = "$tool run k -- sh -c 'read -r a; echo \"first $a\"'; read -r b; echo \"second $b\"";
    let mut terminal = Terminal::start(&server, "sh", &["-c", shell]);
    terminal.types("one\n");
    terminal.shows("first one");
    terminal.types("two\n");
    terminal.shows("second two");
    assert!(terminal.ends().success());
}

#[test]
fn ctrl_c_ends_a_command_with_and_without_the_terminal() {
    let server = RedisServer::start();
    // A shell that is just starting a program may miss the signal: so it becomes the program.
    for script in ["echo ready; exec sleep 60", "read -r line; echo ready; exec sleep 60"] {
        let mut terminal = Terminal::tool(&server, &["run", "k", "--", "sh", "-c", script]);
        terminal.types("\n");
        terminal.shows("ready");
        terminal.types("\u{3}");
        assert_eq!(terminal.ends().code(), Some(130), "{script}");
        assert!(server.keys().is_empty());
    }
}

#[test]
fn ctrl_z_stops_the_command_and_fg_continues_it() {
    let server = RedisServer::start();
    let beats = Scratch::new();
    let script = format!("echo begun; while :; do echo >>{}; sleep 0.02; done", beats.path());
    let mut terminal = Terminal::start(&server, "bash", &["--norc", "--noprofile", "-i"]);
    terminal.shows("prompt> ");
    terminal.types(&format!("$tool run k -- sh -c '{script}'\n"));
    terminal.shows("\nbegun");
    terminal.types("\u{1a}");
    terminal.shows("Stopped");
    let stopped = beats.text().len();
    // Ten times as long as between two beats.
    thread::sleep(Duration::from_millis(200));
    assert_eq!(beats.text().len(), stopped, "the command is stopped, too");
    terminal.types("fg\n");
    eventually("it goes on", || beats.text().len() > stopped);
    terminal.types("\u{3}");
    terminal.types("echo code $?\n");
    terminal.shows("code 130");
}

#[test]
fn a_command_that_was_stopped_for_longer_than_its_lease_does_not_go_on() {
    let server = RedisServer::start();
    let beats = Scratch::new();
    let script = format!("echo begun; while :; do echo >>{}; sleep 0.02; done", beats.path());
    let mut terminal = Terminal::start(&server, "bash", &["--norc", "--noprofile", "-i"]);
    terminal.shows("prompt> ");
    terminal.types(&format!("$tool run --ttl 1s k -- sh -c '{script}'\n"));
    terminal.shows("\nbegun");
    terminal.types("\u{1a}");
    terminal.shows("Stopped");
    let stopped = beats.text().len();
    // The next holder has it.
    eventually("the lease is over", || server.keys().is_empty());
    let _next = hold(&server, "k");
    terminal.types("fg\n");
    terminal.shows("the lock on `k` was lost: ");
    terminal.types("echo code $?\n");
    terminal.shows(&format!("code {LOST}"));
    assert_eq!(beats.text().len(), stopped);
}

#[test]
fn a_command_in_the_background_that_reads_is_stopped_and_ended_with_its_lease() {
    let server = RedisServer::start();
    let ended = Scratch::new();
    let script = format!("trap \"echo ended >{}; exit\" TERM; read -r line", ended.path());
    let mut terminal = Terminal::start(&server, "bash", &["--norc", "--noprofile", "-i"]);
    terminal.shows("prompt> ");
    terminal.types(&format!("set -b; $tool run --ttl 1s k -- sh -c '{script}' &\n"));
    terminal.shows("Stopped");
    eventually("it has ended", || ended.text() == "ended\n");
    eventually("the lease is over", || server.keys().is_empty());
    terminal.types("fg\n");
    terminal.shows("the lock on `k` was lost: ");
    terminal.types("echo code $?\n");
    terminal.shows(&format!("code {LOST}"));
}

#[test]
fn a_hang_up_ends_the_command() {
    let server = RedisServer::start();
    let pid = Scratch::new();
    let script = format!("echo $$ >{}; sleep 60", pid.path());
    let terminal = Terminal::tool(&server, &["run", "k", "--", "sh", "-c", &script]);
    eventually("it runs", || pid.text().ends_with('\n'));
    signal_to("-HUP", terminal.child.id());
    eventually("the lock is free", || server.keys().is_empty());
}
