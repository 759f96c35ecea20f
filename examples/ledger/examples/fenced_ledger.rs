//! A writer that has lost its lock and writes all the same: the table refuses it, because its
//! fencing token is old.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use redlocked::{LockGuard, LockManager};
use rusqlite::{Connection, params};

/// The fence is here: the row remembers the largest fencing token, and accepts a write only with a
/// larger one.
const WRITE: &str = "UPDATE ledger SET balance = ?1, fence = ?2 WHERE id = 1 AND fence < ?2";

/// Writes the balance. True when the row accepted it.
fn write(ledger: &Connection, who: &str, guard: &LockGuard, balance: i64) -> Result<bool, Box<dyn Error>> {
    // A fencing token is below 2^53, so it fits into every kind of column.
    let fence = i64::try_from(guard.fencing_token())?;
    let changed = ledger.execute(WRITE, params![balance, fence])?;
    println!("{who} writes a balance of {balance} with fencing token {fence}: {changed} rows changed");
    Ok(changed == 1)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    kit::no_arguments();
    let ledger = Connection::open_in_memory()?;
    ledger.execute_batch("CREATE TABLE ledger (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER)")?;
    ledger.execute("INSERT INTO ledger VALUES (1, 100, 0)", [])?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::connect(&url).await?;
    let ledger_lock = locks.lock("ledger:1").wait(Duration::from_secs(5));

    // Ann reads a balance of 100 and falls asleep: a long pause, a suspended machine, a packet that
    // is late.
    let ann = ledger_lock.clone().ttl(Duration::from_millis(200)).renew(false).acquire().await?;
    println!("Ann has the lock, reads 100, and falls asleep");
    ann.lost().await;

    let bob = ledger_lock.acquire().await?;
    println!("Ann's lease has ended, and Bob has the lock");
    let bobs = write(&ledger, "Bob", &bob, 70)?;
    bob.release().await?;

    // Ann wakes up. A caller that asks `ann.is_held()` first learns of the loss; a write that is
    // under way cannot ask.
    let anns = write(&ledger, "Ann", &ann, 130)?;
    let balance: i64 = ledger.query_row("SELECT balance FROM ledger WHERE id = 1", [], |row| row.get(0))?;
    println!("the balance is {balance}");
    if bobs && !anns && balance == 70 { Ok(()) } else { Err("the stale write went through".into()) }
}
