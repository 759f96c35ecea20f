//! Writes that only the right holder of a lock can make, beside the same without a fence.

use std::time::Instant;

use kit::DatabaseServer;
use kit::load::runtime;
use redis::AsyncCommands as _;
use redlocked::{LockGuard, LockManager};
use redlocked_sqlx::{FencedGuard as _, create_table};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Executor as _, MySqlPool, PgPool};

use crate::contender::Kind;
use crate::polls::in_turns;
use crate::report::Report;
use crate::series::{Series, Table};
use crate::workload::{Extent, Servers};

const IN_A_ROUND: usize = 25;

const BARE: &str = "without a fence";

const ACCOUNT: &str = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)";
const OPEN: &str = "INSERT INTO account VALUES (7, 0)";
const WRITE: &str = "UPDATE account SET balance = balance + 1 WHERE id = 7";

/// In microseconds, for a write of each kind.
macro_rules! times {
    ($write:expr) => {{
        let mut times = Vec::with_capacity(IN_A_ROUND);
        for _ in 0..IN_A_ROUND {
            let start = Instant::now();
            $write;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times
    }};
}

macro_rules! in_a_database {
    ($name:expr, $pool:ty, $connect:expr, $guard:expr, $extent:expr, $report:expr) => {{
        let (runtime, guard) = (runtime(1), $guard);
        let pool: $pool = runtime.block_on(async {
            let pool = $connect.await.unwrap();
            create_table(&pool).await.unwrap();
            pool.execute(ACCOUNT).await.unwrap();
            pool.execute(OPEN).await.unwrap();
            pool
        });
        let mut bare = || {
            runtime.block_on(async {
                times!({
                    let mut tx = pool.begin().await.unwrap();
                    sqlx::query(WRITE).execute(&mut *tx).await.unwrap();
                    tx.commit().await.unwrap();
                })
            })
        };
        let mut fenced = || {
            runtime.block_on(async {
                times!({
                    let mut tx = pool.begin().await.unwrap();
                    guard.fence_in(&mut tx).await.unwrap();
                    sqlx::query(WRITE).execute(&mut *tx).await.unwrap();
                    guard.commit(tx).await.unwrap();
                })
            })
        };
        add($name, "A transaction with one write", $extent.of(200, 20), [&mut bare, &mut fenced], $report);
    }};
}

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let locks = LockManager::connect_blocking("memory://fenced").unwrap();
    let guard: &LockGuard = &locks.lock("account:7").acquire_blocking().unwrap();
    in_redis(servers, guard, extent, report);
    match DatabaseServer::postgres() {
        Some(server) => {
            in_a_database!("PostgreSQL", PgPool, PgPool::connect(server.url()), guard, extent, report);
        }
        None => report.left_out("PostgreSQL", "there is none on this machine"),
    }
    for (name, server) in [("MariaDB", DatabaseServer::mariadb()), ("MySQL", DatabaseServer::mysql())] {
        match server {
            Some(server) => {
                in_a_database!(name, MySqlPool, MySqlPool::connect(server.url()), guard, extent, report);
            }
            None => report.left_out(name, "there is none on this machine"),
        }
    }
    let memory = || SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:");
    in_a_database!("SQLite, in memory", sqlx::SqlitePool, memory(), guard, extent, report);
}

fn in_redis(servers: &Servers, guard: &LockGuard, extent: Extent, report: &mut Report) {
    let runtime = runtime(1);
    let client = redis::Client::open(servers.redis.url()).unwrap();
    let connection = runtime.block_on(client.get_multiplexed_async_connection()).unwrap();
    let (mut one, mut other) = (connection.clone(), connection);
    let mut bare =
        || runtime.block_on(async { times!(one.set::<_, _, ()>("fenced:balance", 42).await.unwrap()) });
    let mut fenced = || {
        runtime.block_on(async { times!(guard.redis().set(&mut other, "fenced:balance", 42).await.unwrap()) })
    };
    add("Redis", "A SET", extent.of(200, 20), [&mut bare, &mut fenced], report);
}

fn add(
    store: &str,
    write: &str,
    rounds: usize,
    [bare, fenced]: [&mut dyn FnMut() -> Vec<f64>; 2],
    report: &mut Report,
) {
    let mut ways =
        [(Series::new(BARE, Kind::Reference), bare), (Series::new("redlocked, fenced", Kind::Ours), fenced)];
    in_turns(rounds, &mut ways);
    let table = Table {
        workload: &format!("fenced, {store}"),
        title: &format!("{write}: {store}"),
        unit: "p50 in µs",
        more_is_better: false,
        references: &[(BARE, BARE)],
        more: &[],
    };
    report.add(&table, &ways.map(|(series, _)| series));
}
