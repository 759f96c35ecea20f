//! A filled table: as Markdown, as bars for a picture, as the list of figures that peers do
//! better, and as the lines of a file that keeps it.

use kit::figures::percentile;
use serde_json::{Value, json};

use crate::contender::Kind;
use crate::series::{Series, Table, best_peer, cell, find};

pub struct Sheet {
    /// The name of its picture, too.
    pub workload: String,
    pub title: String,
    /// The heading of the first column.
    pub unit: String,
    pub more_is_better: bool,
    /// The headings of the figures.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// The last reference that the table compares with: its short form, and its figure.
    pub reference: Option<(String, f64)>,
    pub losses: Vec<Loss>,
}

/// The figures of one contender.
pub struct Row {
    pub name: String,
    pub kind: Kind,
    /// One for each column; `null` where it has none.
    pub figures: Vec<Value>,
}

/// One figure that is better with the best of the peers than with us.
pub struct Loss {
    pub what: String,
    pub our_figure: Option<f64>,
    pub theirs: String,
    pub their_figure: f64,
    /// How many times better; `None` where there is no ratio: we have no figure, or they have zero.
    pub factor: Option<f64>,
}

const KINDS: [(Kind, &str); 4] =
    [(Kind::Reference, "reference"), (Kind::Ours, "ours"), (Kind::Article, "article"), (Kind::Peer, "peer")];

impl Sheet {
    pub fn new(table: &Table, series: &[Series]) -> Self {
        let reference =
            |&(name, short): &(&str, &str)| Some((short.to_owned(), find(series, name)?.middle()?));
        let (columns, rows) = filled(table, series);
        Self {
            workload: table.workload.to_owned(),
            title: table.title.to_owned(),
            unit: table.unit.to_owned(),
            more_is_better: table.more_is_better,
            columns,
            rows,
            reference: table.references.last().and_then(reference),
            losses: losses(table, series),
        }
    }

    /// The figure of a row in the column with this heading.
    pub fn figure(&self, row: &Row, column: &str) -> Option<f64> {
        row.figures.get(self.columns.iter().position(|one| one == column)?)?.as_f64()
    }

    /// The columns with these headings. One that was not measured is left out.
    pub fn markdown<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> String {
        let all = columns.into_iter().filter_map(|column| self.columns.iter().position(|one| one == column));
        let columns: Vec<usize> = all.collect();
        let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
            let cells = std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>();
            format!("| {} |\n", cells.join(" | "))
        };
        let heads = row("", &mut columns.iter().map(|&column| self.columns[column].clone()));
        let mut text = format!("{heads}| --- |{}\n", " ---: |".repeat(columns.len()));
        for Row { name, kind, figures } in &self.rows {
            let name = if *kind == Kind::Ours { format!("**{name}**") } else { name.clone() };
            text += &row(&name, &mut columns.iter().map(|&column| cell(&figures[column])));
        }
        text
    }

    /// The lines that [`read`](Self::read) understands; `chapter` is the name of its workload.
    pub fn lines(&self, chapter: &str) -> Vec<Value> {
        let reference = self.reference.as_ref().map(|(name, figure)| json!([name, figure]));
        let mut lines = vec![json!({
            "table": self.workload, "chapter": chapter, "title": self.title, "unit": self.unit,
            "more_is_better": self.more_is_better, "reference": reference, "columns": self.columns,
        })];
        for Row { name, kind, figures } in &self.rows {
            let kind = KINDS.iter().find(|(one, _)| one == kind).map(|(_, name)| *name);
            lines.push(json!({ "row": name, "kind": kind, "figures": figures }));
        }
        for Loss { what, our_figure, theirs, their_figure, factor } in &self.losses {
            lines.push(json!({
                "loss": what, "ours": our_figure, "peer": theirs, "theirs": their_figure, "factor": factor,
            }));
        }
        lines
    }

    /// The table that begins with this line. The lines of its rows and its losses follow:
    /// [`read_on`](Self::read_on).
    pub fn read(line: &Value) -> Option<Self> {
        let text = |name: &str| Some(line[name].as_str()?.to_owned());
        let columns = line["columns"].as_array()?.iter().filter_map(Value::as_str);
        Some(Self {
            workload: text("table")?,
            title: text("title")?,
            unit: text("unit")?,
            more_is_better: line["more_is_better"].as_bool()?,
            columns: columns.map(str::to_owned).collect(),
            rows: Vec::new(),
            reference: line["reference"][0].as_str().map(str::to_owned).zip(line["reference"][1].as_f64()),
            losses: Vec::new(),
        })
    }

    /// Adds what the line has. `None`: it has neither a row nor a loss.
    pub fn read_on(&mut self, line: &Value) -> Option<()> {
        let text = |name: &str| Some(line[name].as_str()?.to_owned());
        if let Some(name) = text("row") {
            let kind = KINDS.iter().find(|(_, kind)| line["kind"] == *kind)?.0;
            let mut figures = line["figures"].as_array()?.clone();
            figures.resize(self.columns.len(), Value::Null);
            self.rows.push(Row { name, kind, figures });
        } else {
            self.losses.push(Loss {
                what: text("loss")?,
                our_figure: line["ours"].as_f64(),
                theirs: text("peer")?,
                their_figure: line["theirs"].as_f64()?,
                factor: line["factor"].as_f64(),
            });
        }
        Some(())
    }
}

