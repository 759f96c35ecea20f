//! A flash sale in one process: requests for one item, a fixed number at a time, each with an INCR
//! under the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kit::contender::empty;
use kit::figures::percentile;
use kit::load::runtime;
use kit::{Cores, RedisServer};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::contender::{Client, Kind, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best_peer, find, whole};
use crate::uncontended::{least, worst};
use crate::used::{Commands, needs_monitor};
use crate::workload::{Day, Extent, Sale, Servers};

const PACE: &str = "two PINGs a request, one after the other";

const P99: &str = "p99 ms";

/// A contender that takes longer than this runs one round only.
const LONG: f64 = 4.0;

enum Who<'a> {
    Here(&'a Arc<dyn Client>),
    Elsewhere(Foreign),
}

struct Runner<'a> {
    who: Who<'a>,
    series: Series,
    days: Vec<Day>,
    commands: Vec<f64>,
}

impl<'a> Runner<'a> {
    fn new(who: Who<'a>, name: &str, kind: Kind) -> Self {
        Self { who, series: Series::new(name, kind), days: Vec::new(), commands: Vec::new() }
    }
}

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let sale = extent.of(
        Sale { requests: 2000, at_a_time: 1000, wait: Duration::from_secs(10) },
        Sale { requests: 400, at_a_time: 200, wait: Duration::from_secs(2) },
    );
    let [mut all, two_cores] =
        [Cores::One, Cores::Two].map(|cores| sell(servers, sale, cores, extent, report));
    for one in &mut all {
        let there = find(&two_cores, &one.name);
        one.more.push(json!(there.and_then(Series::middle)));
        one.more.push(json!(there.and_then(|there| there.over(find(&two_cores, DIRECT)?))));
        one.more.push(json!(there.and_then(p99)));
    }
    let Sale { requests, at_a_time, wait } = sale;
    let table = Table {
        workload: "flash sale",
        title: &format!(
            "{} requests for one item, {} at a time, wait {wait:?}, {}",
            whole(requests as usize),
            whole(at_a_time as usize),
            Cores::One
        ),
        unit: "requests/s, if all were served",
        more_is_better: true,
        references: &[(PACE, "2 PINGs"), (DIRECT, "direct")],
        more: &[
            "sent away",
            "two inside",
            "two cores: requests/s",
            "two cores: ÷ direct",
            "two cores: p99 ms",
        ],
    };
    report.add(&table, &all);
    targets(report, &[all, two_cores]);
}

fn sell(servers: &Servers, sale: Sale, cores: Cores, extent: Extent, report: &mut Report) -> Vec<Series> {
    let mut others = foreign::all(report);
    let (server, runtime) = (&servers.redis, runtime(1));
    cores.place(&others.iter().map(Foreign::process).collect::<Vec<_>>(), server.process());
    let contenders = runtime.block_on(field::all(&server.url(), 1));
    let ping = &contenders.iter().find(|one| one.name == PING).unwrap().clients[0];
    let mut pace = Series::new(PACE, Kind::Reference);
    // It sends nobody away, and lets nobody in.
    pace.more = vec![Value::Null, Value::Null];
    let takes_part = |part| matches!(part, Part::Everything | Part::Waiting | Part::Sale);
    let here = contenders.iter().filter(|one| takes_part(one.part));
    let mut field: Vec<Runner> =
        here.map(|one| Runner::new(Who::Here(&one.clients[0]), one.name, one.kind)).collect();
    for foreign in others.drain(..) {
        let name = foreign.name;
        field.push(Runner::new(Who::Elsewhere(foreign), name, Kind::Peer));
    }
    for round in 0..extent.of(5, 2) {
        let round_trip = runtime.block_on(median_ping(ping));
        pace.rounds.push(Some(0.5 / round_trip));
        let turns = field.len();
        for turn in 0..turns {
            let runner = &mut field[(turn + round) % turns];
            if runner.days.iter().any(|day| day.lasted > LONG) {
                runner.series.rounds.push(None);
            } else {
                runner.hold(server, &runtime, sale);
            }
        }
    }
    for runner in &mut field {
        if needs_monitor(&runner.series.name) && runner.series.name != ours::MEMORY {
            runner.commands = runner.count(server, &runtime, sale).into_iter().collect();
        }
    }
    Cores::Any.place(&[], server.process());
    std::iter::once(pace).chain(field.into_iter().map(Runner::finish)).collect()
}

