//! The locks in the form that was asked for.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use redlocked::{Holder, LockInfo};
use serde_json::Value;
use terminal_size::{Width, terminal_size_of};

use crate::args::{Format, OutputArgs, Sort};
use crate::lock_text::{Ago, caller, epoch, in_ms, json, lease_left, printable, rfc3339, together, waiter};
use crate::table::{Cell, Column, Cut, Table};

const fn column(title: &'static str, cut: Cut, rank: u8) -> Column {
    Column { title, cut, rank }
}

const TABLE: [Column; 6] = [
    column("KEY", Cut::End, 0),
    column("HOLDER", Cut::Start, 1),
    column("FUNCTION", Cut::Start, 3),
    column("HELD FOR", Cut::Never, 2),
    column("LEASE LEFT", Cut::Never, 0),
    column("WAITERS", Cut::Never, 0),
];

const WIDE: [Column; 9] = [
    column("KEY", Cut::Never, 0),
    column("HOLDER", Cut::Never, 0),
    column("FUNCTION", Cut::Never, 0),
    column("ASKED", Cut::Never, 0),
    column("GRANTED", Cut::Never, 0),
    column("HELD FOR", Cut::Never, 0),
    column("LEASE LEFT", Cut::Never, 0),
    column("WAITERS", Cut::Never, 0),
    column("NEXT", Cut::Never, 0),
];

const TSV: &str = "key\tholder\tfunction\tasked_epoch\tgranted_epoch\tlease_left_ms\twaiters";

/// A key, and the lock on it; `None` when it is free by now.
pub(crate) struct Row<'a> {
    pub(crate) key: &'a str,
    pub(crate) lock: Option<&'a LockInfo>,
}

impl<'a> From<&'a LockInfo> for Row<'a> {
    fn from(lock: &'a LockInfo) -> Self {
        Self { key: lock.key(), lock: Some(lock) }
    }
}

impl Row<'_> {
    fn table(&self) -> Vec<Cell> {
        let key = Cell::plain(printable(self.key));
        let Some(lock) = self.lock else { return self.free() };
        let holder = lock.holder();
        let queued = if lock.waiters() > 0 { AnsiColor::Yellow.on_default() } else { Style::new() };
        vec![
            key,
            // In few columns: a client of another kind.
            Cell::plain(together(lock).as_deref().or(holder.name()).unwrap_or("(foreign)")),
            Cell::plain(holder.function().unwrap_or("-")),
            Cell::plain(holder.granted().map_or_else(|| "-".to_owned(), |granted| Ago(granted).to_string())),
            Cell::plain(lease_left(lock)),
            Cell { text: lock.waiters().to_string(), style: queued },
        ]
    }

    fn wide(&self) -> Vec<Cell> {
        let mut cells = self.table();
        if let Some(lock) = self.lock {
            let times = [lock.holder().asked(), lock.holder().granted()];
            let times = times.map(|time| Cell::plain(time.map_or_else(|| "-".to_owned(), rfc3339)));
            cells.splice(3..3, times);
            cells.push(Cell::plain(lock.queue().first().map_or_else(|| "-".to_owned(), waiter)));
        }
        cells
    }

    fn free(&self) -> Vec<Cell> {
        let free = Cell { text: "(free)".to_owned(), style: AnsiColor::Green.on_default() };
        vec![Cell::plain(printable(self.key)), free]
    }

    fn tsv(&self) -> String {
        let holder = self.lock.map(LockInfo::holder);
        let name = holder.and_then(|holder| holder.name());
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        [
            printable(self.key),
            self.lock.and_then(together).as_deref().or(name).unwrap_or_default().to_owned(),
            holder.and_then(|holder| holder.function()).unwrap_or_default().to_owned(),
            number(holder.and_then(Holder::asked).map(epoch)),
            number(holder.and_then(Holder::granted).map(epoch)),
            number(holder.and_then(Holder::expires_in).map(in_ms)),
            number(self.lock.map(|lock| lock.waiters().into())),
        ]
        .join("\t")
    }

    fn json(&self) -> Value {
        self.lock.map_or_else(|| serde_json::json!({ "key": self.key, "holder": null }), json)
    }
}

/// A header and a line for each lock, as wide as the terminal.
pub(crate) fn table(locks: &[LockInfo], width: usize) -> Vec<String> {
    let rows: Vec<_> = locks.iter().map(|lock| Row::from(lock).table()).collect();
    let table = Table::new(&TABLE, &rows, Some(width));
    std::iter::once(table.header()).chain(rows.iter().map(|row| table.line(row))).collect()
}

pub(crate) fn sort(locks: &mut [LockInfo], by: Sort) {
    // The order among equals is that of their keys.
    match by {
        Sort::Key => {}
        Sort::Holder => locks.sort_by_key(|lock| caller(lock.holder().name(), lock.holder().function())),
        Sort::Held => locks.sort_by_key(|lock| lock.holder().granted().map_or(u64::MAX, epoch)),
        Sort::Lease => locks.sort_by_key(|lock| lock.holder().expires_in().map_or(u64::MAX, in_ms)),
        Sort::Waiters => locks.sort_by_key(|lock| std::cmp::Reverse(lock.waiters())),
    }
}

/// Prints locks once, or again and again below one header.
pub(crate) struct Printer {
    format: Format,
    is_header_due: bool,
}

impl Printer {
    /// By default, a table on a terminal, and elsewhere what a program reads.
    pub(crate) fn new(args: &OutputArgs) -> Self {
        let default = || if io::stdout().is_terminal() { Format::Table } else { Format::Tsv };
        Self { format: args.output.unwrap_or_else(default), is_header_due: !args.no_header }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn rows(&mut self, rows: &[Row<'_>]) -> io::Result<()> {
        let is_header_due = std::mem::take(&mut self.is_header_due);
        let mut lines = Vec::new();
        match self.format {
            Format::Json => lines.extend(rows.iter().map(|row| row.json().to_string())),
            Format::Tsv => {
                lines.extend(is_header_due.then(|| TSV.to_owned()));
                lines.extend(rows.iter().map(Row::tsv));
            }
            Format::Table | Format::Wide => {
                let is_wide = self.format == Format::Wide;
                let cells: Vec<_> =
                    rows.iter().map(|row| if is_wide { row.wide() } else { row.table() }).collect();
                let width = (!is_wide).then(|| terminal_size_of(io::stdout())).flatten();
                let width = width.map(|(Width(width), _)| width.into());
                let table = Table::new(if is_wide { &WIDE } else { &TABLE }, &cells, width);
                lines.extend(is_header_due.then(|| table.header()));
                lines.extend(cells.iter().map(|row| table.line(row)));
            }
        }
        print(&lines)
    }

    /// In JSON one array.
    pub(crate) fn all(&mut self, locks: &[LockInfo]) -> io::Result<()> {
        if self.is_json() {
            return print(&[locks.iter().map(json).collect::<Value>().to_string()]);
        }
        self.rows(&locks.iter().map(Row::from).collect::<Vec<_>>())
    }
}

/// To standard output, with colours where it has them.
fn print(lines: &[String]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
