//! A transaction with one write, under a lock: beside the same without a fence.
//!
//! ```text
//! cargo bench -p redlocked-sqlx --bench fenced_writes
//! ```
//!
//! The contenders take turns in small rounds, so that other work of the machine hits both. Read the
//! ratios: the times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::time::Instant;

use kit::DatabaseServer;
use kit::figures::{median, micros, over, percentile, rounds, table};
use redlocked::{LockGuard, LockManager};
use redlocked_sqlx::{FencedGuard as _, create_table};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Executor as _, MySqlPool, PgPool};

const IN_A_ROUND: usize = 25;

const ACCOUNT: &str = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)";
const OPEN: &str = "INSERT INTO account VALUES (7, 0)";
const WRITE: &str = "UPDATE account SET balance = balance + 1 WHERE id = 7";

/// Microseconds of each transaction, and the median of each round: without a fence, and with one.
#[derive(Default)]
struct Times {
    each: [Vec<f64>; 2],
    medians: [Vec<f64>; 2],
}

impl Times {
    fn rows(&self, database: &str) -> impl Iterator<Item = Vec<String>> {
        [("without a fence", 0), ("fenced", 1)]
            .map(|(name, which)| {
                vec![
                    format!("{database}: {name}"),
                    format!("{:.1}", percentile(&self.each[which], 50)),
                    format!("{:.1}", percentile(&self.each[which], 99)),
                    format!("{:.2}", over(&self.medians[which], &self.medians[0])),
                ]
            })
            .into_iter()
    }
}

macro_rules! measure {
    ($pool:expr, $guard:expr) => {{
        let (pool, guard): (_, &LockGuard) = ($pool, $guard);
        create_table(&pool).await.unwrap();
        pool.execute(ACCOUNT).await.unwrap();
        pool.execute(OPEN).await.unwrap();
        let mut times = Times::default();
        for round in 0..rounds(200, 2) {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let mut one_round = Vec::with_capacity(IN_A_ROUND);
                for _ in 0..IN_A_ROUND {
                    let start = Instant::now();
                    let mut tx = pool.begin().await.unwrap();
                    if which == 1 {
                        guard.fence_in(&mut tx).await.unwrap();
                    }
                    sqlx::query(WRITE).execute(&mut *tx).await.unwrap();
                    if which == 1 {
                        guard.commit(tx).await.unwrap();
                    } else {
                        tx.commit().await.unwrap();
                    }
                    one_round.push(micros(start.elapsed()));
                }
                times.medians[which].push(median(&one_round));
                times.each[which].extend(one_round);
            }
        }
        times
    }};
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    kit::no_bench_arguments();
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = &locks.lock("account:7").acquire().await.unwrap();
    let mut rows = Vec::new();
    if let Some(server) = DatabaseServer::postgres() {
        rows.extend(measure!(PgPool::connect(server.url()).await.unwrap(), guard).rows("PostgreSQL"));
    }
    if let Some(server) = DatabaseServer::mariadb() {
        rows.extend(measure!(MySqlPool::connect(server.url()).await.unwrap(), guard).rows("MariaDB"));
    }
    if let Some(server) = DatabaseServer::mysql() {
        rows.extend(measure!(MySqlPool::connect(server.url()).await.unwrap(), guard).rows("MySQL"));
    }
    let memory = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    rows.extend(measure!(memory, guard).rows("SQLite, in memory"));
    table(
        "A transaction with one write: microseconds; ratios are medians over rounds",
        &["", "p50", "p99", "p50 / without"],
        &rows,
    );
}