fn p99(table: &Table, one: &Series) -> Option<f64> {
    (!table.more_is_better && one.all.len() > one.rounds.len()).then(|| percentile(&one.all, 99))
}

/// The headings, and the figures below them.
fn filled(table: &Table, series: &[Series]) -> (Vec<String>, Vec<Row>) {
    let best = best_peer(series, table.more_is_better);
    let with_p99 = series.iter().any(|one| p99(table, one).is_some());
    let mut costs: Vec<&str> = Vec::new();
    for (what, _) in series.iter().flat_map(|one| &one.costs) {
        if !costs.contains(what) {
            costs.push(what);
        }
    }
    let mut columns = vec![table.unit.to_owned()];
    columns.extend(with_p99.then(|| "p99".to_owned()));
    columns.extend(table.references.iter().map(|(_, short)| format!("÷ {short}")));
    columns.extend(best.map(|best| format!("÷ {}", best.name)));
    columns.extend(costs.iter().chain(table.more).map(|&name| name.to_owned()));
    let row = |one: &Series| {
        let mut figures = vec![json!(one.middle())];
        figures.extend(with_p99.then(|| json!(p99(table, one))));
        let references = table.references.iter().map(|(name, _)| find(series, name));
        figures
            .extend(references.map(|reference| json!(reference.and_then(|reference| one.over(reference)))));
        figures.extend(best.map(|best| json!(one.over(best))));
        figures.extend(costs.iter().map(|what| json!(cost(one, what))));
        figures.extend(one.more.iter().cloned());
        figures.resize(columns.len(), Value::Null);
        Row { name: one.name.clone(), kind: one.kind, figures }
    };
    let rows = series.iter().map(row).collect();
    (columns, rows)
}

fn cost(one: &Series, what: &str) -> Option<f64> {
    one.costs.iter().find(|(name, _)| *name == what)?.1
}

/// Lists what our first contender, the plainest one, loses. An article's lock does less, so it is not compared.
fn losses(table: &Table, series: &[Series]) -> Vec<Loss> {
    let Some(ours) = series.iter().find(|one| one.kind == Kind::Ours) else { return Vec::new() };
    // Without a figure it did not do the work, so its costs are not compared.
    let peers = || {
        let peers = series.iter().filter(|one| one.kind == Kind::Peer && !one.does_less);
        peers.filter_map(|one| Some((one, one.middle()?)))
    };
    let mut losses = Vec::new();
    let main = peers().filter_map(|(one, figure)| {
        let factor = if table.more_is_better { one.over(ours) } else { ours.over(one) };
        factor.is_none_or(|factor| factor > 1.0).then(|| loss(table.unit, ours.middle(), one, figure, factor))
    });
    losses.extend(most(main));
    let costs = ours.costs.iter().map(|&(what, value)| (what, value));
    for (what, our) in costs.chain([("p99", p99(table, ours))]) {
        let better = peers().filter_map(|(one, _)| {
            let their = if what == "p99" { p99(table, one) } else { cost(one, what) }?;
            let our = our.filter(|our| their < *our)?;
            Some(loss(what, Some(our), one, their, Some(our / their).filter(|_| their > 0.0)))
        });
        losses.extend(most(better));
    }
    losses
}

