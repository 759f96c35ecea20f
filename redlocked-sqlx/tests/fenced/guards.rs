//! What a guard does with a transaction.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use kit::{DatabaseServer, SECOND, unique};
use redlocked::election::Term;
use redlocked::{
    Fence, LockError, LockGuard, LockManager, LostReason, ReleaseOutcome, Ticket, distributed_lock,
};
use redlocked_sqlx::{Dialect, FencedGuard, FencedTransaction, Recorded, create_table, record};
use sqlx::{MySql, MySqlPool, PgPool, Postgres, Row as _, Transaction};

use crate::bank::{Bank, mariadb, mysql, postgres, sqlite};
use crate::manager;

/// The error of an application.
#[derive(Debug)]
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

async fn the_lock_is_held_until_the_commit<B: Bank>(bank: B) {
    let locks = manager().await;
    bank.open(7).await;
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let mut tx = bank.start().await;
    guard.fence_in(&mut tx).await.unwrap();
    guard.fence_in(&mut tx).await.unwrap();
    B::set(&mut tx, 7, 42).await.unwrap();
    assert!(locks.lock("account:7").acquire().await.is_err_and(|error| error.is_busy()));
    guard.commit(tx).await.unwrap();
    guard.ensure_held().unwrap();
    let mut tx = bank.start().await;
    guard.fence_in(&mut tx).await.unwrap();
    let committed = guard.commit_and_release(tx).await.unwrap();
    assert_eq!(committed.release(), Ok(ReleaseOutcome::Released));
    assert_eq!(bank.committed(7).await, 42);
    locks.lock("account:7").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_lock_is_held_until_the_commit_on_each_database() {
    if let Some((_server, bank)) = postgres().await {
        the_lock_is_held_until_the_commit(bank).await;
    }
    if let Some((_server, bank)) = mariadb("REPEATABLE READ").await {
        the_lock_is_held_until_the_commit(bank).await;
    }
    if let Some((_server, bank)) = mysql(DatabaseServer::mysql(), "REPEATABLE READ").await {
        the_lock_is_held_until_the_commit(bank).await;
    }
    let (_file, bank) = sqlite().await;
    the_lock_is_held_until_the_commit(bank).await;
}

/// A transaction that counts what it is asked for.
struct Counted<T>(T, usize);

impl<T: FencedTransaction> FencedTransaction for Counted<T> {
    const DIALECT: Dialect = T::DIALECT;
    type Error = T::Error;

    async fn record(&mut self, text: &str, name: &str, fence: i64) -> Result<Recorded, T::Error> {
        self.1 += 1;
        self.0.record(text, name, fence).await
    }

    async fn commit(self) -> Result<(), T::Error> {
        self.0.commit().await
    }
}

/// As each database counts it itself, and of one lock or three.
#[tokio::test]
async fn a_fence_costs_one_statement_for_each_lock_and_the_commit_none() {
    async fn asked_for<B: Bank>(bank: B) {
        let locks = manager().await;
        for keys in [&["account:7"][..], &["account:7", "account:8", "account:9"]] {
            let guard = locks.lock_all(keys.iter().copied()).acquire().await.unwrap();
            let mut tx = Counted(bank.start().await, 0);
            guard.fence_in(&mut tx).await.unwrap();
            assert_eq!(tx.1, keys.len());
            guard.commit_and_release(tx).await.unwrap();
        }
    }

    /// How many commands a session has got, with those that ask for it.
    async fn counted(server: Option<DatabaseServer>) {
        let Some((_server, pool)) = mysql(server, "READ COMMITTED").await else { return };
        let locks = manager().await;
        let questions = async |tx: &mut Transaction<'static, MySql>| {
            let row =
                sqlx::query("SHOW SESSION STATUS LIKE 'Questions'").persistent(false).fetch_one(&mut **tx);
            row.await.unwrap().get::<String, _>(1).parse::<u32>().unwrap()
        };
        let guard = locks.lock("account:7").acquire().await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        // The first one of a connection also prepares it.
        guard.fence_in(&mut tx).await.unwrap();
        let first = questions(&mut tx).await;
        let nothing = questions(&mut tx).await - first;
        guard.fence_in(&mut tx).await.unwrap();
        assert_eq!(questions(&mut tx).await - first - nothing, nothing + 1);
        guard.commit_and_release(tx).await.unwrap();
    }

    asked_for(sqlite().await.1).await;
    if let Some((_server, bank)) = postgres().await {
        asked_for(bank).await;
    }
    for server in [DatabaseServer::mariadb, DatabaseServer::mysql] {
        counted(server()).await;
    }
}

