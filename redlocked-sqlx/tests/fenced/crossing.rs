//! Transactions of several locks that meet: no deadlock.

use kit::{DatabaseServer, unique};
use redlocked::Fence;
use redlocked_sqlx::{FencedTransaction as _, record};
use tokio::task::JoinSet;

use crate::bank::{Bank, mysql, postgres, sqlite};
use crate::manager;

/// Holders of the same two locks, named in both orders: all fence in at once, the earlier ones late, and
/// then each does what `commits` says. Returns how many the database has ended as a deadlock.
async fn crossing<B: Bank>(bank: &B, rounds: u32, is_new: bool, commits: bool) -> usize {
    let locks = manager().await;
    let mut deadlocks = 0;
    for _ in 0..rounds {
        let keys = [unique("one"), unique("other")];
        let mut all = Vec::new();
        for number in 0..5 {
            let in_this_order = [&keys[number % 2], &keys[1 - number % 2]];
            let guard = locks.lock_all(in_this_order).acquire().await.unwrap();
            all.push(guard.fences().collect::<Vec<Fence>>());
            guard.release().await.unwrap();
        }
        if !is_new {
            let mut tx = bank.start().await;
            for fence in all.remove(0) {
                record(&mut tx, &fence).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
        let mut writers = JoinSet::new();
        for fences in all {
            let bank = bank.clone();
            writers.spawn(async move {
                let mut tx = bank.start().await;
                for fence in &fences {
                    match record(&mut tx, fence).await {
                        Ok(()) => {}
                        Err(error) if error.is_fenced() => break,
                        Err(error) => return Some(format!("{error:?}")),
                    }
                }
                if commits {
                    tx.commit().await.unwrap();
                } else {
                    B::roll_back(tx).await;
                }
                None
            });
        }
        while let Some(writer) = writers.join_next().await {
            if let Some(error) = writer.unwrap() {
                assert!(error.to_lowercase().contains("deadlock"), "{error}");
                deadlocks += 1;
            }
        }
    }
    deadlocks
}

#[tokio::test]
async fn crossing_fences_do_not_deadlock_in_postgres() {
    let Some((_server, bank)) = postgres().await else { return };
    for (is_new, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        assert_eq!(crossing(&bank, 200, is_new, commits).await, 0, "{is_new} {commits}");
    }
}

#[tokio::test]
async fn crossing_fences_do_not_deadlock_in_mariadb() {
    crossing_in(DatabaseServer::mariadb).await;
}

#[tokio::test]
async fn crossing_fences_do_not_deadlock_in_mysql() {
    crossing_in(DatabaseServer::mysql).await;
}

async fn crossing_in(server: fn() -> Option<DatabaseServer>) {
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        let Some((_server, bank)) = mysql(server(), isolation).await else { return };
        for (is_new, commits) in [(true, true), (true, false), (false, true), (false, false)] {
            let deadlocks = crossing(&bank, 200, is_new, commits).await;
            // InnoDB gives the place of a row whose insertion is rolled back to all that wait for it. The
            // page says so.
            let is_known = is_new && !commits;
            assert!(deadlocks == 0 || is_known, "{isolation} {is_new} {commits}: {deadlocks}");
        }
    }
}

#[tokio::test]
async fn crossing_fences_do_not_deadlock_in_sqlite() {
    let (_file, bank) = sqlite().await;
    for (is_new, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        assert_eq!(crossing(&bank, 10, is_new, commits).await, 0, "{is_new} {commits}");
    }
}
