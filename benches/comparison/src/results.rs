//! The runs that are kept, one file for each processor that a full run was made on. The page and its
//! pictures are written from such a file.
//!
//! The first line of `results/<processor>.jsonl` says what was measured where. Each other line is
//! the figure of a target, a contender that did not take part, or a table with the lines of its rows
//! and losses. A `remark` says how a figure was measured that was not measured as the target says.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::machine::processor;
use crate::product::product;
use crate::report::Report;
use crate::sheet::Sheet;
use crate::targets::Target;

/// One run.
pub struct Run {
    pub processor: String,
    /// What was measured.
    pub commit: String,
    pub machine: Vec<(String, String)>,
    pub minutes: Option<f64>,
    pub figures: Vec<Figure>,
    /// A contender that did not take part, and why.
    pub left_out: Vec<(String, String)>,
    /// Each with the name of its workload.
    pub sheets: Vec<(String, Sheet)>,
}

/// The figure of a target.
pub struct Figure {
    pub target: String,
    pub value: f64,
    remark: Option<String>,
}

/// What is said of the machine, in this order.
const MACHINE: [&str; 4] = ["CPU", "System", "Servers", "Rust"];

impl Run {
    /// The one that has just ended.
    pub fn of(report: Report, machine: &[(&str, String)], minutes: f64) -> Self {
        let figure = |&(target, figure): &(&Target, f64)| Figure {
            target: target.name.to_owned(),
            value: figure,
            remark: None,
        };
        Self {
            processor: processor(),
            commit: commit(),
            machine: machine.iter().map(|(what, is)| ((*what).to_owned(), is.clone())).collect(),
            minutes: Some(minutes.round()),
            figures: report.measured.iter().map(figure).collect(),
            left_out: report.left_out,
            sheets: report.sheets.into_iter().map(|(name, sheet)| (name.to_owned(), sheet)).collect(),
        }
    }

    /// Those that were kept, of other processors than this one's.
    pub fn others(&self) -> Vec<Self> {
        Self::all().into_iter().filter(|run| run.processor != self.processor).collect()
    }

    /// Those that were kept.
    pub fn all() -> Vec<Self> {
        let Ok(files) = fs::read_dir(directory()) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path).unwrap()).collect()
    }

    /// The run that this file keeps.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|number| format!("{}: cannot read line {number}", path.display()))
    }

    /// The error is the number of the line that cannot be read.
    fn parse(text: &str) -> Result<Self, usize> {
        let string = |value: &Value| value.as_str().map(str::to_owned);
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
        let head = lines.next().unwrap_or_default();
        let is = |what: &str| Some((what.to_owned(), string(&head[what.to_lowercase()])?));
        let mut run = Self {
            processor: string(&head["processor"]).ok_or(1_usize)?,
            commit: string(&head["commit"]).ok_or(1_usize)?,
            machine: MACHINE.into_iter().filter_map(is).collect(),
            minutes: head["minutes"].as_f64(),
            figures: Vec::new(),
            left_out: Vec::new(),
            sheets: Vec::new(),
        };
        for (line, number) in lines.zip(2_usize..) {
            run.read_on(&line).ok_or(number)?;
        }
        Ok(run)
    }

    fn read_on(&mut self, line: &Value) -> Option<()> {
        let string = |name: &str| Some(line[name].as_str()?.to_owned());
        if let Some(target) = string("target") {
            self.figures.push(Figure { target, value: line["figure"].as_f64()?, remark: string("remark") });
        } else if let Some(who) = string("left_out") {
            self.left_out.push((who, string("why")?));
        } else if let Some(sheet) = Sheet::read(line) {
            self.sheets.push((string("chapter")?, sheet));
        } else {
            self.sheets.last_mut()?.1.read_on(line)?;
        }
        Some(())
    }

    fn text(&self) -> String {
        let mut head = json!({ "processor": self.processor, "commit": self.commit, "minutes": self.minutes });
        for (what, is) in &self.machine {
            head[what.to_lowercase()] = json!(is);
        }
        let mut text = format!("{head}\n");
        let mut add = |line: &Value| {
            let _ = writeln!(text, "{line}");
        };
        for Figure { target, value, remark } in &self.figures {
            match remark {
                None => add(&json!({ "target": target, "figure": value })),
                Some(remark) => add(&json!({ "target": target, "figure": value, "remark": remark })),
            }
        }
        for (who, why) in &self.left_out {
            add(&json!({ "left_out": who, "why": why }));
        }
        for (chapter, sheet) in &self.sheets {
            sheet.lines(chapter).iter().for_each(&mut add);
        }
        text
    }

    /// In place of an earlier run on this processor.
    pub fn keep(&self) {
        fs::create_dir_all(directory()).unwrap();
        fs::write(directory().join(self.file_name()), self.text()).unwrap();
    }

    /// The name of the file that keeps it.
    pub fn file_name(&self) -> String {
        file_name(&self.processor)
    }

    /// The figure, and how it was measured, if not as the target says.
    pub fn find(&self, target: &str) -> Option<(f64, Option<&str>)> {
        let found = self.figures.iter().rev().find(|one| one.target == target)?;
        Some((found.value, found.remark.as_deref()))
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// `AMD EPYC` is `amd-epyc.jsonl`.
fn file_name(processor: &str) -> String {
    let plain = processor.replace("(R)", "").replace("(TM)", "");
    let words = plain.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase() + ".jsonl"
}

/// Returns the commit of the checkout that is measured.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(product()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    match git(&["status", "--short", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} and changes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Run, directory, file_name};
    use crate::targets::TARGETS;

    #[test]
    fn a_file_is_named_by_its_processor() {
        assert_eq!(file_name("Intel(R) Xeon(R) Processor"), "intel-xeon-processor.jsonl");
        assert_eq!(file_name("AMD EPYC"), "amd-epyc.jsonl");
    }

    /// A target that was renamed would lose its figures without a word.
    #[test]
    fn each_figure_that_was_kept_is_that_of_a_target() {
        for file in std::fs::read_dir(directory()).unwrap() {
            let path = file.unwrap().path();
            let run = Run::read(&path).unwrap();
            assert_eq!(path.file_name().unwrap().to_string_lossy(), file_name(&run.processor));
            for figure in &run.figures {
                let is_known = TARGETS.iter().any(|one| one.name == figure.target);
                assert!(is_known, "{}: {}", path.display(), figure.target);
            }
        }
    }

    #[test]
    fn a_run_is_the_same_after_it_was_kept() {
        for run in Run::all() {
            let text = run.text();
            assert_eq!(Run::parse(&text).unwrap().text(), text);
            let lines = text.lines().count();
            assert_eq!(
                Run::parse(&format!("{text}{{}}\n")).err(),
                Some(lines + 1),
                "a line without a meaning"
            );
        }
    }
}
