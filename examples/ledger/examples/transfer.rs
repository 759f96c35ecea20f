//! Money between accounts, in all directions at once: each transfer locks both of its accounts. A
//! transfer from 1 to 2 and one from 2 to 1 do not deadlock, because every call takes its locks in
//! the same order. Transfers hold the key `books` together, and an audit holds it alone. So no transfer
//! runs during an audit.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::sync::Arc;

use redlocked::{LockManager, distributed_lock};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

struct Bank {
    locks: LockManager,
    table: SqlitePool,
}

impl Bank {
    /// False when there is too little money. No other transfer reads or writes these two balances
    /// meanwhile, and no audit runs.
    #[distributed_lock(
        keys = [shared "books", "account:{from}", "account:{to}"],
        wait = "30s",
        manager = self.locks
    )]
    async fn transfer(&self, from: u32, to: u32, amount: i64) -> Result<bool, Failure> {
        let (source, target) = (self.balance(from).await?, self.balance(to).await?);
        if source < amount {
            return Ok(false);
        }
        self.set_balance(from, source - amount).await?;
        // A real transfer would call another service here. Other transfers run meanwhile; an audit would
        // miss the money that is on its way.
        tokio::task::yield_now().await;
        self.set_balance(to, target + amount).await?;
        Ok(true)
    }

    /// The sum of all accounts. No transfer runs meanwhile.
    #[distributed_lock(key = "books", constant_key, wait = "30s", manager = self.locks)]
    async fn audit(&self) -> Result<i64, Failure> {
        let mut sum = 0;
        for account in 1..=3 {
            sum += self.balance(account).await?;
        }
        Ok(sum)
    }

    async fn balance(&self, account: u32) -> Result<i64, Failure> {
        let balance = sqlx::query_scalar("SELECT balance FROM account WHERE id = ?");
        Ok(balance.bind(account).fetch_one(&self.table).await?)
    }

    async fn set_balance(&self, account: u32, balance: i64) -> Result<(), Failure> {
        let update = sqlx::query("UPDATE account SET balance = ? WHERE id = ?");
        update.bind(balance).bind(account).execute(&self.table).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    kit::no_arguments();
    let table = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::raw_sql(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER);
         INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)",
    )
    .execute(&table)
    .await?;
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let bank = Arc::new(Bank { locks: LockManager::connect(&url).await?, table });

    let (mut transfers, mut audits) = (JoinSet::new(), JoinSet::new());
    for round in 0..50 {
        if round % 10 == 5 {
            let bank = Arc::clone(&bank);
            audits.spawn(async move { bank.audit().await });
        }
        for (from, to) in [(1, 2), (2, 1), (2, 3), (3, 2), (3, 1), (1, 3)] {
            let bank = Arc::clone(&bank);
            transfers.spawn(async move { bank.transfer(from, to, 30 + round % 7).await });
        }
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(transferred) = transfers.join_next().await {
        if transferred?? { done += 1 } else { refused += 1 }
    }
    let (mut audited, mut right) = (0, 0);
    while let Some(sum) = audits.join_next().await {
        audited += 1;
        right += u32::from(sum?? == 300);
    }
    println!("on {}:", if url.starts_with("memory:") { "memory://, this process alone" } else { "Redis" });
    println!("{done} transfers, and {refused} refused because there was too little money");
    for account in 1..=3 {
        println!("account {account} has {}", bank.balance(account).await?);
    }
    let sum = bank.audit().await?;
    println!("the sum was 300 and is {sum}; of {audited} audits in between, {right} found 300");
    if sum == 300 && right == audited { Ok(()) } else { Err("money was made or lost".into()) }
}
