//! Rounds, medians of ratios, and where each workload puts what it found.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::contender::Kind;
use crate::sheet::Sheet;
use crate::targets::Target;

/// What one contender got in one workload.
#[derive(Clone)]
pub struct Series {
    pub name: String,
    pub kind: Kind,
    /// One figure for each round; `None` where it got nothing done.
    pub rounds: Vec<Option<f64>>,
    /// All that the figures of the rounds are made of.
    pub all: Vec<f64>,
    /// Whatever else there is to say, in further columns.
    pub more: Vec<String>,
    /// What it paid, in further columns: less is better.
    pub costs: Vec<(&'static str, Option<f64>)>,
}

impl Series {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        let name = name.into();
        Self { name, kind, rounds: Vec::new(), all: Vec::new(), more: Vec::new(), costs: Vec::new() }
    }

    /// The middle of the times of one round.
    pub fn add_round(&mut self, times: &[f64]) {
        self.rounds.push((!times.is_empty()).then(|| percentile(times, 50)));
        self.all.extend(times);
    }

    /// A column of its own, of which less is better. It is also compared where we look for what peers do better.
    pub fn cost(&mut self, what: &'static str, value: Option<f64>) {
        self.costs.push((what, value));
    }

    pub fn middle(&self) -> Option<f64> {
        let rounds: Vec<f64> = self.rounds.iter().flatten().copied().collect();
        (!rounds.is_empty()).then(|| percentile(&rounds, 50))
    }

    /// The median over rounds of the ratio to what the same round gave the other one.
    pub fn over(&self, other: &Self) -> Option<f64> {
        let ratios: Vec<f64> =
            self.rounds.iter().zip(&other.rounds).filter_map(|(one, two)| Some((*one)? / (*two)?)).collect();
        (!ratios.is_empty()).then(|| percentile(&ratios, 50))
    }
}

/// The best of the peers, if any has a figure.
pub fn best_peer(series: &[Series], more_is_better: bool) -> Option<&Series> {
    let peers = series.iter().filter(|one| one.kind == Kind::Peer && one.middle().is_some());
    peers.min_by(|one, two| {
        let (one, two) = (one.middle().unwrap_or_default(), two.middle().unwrap_or_default());
        if more_is_better { two.total_cmp(&one) } else { one.total_cmp(&two) }
    })
}

/// By its name.
pub fn find<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|one| one.name == name)
}

/// The value below which `percent` of all lie; zero when there is none.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

pub struct Table<'a> {
    pub workload: &'a str,
    /// Above the table.
    pub title: &'a str,
    /// Of the figures.
    pub unit: &'a str,
    pub more_is_better: bool,
    /// The name of what nobody can beat, and its short form above a column.
    pub limits: &'a [(&'a str, &'a str)],
    /// Above what else there is to say.
    pub more: &'a [&'a str],
}

/// One workload, with the tables that it has filled.
pub struct Chapter {
    pub prose: &'static str,
    pub sheets: Vec<Sheet>,
}

pub struct Report {
    path: PathBuf,
    file: BufWriter<File>,
    pub chapters: Vec<Chapter>,
    pub measured: Vec<(&'static Target, f64)>,
    pub left_out: Vec<(String, String)>,
}

impl Report {
    pub fn create() -> Self {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
        std::fs::create_dir_all(&target).unwrap();
        let path = target.join("benchmarks.jsonl");
        let file = BufWriter::new(File::create(&path).unwrap());
        Self { path, file, chapters: Vec::new(), measured: Vec::new(), left_out: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is added from now on belongs to another workload, about which this is to be said.
    pub fn begin(&mut self, prose: &'static str) {
        self.chapters.push(Chapter { prose, sheets: Vec::new() });
    }

    pub fn add(&mut self, table: &Table, series: &[Series]) {
        for one in series {
            for (round, figure) in one.rounds.iter().enumerate() {
                self.line(&json!({
                    "workload": table.workload, "contender": one.name, "round": round,
                    "unit": table.unit, "figure": figure,
                }));
            }
            for (what, value) in &one.costs {
                self.line(&json!({
                    "workload": table.workload, "contender": one.name, "unit": what, "figure": value,
                }));
            }
        }
        self.file.flush().unwrap();
        let sheet = Sheet::new(table, series);
        println!("\n{}\n\n{}", sheet.title, sheet.markdown);
        self.chapters.last_mut().unwrap().sheets.push(sheet);
    }

    /// A figure that `targets.rs` aims at. `None`: it could not be measured.
    pub fn target(&mut self, name: &str, value: impl Into<Option<f64>>) {
        let target = Target::named(name);
        let Some(value) = value.into() else { return };
        println!(
            "\n{}: {}, aim {}: {}",
            target.what,
            target.in_unit(value),
            target.aims_at(),
            target.verdict(value)
        );
        self.line(&json!({ "target": name, "figure": value }));
        self.measured.push((target, value));
    }

    /// Who does not take part, and why.
    pub fn left_out(&mut self, who: &str, why: &str) {
        println!("Left out: {who}: {why}");
        let both = (who.to_owned(), why.to_owned());
        if !self.left_out.contains(&both) {
            self.left_out.push(both);
        }
    }

    fn line(&mut self, line: &Value) {
        writeln!(self.file, "{line}").unwrap();
    }
}

/// Three digits that mean something.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => thousands(&format!("{value:.0}")),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 0.1 => format!("{value:.2}"),
        Some(0.0) => "0".to_owned(),
        Some(value) => format!("{value:.4}"),
    }
}

/// A number of things.
pub fn whole(number: usize) -> String {
    thousands(&number.to_string())
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