/// A service that keeps its guard.
struct Job {
    guard: LockGuard,
}

impl Job {
    async fn write<B: Bank>(&self, bank: &B, balance: i64) -> Result<(), LockError> {
        let mut tx = bank.start().await;
        self.guard.fence_in(&mut tx).await?;
        B::set(&mut tx, 7, balance).await.unwrap();
        self.guard.commit(tx).await
    }
}

#[tokio::test]
async fn a_guard_in_a_field_or_in_an_arc_commits_and_stays_held() {
    let ((_file, bank), locks) = (sqlite().await, manager().await);
    bank.open(7).await;
    let job = Job { guard: locks.lock("account:7").acquire().await.unwrap() };
    job.write(&bank, 1).await.unwrap();
    job.write(&bank, 2).await.unwrap();
    job.guard.ensure_held().unwrap();

    let shared = Arc::new(job.guard);
    let other = Arc::clone(&shared);
    let mut tx = bank.start().await;
    let written = tokio::spawn(async move {
        other.fence_in(&mut tx).await?;
        SqliteBank::set(&mut tx, 7, 3).await.unwrap();
        other.commit(tx).await
    });
    written.await.unwrap().unwrap();
    assert_eq!(bank.committed(7).await, 3);
    assert!(locks.lock("account:7").acquire().await.is_err_and(|error| error.is_busy()));
    let guard = Arc::into_inner(shared).unwrap();
    let committed = guard.commit_and_release(bank.start().await).await.unwrap();
    assert_eq!(committed.release(), Ok(ReleaseOutcome::Released));
}

/// As generic code that does not name the type of the guard.
async fn write_three<G: FencedGuard>(lock: &G, bank: &SqliteBank) -> Result<(), Failure> {
    let mut tx = bank.start().await;
    lock.fence_in(&mut tx).await?;
    SqliteBank::set(&mut tx, 7, 3).await?;
    Ok(lock.commit(tx).await?)
}

#[tokio::test]
async fn a_body_that_hands_its_lock_over_fences_its_writes_before() {
    #[distributed_lock(key = "account:7", constant_key, ticket = lock, manager = locks)]
    async fn begin(locks: &LockManager, bank: &SqliteBank) -> Result<Ticket, Failure> {
        write_three(&lock, bank).await?;
        Ok(lock.into_ticket(20 * SECOND).await?)
    }

    let ((_file, bank), locks) = (sqlite().await, manager().await);
    bank.open(7).await;
    let ticket = begin(&locks, &bank).await.unwrap();
    assert_eq!(bank.committed(7).await, 3);
    let guard = locks.redeem(ticket).await.unwrap();
    let mut tx = bank.start().await;
    guard.fence_in(&mut tx).await.unwrap();
    guard.commit_and_release(tx).await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_is_refused_before_the_commit() {
    let ((_file, bank), locks) = (sqlite().await, manager().await);
    bank.open(7).await;
    let ttl = Duration::from_millis(30);
    let guard = locks.lock("account:7").ttl(ttl).renew(false).acquire().await.unwrap();
    let mut tx = bank.start().await;
    guard.fence_in(&mut tx).await.unwrap();
    SqliteBank::set(&mut tx, 7, 42).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);

    let again = guard.fence_in(&mut tx).await;
    let is_lost = |error: &LockError| matches!(error, LockError::Lost { reason: LostReason::Expired, .. });
    assert!(again.is_err_and(|error| is_lost(&error) && error.to_string().contains("`account:7`")));
    assert!(guard.commit(bank.start().await).await.is_err_and(|error| is_lost(&error)));
    assert!(guard.commit_and_release(tx).await.is_err_and(|error| is_lost(&error)));
    assert_eq!(bank.committed(7).await, 0, "rolled back");
}

type SqliteBank = sqlx::SqlitePool;

