#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod guard;
mod sealed;
mod table;
mod transaction;

pub use guard::{Committed, FencedGuard, record};
pub use table::{FenceTable, InvalidTableName};
pub use transaction::{Dialect, FencedDatabase, FencedTransaction, Recorded};

/// Makes the table `redlocked_fences` where it is not there yet. It can be called by many processes
/// at once. [`FenceTable`] is for another name.
///
/// Where the tables of an application are made by migrations, one of them has the text of
/// `redlocked-sqlx/src/tables/`, which is on the front page.
///
/// # Errors
///
/// Those of the database: no right to make a table.
///
/// # Cancel safety
///
/// The future can be dropped, and the function called again.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sqlx::Error> {
/// let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// redlocked_sqlx::create_table(&pool).await?;
/// # Ok(())
/// # }
/// ```
pub async fn create_table<'e, E>(executor: E) -> Result<(), sqlx::Error>
where
    E: sqlx::Executor<'e>,
    E::Database: FencedDatabase,
{
    FenceTable::standard().create(executor).await
}
