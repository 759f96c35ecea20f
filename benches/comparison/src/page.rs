//! `BENCHMARKS.md` and its pictures, from the prose and the figures of one run.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::picture;
use crate::product::product;
use crate::report::{Chapter, Report};
use crate::results::Run;
use crate::series::figure;
use crate::sheet::{Loss, Sheet};
use crate::targets::TARGETS;

const PROSE: &str = include_str!("../prose/page.md");

pub fn write(report: &Report, machine: &[(&str, String)], minutes: f64, quick: bool) {
    // Before anything is written: it says whether the commit was changed.
    let run = Run::of(report);
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pictures = crate_directory.join("pictures");
    let _ = fs::remove_dir_all(&pictures);
    fs::create_dir_all(&pictures).unwrap();
    for sheet in report.chapters.iter().flat_map(|chapter| &chapter.sheets) {
        fs::write(pictures.join(file_name(sheet)), picture::draw(sheet)).unwrap();
    }
    let extent = if quick {
        "**These figures are of a quick look (`--quick`), in which the rounds are few and short: do not quote them.**\n\n"
    } else {
        ""
    };
    // A quick look is not to be quoted, and not kept.
    if !quick {
        run.keep(machine);
        report.fleet.write(&run.processor);
    }
    let path = product().join("BENCHMARKS.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let page = PROSE
        .replace("{{extent}}\n", extent)
        .replace("{{machine}}\n", &list(machine, minutes))
        .replace("{{targets}}\n", &targets(report, &run))
        .replace("{{missed}}\n", &missed(report))
        .replace("{{counts}}\n", &counts(&before))
        .replace("{{losses}}\n", &losses(report))
        .replace("{{left out}}\n", &left_out(report))
        .replace("{{workloads}}\n", &chapters(report));
    fs::write(path, page).unwrap();
}

/// The table that `benches/counts` has written into the page, with the lines around it.
fn counts(page: &str) -> String {
    const ENDS: &str = "<!-- To here. -->\n";
    let table = page.find("<!-- From here, `cargo bench --bench counts").and_then(|begins| {
        let rest = &page[begins..];
        Some(&rest[..rest.find(ENDS)? + ENDS.len()])
    });
    table.expect("BENCHMARKS.md has no table of benches/counts").to_owned()
}

fn file_name(sheet: &Sheet) -> String {
    let words = sheet.workload.split(|sign: char| !sign.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-").to_lowercase() + ".svg"
}

fn list(machine: &[(&str, String)], minutes: f64) -> String {
    let mut text = String::from("| | |\n| --- | --- |\n");
    for (what, is) in machine {
        let _ = writeln!(text, "| {what} | {is} |");
    }
    let _ = writeln!(text, "| The run | {minutes:.0} minutes |");
    text
}

/// A column for this run, and one for the last run on each other processor.
fn targets(report: &Report, this: &Run) -> String {
    let others = this.others();
    let runs: Vec<&Run> = std::iter::once(this).chain(&others).collect();
    let mut text = String::from("| what | aim |");
    for run in &runs {
        let _ = write!(text, " {} ({}) | |", run.processor, run.commit);
    }
    let _ = writeln!(text, "\n| --- | ---: |{}", " ---: | --- |".repeat(runs.len()));
    for target in TARGETS {
        // Said in a line of its own.
        if target.needs_second && report.measured.iter().all(|(one, _)| one.name != target.name) {
            continue;
        }
        let _ = write!(text, "| {} | {} |", target.what, target.aims_at());
        for run in &runs {
            let (value, verdict) = match run.find(target.name) {
                Some((value, None)) => (target.in_unit(value), target.verdict(value)),
                Some((value, Some(remark))) => {
                    (target.in_unit(value), format!("{}; {remark}", target.verdict(value)))
                }
                None => ("–".to_owned(), "not measured".to_owned()),
            };
            let _ = write!(text, " {value} | {verdict} |");
        }
        text.push('\n');
    }
    text
}

/// A line for each target of this run that is missed.
fn missed(report: &Report) -> String {
    let missed = report.measured.iter().filter(|(target, figure)| !target.holds(*figure));
    let lines: Vec<String> = missed
        .map(|(target, figure)| {
            let reason = target.reason().unwrap_or("not known");
            format!("- {} ({}, {}): {reason}.\n", target.what, target.in_unit(*figure), target.aims_at())
        })
        .collect();
    if lines.is_empty() { "None in this run.\n".to_owned() } else { lines.concat() }
}

/// A line for each table.
fn losses(report: &Report) -> String {
    let mut lines = String::new();
    for sheet in report.chapters.iter().flat_map(|chapter| &chapter.sheets) {
        let losses: Vec<String> = sheet.losses.iter().map(in_words).collect();
        if !losses.is_empty() {
            let _ = writeln!(lines, "| {} | {} |", sheet.workload, losses.join("; "));
        }
    }
    if lines.is_empty() {
        return "Nowhere in this run.\n".to_owned();
    }
    format!("| where | what: ours, the best peer's |\n| --- | --- |\n{lines}")
}

fn in_words(loss: &Loss) -> String {
    let factor = match loss.factor {
        // They have none of it.
        Some(factor) if factor.is_infinite() => "–".to_owned(),
        Some(factor) => format!("{factor:.2} ×"),
        None => "we have none".to_owned(),
    };
    let (ours, theirs) = (figure(loss.our_figure), figure(Some(loss.their_figure)));
    format!("{}: {ours}, {} {theirs} ({factor})", loss.what, loss.theirs)
}

fn left_out(report: &Report) -> String {
    let mut text = String::new();
    for (who, why) in &report.left_out {
        let _ = writeln!(text, "- {who}: {why}.");
    }
    text
}

/// But for those whose workload was left out.
fn chapters(report: &Report) -> String {
    let done = report.chapters.iter().filter(|chapter| !chapter.sheets.is_empty());
    done.map(chapter).collect::<Vec<_>>().join("\n")
}

fn chapter(chapter: &Chapter) -> String {
    let mut text = chapter.prose.to_owned();
    for sheet in &chapter.sheets {
        let _ = write!(
            text,
            "\n![{} ({})](benches/comparison/pictures/{})\n\n{}",
            sheet.title,
            sheet.unit,
            file_name(sheet),
            sheet.markdown,
        );
    }
    text
}