fn p99(one: &Series) -> Option<f64> {
    one.costs.iter().find(|(what, _)| *what == P99)?.1
}

/// The worse of both places.
fn targets(report: &mut Report, places: &[Vec<Series>; 2]) {
    let both = |of: fn(&[Series]) -> Option<f64>| places.each_ref().map(|place| of(place));
    let best = both(|all| find(all, ours::ANNOTATED)?.over(best_peer(all, true)?));
    report.target("flash sale, best peer", least(&best));
    let p99 = both(|all| Some(p99(find(all, ours::ANNOTATED)?)? / p99(best_peer(all, true)?)?));
    report.target("flash sale, best peer's p99", worst(&p99));
    let failed = both(|all| find(all, ours::ANNOTATED)?.more.first()?.as_f64());
    report.target("flash sale, sent away", worst(&failed));
    let reference = both(|all| find(all, ours::ANNOTATED)?.over(find(all, DIRECT)?));
    report.target("flash sale, limit", least(&reference));
    let memory = both(|all| find(all, ours::MEMORY)?.over(find(all, DIRECT)?));
    report.target("flash sale, memory", least(&memory));
}

impl Runner<'_> {
    /// One more day, for its commands alone.
    fn count(&mut self, server: &RedisServer, runtime: &Runtime, sale: Sale) -> Option<f64> {
        let (day, sent) = runtime.block_on(async {
            let commands = Commands::monitored(&self.series.name, server).await;
            self.sell(server, sale, commands).await
        });
        (!day.waits.is_empty()).then(|| sent / day.waits.len() as f64)
    }

    async fn sell(&mut self, server: &RedisServer, sale: Sale, mut commands: Commands) -> (Day, f64) {
        let before = commands.so_far().await;
        let day = match &mut self.who {
            Who::Here(client) => sale.hold(&server.url(), client).await,
            Who::Elsewhere(foreign) => foreign.flash_sale(&server.url(), sale).await,
        };
        (day, commands.so_far().await - before)
    }

    fn hold(&mut self, server: &RedisServer, runtime: &Runtime, sale: Sale) {
        let (day, sent) = runtime.block_on(async {
            let commands = Commands::of(&self.series.name, server).await;
            self.sell(server, sale, commands).await
        });
        // A contender that turns requests away, or serves two at once, has not sold faster.
        let sold = day.failed == 0 && day.overlaps == 0;
        self.series.rounds.push(sold.then(|| f64::from(sale.requests) / day.lasted));
        if !day.waits.is_empty() {
            self.commands.push(sent / day.waits.len() as f64);
        }
        self.days.push(day);
    }

    fn finish(self) -> Series {
        let Self { mut series, days, commands, .. } = self;
        let waits: Vec<f64> = days.iter().flat_map(|day| day.waits.iter().copied()).collect();
        let of = |values: &[f64], percent| (!values.is_empty()).then(|| percentile(values, percent));
        series.cost("p50 ms", of(&waits, 50));
        series.cost(P99, of(&waits, 99));
        series
            .cost("commands/acquisition", (series.name != ours::MEMORY).then(|| of(&commands, 50)).flatten());
        series.more = vec![
            json!(days.iter().map(|day| day.failed).max().unwrap_or_default()),
            json!(days.iter().map(|day| day.overlaps).max().unwrap_or_default()),
        ];
        series
    }
}

async fn median_ping(client: &Arc<dyn Client>) -> f64 {
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        client.locked(String::new(), Duration::ZERO, empty()).await.unwrap();
        times.push(start.elapsed().as_secs_f64());
    }
    percentile(&times, 50)
}
