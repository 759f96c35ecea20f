//! The figures of the targets, one file for each processor that a full run was made on: the page
//! has them beside each other.
//!
//! The first line of `results/<processor>.jsonl` says what was measured where; each other one is the
//! figure of a target. A `remark` says how a figure was measured that was not measured as the
//! target says.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::machine::processor;
use crate::product::product;
use crate::report::Report;

/// One run.
pub struct Run {
    pub processor: String,
    /// What was measured.
    pub commit: String,
    figures: Vec<(String, f64, Option<String>)>,
}

impl Run {
    /// The one that has just ended.
    pub fn of(report: &Report) -> Self {
        let figures = report.measured.iter().map(|(target, figure)| (target.name.to_owned(), *figure, None));
        Self { processor: processor(), commit: commit(), figures: figures.collect() }
    }

    /// Those that were kept, of other processors than this one's.
    pub fn others(&self) -> Vec<Self> {
        let Ok(files) = fs::read_dir(directory()) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        let runs = paths.iter().map(|path| Self::parse(&fs::read_to_string(path).unwrap()));
        runs.filter(|run| run.processor != self.processor).collect()
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let head = lines.next().unwrap();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let figure =
            |line: Value| Some((text(&line["target"])?, line["figure"].as_f64()?, text(&line["remark"])));
        Self {
            processor: text(&head["processor"]).unwrap(),
            commit: text(&head["commit"]).unwrap(),
            figures: lines.filter_map(figure).collect(),
        }
    }

    /// In place of an earlier run on this processor.
    pub fn keep(&self, machine: &[(&str, String)]) {
        let mut head = json!({ "processor": self.processor, "commit": self.commit });
        for (what, is) in machine {
            head[what.to_lowercase()] = json!(is);
        }
        let mut text = format!("{head}\n");
        for (target, figure, _) in &self.figures {
            let _ = writeln!(text, "{}", json!({ "target": target, "figure": figure }));
        }
        fs::create_dir_all(directory()).unwrap();
        fs::write(directory().join(file_name(&self.processor)), text).unwrap();
    }

    /// The figure, and how it was measured, if not as the target says.
    pub fn find(&self, target: &str) -> Option<(f64, Option<&str>)> {
        let (_, figure, remark) = self.figures.iter().rev().find(|(name, ..)| name == target)?;
        Some((*figure, remark.as_deref()))
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
            let run = Run::parse(&std::fs::read_to_string(&path).unwrap());
            assert_eq!(path.file_name().unwrap().to_string_lossy(), file_name(&run.processor));
            for (target, ..) in &run.figures {
                assert!(TARGETS.iter().any(|one| one.name == target), "{}: {target}", path.display());
            }
        }
    }
}
