//! Two holders of one lock, the first frozen in front of each statement until the second has been
//! granted the lock: no stale commit.
//!
//! Each adds one to the balance that it has read, so that a commit that comes too late takes another
//! one's money: in the end, the balance is the number of commits.

use kit::DatabaseServer;
use redlocked::{Fence, LockError, LockManager};
use redlocked_sqlx::{FencedTransaction as _, record};
use tokio::task::JoinSet;

use crate::bank::{Bank, mariadb, mysql, postgres, sqlite};
use crate::manager;

/// In front of which statement the first one is frozen: `BEGIN`, the fence, the read, the write, the
/// commit.
const STATEMENTS: u32 = 5;

/// Tries at a time.
const ACCOUNTS: u32 = 16;

/// A holder that looks at its lease no more.
struct Writer<B: Bank> {
    bank: B,
    account: u32,
    fence: Fence,
    tx: Option<B::Tx>,
    balance: i64,
}

impl<B: Bank> Writer<B> {
    /// As soon as it is granted the lock, it is over.
    async fn holds(locks: &LockManager, bank: &B, account: u32) -> Self {
        let guard = locks.lock(format!("account:{account}")).acquire().await.unwrap();
        let fence = guard.fences().next().unwrap();
        guard.release().await.unwrap();
        Self { bank: bank.clone(), account, fence, tx: None, balance: 0 }
    }

    /// The statements from `first` to the one before `end`.
    async fn runs(&mut self, first: u32, end: u32) -> Result<(), LockError> {
        let failed = |error| self.fence.failed("a statement", error);
        for statement in first..end {
            let tx = self.tx.as_mut();
            match statement {
                0 => self.tx = Some(self.bank.start().await),
                1 => record(tx.unwrap(), &self.fence).await?,
                2 => self.balance = B::balance(tx.unwrap(), self.account).await.map_err(failed)?,
                3 => B::set(tx.unwrap(), self.account, self.balance + 1).await.map_err(failed)?,
                _ => self.tx.take().unwrap().commit().await.map_err(failed)?,
            }
        }
        Ok(())
    }

    /// Whether it has committed, after all its statements from `first`.
    async fn ends(mut self, first: u32) -> bool {
        let outcome = self.runs(first, STATEMENTS).await;
        if let Some(tx) = self.tx.take() {
            B::roll_back(tx).await;
        }
        match outcome {
            Ok(()) => true,
            Err(LockError::Fenced { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Each account has its share of the tries, one after the other.
async fn no_stale_commit<B: Bank>(bank: B, tries: u32) {
    let locks = manager().await;
    let mut accounts = JoinSet::new();
    for account in 0..ACCOUNTS {
        let (bank, locks) = (bank.clone(), locks.clone());
        accounts.spawn(async move {
            bank.open(account).await;
            let mut commits = 0;
            for round in 0..tries / ACCOUNTS {
                let frozen_at = round % STATEMENTS;
                let mut first = Writer::holds(&locks, &bank, account).await;
                first.runs(0, frozen_at).await.unwrap();
                let second = tokio::spawn(Writer::holds(&locks, &bank, account).await.ends(0));
                // Behind its own fence, the first one keeps the second one from passing.
                let (first, second) = if frozen_at <= 1 {
                    let second = second.await.unwrap();
                    (first.ends(frozen_at).await, second)
                } else {
                    (first.ends(frozen_at).await, second.await.unwrap())
                };
                assert!(second, "the holder of the lock has written");
                assert_eq!(first, frozen_at > 1, "frozen in front of statement {frozen_at}");
                commits += i64::from(first) + i64::from(second);
                assert_eq!(
                    bank.committed(account).await,
                    commits,
                    "frozen in front of statement {frozen_at}"
                );
            }
        });
    }
    while let Some(account) = accounts.join_next().await {
        account.unwrap();
    }
}

#[tokio::test]
async fn no_stale_commit_in_postgres_that_reads_what_is_committed() {
    let Some((_server, bank)) = postgres().await else { return };
    let isolation: String = sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&bank).await.unwrap();
    assert_eq!(isolation, "read committed");
    no_stale_commit(bank, 10_000).await;
}

#[tokio::test]
async fn no_stale_commit_in_mariadb_that_reads_what_is_committed() {
    let Some((_server, bank)) = mariadb("READ COMMITTED").await else { return };
    no_stale_commit(bank, 10_000).await;
}

#[tokio::test]
async fn no_stale_commit_in_mariadb_with_repeatable_reads() {
    let Some((_server, bank)) = mariadb("REPEATABLE READ").await else { return };
    no_stale_commit(bank, 2_000).await;
}

#[tokio::test]
async fn no_stale_commit_in_mysql_that_reads_what_is_committed() {
    let Some((_server, bank)) = mysql(DatabaseServer::mysql(), "READ COMMITTED").await else { return };
    no_stale_commit(bank, 10_000).await;
}

#[tokio::test]
async fn no_stale_commit_in_mysql_with_repeatable_reads() {
    let Some((_server, bank)) = mysql(DatabaseServer::mysql(), "REPEATABLE READ").await else { return };
    no_stale_commit(bank, 2_000).await;
}

#[tokio::test]
async fn no_stale_commit_in_sqlite() {
    let (_file, bank) = sqlite().await;
    no_stale_commit(bank, 10_000).await;
}
