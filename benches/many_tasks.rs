//! Uncontended locks of many tasks, each with a key of its own, beside the bare pair by as many
//! tasks on the same runtime: locks per second, and the CPU time that a lock costs the client and
//! the server.
//!
//! ```text
//! cargo bench --bench many_tasks -- [--server PATH]
//! ```
//!
//! `--server` names the `redis-server` of another version, which is measured beside the one on
//! PATH. Read the ratios: the times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::Arc;
use std::time::Duration;

use kit::bare::Bare;
use kit::contender::{Annotated, Client, Run};
use kit::figures::{is_measuring, median, over, rounds, table};
use kit::load::{Load, runtime};
use kit::{RedisServer, second_server, second_server_argument};
use redlocked::LockManager;
use tokio::runtime::Runtime;

fn main() {
    let second = second_server_argument();
    let server = RedisServer::start();
    let second = second_server(second);
    let mut rows = Vec::new();
    for server in [Some(&server), second.as_ref()].into_iter().flatten() {
        for (tasks, workers) in [(1, 1), (64, 1), (64, 2), (1024, 2)] {
            rows.extend(compare(server, tasks, workers));
        }
    }
    let title = "Tasks on a runtime: locks per second, and microseconds of CPU for a lock; ratios to the bare pair are \
                 medians over rounds";
    let head = ["", "locks/s", "/ bare", "client CPU", "/ bare", "server CPU", "/ bare"];
    table(title, &head, &rows);
}

fn compare(server: &RedisServer, tasks: usize, workers: usize) -> Vec<Vec<String>> {
    let runtime = runtime(workers);
    let contenders = runtime.block_on(connect(&server.url()));
    let mut loads = contenders.each_ref().map(|_| Vec::new());
    let mut stats = server.client();
    let lasts = Duration::from_millis(if is_measuring() { 150 } else { 5 });
    for round in 0..rounds(12, 2) {
        for turn in 0..contenders.len() {
            let next = (turn + round) % contenders.len();
            let load = one_round(&runtime, &contenders[next].1, tasks, lasts, &mut stats);
            // The first round warms up.
            if round > 0 {
                loads[next].push(load);
            }
        }
    }
    let figures =
        |which: usize, figure: fn(&Load) -> f64| loads[which].iter().map(figure).collect::<Vec<_>>();
    let row = |which: usize| {
        let threads = if workers == 1 { "one thread" } else { "two workers" };
        let mut row = vec![format!("{}, {tasks} on {threads}: {}", server.version(), contenders[which].0)];
        for (digits, figure) in [
            (0, (|load| load.rate) as fn(&Load) -> f64),
            (1, |load| load.own_cpu),
            (1, |load| load.server_cpu),
        ] {
            let ours = figures(which, figure);
            row.push(format!("{:.digits$}", median(&ours)));
            row.push(format!("{:.2}", over(&ours, &figures(0, figure))));
        }
        row
    };
    (0..contenders.len()).map(row).collect()
}

async fn connect(url: &str) -> [(&'static str, Arc<dyn Client>); 3] {
    let locks = LockManager::connect(url).await.unwrap();
    [
        ("bare pair", Arc::new(Bare::connect(url).await)),
        ("annotated async fn", Arc::new(Annotated(locks.clone()))),
        ("run, with a fencing token", Arc::new(Run(locks))),
    ]
}

fn one_round(
    runtime: &Runtime,
    client: &Arc<dyn Client>,
    tasks: usize,
    lasts: Duration,
    stats: &mut redis::Connection,
) -> Load {
    Load::of(client, tasks, lasts, runtime, stats).unwrap()
}
