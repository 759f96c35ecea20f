//! Locks that nobody else wants, by many tasks, each with a key of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Extent;
use crate::contender::{self, Client, Kind, LIMIT, Part};
use crate::report::{Report, Series, Table};
use crate::support::RedisServer;

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    for tasks in [1, 64, 1024] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let contenders = runtime.block_on(contender::all(&server.url(), 1));
        let mut series: Vec<_> = contenders
            .iter()
            // A thread or a connection for each of a thousand tasks is another experiment.
            .filter(|one| one.kind != Kind::Article && !matches!(one.part, Part::Alone | Part::Some))
            .map(|contender| (contender, Series::new(contender.name, contender.kind)))
            .collect();
        for round in 0..extent.of(21, 4) {
            let turns = series.len();
            for turn in 0..turns {
                let (contender, series) = &mut series[(turn + round) % turns];
                let lasts = Duration::from_millis(extent.of(200, 100));
                let rate = runtime.block_on(rate(&contender.clients[0], tasks, lasts));
                // The first round warms up.
                if round > 0 {
                    series.rounds.push((rate > 0.0).then_some(rate));
                }
            }
        }
        let table = Table {
            workload: &format!("throughput, {tasks} tasks"),
            title: &format!("Nobody waits, tasks with a key each: {tasks}"),
            unit: "locks/s",
            more_is_better: true,
            limits: &[(LIMIT, "SET NX")],
            more: &[],
        };
        report.add(&table, &series.into_iter().map(|(_, series)| series).collect::<Vec<_>>());
    }
}

async fn rate(client: &Arc<dyn Client>, tasks: usize, lasts: Duration) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|number| {
            let client = Arc::clone(client);
            tokio::spawn(async move {
                let mut done = 0_u32;
                while start.elapsed() < lasts {
                    let call = client.locked(
                        format!("throughput:{number}"),
                        Duration::from_secs(30),
                        Box::pin(async {}),
                    );
                    call.await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    f64::from(done) / start.elapsed().as_secs_f64()
}