#[tokio::test]
async fn a_later_holder_is_refused_with_its_key_its_token_and_what_to_do() {
    let ((_file, bank), locks) = (sqlite().await, manager().await);
    let early =
        locks.lock("account:7").run_value(async |guard| guard.fences().next().unwrap()).await.unwrap();
    let late = locks.lock("account:7").acquire().await.unwrap();
    let mut tx = bank.start().await;
    late.fence_in(&mut tx).await.unwrap();
    late.commit_and_release(tx).await.unwrap();
    let error = record(&mut bank.start().await, &early).await.unwrap_err();
    let said = error.to_string();
    assert!(error.is_fenced() && said.contains("`account:7`") && said.contains("lock again"), "{said}");
    assert!(said.contains(&early.fencing_token().to_string()), "{said}");
}

/// The fence travels as text, to a process that writes on behalf of the holder.
#[tokio::test]
async fn a_fence_that_came_as_text_is_recorded_and_a_stale_one_is_refused() {
    fn sent(fence: &Fence) -> String {
        format!("{}\n{}\n{}", fence.key(), fence.name(), fence.fencing_token())
    }

    async fn write(bank: &SqliteBank, message: &str, balance: i64) -> Result<(), LockError> {
        let [key, name, token] = message.split('\n').collect::<Vec<_>>().try_into().unwrap();
        let fence = Fence::new(key, name, token.parse().unwrap())?;
        let mut tx = bank.start().await;
        record(&mut tx, &fence).await?;
        SqliteBank::set(&mut tx, 7, balance).await.unwrap();
        tx.commit().await.map_err(|error| fence.failed("the commit", error))
    }

    let (_file, bank) = sqlite().await;
    bank.open(7).await;
    let url = format!("memory://{}", unique("fences"));
    let locks = LockManager::builder(url).prefix("shop:").connect().await.unwrap();
    let fence = async || {
        let of_guard = async |guard: &LockGuard| guard.fences().next().unwrap();
        locks.lock("account:7").run_value(of_guard).await.unwrap()
    };
    let (early, late) = (sent(&fence().await), sent(&fence().await));

    let writer = std::thread::spawn({
        let bank = bank.clone();
        move || {
            kit::runtime().block_on(async {
                write(&bank, &late, 42).await.unwrap();
                write(&bank, &late, 43).await.unwrap();
                write(&bank, &early, 1).await
            })
        }
    });
    let refused = tokio::task::spawn_blocking(|| writer.join().unwrap()).await.unwrap();
    assert!(refused.is_err_and(|error| error.is_fenced() && error.key() == Some("account:7")));
    assert_eq!(bank.committed(7).await, 43);
    let name: String =
        sqlx::query_scalar("SELECT name FROM redlocked_fences").fetch_one(&bank).await.unwrap();
    assert_eq!(name, "shop:account:7");
}

#[tokio::test]
async fn a_holder_may_write_in_many_transactions_and_an_aborted_one_leaves_nothing() {
    let ((_file, bank), locks) = (sqlite().await, manager().await);
    bank.open(7).await;
    let early =
        locks.lock("account:7").run_value(async |guard| guard.fences().next().unwrap()).await.unwrap();
    let late = locks.lock("account:7").acquire().await.unwrap();
    let mut tx = bank.start().await;
    late.fence_in(&mut tx).await.unwrap();
    SqliteBank::roll_back(tx).await;
    // As if the later holder had never been there.
    let mut tx = bank.start().await;
    record(&mut tx, &early).await.unwrap();
    tx.commit().await.unwrap();
    for balance in 1..4 {
        let mut tx = bank.start().await;
        late.fence_in(&mut tx).await.unwrap();
        SqliteBank::set(&mut tx, 7, balance).await.unwrap();
        late.commit(tx).await.unwrap();
    }
    assert_eq!(bank.committed(7).await, 3);
}

#[tokio::test]
async fn each_lock_has_its_own_row_under_its_whole_name() {
    for server in [DatabaseServer::mariadb, DatabaseServer::mysql] {
        each_lock_has_its_own_row(server()).await;
    }
}

