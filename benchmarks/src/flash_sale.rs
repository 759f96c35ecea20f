//! A flash sale in one process: requests for one item, so many at a time, each with an INCR under the lock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Extent;
use crate::by_hand::connect;
use crate::contender::{self, Client, Kind, PING, Part};
use crate::report::{Report, Series, Table, figure, percentile};
use crate::support::{RedisServer, unique};

const PACE: &str = "two PINGs a request, one after the other";

#[derive(Clone, Copy)]
struct Sale {
    requests: u32,
    at_a_time: u32,
    wait: Duration,
}

struct Day {
    lasted: f64,
    waits: Vec<f64>,
    failed: u32,
    overlaps: u32,
}

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let sale = extent.of(
        Sale { requests: 2000, at_a_time: 1000, wait: Duration::from_secs(30) },
        Sale { requests: 400, at_a_time: 200, wait: Duration::from_secs(3) },
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let contenders = runtime.block_on(contender::all(&server.url(), 1));
    let ping = &contenders.iter().find(|one| one.name == PING).unwrap().clients[0];
    let mut pace = Series::new(PACE, Kind::Limit);
    let mut series: Vec<_> = contenders
        .iter()
        .filter(|one| one.part == Part::Everything)
        .map(|contender| (contender, Series::new(contender.name, contender.kind), Vec::new()))
        .collect();
    for round in 0..extent.of(3, 1) {
        let round_trip = runtime.block_on(median_ping(ping));
        pace.rounds.push(Some(2.0 * round_trip * f64::from(sale.requests)));
        let turns = series.len();
        for turn in 0..turns {
            let (contender, series, days) = &mut series[(turn + round) % turns];
            let day = runtime.block_on(hold(server, &contender.clients[0], sale));
            // Who sends people away has not sold faster.
            series.rounds.push((day.failed == 0).then_some(day.lasted));
            days.push(day);
        }
    }
    let mut all = vec![pace];
    for (_, mut series, days) in series {
        let waits: Vec<f64> = days.iter().flat_map(|day| day.waits.iter().copied()).collect();
        let lasted: Vec<f64> = days.iter().map(|day| day.lasted).collect();
        series.more = vec![
            figure(Some(percentile(&lasted, 50))),
            figure(Some(percentile(&waits, 50))),
            figure(Some(percentile(&waits, 99))),
            days.iter().map(|day| day.failed).max().unwrap_or_default().to_string(),
            days.iter().map(|day| day.overlaps).sum::<u32>().to_string(),
        ];
        all.push(series);
    }
    let Sale { requests, at_a_time, wait } = sale;
    let table = Table {
        workload: "flash sale",
        title: &format!("{requests} requests for one item, {at_a_time} at a time, wait {wait:?}"),
        unit: "s, if all were served",
        more_is_better: false,
        limits: &[(PACE, "2 PINGs")],
        more: &["s", "p50 ms", "p99 ms", "sent away", "two inside"],
    };
    report.add(&table, &all);
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
