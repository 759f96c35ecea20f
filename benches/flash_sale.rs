//! A flash sale in one process: 2,000 requests for one item, 1,000 at a time, each with one command
//! under the lock. An annotated function beside direct hand-off written by hand, the limit for a
//! lock that the server hands over.
//!
//! ```text
//! cargo bench --bench flash_sale -- [--server PATH]
//! ```
//!
//! The contenders take turns. Read the ratios: the times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::Arc;
use std::time::Duration;

use kit::contender::{Annotated, Client, Direct};
use kit::figures::{is_measuring, median, over, percentile, rounds, table};
use kit::load::runtime;
use kit::sale::{Day, Sale};
use kit::{RedisServer, second_server, second_server_argument};
use redlocked::LockManager;

fn main() {
    let second = second_server_argument();
    let server = RedisServer::start();
    let second = second_server(second);
    let mut rows = Vec::new();
    for server in [Some(&server), second.as_ref()].into_iter().flatten() {
        for workers in [1, 2] {
            rows.extend(compare(server, workers));
        }
    }
    let title = "Requests for one item, each with one command under the lock; waits in milliseconds";
    let head = ["", "requests/s", "/ direct", "wait p50", "p99", "sent away", "two inside"];
    table(title, &head, &rows);
}

fn compare(server: &RedisServer, workers: usize) -> Vec<Vec<String>> {
    let (runtime, url) = (runtime(workers), server.url());
    let sale = if is_measuring() {
        Sale { requests: 2000, at_a_time: 1000, wait: Duration::from_secs(30) }
    } else {
        Sale { requests: 40, at_a_time: 20, wait: Duration::from_secs(30) }
    };
    let contenders = runtime.block_on(connect(&url));
    let mut days: [Vec<Day>; 3] = Default::default();
    for round in 0..rounds(8, 1) {
        for turn in 0..contenders.len() {
            let next = (turn + round) % contenders.len();
            let client = Arc::clone(&contenders[next].1);
            let url = url.clone();
            let day = runtime.spawn(async move { sale.hold(&url, &client).await });
            days[next].push(runtime.block_on(day).unwrap());
        }
    }
    let rates = |days: &[Day]| -> Vec<f64> {
        days.iter().map(|day| f64::from(sale.requests - day.failed) / day.lasted).collect()
    };
    let direct = rates(&days[0]);
    let row = |(name, days): (&str, &Vec<Day>)| {
        let waits: Vec<f64> = days.iter().flat_map(|day| day.waits.iter().copied()).collect();
        let threads = if workers == 1 { "one thread" } else { "two workers" };
        vec![
            format!("{}, {threads}: {name}", server.version()),
            format!("{:.0}", median(&rates(days))),
            format!("{:.2}", over(&rates(days), &direct)),
            format!("{:.0}", percentile(&waits, 50)),
            format!("{:.0}", percentile(&waits, 99)),
            days.iter().map(|day| day.failed).sum::<u32>().to_string(),
            days.iter().map(|day| day.overlaps).sum::<u32>().to_string(),
        ]
    };
    contenders.iter().map(|(name, _)| *name).zip(&days).map(row).collect()
}

async fn connect(url: &str) -> [(&'static str, Arc<dyn Client>); 3] {
    let cohort = LockManager::builder(url).cohort(32).connect().await.unwrap();
    [
        ("direct hand-off by hand", Arc::new(Direct::connect(url).await)),
        ("annotated async fn", Arc::new(Annotated(LockManager::connect(url).await.unwrap()))),
        ("annotated async fn, cohort of 32", Arc::new(Annotated(cohort))),
    ]
}
