//! An uncontended lock, by one task: acquire and release.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::contender::{Contender, Kind, LIMIT, LIMIT_APART, LIMIT_SYNC, PING, Part};
use crate::field;
use crate::foreign;
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::workload::Extent;
use kit::RedisServer;

const IN_A_ROUND: usize = 25;

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let contenders = runtime.block_on(field::all(&server.url(), 1));
    let mut series: Vec<_> = contenders
        .iter()
        .filter(|contender| contender.part != Part::Waiting)
        .map(|contender| (contender, Series::new(contender.name, contender.kind)))
        .collect();
    let mut foreign: Vec<_> = foreign::all(report)
        .into_iter()
        .map(|one| {
            let series = Series::new(one.name, Kind::Peer);
            (one, series)
        })
        .collect();
    for round in 0..extent.of(300, 40) {
        let turns = series.len();
        for turn in 0..turns {
            let (contender, series) = &mut series[(turn + round) % turns];
            // The first lock finds cold caches and a sleeping thread.
            once(contender, &runtime);
            let times: Vec<f64> = (0..IN_A_ROUND).map(|_| once(contender, &runtime)).collect();
            series.add_round(&times);
        }
        for (foreign, series) in &mut foreign {
            series.add_round(&runtime.block_on(foreign.uncontended(&server.url(), IN_A_ROUND)));
        }
    }
    let table = Table {
        workload: "uncontended",
        title: "Uncontended: acquire and release",
        unit: "p50 in µs",
        more_is_better: false,
        limits: &[
            (PING, "PING"),
            (LIMIT, "bare"),
            (LIMIT_SYNC, "bare, blocks"),
            (LIMIT_APART, "bare, own thread"),
        ],
        more: &[],
    };
    let foreign = foreign.into_iter().map(|(_, series)| series);
    let series: Vec<_> = series.into_iter().map(|(_, series)| series).chain(foreign).collect();
    report.add(&table, &series);
    let limit = find(&series, LIMIT_APART);
    for (target, name) in [("uncontended, async", ours::ASYNC), ("uncontended, sync", ours::SYNC)] {
        report.target(target, find(&series, name).and_then(|ours| ours.over(limit?)));
    }
}

/// In microseconds.
fn once(contender: &Contender, runtime: &Runtime) -> f64 {
    let start = Instant::now();
    let mut call = contender.clients[0].locked("uncontended".to_owned(), Duration::ZERO, Box::pin(async {}));
    if contender.part == Part::Alone {
        // It blocks, and needs no runtime.
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(()))));
    } else {
        runtime.block_on(call).unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6
}
