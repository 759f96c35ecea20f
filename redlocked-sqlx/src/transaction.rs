//! [`FencedTransaction`]: a transaction that can record a fence. [`Dialect`]: how its database does.

use std::error::Error;

use crate::sealed;

/// A transaction in which a fence can be recorded: those of sqlx 0.8, and yours.
///
/// Any other client, or another version of sqlx, is served by two short methods on a type of your
/// own around its transaction.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::LockManager;
/// use redlocked_sqlx::{Dialect, FencedGuard, FencedTransaction, Recorded};
/// use sqlx::{Sqlite, SqlitePool, Transaction};
///
/// /// In real life around a transaction of another client.
/// struct Mine<'c>(Transaction<'c, Sqlite>);
///
/// impl FencedTransaction for Mine<'_> {
///     const DIALECT: Dialect = Dialect::Sqlite;
///     type Error = sqlx::Error;
///
///     async fn record(&mut self, text: &str, name: &str, fence: i64) -> Result<Recorded, sqlx::Error> {
///         let query = sqlx::query(text).bind(name).bind(fence);
///         let rows = query.execute(&mut *self.0).await?.rows_affected();
///         Ok(Recorded { rows, last_insert_id: 0 }) // the id is for MySQL alone
///     }
///
///     async fn commit(self) -> Result<(), sqlx::Error> {
///         self.0.commit().await
///     }
/// }
///
/// let pool = SqlitePool::connect("sqlite::memory:").await?;
/// redlocked_sqlx::create_table(&pool).await?;
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("account:7").acquire().await?;
/// let mut tx = Mine(pool.begin().await?);
/// guard.fence_in(&mut tx).await?;
/// guard.commit(tx).await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction of sqlx 0.8",
    label = "cannot record a fence",
    note = "run `cargo add sqlx@0.8`: the `Transaction` of each version of sqlx is a separate type, and `cargo add sqlx` adds the latest",
    note = "redlocked-sqlx needs the feature of the database: `postgres`, `mysql` or `sqlite`",
    note = "for sqlx 0.9 or another client, implement `FencedTransaction` for a type of your own around its transaction"
)]
pub trait FencedTransaction: Send {
    /// The database.
    const DIALECT: Dialect;

    /// The error of the client.
    type Error: Error + Send + Sync + 'static;

    /// Runs one statement with two values, in the order of its placeholders. The statement is the same for
    /// each fence of a [`FenceTable`](crate::FenceTable), so it can be prepared once. A name in it is
    /// checked and quoted.
    fn record(
        &mut self,
        text: &str,
        name: &str,
        fence: i64,
    ) -> impl Future<Output = Result<Recorded, Self::Error>> + Send;

    /// Commits.
    fn commit(self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What a database says of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// How many rows it has inserted or changed.
    pub rows: u64,
    /// What `LAST_INSERT_ID()` is after it. Read for [`Dialect::MySql`] alone.
    pub last_insert_id: u64,
}

/// How a database records a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL 9.5 or later, with placeholders such as `$1`.
    Postgres,
    /// SQLite 3.24 or later.
    Sqlite,
    /// MySQL 5.7 or later, of which 9.7 is tested, and MariaDB 10.2 or later, on InnoDB.
    MySql,
}

impl Dialect {
    /// Whether the statement has found no larger number.
    pub(crate) fn is_accepted(self, recorded: Recorded, fence: u64) -> bool {
        match self {
            Self::Postgres | Self::Sqlite => recorded.rows > 0,
            // A row that is new has no id.
            Self::MySql => recorded.last_insert_id <= fence,
        }
    }
}

/// The databases of sqlx.
macro_rules! of_sqlx {
    ($($(#[$when:meta])* $database:ident: $dialect:ident, $id:expr;)*) => {
        $(
            $(#[$when])*
            impl FencedTransaction for sqlx::Transaction<'_, sqlx::$database> {
                const DIALECT: Dialect = Dialect::$dialect;

                type Error = sqlx::Error;

                async fn record(
                    &mut self,
                    text: &str,
                    name: &str,
                    fence: i64,
                ) -> Result<Recorded, sqlx::Error> {
                    let done = sqlx::query(text).bind(name).bind(fence).execute(&mut **self).await?;
                    Ok(Recorded { rows: done.rows_affected(), last_insert_id: $id(&done) })
                }

                async fn commit(self) -> Result<(), sqlx::Error> {
                    sqlx::Transaction::commit(self).await
                }
            }

            $(#[$when])*
            impl FencedDatabase for sqlx::$database {}

            $(#[$when])*
            impl sealed::Database for sqlx::$database {
                const DIALECT: Dialect = Dialect::$dialect;
            }
        )*
    };
}

/// A database of sqlx whose transactions can record a fence, and in which
/// [`create_table`](crate::create_table) makes the table.
///
/// Only this crate implements it: for `sqlx::Postgres`, `sqlx::MySql` and `sqlx::Sqlite`, each with its
/// feature.
pub trait FencedDatabase: sqlx::Database + sealed::Database {}

of_sqlx! {
    #[cfg(feature = "postgres")]
    Postgres: Postgres, |_| 0;
    #[cfg(feature = "mysql")]
    MySql: MySql, sqlx::mysql::MySqlQueryResult::last_insert_id;
    #[cfg(feature = "sqlite")]
    Sqlite: Sqlite, |_| 0;
}
