//! A filled table: as Markdown, as bars for a picture, and as the list of figures that peers do better.

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
    /// The last limit that the table compares with: its short form, and its figure.
    pub limit: Option<(String, f64)>,
    pub losses: Vec<Loss>,
}

pub struct Bar {
    pub name: String,
    pub kind: Kind,
    pub value: Option<f64>,
}

/// One figure that is better elsewhere than with us.
pub struct Loss {
    pub ours: String,
    pub theirs: String,
    pub what: String,
    pub our_figure: Option<f64>,
    pub their_figure: f64,
    /// How many times better; `None` where we have no figure.
    pub factor: Option<f64>,
}

impl Loss {
    /// Infinite where we have no figure.
    pub fn times_better(&self) -> f64 {
        self.factor.unwrap_or(f64::INFINITY)
    }
}

impl Sheet {
    pub fn new(table: &Table, series: &[Series]) -> Self {
        let bar = |one: &Series| Bar { name: one.name.clone(), kind: one.kind, value: one.middle() };
        let limit = |&(name, short): &(&str, &str)| Some((short.to_owned(), find(series, name)?.middle()?));
        Self {
            workload: table.workload.to_owned(),
            title: table.title.to_owned(),
            unit: table.unit.to_owned(),
            more_is_better: table.more_is_better,
            markdown: markdown(table, series),
            bars: series.iter().map(bar).collect(),
            limit: table.limits.last().and_then(limit),
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
    head.extend(table.limits.iter().map(|(_, short)| format!("÷ {short}")));
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
                .limits
                .iter()
                .map(|(limit, _)| figure(find(series, limit).and_then(|limit| one.over(limit)))),
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

fn losses(table: &Table, series: &[Series]) -> Vec<Loss> {
    let mut losses = Vec::new();
    let ours = series.iter().filter(|one| one.kind == Kind::Ours && !one.name.contains("memory://"));
    for ours in ours {
        for theirs in series.iter().filter(|one| matches!(one.kind, Kind::Peer | Kind::Article)) {
            // Without a figure it did not do the work, so its costs are not compared.
            let Some(their_figure) = theirs.middle() else { continue };
            let loss = |what: &str, our_figure, their_figure, factor| Loss {
                ours: ours.name.clone(),
                theirs: theirs.name.clone(),
                what: what.to_owned(),
                our_figure,
                their_figure,
                factor,
            };
            let factor = if table.more_is_better { theirs.over(ours) } else { ours.over(theirs) };
            if factor.is_none_or(|factor| factor > 1.0) {
                losses.push(loss(table.unit, ours.middle(), their_figure, factor));
            }
            let costs = ours.costs.iter().map(|&(what, value)| (what, value, cost(theirs, what)));
            for (what, our, their) in costs.chain([("p99", p99(table, ours), p99(table, theirs))]) {
                if let (Some(our), Some(their)) = (our, their)
                    && their < our
                {
                    losses.push(loss(what, Some(our), their, Some(our / their)));
                }
            }
        }
    }
    losses
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
            series("limit", Kind::Limit, 1.0, 1.0),
            series("ours", Kind::Ours, 20.0, 4.0),
            series("less", Kind::Peer, 10.0, 5.0),
            series("more", Kind::Article, 40.0, 2.0),
            nothing_done,
        ];
        let limits = &[("limit", "bare")];
        Sheet::new(
            &Table { workload: "w", title: "a < b", unit: "u", more_is_better, limits, more: &[] },
            &all,
        )
    }

    #[test]
    fn what_others_do_better_is_found_whichever_way_is_better() {
        let losses = |more_is_better| {
            let losses = sheet(more_is_better).losses;
            losses.into_iter().map(|loss| (loss.theirs, loss.what, loss.factor)).collect::<Vec<_>>()
        };
        let loss = |theirs: &str, what: &str| (theirs.to_owned(), what.to_owned(), Some(2.0));
        assert_eq!(losses(false), [loss("less", "u"), loss("more", "commands")]);
        assert_eq!(losses(true), [loss("more", "u"), loss("more", "commands")]);
    }

    #[test]
    fn a_table_has_a_column_for_each_limit_the_best_peer_and_each_cost() {
        let lines: Vec<String> = sheet(false).markdown.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "|  | u | ÷ bare | ÷ less | commands |");
        assert_eq!(lines[3], "| **ours** | 20.0 | 20.0 | 2.00 | 4.00 |");
        assert_eq!(lines[6], "| idle | – | – | – | – |");
    }
}
