//! Two leaders in a row number invoices in SQLite. The last request of the first leader arrives after
//! the second leader has written, and the transaction refuses it, because its term is an earlier one.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::sync::Arc;

use redlocked::election::Term;
use redlocked::{LockError, LockManager};
use redlocked_sqlx::{Dialect, FencedGuard, FencedTransaction, Recorded, create_table};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::Notify;

type Failure = Box<dyn Error + Send + Sync>;

/// Writes the next invoice. Only the leader does, so it may read the last number before it writes.
async fn bill(pool: &SqlitePool, term: &Term) -> Result<i64, Failure> {
    let mut tx = pool.begin().await?;
    term.fence_in(&mut tx).await?; // after a later leader: `LockError::Fenced`
    let number = last_number(&mut tx).await? + 1;
    sqlx::query("INSERT INTO invoice VALUES (?)").bind(number).execute(&mut *tx).await?;
    term.commit(tx).await?;
    Ok(number)
}

async fn last_number(tx: &mut Transaction<'_, Sqlite>) -> Result<i64, Failure> {
    Ok(sqlx::query_scalar("SELECT coalesce(max(number), 0) FROM invoice").fetch_one(&mut **tx).await?)
}

/// A transaction behind a slow network: its first statement leaves in time and arrives late.
struct Slow<'c>(Transaction<'c, Sqlite>, Arc<Network>);

#[derive(Default)]
struct Network {
    sent: Notify,
    delivers: Notify,
}

impl FencedTransaction for Slow<'_> {
    const DIALECT: Dialect = Dialect::Sqlite;
    type Error = sqlx::Error;

    async fn record(&mut self, text: &str, name: &str, fence: i64) -> Result<Recorded, sqlx::Error> {
        self.1.sent.notify_one();
        self.1.delivers.notified().await;
        self.0.record(text, name, fence).await
    }

    async fn commit(self) -> Result<(), sqlx::Error> {
        self.0.commit().await
    }
}

/// Writes the invoice `number` over the slow network.
async fn bill_late(pool: SqlitePool, term: Term, number: i64, network: Arc<Network>) -> Result<(), Failure> {
    let mut tx = Slow(pool.begin().await?, network);
    term.fence_in(&mut tx).await?;
    sqlx::query("INSERT INTO invoice VALUES (?)").bind(number).execute(&mut *tx.0).await?;
    Ok(FencedTransaction::commit(tx).await?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    kit::no_arguments();
    let file = std::env::temp_dir().join(kit::unique("fenced-leader"));
    let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let shown = run(SqlitePool::connect_with(options).await?).await;
    std::fs::remove_file(file)?;
    shown
}

async fn run(pool: SqlitePool) -> Result<(), Failure> {
    create_table(&pool).await?;
    sqlx::query("CREATE TABLE invoice (number INTEGER)").execute(&pool).await?;
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::builder(url).prefix("fenced-leader-example:").connect().await?;
    let election = locks.election("billing-loop");
    let network = Arc::new(Network::default());

    // A task outlives the term that has started it.
    let late = election.lead(async |term| {
        let number = bill(&pool, &term).await?;
        println!("Ann leads, and writes invoice {number}");
        let late = tokio::spawn(bill_late(pool.clone(), term, number + 1, Arc::clone(&network)));
        network.sent.notified().await;
        println!("Ann sends invoice {}, which is stuck in the network, and resigns", number + 1);
        Ok::<_, Failure>(late)
    });
    let late = late.await?;

    let number = election.lead(async |term| bill(&pool, &term).await).await?;
    println!("Bob leads, and writes invoice {number}");

    network.delivers.notify_one();
    let Err(refused) = late.await? else { return Err("the stale invoice went through".into()) };
    println!("Ann's invoice {number} arrives: {refused}");
    let invoices: Vec<i64> = sqlx::query_scalar("SELECT number FROM invoice").fetch_all(&pool).await?;
    println!("the invoices are {invoices:?}: each number once");
    let is_fenced = refused.downcast_ref().is_some_and(LockError::is_fenced);
    if is_fenced && invoices == [1, 2] { Ok(()) } else { Err("the invoices are wrong".into()) }
}
