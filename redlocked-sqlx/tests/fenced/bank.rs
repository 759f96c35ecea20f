//! A table of accounts in each database, and the same statements for all of them.

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;

use kit::{DatabaseServer, unique};
use redlocked_sqlx::{FenceTable, FencedTransaction, create_table};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor as _, MySql, MySqlPool, PgPool, Postgres, Sqlite, SqlitePool, Transaction};

const ACCOUNT: &str = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)";

/// A database, seen by a test that is the same for all.
pub(crate) trait Bank: Clone + Send + Sync + Sized + 'static {
    /// Its transactions.
    type Tx: FencedTransaction<Error = sqlx::Error> + Debug + 'static;

    /// Makes the tables.
    fn make(&self) -> impl Future<Output = ()> + Send;

    /// Makes one more table of fences.
    fn make_table(&self, table: &FenceTable) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// `READ COMMITTED`, unless the pool says otherwise.
    fn start(&self) -> impl Future<Output = Self::Tx> + Send;

    /// One statement without values.
    fn run(tx: &mut Self::Tx, text: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The number in the first column of the first row.
    fn number(tx: &mut Self::Tx, text: &str) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// Sends the rollback now, and not with the connection's next use.
    fn roll_back(tx: Self::Tx) -> impl Future<Output = ()> + Send;

    /// A new account without money.
    fn open(&self, id: u32) -> impl Future<Output = ()> + Send {
        async move {
            let mut tx = self.start().await;
            Self::run(&mut tx, &format!("INSERT INTO account VALUES ({id}, 0)")).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    /// As a transaction reads it.
    fn balance(tx: &mut Self::Tx, id: u32) -> impl Future<Output = Result<i64, sqlx::Error>> + Send {
        async move { Self::number(tx, &format!("SELECT balance FROM account WHERE id = {id}")).await }
    }

    /// Whatever is there.
    fn set(tx: &mut Self::Tx, id: u32, balance: i64) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        async move { Self::run(tx, &format!("UPDATE account SET balance = {balance} WHERE id = {id}")).await }
    }

    /// What is committed.
    fn committed(&self, id: u32) -> impl Future<Output = i64> + Send {
        async move { Self::balance(&mut self.start().await, id).await.unwrap() }
    }
}

macro_rules! bank {
    ($($pool:ident: $database:ident),*) => {
        $(
            impl Bank for $pool {
                type Tx = Transaction<'static, $database>;

                async fn make(&self) {
                    create_table(self).await.unwrap();
                    self.execute(ACCOUNT).await.unwrap();
                }

                async fn make_table(&self, table: &FenceTable) -> Result<(), sqlx::Error> {
                    table.create(self).await
                }

                async fn start(&self) -> Self::Tx {
                    $pool::begin(self).await.unwrap()
                }

                async fn run(tx: &mut Self::Tx, text: &str) -> Result<(), sqlx::Error> {
                    sqlx::query(text).persistent(false).execute(&mut **tx).await.map(drop)
                }

                async fn number(tx: &mut Self::Tx, text: &str) -> Result<i64, sqlx::Error> {
                    sqlx::query_scalar(text).persistent(false).fetch_one(&mut **tx).await
                }

                async fn roll_back(tx: Self::Tx) {
                    tx.rollback().await.unwrap();
                }
            }
        )*
    };
}

bank! { PgPool: Postgres, MySqlPool: MySql, SqlitePool: Sqlite }

/// With its tables.
pub(crate) async fn postgres() -> Option<(DatabaseServer, PgPool)> {
    let server = DatabaseServer::postgres()?;
    let pool = PgPoolOptions::new().max_connections(40).connect(server.url()).await.unwrap();
    pool.make().await;
    Some((server, pool))
}

/// MariaDB or MySQL with its tables, in one of the isolations that they call `READ COMMITTED` and
/// `REPEATABLE READ`.
pub(crate) async fn mysql(
    server: Option<DatabaseServer>,
    isolation: &'static str,
) -> Option<(DatabaseServer, MySqlPool)> {
    let server = server?;
    let pool = MySqlPoolOptions::new().max_connections(40).after_connect(move |connection, _| {
        let isolate = format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}");
        Box::pin(async move { connection.execute(isolate.as_str()).await.map(drop) })
    });
    let pool = pool.connect(server.url()).await.unwrap();
    pool.make().await;
    Some((server, pool))
}

pub(crate) async fn mariadb(isolation: &'static str) -> Option<(DatabaseServer, MySqlPool)> {
    mysql(DatabaseServer::mariadb(), isolation).await
}

/// In a file, because what is in memory is locked by whole tables.
pub(crate) async fn sqlite() -> (File, SqlitePool) {
    let file = File(std::env::temp_dir().join(unique("redlocked-fences")));
    // What a crash of the machine leaves is not asked here: nothing waits for the disk.
    let options = SqliteConnectOptions::new().filename(&file.0).create_if_missing(true);
    let options = options.synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new().max_connections(10).connect_with(options).await.unwrap();
    pool.make().await;
    (file, pool)
}

/// A file that is removed when this is dropped.
pub(crate) struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
