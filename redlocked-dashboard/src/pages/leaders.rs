//! The leaders of elections.

use maud::html;

use super::{Rendered, link, more, shown};
use crate::live::Seen;
use crate::state::{LeaderRow, Rows};
use crate::text::{printable, process, since_then, span};

pub(super) fn render(base: &str, filter: &str, seen: &Seen<Rows<LeaderRow>>) -> Rendered {
    shown("Leaders", seen, |Rows { rows, count }, at| {
        html! {
            h1 { "Leaders " span.count { (count) } }
            @if rows.is_empty() {
                p.note { "Nobody leads an election" @if !filter.is_empty() { " that the filter “" (printable(filter)) "” finds" } "." }
            } @else {
                table.cards {
                    caption { "Elections that have a leader" }
                    thead { tr {
                        th scope="col" { "Election" } th scope="col" { "Leader" } th.number scope="col" { "Term" }
                        th.number scope="col" { "Leads for" } th scope="col" { "Announces" }
                        th.number scope="col" { "Lease left" } th.number scope="col" { "Waiting" }
                    } }
                    tbody {
                        @for LeaderRow { key, leader, candidates } in rows {
                            tr {
                                th scope="row" { (link(base, key)) }
                                td data-label="Leader" { (process(leader.name())) }
                                td.number data-label="Term" { @if let Some(term) = leader.fencing_token() { (term) } @else { "–" } }
                                td.number data-label="Leads for" { @if let Some(since) = leader.since() { (since_then(since, at)) } @else { "–" } }
                                td data-label="Announces" { @if let Some(text) = leader.announced() { (printable(text)) } @else { "–" } }
                                td.number data-label="Lease left" { (leader.expires_in().map_or_else(|| "no end".to_owned(), span)) }
                                td.number data-label="Waiting" { (candidates) }
                            }
                        }
                    }
                }
                (more(rows.len(), *count))
            }
        }
    })
}
