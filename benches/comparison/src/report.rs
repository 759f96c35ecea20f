//! The results of the workloads.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fleet::limits::Limits;
use crate::product::product;
use crate::series::{Series, Table};
use crate::sheet::Sheet;
use crate::targets::Target;

pub struct Report {
    path: PathBuf,
    file: BufWriter<File>,
    /// The one that is measured now.
    workload: &'static str,
    /// Each with the name of its workload.
    pub sheets: Vec<(&'static str, Sheet)>,
    pub measured: Vec<(&'static Target, f64)>,
    pub left_out: Vec<(String, String)>,
    /// For the page on tuning.
    pub fleet: Limits,
}

impl Report {
    pub fn create() -> Self {
        let target = product().join("target");
        std::fs::create_dir_all(&target).unwrap();
        let path = target.join("benchmarks.jsonl");
        let file = BufWriter::new(File::create(&path).unwrap());
        Self {
            path,
            file,
            workload: "",
            sheets: Vec::new(),
            measured: Vec::new(),
            left_out: Vec::new(),
            fleet: Limits::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts another workload; later tables belong to it.
    pub fn begin(&mut self, workload: &'static str) {
        self.workload = workload;
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
        let markdown = sheet.markdown(sheet.columns.iter().map(String::as_str));
        println!("\n{}\n\n{markdown}", sheet.title);
        self.sheets.push((self.workload, sheet));
    }

    /// The figure of a target in `targets.rs`. `None`: it could not be measured.
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

    /// A contender that does not take part, and why.
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
