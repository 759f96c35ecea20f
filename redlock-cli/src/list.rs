//! `redlocked list`.

use std::io::{self, IsTerminal, Write};

use redlocked::{LockError, LockManager};
use serde_json::Value;

use crate::args::ListArgs;
use crate::exit::{Failure, OK};
use crate::lock_text::LockText;

pub(crate) async fn list(locks: &LockManager, args: &ListArgs) -> Result<u8, Failure> {
    let found = held(locks, &args.pattern).await?;
    let mut out = io::stdout().lock();
    if args.json {
        let all: Value = found.iter().map(LockText::json).collect();
        writeln!(out, "{all}")?;
    } else if out.is_terminal() {
        for line in table(&found) {
            writeln!(out, "{line}")?;
        }
    } else {
        for lock in &found {
            writeln!(out, "{}", columns(lock).join("\t"))?;
        }
    }
    Ok(OK)
}

/// The held locks that match, sorted by key.
pub(crate) async fn held(locks: &LockManager, pattern: &str) -> Result<Vec<LockText>, Failure> {
    let mut held = Vec::new();
    for key in locks.list(pattern).await? {
        match locks.inspect(&key).await {
            Ok(Some(info)) => held.push(LockText { key, info }),
            // Released meanwhile; or no lock of this library: it would have refused that key.
            Ok(None) | Err(LockError::InvalidKey { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}

const HEADER: [&str; 4] = ["KEY", "HOLDER", "LEASE LEFT", "WAITERS"];

fn columns(lock: &LockText) -> [String; 4] {
    [lock.key(), lock.holder().to_owned(), lock.lease_left(), lock.info.waiters().to_string()]
}

/// A header and a line for each lock, the columns below each other.
pub(crate) fn table(locks: &[LockText]) -> Vec<String> {
    let header = HEADER.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(header).chain(locks.iter().map(columns)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 4] = std::array::from_fn(width);
    let line = |row: &[String; 4]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