async fn each_lock_has_its_own_row(server: Option<DatabaseServer>) {
    let name = unique("fences");
    let locks =
        |prefix: &'static str| LockManager::builder(format!("memory://{name}")).prefix(prefix).connect();
    let (shop, bank) = (locks("shop:").await.unwrap(), locks("bank:").await.unwrap());
    let Some((_server, pool)) = mysql(server, "REPEATABLE READ").await else { return };
    // A collation would take these for one.
    let keys = ["account:a", "account:A", "account:\u{e4}", "account:a "];
    let mut expected = Vec::new();
    for (manager, prefix) in [(&shop, "shop:"), (&bank, "bank:")] {
        let guard = manager.lock_all(keys).acquire().await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        guard.fence_in(&mut tx).await.unwrap();
        expected.extend(keys.iter().map(|key| {
            let fence = i64::try_from(guard.fencing_token_of(key).unwrap()).unwrap();
            (format!("{prefix}{key}").into_bytes(), fence)
        }));
        guard.commit_and_release(tx).await.unwrap();
    }
    let rows = sqlx::query_as("SELECT name, fence FROM redlocked_fences ORDER BY name");
    let rows: Vec<(Vec<u8>, i64)> = rows.fetch_all(&pool).await.unwrap();
    expected.sort();
    assert_eq!(rows, expected);
}

/// The id that comes back is of this statement alone.
#[tokio::test]
async fn the_last_id_of_a_mysql_session_says_nothing_of_a_new_lock() {
    for server in [DatabaseServer::mariadb, DatabaseServer::mysql] {
        the_last_id_says_nothing(server()).await;
    }
}

