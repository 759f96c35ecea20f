//! An uncontended lock, by one task: acquire and release, on runtimes of one thread and of two, and
//! on a second server.

use std::sync::Arc;
use std::time::Duration;

use kit::bare::Bare;
use kit::load::{one_by_one, runtime};
use kit::{Cores, DelayProxy, RedisServer, figures::percentile};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::contender::{Client, Contender, Kind, PING, Part, REFERENCE};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best, find};
use crate::workload::{Extent, Servers};

const IN_A_ROUND: usize = 25;

/// A message to the server or from it takes as long on a network with a round trip of a millisecond.
const ONE_WAY: Duration = Duration::from_micros(500);

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let mut foreign = foreign::all(report);
    let mut places = vec![
        Place::new(&servers.redis, 1, Cores::One, &foreign),
        Place::new(&servers.redis, 1, Cores::Two, &foreign),
        Place::new(&servers.redis, 2, Cores::Any, &[]),
    ];
    places.extend(servers.second.as_ref().map(|second| Place::new(second, 1, Cores::One, &[])));
    for round in 0..extent.of(300, 40) {
        for place in &mut places {
            place.take_turns(round, &mut foreign);
        }
    }
    // The next workloads leave it to the kernel again.
    for server in servers.all() {
        Cores::Any.place(&[], server.process());
    }
    tell(servers, &places, report);
    report.target("background, far", over_bare_far(&servers.redis, extent));
}

/// A call that does not wait for its release over the bare pair, on a network.
fn over_bare_far(server: &RedisServer, extent: Extent) -> Option<f64> {
    let (proxy, runtime) = (DelayProxy::to(server.port(), ONE_WAY), runtime(1));
    let url = proxy.url();
    let clients: [Arc<dyn Client>; 2] = runtime
        .block_on(async { [ours::released_in_background(&url).await, Arc::new(Bare::connect(&url).await)] });
    let mut series = [Series::new(ours::BACKGROUND, Kind::Ours), Series::new(REFERENCE, Kind::Reference)];
    for _ in 0..extent.of(40, 5) {
        for (client, series) in clients.iter().zip(&mut series) {
            series.add_round(&one_by_one(client, IN_A_ROUND, &runtime));
        }
    }
    over_bare(&series, ours::BACKGROUND)
}

/// The contenders on one server, called from one runtime.
struct Place<'a> {
    server: &'a RedisServer,
    runtime: Runtime,
    cores: Cores,
    contenders: Vec<Contender>,
    /// The series of the contenders, and of other languages where they take part.
    series: Vec<Series>,
}

impl<'a> Place<'a> {
    fn new(server: &'a RedisServer, workers: usize, cores: Cores, foreign: &[Foreign]) -> Self {
        let runtime = runtime(workers);
        let mut contenders = runtime.block_on(field::all(&server.url(), 1));
        // A lock that blocks has a table of its own.
        contenders.retain(|one| matches!(one.part, Part::Free | Part::Everything) && one.name != DIRECT);
        let here = contenders.iter().map(|one| Series::new(one.name, one.kind));
        let series = here.chain(foreign.iter().map(|one| Series::new(one.name, Kind::Peer))).collect();
        Self { server, runtime, cores, contenders, series }
    }

    fn take_turns(&mut self, round: usize, foreign: &mut [Foreign]) {
        let clients: Vec<u32> = foreign.iter().map(Foreign::process).collect();
        self.cores.place(&clients, self.server.process());
        let turns = self.contenders.len();
        for turn in 0..turns {
            let next = (turn + round) % turns;
            let times = one_by_one(&self.contenders[next].clients[0], IN_A_ROUND, &self.runtime);
            self.series[next].add_round(&times);
        }
        let url = self.server.url();
        for (foreign, series) in foreign.iter_mut().zip(&mut self.series[turns..]) {
            series.add_round(&self.runtime.block_on(foreign.uncontended(&url, IN_A_ROUND)));
        }
    }

    /// Ours over the bare pair.
    fn over_bare(&self) -> Option<f64> {
        over_bare(&self.series, ours::ANNOTATED)
    }

    /// Ours over the best crate, or over the best of another language.
    fn over_best(&self, is_foreign: bool) -> Option<f64> {
        let peers = self
            .series
            .iter()
            .enumerate()
            .filter(|(nth, one)| one.kind == Kind::Peer && (*nth >= self.contenders.len()) == is_foreign);
        find(&self.series, ours::ANNOTATED)?.over(best(peers.map(|(_, one)| one), false)?)
    }
}

fn over_bare(series: &[Series], name: &str) -> Option<f64> {
    find(series, name)?.over(find(series, REFERENCE)?)
}

fn tell(servers: &Servers, places: &[Place], report: &mut Report) {
    let second = servers.second.as_ref().map(RedisServer::version);
    let headings = [Cores::Two.to_string(), "two workers".to_owned()].into_iter().chain(second);
    let more: Vec<String> =
        headings.flat_map(|place| ["p50", "p99", "÷ bare"].map(|head| format!("{place}: {head}"))).collect();
    let [one_core, two_cores, two_workers, second @ ..] = places else { return };
    let mut table = one_core.series.clone();
    for series in &mut table {
        for place in &places[1..] {
            let there = find(&place.series, &series.name);
            series.more.push(json!(there.and_then(Series::middle)));
            series.more.push(json!(there.map(|one| percentile(&one.all, 99))));
            series.more.push(json!(over_bare(&place.series, &series.name)));
        }
    }
    let heading = Table {
        workload: "uncontended",
        title: "Uncontended: acquire and release, in one thread that shares a core with the server",
        unit: "p50 in µs",
        more_is_better: false,
        references: &[(PING, "PING"), (REFERENCE, "bare")],
        more: &more.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&heading, &table);
    report.target("uncontended", worst(&[one_core, two_cores, two_workers].map(Place::over_bare)));
    report.target("uncontended, second server", second.first().and_then(Place::over_bare));
    let fenced = [one_core, two_cores].map(|place| over_bare(&place.series, ours::RUN));
    report.target("fenced", worst(&fenced));
    let background = [one_core, two_cores].map(|place| over_bare(&place.series, ours::BACKGROUND));
    report.target("background", worst(&background));
    for (target, is_foreign) in [("uncontended, crates", false), ("uncontended, other languages", true)] {
        report.target(target, worst(&[one_core, two_cores].map(|place| place.over_best(is_foreign))));
    }
}

/// The largest; nothing when one is missing.
pub fn worst(ratios: &[Option<f64>]) -> Option<f64> {
    let all: Option<Vec<f64>> = ratios.iter().copied().collect();
    all?.into_iter().max_by(f64::total_cmp)
}

/// The smallest; nothing when one is missing.
pub fn least(ratios: &[Option<f64>]) -> Option<f64> {
    worst(&ratios.iter().map(|ratio| ratio.map(|ratio| -ratio)).collect::<Vec<_>>()).map(|ratio| -ratio)
}
