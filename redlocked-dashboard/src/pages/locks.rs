//! The locks that are held, those with the most waiters first.

use std::time::SystemTime;

use maud::{Markup, html};
use redlocked::inspect::{LockInfo, Waiter};

use super::{Rendered, link, more, shown};
use crate::live::Seen;
use crate::state::{LockRow, Rows};
use crate::text::{ago, printable, process, since, since_then, span as length, together};

pub(super) fn render(base: &str, prefix: &str, filter: &str, seen: &Seen<Rows<LockRow>>) -> Rendered {
    shown("Locks", seen, |Rows { rows, count }, at| {
        let waiters: u64 = rows.iter().map(|row| u64::from(row.lock.waiters())).sum();
        html! {
            h1 { "Locks " span.count { (count) } }
            @if rows.is_empty() {
                p.note { "No lock is held under the prefix " code { (printable(prefix)) } @if !filter.is_empty() { " that the filter “" (printable(filter)) "” finds" } "." }
            } @else {
                table.cards {
                    caption { (count) " held, " (waiters) " callers wait" }
                    thead { tr {
                        th scope="col" { "Key" } th scope="col" { "Kind" } th scope="col" { "Holder" }
                        th scope="col" { "Function" } th.number scope="col" { "Held for" }
                        th.number scope="col" { "Lease left" } th.number scope="col" { "Waiters" }
                        th.number scope="col" { "Longest wait" }
                    } }
                    tbody { @for row in rows { (line(base, row, at)) } }
                }
                (more(rows.len(), *count))
            }
        }
    })
}

fn line(base: &str, LockRow { key, lock }: &LockRow, at: SystemTime) -> Markup {
    let functions: Vec<_> = lock.holders().iter().map(|holder| holder.function()).collect();
    let function = match functions.as_slice() {
        [first, others @ ..] if others.iter().any(|other| other != first) => "several",
        [first, ..] => first.unwrap_or("–"),
        [] => "–",
    };
    let asked = lock.queue().iter().filter_map(Waiter::asked).min();
    html! {
        tr {
            th scope="row" { (link(base, key.key())) }
            td data-label="Kind" { (kind(lock, key.has_leader(), key.has_once_record(), key.has_tick())) }
            td data-label="Holder" { (holder(lock)) }
            td data-label="Function" { (printable(function)) }
            td.number data-label="Held for" { (held_for(lock, at)) }
            td.number data-label="Lease left" { (lease(lock)) }
            td.number data-label="Waiters" { @if lock.waiters() > 0 { strong { (lock.waiters()) } } @else { "0" } }
            td.number data-label="Longest wait" { @if let Some(asked) = asked { (ago(asked, at)) } @else { "–" } }
        }
    }
}

/// How it is held.
pub(super) fn kind(lock: &LockInfo, leads: bool, once: bool, ticks: bool) -> String {
    match together(lock) {
        Some(together) => together,
        None if leads => "leader".to_owned(),
        None if once => "once".to_owned(),
        None if ticks => "tick".to_owned(),
        None => "exclusive".to_owned(),
    }
}

fn holder(lock: &LockInfo) -> String {
    match lock.holders() {
        [one] => process(one.name()),
        several => format!(
            "{} and {} more",
            process(several.first().and_then(|one| one.name())),
            lock.inside().saturating_sub(1)
        ),
    }
}

/// For how long it is held. If there are several holders, it is only known when they asked.
pub(super) fn held_for(lock: &LockInfo, now: SystemTime) -> Markup {
    let at_most = lock.holder().inside().is_some();
    html! {
        @match since(lock) {
            Some(since) => span { @if at_most { "≤ " } (since_then(since, now)) },
            None => "–",
        }
    }
}

pub(super) fn lease(lock: &LockInfo) -> String {
    lock.holder().expires_in().map_or_else(|| "no end".to_owned(), length)
}
