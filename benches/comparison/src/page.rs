//! `BENCHMARKS.md` and its pictures, from the prose and the figures of one run that is kept.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::picture;
use crate::product::product;
use crate::results::Run;
use crate::series::figure;
use crate::sheet::{Loss, Sheet};
use crate::shown;
use crate::targets::{TARGETS, Target};

const PROSE: &str = include_str!("../prose/page.md");

/// Writes the page and its pictures. `prose`: the text of each workload, by its name, in the order of
/// the page.
pub fn write(run: &Run, quick: bool, prose: &[(&str, &str)]) {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("pictures");
    let _ = fs::remove_dir_all(&pictures);
    fs::create_dir_all(&pictures).unwrap();
    for (_, sheet) in &run.sheets {
        fs::write(pictures.join(file_name(sheet)), picture::draw(sheet)).unwrap();
    }
    let path = product().join("BENCHMARKS.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, page(run, quick, prose, &before)).unwrap();
}

/// `before`: the page as it is.
fn page(run: &Run, quick: bool, prose: &[(&str, &str)], before: &str) -> String {
    let extent = if quick {
        "**These figures are of a quick look (`--quick`), in which the rounds are few and short: do not quote them.**\n\n"
    } else {
        ""
    };
    PROSE
        .replace("{{extent}}\n", extent)
        .replace("{{machine}}\n", &list(run))
        .replace("{{targets}}\n", &targets(run))
        .replace("{{missed}}\n", &missed(run))
        .replace("{{counts}}\n", &counts(before))
        .replace("{{losses}}\n", &losses(run))
        .replace("{{left out}}\n", &left_out(run))
        .replace("{{workloads}}\n", &chapters(run, prose))
        .replace("{{file}}", &run.file_name())
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

fn list(run: &Run) -> String {
    let mut text = String::from("| | |\n| --- | --- |\n");
    for (what, is) in &run.machine {
        let _ = writeln!(text, "| {what} | {is} |");
    }
    if let Some(minutes) = run.minutes {
        let _ = writeln!(text, "| The run | {minutes:.0} minutes |");
    }
    text
}

/// A column for this run, and one for the last run on each other processor.
fn targets(this: &Run) -> String {
    let others = this.others();
    let runs: Vec<&Run> = std::iter::once(this).chain(&others).collect();
    let mut text = String::from("| what | aim |");
    for run in &runs {
        let _ = write!(text, " {} ({}) |", run.processor, run.commit);
    }
    let _ = writeln!(text, "\n| --- | ---: |{}", " --- |".repeat(runs.len()));
    for target in TARGETS {
        // Said in a line of its own.
        if target.needs_second && this.find(target.name).is_none() {
            continue;
        }
        let _ = write!(text, "| {} | {} |", target.what, target.aims_at());
        for run in &runs {
            let _ = match run.find(target.name) {
                Some((value, remark)) => {
                    let remark = remark.map(|remark| format!(", {remark}")).unwrap_or_default();
                    write!(text, " {}, {}{remark} |", target.in_unit(value), target.verdict(value))
                }
                None => write!(text, " not measured |"),
            };
        }
        text.push('\n');
    }
    text
}

/// A line for each target of this run that is missed.
fn missed(run: &Run) -> String {
    let measured = run.figures.iter().map(|one| (Target::named(&one.target), one.value));
    let missed = measured.filter(|(target, figure)| !target.holds(*figure));
    let lines: Vec<String> = missed
        .map(|(target, figure)| {
            let reason = target.reason().unwrap_or("The reason is not known");
            format!(
                "- **{}** ({}, aim {}). {reason}.\n",
                target.what,
                target.in_unit(figure),
                target.aims_at()
            )
        })
        .collect();
    if lines.is_empty() { "None in this run.\n".to_owned() } else { lines.concat() }
}

/// A row for each figure.
fn losses(run: &Run) -> String {
    let mut rows = String::new();
    for (_, sheet) in &run.sheets {
        for loss in &sheet.losses {
            let (ours, theirs) = (figure(loss.our_figure), figure(Some(loss.their_figure)));
            let Loss { what, theirs: who, .. } = loss;
            let factor = factor(loss);
            let _ = writeln!(rows, "| {} | {what} | {ours} | {who} | {theirs} | {factor} |", sheet.workload);
        }
    }
    if rows.is_empty() {
        return "Nowhere in this run.\n".to_owned();
    }
    format!(
        "| where | figure | ours | best library | its figure | factor |\n| --- | --- | ---: | --- | ---: | ---: |\n{rows}"
    )
}

fn factor(loss: &Loss) -> String {
    match loss.factor {
        _ if loss.our_figure.is_none() => "we have none".to_owned(),
        Some(factor) if factor.is_finite() => format!("{factor:.2} ×"),
        // They have none of it.
        _ => "–".to_owned(),
    }
}

fn left_out(run: &Run) -> String {
    let mut text = String::new();
    for (who, why) in &run.left_out {
        let _ = writeln!(text, "- {who}: {why}.");
    }
    text
}

/// A workload without a table was left out.
fn chapters(run: &Run, prose: &[(&str, &str)]) -> String {
    let mut chapters = Vec::new();
    for (name, prose) in prose {
        let sheets: String =
            run.sheets.iter().filter(|(one, _)| one == name).map(|(_, sheet)| table(sheet)).collect();
        if !sheets.is_empty() {
            chapters.push(format!("{prose}{sheets}"));
        }
    }
    chapters.join("\n")
}

/// With its picture.
fn table(sheet: &Sheet) -> String {
    let picture = file_name(sheet);
    format!(
        "\n![{} ({})](benches/comparison/pictures/{picture})\n\n{}",
        sheet.title,
        sheet.unit,
        shown::markdown(sheet),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{WORKLOADS, prose};

    /// Else the page was edited by hand, or the words of a workload without `--draw`.
    #[test]
    fn the_page_and_its_pictures_are_those_of_a_run_that_is_kept() {
        let path = product().join("BENCHMARKS.md");
        let written = fs::read_to_string(&path).unwrap();
        let runs: Vec<Run> = Run::all().into_iter().filter(|run| !run.sheets.is_empty()).collect();
        let run = runs.iter().find(|run| written.contains(&run.commit)).expect("the run of the page");
        let drawn = page(run, false, &prose(), &written);
        for (line, (written, drawn)) in (1..).zip(written.lines().zip(drawn.lines())) {
            assert_eq!(written, drawn, "BENCHMARKS.md, line {line}: write it again with --draw");
        }
        assert_eq!(written.len(), drawn.len());
        for (chapter, sheet) in &run.sheets {
            assert!(WORKLOADS.iter().any(|workload| workload.name == chapter), "{chapter}");
            let path = product().join("benches/comparison/pictures").join(file_name(sheet));
            assert!(fs::read_to_string(&path).unwrap() == picture::draw(sheet), "{}", path.display());
        }
    }
}
