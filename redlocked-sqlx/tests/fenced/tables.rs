//! A table of fences under a name of the application.

use kit::DatabaseServer;
use redlocked::LockError;
use redlocked_sqlx::{FenceTable, FencedGuard as _, FencedTransaction as _};

use crate::bank::{Bank, mariadb, mysql, postgres, sqlite};
use crate::manager;

/// `count`: reads how many fences `table` has.
async fn fences_are_kept_in<B: Bank>(bank: B, schema: &str, table: &str, count: &str) {
    let table = FenceTable::new(table).unwrap();
    if !schema.is_empty() {
        let mut tx = bank.start().await;
        assert!(bank.make_table(&table).await.is_err(), "there is no schema");
        B::run(&mut tx, schema).await.unwrap();
        tx.commit().await.unwrap();
    }
    let locks = manager().await;
    let early = locks.lock("account:7").acquire().await.unwrap();
    let fence = early.fences().next().unwrap();
    early.release().await.unwrap();
    let late = locks.lock("account:7").acquire().await.unwrap();

    let mut tx = bank.start().await;
    let error = late.fence_in_table(&mut tx, &table).await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    let in_quotes = format!("`{}`", table.name());
    assert!(error.to_string().contains(&in_quotes), "there is no table: {error}");
    B::roll_back(tx).await;

    bank.make_table(&table).await.unwrap();
    bank.make_table(&table).await.unwrap();
    for _ in 0..2 {
        let mut tx = bank.start().await;
        late.fence_in_table(&mut tx, &table).await.unwrap();
        late.commit(tx).await.unwrap();
    }
    let mut tx = bank.start().await;
    assert!(table.record(&mut tx, &fence).await.is_err_and(|error| error.is_fenced()));
    B::roll_back(tx).await;

    let mut tx = bank.start().await;
    assert_eq!(B::number(&mut tx, count).await.unwrap(), 1);
    assert_eq!(B::number(&mut tx, "SELECT COUNT(*) FROM redlocked_fences").await.unwrap(), 0);
}

#[tokio::test]
async fn fences_are_kept_in_a_schema_of_postgres() {
    let Some((_server, bank)) = postgres().await else { return };
    let count = r#"SELECT COUNT(*) FROM "My-shop"."7_Fences""#;
    fences_are_kept_in(bank, r#"CREATE SCHEMA "My-shop""#, "My-shop.7_Fences", count).await;
}

#[tokio::test]
async fn fences_are_kept_in_a_database_of_mariadb_and_mysql() {
    for server in [mariadb("READ COMMITTED").await, mysql(DatabaseServer::mysql(), "READ COMMITTED").await] {
        let Some((_server, bank)) = server else { continue };
        let count = "SELECT COUNT(*) FROM `My-shop`.`7_Fences`";
        fences_are_kept_in(bank, "CREATE DATABASE `My-shop`", "My-shop.7_Fences", count).await;
    }
}

#[tokio::test]
async fn fences_are_kept_in_a_schema_of_sqlite() {
    let (_file, bank) = sqlite().await;
    let count = r#"SELECT COUNT(*) FROM main."7-fences""#;
    fences_are_kept_in(bank, "", "main.7-fences", count).await;
}

/// A word of SQL is a name like others.
#[tokio::test]
async fn a_table_may_be_called_as_a_word_of_sql() {
    let (_file, bank) = sqlite().await;
    fences_are_kept_in(bank, "", "table", r#"SELECT COUNT(*) FROM "table""#).await;
}

#[test]
fn what_is_no_name_is_refused_with_what_is_allowed() {
    let long = "x".repeat(64);
    for name in [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "a b",
        "a\"b",
        "a`b",
        "a'b",
        "a;b",
        "$$",
        "a$b",
        "a\0b",
        "a\nb",
        "\u{e4}",
        "\"a\"",
        "a/*b",
        "a(b",
        &long,
        &format!("a.{long}"),
    ] {
        let refused = FenceTable::new(name).unwrap_err().to_string();
        assert!(refused.contains("`table` or `schema.table`") && !refused.contains('\n'), "{refused}");
    }
    let longest = &long[..63];
    let table = FenceTable::new(format!("{longest}.{longest}")).unwrap();
    assert_eq!(table.name().len(), 127);
    assert_eq!(format!("{:?}", FenceTable::default()), r#"FenceTable("redlocked_fences")"#);
}