fn loss(what: &str, ours: Option<f64>, peer: &Series, figure: f64, factor: Option<f64>) -> Loss {
    let (what, theirs) = (what.to_owned(), peer.name.clone());
    Loss { what, our_figure: ours, theirs, their_figure: figure, factor }
}

/// The largest of them.
fn most(losses: impl Iterator<Item = Loss>) -> Option<Loss> {
    let times = |loss: &Loss| loss.factor.unwrap_or(f64::INFINITY);
    losses.max_by(|one, two| times(one).total_cmp(&times(two)))
}

#[cfg(test)]
pub mod tests {
    use serde_json::Value;

    use super::Sheet;
    use crate::contender::Kind;
    use crate::series::{Series, Table};

    fn series(name: &str, kind: Kind, figure: f64, commands: f64) -> Series {
        let mut series = Series::new(name, kind);
        series.rounds = vec![Some(figure), Some(figure), None];
        series.cost("commands", Some(commands));
        series
    }

    pub fn sheet(more_is_better: bool) -> Sheet {
        let nothing_done = Series::new("idle", Kind::Peer);
        let all = [
            series("limit", Kind::Reference, 1.0, 1.0),
            series("ours", Kind::Ours, 20.0, 4.0),
            series("less", Kind::Peer, 10.0, 5.0),
            series("more", Kind::Article, 70.0, 1.0),
            series("most", Kind::Peer, 60.0, 2.0),
            nothing_done,
        ];
        let references = &[("limit", "bare")];
        Sheet::new(
            &Table { workload: "w", title: "a < b", unit: "u", more_is_better, references, more: &[] },
            &all,
        )
    }

    fn markdown(sheet: &Sheet) -> Vec<String> {
        sheet.markdown(sheet.columns.iter().map(String::as_str)).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_the_best_peer_does_better_is_found_whichever_way_is_better() {
        let losses = |more_is_better| {
            let losses = sheet(more_is_better).losses;
            losses.into_iter().map(|loss| (loss.theirs, loss.what, loss.factor)).collect::<Vec<_>>()
        };
        let loss = |theirs: &str, what: &str, factor| (theirs.to_owned(), what.to_owned(), Some(factor));
        assert_eq!(losses(false), [loss("less", "u", 2.0), loss("most", "commands", 2.0)]);
        assert_eq!(losses(true), [loss("most", "u", 3.0), loss("most", "commands", 2.0)]);
    }

    #[test]
    fn a_table_has_a_column_for_each_limit_the_best_peer_and_each_cost() {
        let lines = markdown(&sheet(false));
        assert_eq!(lines[0], "|  | u | ÷ bare | ÷ less | commands |");
        assert_eq!(lines[3], "| **ours** | 20.0 | 20.0 | 2.00 | 4.00 |");
        assert_eq!(lines[7], "| idle | – | – | – | – |");
    }

    #[test]
    fn a_column_is_chosen_by_its_heading_and_left_out_where_it_was_not_measured() {
        let text = sheet(false).markdown(["commands", "p99", "u"]);
        assert_eq!(text.lines().next(), Some("|  | commands | u |"));
        assert_eq!(text.lines().nth(3), Some("| **ours** | 4.00 | 20.0 |"));
    }

    #[test]
    fn a_table_is_the_same_after_it_was_kept() {
        let mut kept = sheet(true);
        kept.columns.push("sent away".to_owned());
        for (number, row) in kept.rows.iter_mut().enumerate() {
            row.figures.push(number.into());
        }
        let text: Vec<String> = kept.lines("w").iter().map(Value::to_string).collect();
        let mut lines = text.iter().map(|line| serde_json::from_str(line).unwrap());
        let mut read = Sheet::read(&lines.next().unwrap()).unwrap();
        lines.for_each(|line| read.read_on(&line).unwrap());
        assert_eq!(read.lines("w"), kept.lines("w"));
        assert_eq!(markdown(&read), markdown(&kept));
        assert_eq!(markdown(&read)[7], "| idle | – | – | – | – | 5 |");
    }
}
