//! An uncontended lock, by one task: acquire and release, on runtimes of one thread and of two, and on a second server.

use kit::load::{one_by_one, runtime};
use kit::{RedisServer, figures::percentile};
use tokio::runtime::Runtime;

use crate::contender::{Contender, Kind, LIMIT, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign;
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best, figure, find};
use crate::workload::{Extent, Servers};

const IN_A_ROUND: usize = 25;

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let mut places = vec![Place::new(&servers.redis, 1), Place::new(&servers.redis, 2)];
    places.extend(servers.second.as_ref().map(|second| Place::new(second, 1)));
    let (url, foreign_runtime) = (servers.redis.url(), runtime(1));
    let mut foreign: Vec<_> = foreign::all(report)
        .into_iter()
        .map(|one| {
            let series = Series::new(one.name, Kind::Peer);
            (one, series)
        })
        .collect();
    for round in 0..extent.of(300, 40) {
        for place in &mut places {
            place.take_turns(round);
        }
        for (foreign, series) in &mut foreign {
            series.add_round(&foreign_runtime.block_on(foreign.uncontended(&url, IN_A_ROUND)));
        }
    }
    let foreign: Vec<Series> = foreign.into_iter().map(|(_, series)| series).collect();
    tell(servers, places, &foreign, report);
}

/// The contenders on one server, called from one runtime.
struct Place {
    runtime: Runtime,
    contenders: Vec<Contender>,
    series: Vec<Series>,
}

impl Place {
    fn new(server: &RedisServer, workers: usize) -> Self {
        let runtime = runtime(workers);
        let mut contenders = runtime.block_on(field::all(&server.url(), 1));
        // A lock that blocks has a table of its own.
        contenders.retain(|one| matches!(one.part, Part::Free | Part::Everything) && one.name != DIRECT);
        let series = contenders.iter().map(|one| Series::new(one.name, one.kind)).collect();
        Self { runtime, contenders, series }
    }

    fn take_turns(&mut self, round: usize) {
        let turns = self.contenders.len();
        for turn in 0..turns {
            let next = (turn + round) % turns;
            let times = one_by_one(&self.contenders[next].clients[0], IN_A_ROUND, &self.runtime);
            self.series[next].add_round(&times);
        }
    }
}

fn over_bare(series: &[Series], name: &str) -> Option<f64> {
    find(series, name)?.over(find(series, LIMIT)?)
}

fn tell(servers: &Servers, places: Vec<Place>, foreign: &[Series], report: &mut Report) {
    let mut places = places.into_iter().map(|place| place.series);
    let mut one_thread = places.next().unwrap_or_default();
    let others: Vec<Vec<Series>> = places.collect();
    let second = servers.second.as_ref().map(RedisServer::version);
    let mut heads = Vec::new();
    for place in ["two workers".to_owned()].into_iter().chain(second) {
        heads.extend([format!("{place}: p50"), "p99".to_owned(), "÷ bare".to_owned()]);
    }
    for series in &mut one_thread {
        for other in &others {
            let there = find(other, &series.name);
            series.more.push(figure(there.and_then(Series::middle)));
            series.more.push(figure(there.map(|one| percentile(&one.all, 99))));
            series.more.push(figure(over_bare(other, &series.name)));
        }
    }
    let crates: Vec<Series> = one_thread.iter().filter(|one| one.kind == Kind::Peer).cloned().collect();
    let all: Vec<Series> = one_thread.into_iter().chain(foreign.iter().cloned()).collect();
    let table = Table {
        workload: "uncontended",
        title: "Uncontended: acquire and release, on a runtime of one thread",
        unit: "p50 in µs",
        more_is_better: false,
        limits: &[(PING, "PING"), (LIMIT, "bare")],
        more: &heads.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &all);
    let ours = find(&all, ours::ANNOTATED);
    let ratio = |place: &[Series]| over_bare(place, ours::ANNOTATED);
    report.target("uncontended", worst(&[ratio(&all), others.first().and_then(|two| ratio(two))]));
    report.target("uncontended, second server", others.get(1).and_then(|second| ratio(second)));
    for (target, peers) in [("uncontended, crates", &*crates), ("uncontended, other languages", foreign)] {
        report.target(target, ours.and_then(|ours| ours.over(best(peers, false)?)));
    }
}

/// The largest; nothing when one is missing.
pub fn worst(ratios: &[Option<f64>]) -> Option<f64> {
    let all: Option<Vec<f64>> = ratios.iter().copied().collect();
    all?.into_iter().max_by(f64::total_cmp)
}
