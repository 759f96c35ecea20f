//! `redlocked list`.

use std::io::{self, IsTerminal, Write};

use redlocked::{LockInfo, LockManager};
use serde_json::Value;

use crate::args::ListArgs;
use crate::exit::{Failure, OK};
use crate::lock_text::{self, Ago, caller, lease_left, printable};

pub(crate) async fn list(locks: &LockManager, args: &ListArgs) -> Result<u8, Failure> {
    let held = locks.list(&args.pattern).await?;
    let mut out = io::stdout().lock();
    if args.json {
        let all: Value = held.iter().map(lock_text::json).collect();
        writeln!(out, "{all}")?;
    } else if out.is_terminal() {
        for line in table(&held) {
            writeln!(out, "{line}")?;
        }
    } else {
        for lock in &held {
            writeln!(out, "{}", columns(lock).join("\t"))?;
        }
    }
    Ok(OK)
}

const HEADER: [&str; 6] = ["KEY", "HOLDER", "FUNCTION", "ASKED", "LEASE LEFT", "WAITERS"];

fn columns(lock: &LockInfo) -> [String; 6] {
    let holder = lock.holder();
    [
        printable(lock.key()),
        caller(holder.name(), None),
        holder.function().unwrap_or("-").to_owned(),
        holder.since().map_or_else(|| "-".to_owned(), |since| Ago(since).to_string()),
        lease_left(lock),
        lock.waiters().to_string(),
    ]
}

/// A header and a line for each lock, the columns below each other.
pub(crate) fn table(locks: &[LockInfo]) -> Vec<String> {
    let header = HEADER.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(header).chain(locks.iter().map(columns)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; HEADER.len()] = std::array::from_fn(width);
    let line = |row: &[String; HEADER.len()]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
