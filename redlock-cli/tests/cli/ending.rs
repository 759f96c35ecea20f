//! Each test has a group that writes the time into a file, again and again, and deaf to SIGTERM;
//! and a second client that writes the time when it has the lock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::{Proxy, RedisServer, eventually};

#[cfg(target_os = "linux")]
use crate::tool::watchdog_of;
use crate::tool::{LOST, Running, Scratch, report, said, signal_to};

const TTL: &str = "2s";
const TTL_NANOS: u64 = 2_000_000_000;

pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

/// A child and a grandchild that beat until SIGKILL.
struct Group {
    tool: Running,
    beats: Scratch,
}

impl Group {
    fn start(url: &str) -> Self {
        let beats = Scratch::new();
        let beat = format!("trap '' TERM INT; while :; do date +%s%N >>{}; sleep 0.01; done", beats.path());
        let script = format!("({beat}) & echo child $$; {beat}");
        let tool = Running::start(url, &["run", "--ttl", TTL, "k", "--", "sh", "-c", &script]);
        let group = Self { tool, beats };
        eventually("the group runs", || group.times().len() > 4);
        group
    }

    fn times(&self) -> Vec<u64> {
        self.beats.text().lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// When the group was last seen.
    fn last_beat(&self) -> u64 {
        self.times().into_iter().max().unwrap()
    }
}

/// When a second client has the lock, that waits for it from now on.
struct Next {
    tool: Running,
    time: Scratch,
}

impl Next {
    fn start(url: &str) -> Self {
        let time = Scratch::new();
        let script = format!("date +%s%N >{}", time.path());
        Self { tool: Running::start(url, &["run", "k", "--", "sh", "-c", &script]), time }
    }

    fn queued(server: &RedisServer) -> Self {
        let next = Self::start(&server.url());
        eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
        next
    }

    #[track_caller]
    fn entered(self) -> u64 {
        let said = self.tool.said();
        assert_eq!(said.code, Some(0), "{}", said.err);
        self.time.text().trim().parse().unwrap()
    }
}

#[track_caller]
fn dead_before(group: &Group, entered: u64, what: &str) {
    let last = group.last_beat();
    let apart = Duration::from_nanos(entered.saturating_sub(last));
    report(&format!("{what}: the group was last seen {apart:.0?} before the next holder"));
    assert!(
        last < entered,
        "the group was alive {:?} beside the next holder",
        Duration::from_nanos(last - entered)
    );
}

#[test]
fn a_frozen_server_ends_the_group_before_the_lease_ends() {
    let server = RedisServer::start();
    let group = Group::start(&server.url());
    let next = Next::queued(&server);
    let frozen = now();
    server.pause();
    let (tool, beats) = (group.tool, group.beats);
    let said = tool.said();
    assert_eq!(said.code, Some(LOST));
    assert!(said.err.contains("the lock on `k` cannot be renewed: ending the command"), "{}", said.err);
    let ended = now();
    assert!(ended > frozen + TTL_NANOS / 4, "it had its lease");
    server.resume();
    let group = Group { tool: Running::start("", &["--version"]), beats };
    assert!(group.last_beat() < frozen + TTL_NANOS, "the lease was over");
    dead_before(&group, next.entered(), "frozen server");
}

#[test]
fn a_server_that_is_cut_off_ends_the_group_before_another_client_has_the_lock() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let group = Group::start(&proxy.url());
    let next = Next::queued(&server);
    proxy.refuse(true);
    dead_before(&group, next.entered(), "cut off");
    assert_eq!(group.tool.said().code, Some(LOST));
}

#[test]
fn a_lock_that_is_taken_away_ends_the_group_at_once() {
    let server = RedisServer::start();
    let group = Group::start(&server.url());
    // From then on, the server reports changes of the key to the holder.
    eventually("it has been held for a while", || group.times().len() > 20);
    let taken = now();
    assert_eq!(said(&server.url(), &["release", "--yes", "k"]).code, Some(0));
    let (tool, beats) = (group.tool, group.beats);
    let said = tool.said();
    assert_eq!(said.code, Some(LOST));
    assert!(
        said.err.contains(
            "the lock on `k` was lost: its key was deleted or overwritten on the server: ending the command"
        ),
        "{}",
        said.err
    );
    let group = Group { tool: Running::start("", &["--version"]), beats };
    assert!(group.last_beat() < taken + TTL_NANOS / 2, "it had no grace");
}

#[test]
fn a_tool_that_is_killed_or_frozen_leaves_no_group_behind_its_lease() {
    for signal in ["-KILL", "-STOP"] {
        let server = RedisServer::start();
        let group = Group::start(&server.url());
        let next = Next::queued(&server);
        let hit = now();
        group.tool.signal(signal);
        dead_before(&group, next.entered(), signal);
        assert!(group.last_beat() < hit + TTL_NANOS, "the lease was over");
        if signal == "-STOP" {
            group.tool.signal("-CONT");
            assert_eq!(group.tool.said().code, Some(LOST));
        }
    }
}

