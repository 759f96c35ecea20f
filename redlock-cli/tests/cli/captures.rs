//! What a person sees in terminals of 60, 80 and 120 columns, compared with the files in
//! `captures/`.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p redlocked-cli captures` writes them; then read the difference.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use kit::RedisServer;

use crate::screen::Terminal;

const SIZES: [(u16, u16); 3] = [(60, 120), (80, 120), (120, 120)];

/// Seconds since 1970, so long ago. Half a minute later is the same text.
fn ago(hours: u64, minutes: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now - hours * 3_600 - minutes * 60 - 15
}

/// Locks and waiters whose names and times are the same in each run.
fn locks() -> RedisServer {
    let server = RedisServer::start();
    let hour = 3_600_000 + 300_000 + 45_000;
    let set = |key: &str, holder: &str, hours, function: &str| {
        let token = format!("AAAAAAAAAAAAAAAAAAAAAA@{holder}/{}/{function}", ago(hours, 4));
        let _: () = server.run(&format!("SET lock:{key} {token} PX {hour}"));
    };
    // It had to wait.
    set("cron:nightly", "web-3:4711", 2, &format!("jobs::nightly={}", ago(1, 4)));
    set("注文:靴下-赤-二十七-特別", "倉庫-1:7", 3, "shop::orders::purchase");
    set(
        "tenant:0194f2b7:invoice:2026-11-24:reminder",
        "shop-worker-7d9f8b6c4-x2x4z:1",
        30,
        "shop_worker::billing::reminders::send_all",
    );
    let _: () = server.run("SET lock:foreign x");
    let now: Vec<u64> = server.run("TIME");
    let end = now[0] * 1000 + hour;
    for (key, limit, holders) in [("catalogue", 0, 1..=1), ("mail", 5, 2..=4)] {
        let _: () = server.run(&format!("SET lock:{key} %holders|{limit}|1 PX {hour}"));
        for n in holders {
            let call =
                format!("{n:0>22}@web-{n}:4711/{}/shop::{key}::send|{limit}|lock:%inbox:{n}", ago(2, 4));
            let _: () = server.run(&format!("ZADD lock:{key}%queue%holders {end} {call}"));
        }
    }
    for waiter in 1..=12 {
        let token =
            format!("{waiter:0>22}@web-{waiter}:4711/{}/shop::orders::purchase|30000|inbox", ago(1, 2));
        let _: () = server.run(&format!("ZADD lock:注文:靴下-赤-二十七-特別%queue {waiter} {token}"));
    }
    server
}

/// What the screen shows after these commands, at each size.
fn captured(server: &RedisServer, arguments: &str) -> String {
    let mut all = String::new();
    for (columns, lines) in SIZES {
        let script = format!("\"$tool\" {arguments}; echo [exit $?]");
        let terminal = Terminal::sized(server, "sh", &["-c", &script], columns, lines);
        let has_ended = || {
            terminal
                .unwrapped()
                .lines()
                .last()
                .is_some_and(|last| last.starts_with("[exit ") && last.ends_with(']'))
        };
        kit::eventually("it ends", has_ended);
        writeln!(all, "── {columns} columns ──\n{}", terminal.unwrapped()).unwrap();
    }
    all
}

/// Compares with `captures/<name>.txt`.
#[track_caller]
fn assert_as_captured(name: &str, seen: &str) {
    let path = format!("{}/tests/cli/captures/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, seen).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        seen == expected,
        "{path} has something else; UPDATE_SNAPSHOTS=1 writes it:\n{seen}\ninstead of\n{expected}"
    );
}

#[test]
fn list_fits_the_terminal_and_shows_its_waiters() {
    let server = locks();
    assert_as_captured("list", &captured(&server, "list --sort waiters"));
    let wide = captured(&server, "list -o wide --sort waiters");
    let steady = |line: &str| match line.split_once("20") {
        Some((start @ ("ASKED       " | "GRANTED     "), _)) => format!("{start}…\n"),
        _ => format!("{line}\n"),
    };
    assert_as_captured("list_wide", &wide.lines().map(steady).collect::<String>());
    assert_as_captured("list_of_none", &captured(&server, "list --prefix shop: 'stock:*'"));
}

#[test]
fn top_fits_the_terminal_and_shows_the_column_that_it_sorts_by() {
    let server = locks();
    let mut all = String::new();
    for (columns, lines) in [(60, 24), (80, 24), (120, 24)] {
        let terminal = Terminal::sized(&server, env!("CARGO_BIN_EXE_redlocked"), &["top"], columns, lines);
        // The last line is there.
        terminal.shows("tenant:");
        kit::eventually("its end is there, too", || terminal.unwrapped().trim_end().ends_with(" 0"));
        let text = terminal.unwrapped();
        // It starts with the time.
        writeln!(all, "── {columns} columns ──\n{}", &text["2026-11-22T11:53:54Z".len()..]).unwrap();
    }
    assert_as_captured("top", &all);
}

#[test]
fn doctor_folds_what_is_missing() {
    let server = RedisServer::start();
    let _: () = server.run("ACL SETUSER default -publish -client|tracking");
    let all = captured(&server, "doctor").replace(&server.port().to_string(), "#####");
    // How long it took is another time in each run.
    let steady = |line: &str| match line.split_once("ed in ") {
        Some((words, _)) => format!("{words}ed in …\n"),
        None => format!("{line}\n"),
    };
    assert_as_captured("doctor", &all.lines().map(steady).collect::<String>());
}

#[test]
fn help_has_its_options_in_groups() {
    let server = RedisServer::start();
    for (name, arguments) in [("help", "-h"), ("help_of_list", "list --help"), ("help_of_run", "run --help")]
    {
        assert_as_captured(name, &captured(&server, arguments));
    }
}

#[test]
fn show_has_a_line_for_each_waiter() {
    let server = locks();
    let all = captured(&server, "show --quick 注文:靴下-赤-二十七-特別; $tool show --quick mail");
    // The time itself is another one in each run.
    let steady = |line: &str| match line.split_once(" ago, 20") {
        Some((words, _)) => format!("{words} ago, …\n"),
        None => format!("{line}\n"),
    };
    assert_as_captured("show", &all.lines().map(steady).collect::<String>());
}
