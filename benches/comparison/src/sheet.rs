//! A filled table: as Markdown, as bars for a picture, and as the list of figures that peers do
//! better.

use std::fmt::Write;

use crate::contender::Kind;
use crate::series::{Series, Table, best_peer, figure, find};
use kit::figures::percentile;

pub struct Sheet {
    /// The name of its picture, too.
    pub workload: String,
    pub title: String,
    pub unit: String,
    pub more_is_better: bool,
    pub markdown: String,
    pub bars: Vec<Bar>,
    /// The last reference that the table compares with: its short form, and its figure.
    pub reference: Option<(String, f64)>,
    pub losses: Vec<Loss>,
}

pub struct Bar {
    pub name: String,
    pub kind: Kind,
    pub value: Option<f64>,
}

/// One figure that is better with the best of the peers than with us.
pub struct Loss {
    pub what: String,
    pub our_figure: Option<f64>,
    pub theirs: String,
    pub their_figure: f64,
    /// How many times better; `None` where we have no figure.
    pub factor: Option<f64>,
}

impl Sheet {
    pub fn new(table: &Table, series: &[Series]) -> Self {
        let bar = |one: &Series| Bar { name: one.name.clone(), kind: one.kind, value: one.middle() };
        let reference =
            |&(name, short): &(&str, &str)| Some((short.to_owned(), find(series, name)?.middle()?));
        Self {
            workload: table.workload.to_owned(),
            title: table.title.to_owned(),
            unit: table.unit.to_owned(),
            more_is_better: table.more_is_better,
            markdown: markdown(table, series),
            bars: series.iter().map(bar).collect(),
            reference: table.references.last().and_then(reference),
            losses: losses(table, series),
        }
    }
}

fn p99(table: &Table, one: &Series) -> Option<f64> {
    (!table.more_is_better && one.all.len() > one.rounds.len()).then(|| percentile(&one.all, 99))
}

fn markdown(table: &Table, series: &[Series]) -> String {
    let best = best_peer(series, table.more_is_better);
    let with_p99 = series.iter().any(|one| p99(table, one).is_some());
    let mut costs: Vec<&str> = Vec::new();
    for (what, _) in series.iter().flat_map(|one| &one.costs) {
        if !costs.contains(what) {
            costs.push(what);
        }
    }
    let mut head = vec![String::new(), table.unit.to_owned()];
    head.extend(with_p99.then(|| "p99".to_owned()));
    head.extend(table.references.iter().map(|(_, short)| format!("÷ {short}")));
    head.extend(best.map(|best| format!("÷ {}", best.name)));
    head.extend(costs.iter().chain(table.more).map(|&name| name.to_owned()));
    let mut text = format!("| {} |\n| --- |{}\n", head.join(" | "), " ---: |".repeat(head.len() - 1));
    for one in series {
        let mut row = vec![one.name.clone(), figure(one.middle())];
        if one.kind == Kind::Ours {
            row[0] = format!("**{}**", one.name);
        }
        if with_p99 {
            row.push(figure(p99(table, one)));
        }
        row.extend(
            table
                .references
                .iter()
                .map(|(name, _)| figure(find(series, name).and_then(|reference| one.over(reference)))),
        );
        row.extend(best.map(|best| figure(one.over(best))));
        row.extend(costs.iter().map(|what| figure(cost(one, what))));
        row.extend(one.more.iter().cloned());
        row.resize(head.len(), "–".to_owned());
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
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
            Some(loss(what, Some(our), one, their, Some(our / their)))
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
        let lines: Vec<String> = sheet(false).markdown.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "|  | u | ÷ bare | ÷ less | commands |");
        assert_eq!(lines[3], "| **ours** | 20.0 | 20.0 | 2.00 | 4.00 |");
        assert_eq!(lines[7], "| idle | – | – | – | – |");
    }
}