#[test]
fn a_lock_is_free_soon_after_its_tool_is_killed_and_not_before_the_group_has_ended() {
    let server = RedisServer::start();
    let beats = Scratch::new();
    let beat = format!("trap '' TERM; while :; do date +%s%N >>{}; sleep 0.01; done", beats.path());
    // With 60 s, the end of the lease is none of what is seen here.
    let arguments = ["run", "--ttl", "60s", "--kill-after", "500ms", "k", "--", "sh", "-c", &beat];
    let group = Group { tool: Running::start(&server.url(), &arguments), beats };
    eventually("the group runs", || group.times().len() > 4);
    let next = Next::queued(&server);
    let hit = now();
    group.tool.signal("-KILL");
    let entered = next.entered();
    dead_before(&group, entered, "killed tool");
    let took = Duration::from_nanos(entered - hit);
    report(&format!("killed tool: the next holder had the lock after {took:.0?}"));
    assert!(took < Duration::from_secs(30), "{took:?}");
    let said = group.tool.said();
    let end = "the process that held `k` was killed: its command was ended, and the lock is released\n";
    assert_eq!(said.err, format!("redlocked: {end}"));
    assert_eq!(server.run::<i64>("EXISTS lock:k"), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_tool_without_its_watchdog_says_so_and_goes_on() {
    let server = RedisServer::start();
    let mut tool = Running::start(&server.url(), &["run", "k", "--", "sh", "-c", "echo ready; sleep 1"]);
    tool.until(&mut String::new(), "ready\n");
    signal_to("-KILL", watchdog_of(tool.id()));
    let said = tool.said();
    assert_eq!(said.code, Some(0));
    assert!(said.err.starts_with("redlocked: the watchdog has ended: "), "{}", said.err);
}

#[test]
fn a_tool_that_gets_sigterm_holds_the_lock_until_the_group_is_killed() {
    for signal in ["-TERM", "-INT"] {
        let server = RedisServer::start();
        let group = Group::start(&server.url());
        let next = Next::queued(&server);
        let told = now();
        group.tool.signal(signal);
        let entered = next.entered();
        dead_before(&group, entered, signal);
        let last = group.last_beat();
        assert!(last > told + TTL_NANOS / 4, "it had a third of the ttl to end");
        assert_eq!(group.tool.said().code, Some(137));
    }
}

#[test]
fn a_command_that_ends_on_sigterm_is_not_killed_and_keeps_its_exit_code() {
    let server = RedisServer::start();
    let script = "trap 'sleep 0.2; echo cleaned; exit 7' TERM; echo ready; sleep 60 & wait";
    let tool = Running::start(&server.url(), &["run", "k", "--", "sh", "-c", script]);
    eventually("it runs", || !server.keys().is_empty());
    // The trap comes after the lock.
    let mut text = String::new();
    let mut tool = tool;
    tool.until(&mut text, "ready\n");
    tool.signal("-TERM");
    let said = tool.said();
    assert_eq!((said.code, &*said.out), (Some(7), "cleaned\n"));
    assert!(server.keys().is_empty());
}

#[test]
fn a_command_has_time_to_clean_up_before_its_lease_ends() {
    let server = RedisServer::start();
    let script = "trap 'sleep 0.2; echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut tool = Running::start(&server.url(), &["run", "--ttl", TTL, "k", "--", "sh", "-c", script]);
    let mut text = String::new();
    tool.until(&mut text, "ready\n");
    server.pause();
    let said = tool.said();
    assert_eq!((said.code, &*said.out), (Some(LOST), "cleaned\n"));
    server.resume();
}

#[test]
fn a_command_that_is_killed_keeps_the_lock_for_the_rest_of_its_group() {
    let server = RedisServer::start();
    let mut group = Group::start(&server.url());
    let next = Next::queued(&server);
    let mut text = String::new();
    group.tool.until(&mut text, "\n");
    let child: u32 = text.trim().strip_prefix("child ").unwrap().parse().unwrap();
    signal_to("-KILL", child);
    let killed = now();
    eventually("its child goes on", || group.last_beat() > killed + 300_000_000);
    assert!(group.tool.is_running());
    // The group still has the number of its first process.
    let status =
        std::process::Command::new("kill").args(["-KILL", "--", &format!("-{child}")]).status().unwrap();
    assert!(status.success());
    dead_before(&group, next.entered(), "killed command");
    assert_eq!(group.tool.said().code, Some(137));
}
