//! Money between accounts, in all directions at once: each transfer locks both of its accounts. A
//! transfer from 1 to 2 and one from 2 to 1 do not deadlock, because every call takes its locks in
//! the same order.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::sync::Arc;

use redlocked::{LockManager, distributed_lock};
use rusqlite::Connection;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

struct Bank {
    locks: LockManager,
    table: Mutex<Connection>,
}

impl Bank {
    /// False when there is too little money. No other transfer reads or writes these two balances
    /// meanwhile.
    #[distributed_lock(keys = ["account:{from}", "account:{to}"], wait = "30s", manager = self.locks)]
    async fn transfer(&self, from: u32, to: u32, amount: i64) -> Result<bool, Failure> {
        let (source, target) = (self.balance(from).await?, self.balance(to).await?);
        if source < amount {
            return Ok(false);
        }
        // A real transfer would call another service here; other transfers run meanwhile.
        tokio::task::yield_now().await;
        self.set_balance(from, source - amount).await?;
        self.set_balance(to, target + amount).await?;
        Ok(true)
    }

    async fn balance(&self, account: u32) -> Result<i64, Failure> {
        let sql = "SELECT balance FROM account WHERE id = ?1";
        Ok(self.table.lock().await.query_row(sql, [account], |row| row.get(0))?)
    }

    async fn set_balance(&self, account: u32, balance: i64) -> Result<(), Failure> {
        let sql = "UPDATE account SET balance = ?2 WHERE id = ?1";
        self.table.lock().await.execute(sql, (account, balance))?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    kit::no_arguments();
    let table = Connection::open_in_memory()?;
    table.execute_batch(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER);
         INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)",
    )?;
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let bank = Arc::new(Bank { locks: LockManager::connect(&url).await?, table: Mutex::new(table) });

    let mut transfers = JoinSet::new();
    for round in 0..50 {
        for (from, to) in [(1, 2), (2, 1), (2, 3), (3, 2), (3, 1), (1, 3)] {
            let bank = Arc::clone(&bank);
            transfers.spawn(async move { bank.transfer(from, to, 30 + round % 7).await });
        }
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(transferred) = transfers.join_next().await {
        if transferred?? { done += 1 } else { refused += 1 }
    }
    println!("{done} transfers, and {refused} refused because there was too little money");
    let mut sum = 0;
    for account in 1..=3 {
        let balance = bank.balance(account).await?;
        println!("account {account} has {balance}");
        sum += balance;
    }
    println!("the sum was 300 and is {sum}");
    if sum == 300 { Ok(()) } else { Err("money was made or lost".into()) }
}
