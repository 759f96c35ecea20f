//! Two workers and one account in Postgres: the one whose lease has ended writes too late, and the
//! row refuses it, because its fencing token is old.
//!
//! Needs a database that it may create a temporary table in:
//! `DATABASE_URL=postgres://postgres@localhost/postgres`. On Redis when `REDIS_URL` is set, else on
//! `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use redlocked::{LockError, LockManager};
use tokio_postgres::{Client, NoTls};

const TABLE: &str =
    "CREATE TEMPORARY TABLE account (id bigint PRIMARY KEY, balance bigint, fence bigint NOT NULL DEFAULT 0);
                     INSERT INTO account VALUES (1, 100)";

/// The fence is in the condition: a later holder has left a larger fencing token, and then no row
/// is changed.
const WRITE: &str = "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2";

#[derive(Debug)]
struct Stale;

async fn write(
    database: &Client,
    balance: i64,
    fence: i64,
) -> Result<Result<(), Stale>, tokio_postgres::Error> {
    let changed = database.execute(WRITE, &[&balance, &fence, &1_i64]).await?;
    println!("a balance of {balance} with fencing token {fence}: {changed} rows changed");
    Ok(if changed == 1 { Ok(()) } else { Err(Stale) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    kit::no_arguments();
    let database = std::env::var("DATABASE_URL")
        .map_err(|_| "DATABASE_URL is not set: for example postgres://postgres@localhost/postgres")?;
    let (database, connection) = tokio_postgres::connect(&database, NoTls).await?;
    let connection = tokio::spawn(connection);
    database.batch_execute(TABLE).await?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::connect(&url).await?;
    let request = locks.lock("account:1").label("worker").wait(Duration::from_secs(5));

    // A worker of which nothing is heard for longer than its ttl.
    let late = request.clone().ttl(Duration::from_millis(200)).renew(false).acquire().await?;
    let late_fence = i64::try_from(late.fencing_token())?;
    late.lost().await;

    // The next one writes twice with one token.
    let written = request
        .run(async |guard| {
            let fence = i64::try_from(guard.fencing_token())?;
            for balance in [80, 70] {
                if write(&database, balance, fence).await?.is_err() {
                    return Err("a later holder was here".into());
                }
            }
            Ok::<_, Box<dyn Error>>(())
        })
        .await;
    match written {
        Err(error @ LockError::Lost { .. }) => return Err(error.into()),
        written => written??,
    }

    let refused = write(&database, 130, late_fence).await?.is_err();
    let balance: i64 = database.query_one("SELECT balance FROM account WHERE id = 1", &[]).await?.get(0);
    println!("the balance is {balance}");
    drop(database);
    connection.await??;
    if refused && balance == 70 { Ok(()) } else { Err("the stale write went through".into()) }
}
