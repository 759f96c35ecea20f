//! The figures of the contenders round by round, medians of ratios, and figures as a reader sees
//! them.

use kit::figures::percentile;
use serde_json::Value;

use crate::contender::Kind;

/// The figures of one contender in one workload.
#[derive(Clone)]
pub struct Series {
    pub name: String,
    pub kind: Kind,
    /// One figure for each round; `None` where the contender completed nothing.
    pub rounds: Vec<Option<f64>>,
    /// The single values behind the figures of the rounds.
    pub all: Vec<f64>,
    /// The figures of further columns. `null`: there is none.
    pub more: Vec<Value>,
    /// Its costs, in further columns: less is better.
    pub costs: Vec<(&'static str, Option<f64>)>,
    /// It leaves out a part of the work, so that its figures are no loss of ours.
    pub does_less: bool,
}

impl Series {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        let name = name.into();
        Self {
            name,
            kind,
            rounds: Vec::new(),
            all: Vec::new(),
            more: Vec::new(),
            costs: Vec::new(),
            does_less: false,
        }
    }

    /// The middle of the times of one round.
    pub fn add_round(&mut self, times: &[f64]) {
        self.rounds.push((!times.is_empty()).then(|| percentile(times, 50)));
        self.all.extend(times);
    }

    /// Adds a column in which less is better. The list of figures that peers do better compares it,
    /// too.
    pub fn cost(&mut self, what: &'static str, value: Option<f64>) {
        self.costs.push((what, value));
    }

    pub fn middle(&self) -> Option<f64> {
        let rounds: Vec<f64> = self.rounds.iter().flatten().copied().collect();
        (!rounds.is_empty()).then(|| percentile(&rounds, 50))
    }

    /// The median over rounds of the ratio to the other's figure in the same round.
    pub fn over(&self, other: &Self) -> Option<f64> {
        let ratios: Vec<f64> =
            self.rounds.iter().zip(&other.rounds).filter_map(|(one, two)| Some((*one)? / (*two)?)).collect();
        (!ratios.is_empty()).then(|| percentile(&ratios, 50))
    }
}

/// The best of the peers, if any has a figure.
pub fn best_peer(series: &[Series], more_is_better: bool) -> Option<&Series> {
    best(series.iter().filter(|one| one.kind == Kind::Peer), more_is_better)
}

/// The best of these, if any has a figure.
pub fn best<'a>(series: impl IntoIterator<Item = &'a Series>, more_is_better: bool) -> Option<&'a Series> {
    series.into_iter().filter(|one| one.middle().is_some()).min_by(|one, two| {
        let (one, two) = (one.middle().unwrap_or_default(), two.middle().unwrap_or_default());
        if more_is_better { two.total_cmp(&one) } else { one.total_cmp(&two) }
    })
}

/// The series of this name.
pub fn find<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|one| one.name == name)
}

/// The headings of a table.
pub struct Table<'a> {
    pub workload: &'a str,
    /// Above the table.
    pub title: &'a str,
    /// The unit of the figures.
    pub unit: &'a str,
    pub more_is_better: bool,
    /// The name of a reference, and its short form above a column.
    pub references: &'a [(&'a str, &'a str)],
    /// The headings of the further columns.
    pub more: &'a [&'a str],
}

/// A figure of a table: a whole number of things, or a measure.
pub fn cell(value: &Value) -> String {
    match value.as_u64() {
        Some(number) => thousands(&number.to_string()),
        None => figure(value.as_f64()),
    }
}

/// With three significant digits.
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
