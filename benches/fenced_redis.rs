//! A `SET`, and the same by the holder of a lock, refused once a later holder was there.
//!
//! ```text
//! cargo bench --bench fenced_redis
//! ```
//!
//! Both take turns in small rounds, so that other work of the machine hits both. Read the ratios: the
//! times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::time::Instant;

use kit::RedisServer;
use kit::figures::{median, micros, over, percentile, rounds, table};
use redis::AsyncCommands as _;
use redlocked::LockManager;

const IN_A_ROUND: usize = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    kit::no_bench_arguments();
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let (mut each, mut medians) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..rounds(500, 2) {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let mut one_round = Vec::with_capacity(IN_A_ROUND);
            for balance in 0..IN_A_ROUND {
                let start = Instant::now();
                if which == 1 {
                    guard.redis().set(&mut connection, "balance:7", balance).await.unwrap();
                } else {
                    let () = connection.set("balance:7", balance).await.unwrap();
                }
                one_round.push(micros(start.elapsed()));
            }
            medians[which].push(median(&one_round));
            each[which].extend(one_round);
        }
    }
    let row = |name: &str, which: usize| {
        vec![
            name.to_owned(),
            format!("{:.1}", percentile(&each[which], 50)),
            format!("{:.1}", percentile(&each[which], 99)),
            format!("{:.2}", over(&medians[which], &medians[0])),
        ]
    };
    table(
        "One write to Redis: microseconds; ratios are medians over rounds",
        &["", "p50", "p99", "p50 / SET"],
        &[row("SET", 0), row("fenced", 1)],
    );
}
