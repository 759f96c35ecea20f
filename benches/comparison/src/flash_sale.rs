//! A flash sale in one process: requests for one item, a fixed number at a time, each with an INCR under the lock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::by_hand::connect;
use crate::contender::{Client, Kind, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best_peer, figure, find, whole};
use crate::used::commands;
use crate::workload::{Day, Extent, Sale};
use kit::figures::percentile;
use kit::{RedisServer, unique};

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

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let sale = extent.of(
        Sale { requests: 2000, at_a_time: 1000, wait: Duration::from_secs(10) },
        Sale { requests: 400, at_a_time: 200, wait: Duration::from_secs(2) },
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let contenders = runtime.block_on(field::all(&server.url(), 1));
    let ping = &contenders.iter().find(|one| one.name == PING).unwrap().clients[0];
    let mut pace = Series::new(PACE, Kind::Limit);
    let takes_part = |part| matches!(part, Part::Everything | Part::Waiting | Part::OneProcess);
    let here = contenders.iter().filter(|one| takes_part(one.part));
    let mut field: Vec<Runner> =
        here.map(|one| Runner::new(Who::Here(&one.clients[0]), one.name, one.kind)).collect();
    for foreign in foreign::all(report) {
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
    let mut all = vec![pace];
    all.extend(field.into_iter().map(Runner::finish));
    let Sale { requests, at_a_time, wait } = sale;
    let table = Table {
        workload: "flash sale",
        title: &format!(
            "{} requests for one item, {} at a time, wait {wait:?}",
            whole(requests as usize),
            whole(at_a_time as usize)
        ),
        unit: "requests/s, if all were served",
        more_is_better: true,
        limits: &[(PACE, "2 PINGs"), (DIRECT, "direct")],
        more: &["sent away", "two inside", "seconds"],
    };
    report.add(&table, &all);
    targets(report, &all);
}

fn targets(report: &mut Report, all: &[Series]) {
    let ours = find(all, ours::ASYNC).unwrap();
    let best = best_peer(all, true);
    let p99 = |one: &Series| one.costs.iter().find(|(what, _)| *what == P99)?.1;
    report.target("flash sale, best peer", best.and_then(|best| ours.over(best)));
    report.target("flash sale, best peer's p99", best.and_then(|best| Some(p99(ours)? / p99(best)?)));
    report.target("flash sale, sent away", ours.more.first().and_then(|failed| failed.parse::<f64>().ok()));
    report.target("flash sale, limit", find(all, DIRECT).and_then(|direct| ours.over(direct)));
}

impl Runner<'_> {
    fn hold(&mut self, server: &RedisServer, runtime: &Runtime, sale: Sale) {
        let (day, sent) = runtime.block_on(async {
            let mut stats = connect(&server.url()).await;
            let before = commands(&mut stats, &self.series.name).await;
            let day = match &mut self.who {
                Who::Here(client) => hold(server, client, sale).await,
                Who::Elsewhere(foreign) => foreign.flash_sale(&server.url(), sale).await,
            };
            (day, commands(&mut stats, &self.series.name).await - before)
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
        let lasted: Vec<f64> = days.iter().map(|day| day.lasted).collect();
        series.cost("p50 ms", of(&waits, 50));
        series.cost(P99, of(&waits, 99));
        series
            .cost("commands/acquisition", (series.name != ours::MEMORY).then(|| of(&commands, 50)).flatten());
        series.more = vec![
            days.iter().map(|day| day.failed).max().unwrap_or_default().to_string(),
            days.iter().map(|day| day.overlaps).max().unwrap_or_default().to_string(),
            figure(of(&lasted, 50)),
        ];
        series
    }
}

async fn median_ping(client: &Arc<dyn Client>) -> f64 {
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        client.locked(String::new(), Duration::ZERO, Box::pin(async {})).await.unwrap();
        times.push(start.elapsed().as_secs_f64());
    }
    percentile(&times, 50)
}

async fn hold(server: &RedisServer, client: &Arc<dyn Client>, sale: Sale) -> Day {
    let (key, sold) = (unique("item"), unique("sold"));
    let connection = connect(&server.url()).await;
    let waits = Arc::new(Mutex::new(Vec::new()));
    let (next, failed, overlaps) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let occupied = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let tasks: Vec<_> = (0..sale.at_a_time)
        .map(|_| {
            let (client, key, sold, connection, waits) =
                (Arc::clone(client), key.clone(), sold.clone(), connection.clone(), Arc::clone(&waits));
            let (next, failed, overlaps, occupied) =
                (Arc::clone(&next), Arc::clone(&failed), Arc::clone(&overlaps), Arc::clone(&occupied));
            tokio::spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < sale.requests {
                    let (overlaps, occupied) = (Arc::clone(&overlaps), Arc::clone(&occupied));
                    let (mut connection, sold) = (connection.clone(), sold.clone());
                    let body = async move {
                        if occupied.swap(true, Ordering::SeqCst) {
                            overlaps.fetch_add(1, Ordering::SeqCst);
                        }
                        let incr = redis::cmd("INCR").arg(&sold).query_async::<u32>(&mut connection).await;
                        incr.unwrap();
                        occupied.store(false, Ordering::SeqCst);
                    };
                    let asked = Instant::now();
                    match client.locked(key.clone(), sale.wait, Box::pin(body)).await {
                        Ok(()) => waits.lock().unwrap().push(asked.elapsed().as_secs_f64() * 1e3),
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let waits = std::mem::take(&mut *waits.lock().unwrap());
    Day {
        lasted: start.elapsed().as_secs_f64(),
        waits,
        failed: failed.load(Ordering::Relaxed),
        overlaps: overlaps.load(Ordering::SeqCst),
    }
}
