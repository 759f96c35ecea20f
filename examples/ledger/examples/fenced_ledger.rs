//! A writer that has lost its lock and writes all the same: the transaction refuses it, because its
//! fencing token is old.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use redlocked::{Fence, LockManager};
use redlocked_sqlx::{FencedGuard, create_table, record};
use sqlx::SqlitePool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    kit::no_arguments();
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    create_table(&pool).await?;
    sqlx::query("CREATE TABLE ledger AS SELECT 1 AS id, 100 AS balance").execute(&pool).await?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::connect(&url).await?;
    let ledger_lock = locks.lock("ledger:1").wait(Duration::from_secs(5));

    // Ann reads a balance of 100 and falls asleep: a long pause, a suspended machine, a packet that
    // is late.
    let ann = ledger_lock.clone().ttl(Duration::from_millis(200)).renew(false).acquire().await?;
    let anns: Vec<Fence> = ann.fences().collect();
    println!("Ann has the lock, reads 100, and falls asleep");
    ann.lost().await;

    let bob = ledger_lock.acquire().await?;
    println!("Ann's lease has ended, and Bob has the lock");
    let mut tx = pool.begin().await?;
    bob.fence_in(&mut tx).await?;
    sqlx::query("UPDATE ledger SET balance = 70").execute(&mut *tx).await?;
    bob.commit_and_release(tx).await?;
    println!("Bob has written a balance of 70");

    // Ann wakes up. `ann.fence_in` looks at her lease first, and would say that it is lost. Had she
    // looked just before she fell asleep, the database would say it.
    let refused =
        record(&mut pool.begin().await?, &anns[0]).await.err().ok_or("the stale write went through")?;
    println!("Ann wants to write 130: {refused}");
    let balance: i64 = sqlx::query_scalar("SELECT balance FROM ledger").fetch_one(&pool).await?;
    println!("the balance is {balance}");
    if refused.is_fenced() && balance == 70 { Ok(()) } else { Err("Bob's write is not what counts".into()) }
}