async fn the_last_id_says_nothing(server: Option<DatabaseServer>) {
    let Some((_server, pool)) = mysql(server, "READ COMMITTED").await else { return };
    let locks = manager().await;
    let mut tx = pool.begin().await.unwrap();
    MySqlPool::number(&mut tx, "SELECT CAST(LAST_INSERT_ID(9007199254740991) AS signed)").await.unwrap();
    for key in ["a", "b", "a"] {
        let guard = locks.lock(key).acquire().await.unwrap();
        guard.fence_in(&mut tx).await.unwrap();
    }
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn code_below_an_annotated_function_fences_its_own_writes() {
    async fn write(bank: &sqlx::SqlitePool, id: u32) -> Result<(), Failure> {
        let lock = redlocked::current()?;
        let mut tx = bank.start().await;
        lock.fence_in(&mut tx).await?;
        SqliteBank::set(&mut tx, id, 42).await?;
        lock.commit(tx).await?;
        lock.ensure_held()?;
        Ok(())
    }

    #[distributed_lock(key = "account:{id}", manager = locks)]
    async fn book(locks: &LockManager, bank: &sqlx::SqlitePool, id: u32) -> Result<(), Failure> {
        write(bank, id).await?;
        redlocked::current()?.ensure_held()?;
        Ok(())
    }

    let ((_file, bank), locks) = (sqlite().await, manager().await);
    bank.open(7).await;
    book(&locks, &bank, 7).await.unwrap();
    assert_eq!(bank.committed(7).await, 42);
    assert!(write(&bank, 7).await.is_err_and(|error| error.0.contains("does not run under a lock")));
}

/// What the attribute says in its message: the lock is released before the commit, and the next
/// holder waits all the same.
#[tokio::test]
async fn a_transaction_that_is_lent_may_be_committed_by_the_caller_where_it_is_fenced() {
    #[distributed_lock(key = "account:7", constant_key, wait = "20s", guard = lock, manager = locks)]
    async fn add_one(locks: &LockManager, tx: &mut Transaction<'static, Postgres>) -> Result<(), Failure> {
        lock.fence_in(tx).await?;
        let balance = PgPool::balance(tx, 7).await?;
        Ok(PgPool::set(tx, 7, balance + 1).await?)
    }

    let Some((_server, bank)) = postgres().await else { return };
    let locks = manager().await;
    bank.open(7).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (bank, locks) = (bank.clone(), locks.clone());
        callers.spawn(async move {
            for _ in 0..25 {
                let mut tx = bank.start().await;
                add_one(&locks, &mut tx).await.unwrap();
                tokio::task::yield_now().await;
                tx.commit().await.unwrap();
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    assert_eq!(bank.committed(7).await, 200);
}

#[tokio::test]
async fn a_missing_table_is_told_with_the_key_and_the_name_of_the_table() {
    let locks = manager().await;
    let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let error = guard.fence_in(&mut pool.begin().await.unwrap()).await.unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<sqlx::Error>());
    assert!(matches!(source, Some(sqlx::Error::Database(_))), "{error}");
    let said = error.to_string();
    assert!(said.contains("`account:7`") && said.contains("`redlocked_fences`"), "{said}");
}

#[tokio::test]
async fn a_commit_that_fails_releases_the_lock_and_says_that_it_may_be_done() {
    let Some((_server, pool)) = postgres().await else { return };
    let locks = manager().await;
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    guard.fence_in(&mut tx).await.unwrap();
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    let end = sqlx::query_scalar::<_, bool>("SELECT pg_terminate_backend($1, 10000)").bind(backend);
    assert!(end.fetch_one(&pool).await.unwrap(), "it has ended");
    let error = guard.commit_and_release(tx).await.unwrap_err();
    assert!(error.to_string().starts_with("`account:7`: the commit failed"), "{error}");
    locks.lock("account:7").wait(SECOND).acquire().await.unwrap().release().await.unwrap();
}

/// Replicas that start together all make it.
#[tokio::test]
async fn the_table_can_be_made_by_many_at_once() {
    let Some(server) = DatabaseServer::postgres() else { return };
    let pool = PgPool::connect(server.url()).await.unwrap();
    for _ in 0..20 {
        sqlx::query("DROP TABLE IF EXISTS redlocked_fences").execute(&pool).await.unwrap();
        let mut makers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let pool = pool.clone();
            makers.spawn(async move { create_table(&pool).await });
        }
        while let Some(made) = makers.join_next().await {
            made.unwrap().unwrap();
        }
    }
}

#[test]
fn the_front_page_shows_the_tables_as_they_are_made() {
    for table in [
        include_str!("../../src/tables/postgres.sql"),
        include_str!("../../src/tables/mysql.sql"),
        include_str!("../../src/tables/sqlite.sql"),
    ] {
        assert!(include_str!("../../README.md").contains(table), "{table}");
    }
}

/// The error of a service, as most have it.
#[derive(Debug, thiserror::Error)]
enum BankError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

#[distributed_lock(key = "account:7", constant_key, guard = lock, manager = locks)]
async fn deposit_typed(locks: &LockManager, pool: &sqlx::SqlitePool, write: &str) -> Result<(), BankError> {
    let mut tx = pool.begin().await?;
    lock.fence_in(&mut tx).await?;
    sqlx::query(write).execute(&mut *tx).await?;
    lock.commit(tx).await?;
    Ok(())
}

#[tokio::test]
async fn an_error_of_a_service_keeps_what_failed_and_its_source() {
    let locks = manager().await;
    let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    let error = deposit_typed(&locks, &pool, "SELECT 1").await.unwrap_err();
    let BankError::Lock(error) = error else { panic!("the fence has no table: {error}") };
    assert!(matches!(error, LockError::Store { .. }), "{error}");

    // Where there is no type for it, too: by a service's code for retries.
    let any = anyhow::Error::from(error);
    assert!(any.downcast_ref::<LockError>().is_some_and(|error| error.retry_after().is_none()));
    assert!(any.chain().any(<dyn std::error::Error>::is::<sqlx::Error>), "{any:#}");

    create_table(&pool).await.unwrap();
    deposit_typed(&locks, &pool, "SELECT 1").await.unwrap();
    let error = deposit_typed(&locks, &pool, "nonsense").await.unwrap_err();
    assert!(matches!(error, BankError::Database(_)), "{error}");
}

#[tokio::test]
async fn a_leader_fences_its_transactions() {
    let locks = manager().await;
    let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    create_table(&pool).await.unwrap();
    let mut early = None;
    for _ in 0..2 {
        let election = locks.election("billing");
        let led = election.lead(async |term: Term| {
            let mut tx = pool.begin().await.unwrap();
            term.fence_in(&mut tx).await?;
            term.commit(tx).await?;
            term.ensure_leading()?;
            early.get_or_insert_with(|| (term.clone(), term.fences().next().unwrap()));
            Ok::<_, LockError>(())
        });
        led.await.map_err(|error| error.to_string()).unwrap();
    }
    let (term, fence) = early.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert!(record(&mut tx, &fence).await.is_err_and(|error| error.is_fenced()));
    assert_eq!(term.fence_in(&mut tx).await, Err(LockError::NotLocked));
}
