//! Two workers and one account in Postgres: the one that has slept for longer than its lease writes
//! too late, and its transaction is refused, because its fencing token is old.
//!
//! In the database that `DATABASE_URL` names, such as `postgres://postgres@localhost/postgres`, where
//! it makes the tables `redlocked_fences` and `redlocked_account`; else it starts a server of its own.
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;

use redlocked::{Fence, LockManager, distributed_lock};
use redlocked_sqlx::{FencedGuard, create_table, record};
use sqlx::PgPool;

type Failure = Box<dyn Error + Send + Sync>;

const ACCOUNT: &str = "CREATE TABLE IF NOT EXISTS redlocked_account (id bigint PRIMARY KEY, balance bigint)";

const WRITE: &str = "INSERT INTO redlocked_account VALUES ($1, $2) \
                     ON CONFLICT (id) DO UPDATE SET balance = excluded.balance";

/// One worker at a time is here for an account, and one that has lost its lock commits nothing.
#[distributed_lock(key = "account:{id}", wait = "5s", guard = lock)]
async fn write(pool: &PgPool, id: i64, balance: i64) -> Result<Option<Fence>, Failure> {
    let mut tx = pool.begin().await?;
    lock.fence_in(&mut tx).await?;
    sqlx::query(WRITE).bind(id).bind(balance).execute(&mut *tx).await?;
    lock.commit(tx).await?;
    println!("a balance of {balance} is committed");
    Ok(lock.fences().next())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    kit::no_arguments();
    // It ends with this.
    let mut server = None;
    let database = if let Ok(url) = std::env::var("DATABASE_URL") {
        url
    } else {
        let none = "there is no PostgreSQL: set DATABASE_URL";
        server.insert(kit::DatabaseServer::postgres().ok_or(none)?).url().to_owned()
    };
    let pool = PgPool::connect(&database).await?;
    create_table(&pool).await?;
    sqlx::query(ACCOUNT).execute(&pool).await?;
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    LockManager::connect(&url).await?.set_global();

    let early = write(&pool, 1, 80).await?.ok_or("a guard holds a lock")?;
    write(&pool, 1, 70).await?;

    // What the first worker would do, had it slept until now in front of this statement.
    let mut tx = pool.begin().await?;
    let refused = record(&mut tx, &early).await;
    let Err(error) = refused else { return Err("the stale write went through".into()) };
    println!("a balance of 130: {error}");
    tx.rollback().await?;
    let balance: i64 =
        sqlx::query_scalar("SELECT balance FROM redlocked_account WHERE id = 1").fetch_one(&pool).await?;
    println!("the balance is {balance}");
    if error.is_fenced() && balance == 70 { Ok(()) } else { Err("the balance is wrong".into()) }
}
