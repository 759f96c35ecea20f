//! A lock that nobody else wants, by one task: acquire and release.

use std::time::{Duration, Instant};

use crate::Extent;
use crate::contender::{self, LIMIT, PING};
use crate::ours;
use crate::report::{Report, Series, Table, find};
use crate::support::RedisServer;

const IN_A_ROUND: usize = 25;

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let contenders = runtime.block_on(contender::all(&server.url(), 1));
    let mut series: Vec<_> = contenders
        .iter()
        .filter(|contender| contender.kind != contender::Kind::Article)
        .map(|contender| (contender, Series::new(contender.name, contender.kind)))
        .collect();
    for round in 0..extent.of(300, 40) {
        let turns = series.len();
        for turn in 0..turns {
            let (contender, series) = &mut series[(turn + round) % turns];
            let client = &contender.clients[0];
            let one = || {
                let start = Instant::now();
                let call = client.locked("uncontended".to_owned(), Duration::ZERO, Box::pin(async {}));
                runtime.block_on(call).unwrap();
                start.elapsed().as_secs_f64() * 1e6
            };
            // The first one finds cold caches and a sleeping thread.
            one();
            let times: Vec<f64> = (0..IN_A_ROUND).map(|_| one()).collect();
            series.add_round(&times);
        }
    }
    let table = Table {
        workload: "uncontended",
        title: "Nobody else wants it: acquire and release",
        unit: "p50 in us",
        more_is_better: false,
        limits: &[(PING, "PING"), (LIMIT, "SET NX")],
        more: &[],
    };
    let series: Vec<_> = series.into_iter().map(|(_, series)| series).collect();
    report.add(&table, &series);
    let ratio = find(&series, ours::ASYNC).and_then(|ours| ours.over(find(&series, LIMIT)?));
    report.target("uncontended, async", ratio);
}
