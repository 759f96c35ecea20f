//! The locks in the form that was asked for.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use redlocked::Holder;
use redlocked::inspect::LockInfo;
use serde_json::Value;
use terminal_size::{Width, terminal_size_of};

use crate::args::{Format, OutputArgs, Sort};
use crate::lock_text::{
    asked, caller, epoch, function, held_for, in_ms, json, lease_left, printable, rfc3339, together, waiter,
};
use crate::table::{Cell, Column, Cut, Table, folded, start, styled};

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
        let queued = if lock.waiters() > 0 { AnsiColor::Yellow.on_default() } else { Style::new() };
        vec![
            key,
            holder_cell(lock),
            Cell::plain(function(lock).unwrap_or("-")),
            Cell::plain(held_for(lock).unwrap_or_else(|| "-".to_owned())),
            Cell::plain(lease_left(lock)),
            Cell::styled(lock.waiters().to_string(), queued),
        ]
    }

    fn wide(&self) -> Vec<Cell> {
        let mut cells = self.table();
        if let Some(lock) = self.lock {
            let times = [asked(lock), lock.holder().granted()];
            let times = times.map(|time| Cell::plain(time.map_or_else(|| "-".to_owned(), rfc3339)));
            cells.splice(3..3, times);
            cells.push(Cell::plain(lock.queue().first().map_or_else(|| "-".to_owned(), waiter)));
        }
        cells
    }

    fn free(&self) -> Vec<Cell> {
        let free = Cell::styled("(free)", AnsiColor::Green.on_default());
        vec![Cell::plain(printable(self.key)), free]
    }

    fn tsv(&self) -> String {
        let holder = self.lock.map(LockInfo::holder);
        let name = holder.and_then(|holder| holder.name());
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        [
            printable(self.key),
            self.lock.and_then(together).as_deref().or(name).unwrap_or_default().to_owned(),
            self.lock.and_then(function).unwrap_or_default().to_owned(),
            number(self.lock.and_then(asked).map(epoch)),
            number(holder.and_then(Holder::granted).map(epoch)),
            number(holder.and_then(Holder::expires_in).map(in_ms)),
            number(self.lock.map(|lock| lock.waiters().into())),
        ]
        .join("\t")
    }

    fn json(&self) -> io::Result<Value> {
        self.lock.map_or_else(|| Ok(serde_json::json!({ "key": self.key, "holder": null })), json)
    }
}

/// In few columns: a client of another kind is `(foreign)`.
fn holder_cell(lock: &LockInfo) -> Cell {
    match (together(lock), lock.holders()) {
        (Some(together), [one]) => Cell::plain(format!("{together}: {}", one.name().unwrap_or("(foreign)"))),
        // How many they are is at its start.
        (Some(together), _) => Cell { cut: Some(Cut::End), ..Cell::plain(together) },
        (None, _) => Cell::plain(lock.holder().name().unwrap_or("(foreign)")),
    }
}

/// A header and a line for each lock, in this width and height. The last line says how many have no
/// room.
pub(crate) fn table(locks: &[LockInfo], width: usize, height: usize) -> Vec<String> {
    let room = height.saturating_sub(1);
    let shown = if locks.len() > room { room.saturating_sub(1) } else { locks.len() };
    let rows: Vec<_> = locks.iter().take(shown).map(|lock| Row::from(lock).table()).collect();
    let table = Table::new(&TABLE, &rows, Some(width));
    let left_out = locks.len() - shown;
    let more = (left_out > 0).then(|| {
        start(&format!("and {left_out} more: a higher terminal or a PATTERN shows them"), width).to_owned()
    });
    std::iter::once(table.header()).chain(rows.iter().map(|row| table.line(row))).chain(more).collect()
}

pub(crate) fn sort(locks: &mut [LockInfo], by: Sort) {
    // The order among equals is that of their keys.
    match by {
        Sort::Key => {}
        Sort::Holder => {
            locks.sort_by_key(|lock| caller(lock.holders().first().and_then(Holder::name), function(lock)));
        }
        Sort::Held => {
            locks.sort_by_key(|lock| lock.holder().granted().or_else(|| asked(lock)).map_or(u64::MAX, epoch));
        }
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
            Format::Json => {
                for row in rows {
                    lines.push(row.json()?.to_string());
                }
            }
            Format::Tsv => {
                lines.extend(is_header_due.then(|| TSV.to_owned()));
                lines.extend(rows.iter().map(Row::tsv));
            }
            Format::Table | Format::Wide => {
                let is_wide = self.format == Format::Wide;
                let cells: Vec<_> =
                    rows.iter().map(|row| if is_wide { row.wide() } else { row.table() }).collect();
                let width = terminal_size_of(io::stdout()).map(|(Width(width), _)| usize::from(width));
                let columns: &[Column] = if is_wide { &WIDE } else { &TABLE };
                let table = Table::new(columns, &cells, width.filter(|_| !is_wide));
                if let Some(width) = width.filter(|width| is_wide && table.width() > *width) {
                    lines.extend(cells.iter().flat_map(|row| block(row, width)));
                } else {
                    lines.extend(is_header_due.then(|| table.header()));
                    lines.extend(cells.iter().map(|row| table.line(row)));
                }
            }
        }
        print(&lines)
    }

    /// In JSON one array.
    pub(crate) fn all(&mut self, locks: &[LockInfo]) -> io::Result<()> {
        if self.is_json() {
            return print(&[locks.iter().map(json).collect::<io::Result<Value>>()?.to_string()]);
        }
        self.rows(&locks.iter().map(Row::from).collect::<Vec<_>>())
    }
}

/// A row of the wide table, where the terminal is not that wide: a line for each column, and one
/// between two locks.
fn block(row: &[Cell], width: usize) -> Vec<String> {
    const LABEL: usize = 12;
    let mut lines = Vec::new();
    for (Column { title, .. }, cell) in WIDE.iter().zip(row).filter(|(_, cell)| cell.text != "-") {
        let text = folded(&cell.text, width.saturating_sub(LABEL).max(LABEL));
        let titles = std::iter::once(*title).chain(std::iter::repeat(""));
        lines.extend(titles.zip(text).map(|(title, text)| {
            let title = styled(&format!("{title:LABEL$}"), Style::new().bold());
            format!("{title}{}", styled(&text, cell.style))
        }));
    }
    lines.push(String::new());
    lines
}

/// To standard output, with colours where it has them.
fn print(lines: &[String]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
