//! The columns that the page shows. A reader compares five figures of a contender, and not thirty:
//! the others are in the file of the run.

use crate::sheet::Sheet;

/// Beside the column of the names.
pub const MOST: usize = 5;

/// Some columns of a table.
pub struct View {
    /// The line above it. A table of one part needs none.
    pub caption: &'static str,
    pub columns: &'static [&'static str],
}

const fn first(columns: &'static [&'static str]) -> View {
    View { caption: "", columns }
}

/// By the name of a table. One that is not here has few columns, and shows the first ones.
const SHOWN: &[(&str, &[View])] = &[
    ("uncontended", &[first(&["p50 in µs", "p99", "÷ bare", "two cores: ÷ bare", "two workers: ÷ bare"])]),
    (
        "many tasks",
        &[first(&["locks/s", "÷ bare", "client CPU, µs/lock", "server CPU, µs/lock", "two cores: ÷ bare"])],
    ),
    (
        "hand-off",
        &[
            View {
                caption: "With 50 waiters, on one core and on two:",
                columns: &["p50 in ms", "p99", "÷ direct", "commands", "50 wait, two cores: p50"],
            },
            View {
                caption: "The p50 in milliseconds with other numbers of waiters, and with a slower network:",
                columns: &[
                    "2 wait, one core: p50",
                    "500 wait, one core: p50",
                    "10,000 wait, one core: p50",
                    "50 wait, 1 ms away: p50",
                ],
            },
        ],
    ),
    (
        "flash sale",
        &[first(&["requests/s, if all were served", "÷ direct", "p99 ms", "sent away", "two inside"])],
    ),
    (
        "readers",
        &[first(&[
            "locks/s",
            "÷ exclusive",
            "server CPU, µs/lock",
            "beside a writer: readers/s",
            "the writer's wait in ms, p99",
        ])],
    ),
    (
        "permits",
        &[first(&["permits/s", "÷ tokio's", "wait in ms, p50", "wait in ms, p99", "commands/permit"])],
    ),
    (
        "fleet, own keys",
        &[first(&[
            "locks/s",
            "server CPU, µs/lock",
            "longest call, ms",
            "10 managers: locks/s",
            "1,000 managers: locks/s",
        ])],
    ),
    (
        "fleet, one key",
        &[first(&[
            "hand-offs/s",
            "longest wait, ms",
            "10 managers: hand-offs/s",
            "1,000 managers: hand-offs/s",
            "1,000 managers: longest wait, ms",
        ])],
    ),
    (
        "fleet, restarts",
        &[first(&[
            "ms",
            "kB of the server each",
            "kB of the client each",
            "longest queue of connections",
            "calls failed while it rolls",
        ])],
    ),
    (
        "fleet, held",
        &[first(&[
            "% of a core",
            "server, % of a core",
            "bytes of the client a lock",
            "bytes of the server a lock",
            "lost",
        ])],
    ),
    (
        "quorum",
        &[first(&["p50 in ms", "÷ bare", "keys left behind a lock", "2 stopped: p99", "2 killed: p99"])],
    ),
    (
        "renewals",
        &[first(&["% of a core", "÷ by hand", "bytes of memory a lock", "server, % of a core", "lost"])],
    ),
];

/// The table as the page shows it, in one part or more.
pub fn markdown(sheet: &Sheet) -> String {
    let views = SHOWN.iter().find(|(table, _)| *table == sheet.workload).map(|(_, views)| *views);
    let Some(views) = views else {
        return sheet.markdown(sheet.columns.iter().take(MOST).map(String::as_str));
    };
    let captioned = |view: &View| {
        let caption = if view.caption.is_empty() { "" } else { &format!("{}\n\n", view.caption) };
        format!("{caption}{}", sheet.markdown(view.columns.iter().copied()))
    };
    views.iter().map(captioned).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{MOST, SHOWN};
    use crate::results::Run;

    #[test]
    fn a_column_that_the_page_shows_is_one_of_each_run_that_is_kept() {
        for (_, sheet) in Run::all().iter().flat_map(|run| &run.sheets) {
            match SHOWN.iter().find(|(table, _)| *table == sheet.workload) {
                Some((_, views)) => {
                    for column in views.iter().flat_map(|view| view.columns) {
                        assert!(
                            sheet.columns.iter().any(|one| one == column),
                            "{}: {column}",
                            sheet.workload
                        );
                    }
                }
                None => {
                    assert!(sheet.columns.len() <= MOST, "{} has columns that nobody sees", sheet.workload);
                }
            }
        }
    }

    #[test]
    fn no_table_of_the_page_has_more_columns_than_a_reader_compares() {
        for (table, views) in SHOWN {
            assert!(views.iter().all(|view| view.columns.len() <= MOST), "{table}");
        }
    }
}
