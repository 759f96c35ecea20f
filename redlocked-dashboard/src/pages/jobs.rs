//! Jobs: the last tick of each key, and the bodies that run once.

use std::time::SystemTime;

use maud::{Markup, html};
use redlocked::once::OnceRecord;

use super::{Rendered, link, more, shown};
use crate::live::Seen;
use crate::state::{JobRow, Rows};
use crate::text::{printable, process, since_then};

pub(super) fn render(base: &str, filter: &str, seen: &Seen<Rows<JobRow>>) -> Rendered {
    shown("Jobs", seen, |Rows { rows, count }, at| {
        html! {
            h1 { "Jobs " span.count { (count) } }
            @if rows.is_empty() {
                p.note { "No tick and no body that runs once is recorded" @if !filter.is_empty() { " that the filter “" (printable(filter)) "” finds" } "." }
            } @else {
                table.cards {
                    caption { "Ticks, and bodies that run once" }
                    thead { tr {
                        th scope="col" { "Key" } th scope="col" { "Kind" } th scope="col" { "State" }
                        th scope="col" { "Process" } th scope="col" { "Function" } th.number scope="col" { "Age" }
                    } }
                    tbody { @for row in rows { (lines(base, row, at)) } }
                }
                (more(rows.len(), *count))
            }
        }
    })
}

fn lines(base: &str, row: &JobRow, at: SystemTime) -> Markup {
    html! {
        @if let Some(tick) = &row.tick {
            tr {
                th scope="row" { (link(base, &row.key)) }
                td data-label="Kind" { "tick" }
                td data-label="State" { @if row.is_locked { "runs now" } @else { "over" } }
                td data-label="Process" { (process(tick.by().name())) }
                td data-label="Function" { (printable(tick.by().function().unwrap_or("–"))) }
                td.number data-label="Age" { (since_then(tick.time(), at)) }
            }
        }
        @if let Some(once) = &row.once {
            tr {
                th scope="row" { (link(base, &row.key)) }
                td data-label="Kind" { "once" }
                td data-label="State" { (state(once, row.is_locked)) }
                td data-label="Process" { (process(once.name())) }
                td data-label="Function" { (printable(once.function().unwrap_or("–"))) }
                td.number data-label="Age" { (since_then(once.since(), at)) }
            }
        }
    }
}

/// A body that has begun and has no lock is not at work any more.
pub(super) fn state(once: &OnceRecord, is_locked: bool) -> Markup {
    html! {
        @if once.is_done() { "done" } @else if is_locked { "runs now" } @else { strong.bad { "interrupted" } }
    }
}
