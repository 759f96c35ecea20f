//! The cost of a held lock and of a waiter in this process: bytes of resident memory, and threads.
//!
//! ```text
//! cargo bench --bench memory
//! ```
//!
//! Each figure comes from a fresh process, because memory that was used before hides the growth. It
//! counts the caller's side too: its guard, or its future. Linux only.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::process::Command;

use kit::RedisServer;
use kit::figures::{rounds, status, table};
use kit::weight::{Weight, What};

/// This program starts itself with this variable, to weigh one thing.
const CHILD: &str = "REDLOCKED_BENCH_MEMORY";

fn main() {
    kit::no_bench_arguments();
    if status("VmRSS").is_none() {
        println!("no /proc/self/status here: nothing is measured");
        return;
    }
    let all = [
        (What::HeldLocks, "held locks", rounds(100_000, 1_000)),
        (What::WaitersForOneKey, "waiters for one key", rounds(10_000, 100)),
        (What::WaitersForTheirOwnKeys, "waiters for keys of their own", rounds(10_000, 100)),
    ];
    if let Ok(order) = std::env::var(CHILD) {
        if let Some((index, url)) = order.split_once(' ')
            && let Some((what, _, count)) = all.get(index.parse::<usize>().unwrap())
            && let Some(weight) = Weight::of(*what, *count, url)
        {
            println!("{} {} {}", weight.bytes_each, weight.threads_before, weight.threads_then);
        }
        return;
    }
    let rows = all.iter().enumerate().map(|(index, (_, name, count))| {
        let server = RedisServer::start();
        let mut child = Command::new(std::env::current_exe().unwrap());
        // Its number of rounds depends on the same arguments.
        child.args(std::env::args().skip(1)).env(CHILD, format!("{index} {}", server.url()));
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures = String::from_utf8(output.stdout).unwrap();
        let figures = figures.split_whitespace().map(str::to_owned);
        [format!("{count} {name}")].into_iter().chain(figures).collect()
    });
    let head = ["", "bytes each", "threads before", "threads then"];
    table("Memory and threads of the process", &head, &rows.collect::<Vec<_>>());
}
