//! The chapter of `BENCHMARKS.md` that these figures fill, between two lines that say so.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::figures::Figures;
use crate::ways::WAYS;

const BEGINS: &str = "<!-- From here, `cargo bench --bench counts -- --write` writes the table. -->\n";
const ENDS: &str = "<!-- To here. -->\n";

/// What a reader calls each way, and what decides where it misses its aim.
const ROWS: &[(&str, &str, &str)] = &[
    ("uncontended", "A free lock: acquire, release", ""),
    (
        "fenced",
        "A free lock with a fencing token, used rarely",
        "the server may have restarted, so a script reads the last token",
    ),
    ("together", "A free lock with a fencing token, used often", ""),
    (
        "counted",
        "A permit",
        "two scripts, an exclusive lock has none; an empty script costs 11,300, each key and argument 1,600",
    ),
    ("shared", "A reader", "the two scripts of a permit"),
    ("sync", "A free lock of a sync function", ""),
    (
        "hand-off",
        "A hand-off between two processes",
        "three scripts: join the queue, release and grant, renew the grant as a lease",
    ),
    (
        "fleet",
        "A hand-off in a fleet of ten processes, five callers each",
        "the three scripts of a hand-off notify more waiters",
    ),
    (
        "crowd",
        "A hand-off in a fleet of ten processes, fifty callers each",
        "the three scripts of a hand-off notify more waiters, in a queue of 500",
    ),
    (
        "join",
        "A caller that waits and leaves the queue",
        "each of its scripts reads the lock, the queue and the claim",
    ),
    (
        "renewal",
        "A renewal of one of 64 locks",
        "the server also has to report changes by others; before 7.2, each read of a script notes all keys of the call for that",
    ),
    ("leading", "A renewal of a leader", "besides the commands of a lock, it writes the term again"),
    ("tick", "A tick", "one script reads the last tick, acquires the lock and draws a token"),
    (
        "once",
        "A body that runs once",
        "the lock and the record change together: two scripts with twelve arguments",
    ),
    (
        "replay",
        "The replay of a body that runs once",
        "a `GET` does not tell if this call holds the lock, or if the record is of another request",
    ),
    ("quorum", "One server of a quorum of three", ""),
];

pub(crate) fn write(figures: &Figures) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("BENCHMARKS.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGINS).unwrap();
    let (_, after) = rest.split_once(ENDS).unwrap();
    fs::write(path, format!("{before}{BEGINS}{}{ENDS}{after}", table(figures))).unwrap();
}

fn table(figures: &Figures) -> String {
    let mut text = format!("{}:\n\n", figures.builds());
    text += "| what | instructions | ÷ by hand | aim | |\n| --- | ---: | ---: | ---: | --- |\n";
    for way in WAYS {
        let Some((beside, aim)) = way.beside else { continue };
        let (_, what, reason) = ROWS.iter().find(|(name, ..)| *name == way.name).unwrap();
        let Some(count) = figures.count(way.name, "server") else { continue };
        let Some(by_hand) = figures.count(beside, "server").filter(|count| *count > 0) else { continue };
        let ratio = (count * 100).div_ceil(by_hand);
        let verdict = if ratio > aim { format!("**missed**: {reason}") } else { "holds".to_owned() };
        let [ratio, aim] =
            [ratio, aim].map(|hundredths| format!("{}.{:02}", hundredths / 100, hundredths % 100));
        let _ = writeln!(text, "| {what} | {} | {ratio} × | ≤ {aim} × | {verdict} |", grouped(count));
    }
    text
}

/// With a comma behind the thousands.
fn grouped(count: u64) -> String {
    if count < 1000 { count.to_string() } else { format!("{},{:03}", count / 1000, count % 1000) }
}
