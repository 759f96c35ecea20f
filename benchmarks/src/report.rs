//! Rounds, medians of ratios, tables in Markdown, and a line of JSON for each figure.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::contender::Kind;

/// What one contender got in one workload.
pub struct Series {
    pub name: String,
    pub kind: Kind,
    /// One figure for each round; `None` where it got nothing done.
    pub rounds: Vec<Option<f64>>,
    /// All that the figures of the rounds are made of.
    pub all: Vec<f64>,
    /// Whatever else there is to say, in further columns.
    pub more: Vec<String>,
}

impl Series {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, rounds: Vec::new(), all: Vec::new(), more: Vec::new() }
    }

    /// The middle of the times of one round.
    pub fn add_round(&mut self, times: &[f64]) {
        self.rounds.push((!times.is_empty()).then(|| percentile(times, 50)));
        self.all.extend(times);
    }

    pub fn middle(&self) -> Option<f64> {
        let rounds: Vec<f64> = self.rounds.iter().flatten().copied().collect();
        (!rounds.is_empty()).then(|| percentile(&rounds, 50))
    }

    fn over(&self, other: &Self) -> Option<f64> {
        let ratios: Vec<f64> =
            self.rounds.iter().zip(&other.rounds).filter_map(|(one, two)| Some((*one)? / (*two)?)).collect();
        (!ratios.is_empty()).then(|| percentile(&ratios, 50))
    }
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

pub struct Report {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Report {
    pub fn create() -> Self {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
        std::fs::create_dir_all(&target).unwrap();
        let path = target.join("benchmarks.jsonl");
        let file = BufWriter::new(File::create(&path).unwrap());
        Self { path, file }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn add(&mut self, table: &Table, series: &[Series]) {
        for one in series {
            for (round, figure) in one.rounds.iter().enumerate() {
                let line: Value = json!({
                    "workload": table.workload, "contender": one.name, "round": round,
                    "unit": table.unit, "figure": figure,
                });
                writeln!(self.file, "{line}").unwrap();
            }
        }
        self.file.flush().unwrap();
        print(table, series);
    }
}

fn print(table: &Table, series: &[Series]) {
    let peers = series.iter().filter(|one| one.kind == Kind::Peer && one.middle().is_some());
    let best = peers.min_by(|one, two| {
        let (one, two) = (one.middle().unwrap_or_default(), two.middle().unwrap_or_default());
        if table.more_is_better { two.total_cmp(&one) } else { one.total_cmp(&two) }
    });
    let mut head = vec![table.title.to_owned(), table.unit.to_owned()];
    if !table.more_is_better && series.iter().any(|one| one.all.len() > one.rounds.len()) {
        head.push("p99".to_owned());
    }
    let with_p99 = head.len() == 3;
    head.extend(table.limits.iter().map(|(_, short)| format!("/ {short}")));
    head.extend(best.map(|best| format!("/ {}", best.name)));
    head.extend(table.more.iter().map(|&more| more.to_owned()));
    println!("\n| {} |\n| --- |{}", head.join(" | "), " ---: |".repeat(head.len() - 1));
    for one in series {
        let mut row = vec![one.name.clone(), figure(one.middle())];
        if with_p99 {
            row.push(figure((!one.all.is_empty()).then(|| percentile(&one.all, 99))));
        }
        for (limit, _) in table.limits {
            let limit = series.iter().find(|other| other.name == *limit);
            row.push(figure(limit.and_then(|limit| one.over(limit))));
        }
        row.extend(best.map(|best| figure(one.over(best))));
        row.extend(one.more.iter().cloned());
        row.resize(head.len(), "–".to_owned());
        println!("| {} |", row.join(" | "));
    }
}

/// Three digits that mean something.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 0.1 => format!("{value:.2}"),
        Some(value) => format!("{value:.4}"),
    }
}
