//! [`FenceTable`]: the table with the fences, under a name of the application's choice.

use std::error::Error;
use std::fmt;
use std::sync::LazyLock;

use redlocked::{Fence, LockError};

use crate::sealed;
use crate::transaction::{Dialect, FencedDatabase, FencedTransaction};

/// The name in the files below `tables/`.
const STANDARD_NAME: &str = "redlocked_fences";

/// PostgreSQL cuts a longer name off.
const LONGEST_PART: usize = 63;

static STANDARD: LazyLock<FenceTable> = LazyLock::new(|| FenceTable::of(STANDARD_NAME));

/// The table with the fences. [`fence_in`](crate::FencedGuard::fence_in), [`record`](crate::record) and
/// [`create_table`](crate::create_table) use `redlocked_fences`, which is the default. Another name, such as one
/// in a schema of its own, goes to [`fence_in_table`](crate::FencedGuard::fence_in_table).
///
/// All writers of the same data must use the same table.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::LockManager;
/// use redlocked_sqlx::{FenceTable, FencedGuard};
/// use sqlx::SqlitePool;
///
/// let pool = SqlitePool::connect("sqlite::memory:").await?;
/// let fences = FenceTable::new("main.shop_fences")?; // `schema.table`, or `table`
/// fences.create(&pool).await?;
///
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("account:7").acquire().await?;
/// let mut tx = pool.begin().await?;
/// guard.fence_in_table(&mut tx, &fences).await?;
/// guard.commit(tx).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FenceTable {
    name: Box<str>,
    postgres: Statements,
    mysql: Statements,
    sqlite: Statements,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Statements {
    create: Box<str>,
    record: Box<str>,
}

impl FenceTable {
    /// Names the table, as `table` or `schema.table`; in MySQL and MariaDB, a schema is a database.
    ///
    /// Each part has 1 to 63 ASCII letters, digits, `_` and `-`. Both parts are quoted in SQL, so
    /// PostgreSQL distinguishes upper case from lower case: `CREATE TABLE Fences` without quotes makes
    /// a table that is `fences` here.
    ///
    /// # Errors
    ///
    /// [`InvalidTableName`] for any other name.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked_sqlx::FenceTable;
    ///
    /// assert!(FenceTable::new(format!("{}.fences", "tenant-7")).is_ok());
    /// let refused = FenceTable::new("fences; DROP TABLE account").map_err(|error| error.to_string());
    /// assert!(refused.is_err_and(|said| said.contains("`table` or `schema.table`")));
    /// ```
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidTableName> {
        let name = name.as_ref();
        let is_part = |part: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            (1..=LONGEST_PART).contains(&part.len()) && part.bytes().all(is_allowed)
        };
        let (schema, table) =
            name.split_once('.').map_or((None, name), |(schema, table)| (Some(schema), table));
        if is_part(table) && schema.is_none_or(is_part) {
            Ok(Self::of(name))
        } else {
            Err(InvalidTableName { name: name.chars().take(64).collect() })
        }
    }

    /// `name` is checked: nothing in it ends a quoted name or the body of the `DO` below.
    fn of(name: &str) -> Self {
        let quoted = |quote: &str| {
            let parts: Vec<String> = name.split('.').map(|part| [quote, part, quote].concat()).collect();
            parts.join(".")
        };
        let (standard, mysql) = (quoted("\""), quoted("`"));
        let create = |text: &str, name: &str| text.replacen(STANDARD_NAME, name, 1);
        let on_conflict = |values: &str| {
            format!(
                "INSERT INTO {standard} AS f (name, fence) VALUES ({values}) \
                 ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE f.fence <= excluded.fence"
            )
        };
        // If several clients create the table at once, PostgreSQL refuses all except one, also with `IF NOT EXISTS`.
        let create_in_postgres = format!(
            "DO $$ BEGIN {}EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN NULL; END $$",
            create(include_str!("tables/postgres.sql"), &standard)
        );
        // The number of changed rows depends on a flag of the connection. The number that is kept comes
        // back as the id, whether it has changed or not.
        let record_in_mysql = format!(
            "INSERT INTO {mysql} (name, fence) VALUES (?, ?) \
             ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, VALUES(fence)))"
        );
        Self {
            name: name.into(),
            postgres: Statements { create: create_in_postgres.into(), record: on_conflict("$1, $2").into() },
            mysql: Statements {
                create: create(include_str!("tables/mysql.sql"), &mysql).into(),
                record: record_in_mysql.into(),
            },
            sqlite: Statements {
                create: create(include_str!("tables/sqlite.sql"), &standard).into(),
                record: on_conflict("?, ?").into(),
            },
        }
    }

    /// `redlocked_fences`.
    pub(crate) fn standard() -> &'static Self {
        &STANDARD
    }

    fn statements(&self, dialect: Dialect) -> &Statements {
        match dialect {
            Dialect::Postgres => &self.postgres,
            Dialect::MySql => &self.mysql,
            Dialect::Sqlite => &self.sqlite,
        }
    }

    /// The name, as [`new`](Self::new) takes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the table unless it exists, as [`create_table`](crate::create_table). It makes no schema.
    ///
    /// # Errors
    ///
    /// Those of the database: no right to make a table, no such schema.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped, and the function called again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
    /// redlocked_sqlx::FenceTable::new("shop_fences")?.create(&pool).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create<'e, E>(&'e self, executor: E) -> Result<(), sqlx::Error>
    where
        E: sqlx::Executor<'e>,
        E::Database: FencedDatabase,
    {
        let statements = self.statements(<E::Database as sealed::Database>::DIALECT);
        executor.execute(&*statements.create).await.map(drop)
    }

    /// Records one fence in this table, as [`record`](crate::record).
    ///
    /// # Errors
    ///
    /// As [`record`](crate::record).
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, drop the transaction as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
    /// let fences = redlocked_sqlx::FenceTable::new("shop_fences")?;
    /// # fences.create(&pool).await?;
    /// let fence = redlocked::Fence::new("account:7", "shop:account:7", 4711)?; // of another process
    /// let mut tx = pool.begin().await?;
    /// fences.record(&mut tx, &fence).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record<T: FencedTransaction>(&self, tx: &mut T, fence: &Fence) -> Result<(), LockError> {
        // Below 2^53.
        let number = fence.fencing_token().cast_signed();
        let recorded = tx.record(&self.statements(T::DIALECT).record, fence.name(), number).await;
        let recorded = recorded
            .map_err(|error| fence.failed(format!("to record its fence in `{}`", self.name), error))?;
        if T::DIALECT.is_accepted(recorded, fence.fencing_token()) { Ok(()) } else { Err(fence.refused()) }
    }
}

impl Default for FenceTable {
    fn default() -> Self {
        Self::standard().clone()
    }
}

/// Shows the name alone.
impl fmt::Debug for FenceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FenceTable").field(&self.name).finish()
    }
}

/// A text that [`FenceTable::new`] does not take as a name. Its message says what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidTableName {
    name: String,
}

impl fmt::Display for InvalidTableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no name for a table of fences: write `table` or `schema.table`, each of 1 to {LONGEST_PART} \
             ASCII letters, digits, `_` and `-`",
            self.name
        )
    }
}

impl Error for InvalidTableName {}
