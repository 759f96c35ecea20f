//! 64 tasks of ten processes that want one of 5 permits each, again and again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::figures::{percentile, server_cpu};
use kit::load::runtime;
use kit::{Cores, RedisServer, unique};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::contender::{Body, Client, Kind, Outcome};
use crate::counted::{self, OURS, PERMITS, REDISSON, Way};
use crate::readers::PROCESSES;
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::used::{Commands, needs_monitor};
use crate::workload::{Extent, Servers};

const TASKS: usize = 64;

/// How long a permit is used.
const HOLDS: Duration = Duration::from_millis(1);

/// No permit through a server can be passed on as fast.
const LOCAL: &str = "a semaphore of tokio, one process";

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let (server, runtime) = (&servers.redis, runtime(1));
    Cores::Two.place(&[], server.process());
    let mut ways = runtime.block_on(counted::permits(&server.url(), PROCESSES));
    let local = Arc::new(Local(Semaphore::new(PERMITS as usize)));
    ways.insert(0, Way { name: LOCAL, kind: Kind::Reference, many: vec![local], writer: None });
    let lasts = Duration::from_millis(extent.of(1000, 400));
    let mut all: Vec<Figures> = ways.iter().map(Figures::new).collect();
    for round in 0..extent.of(7, 2) {
        for turn in 0..ways.len() {
            let next = (turn + round) % ways.len();
            let taken = runtime.block_on(take_turns(server, &ways[next], lasts, false));
            all[next].add(taken);
        }
    }
    for (way, figures) in ways.iter().zip(&mut all) {
        if needs_monitor(way.name) {
            figures.commands = vec![runtime.block_on(take_turns(server, way, lasts, true)).commands];
        }
    }
    Cores::Any.place(&[], server.process());
    let series: Vec<Series> = all.into_iter().map(Figures::into_series).collect();
    let table = Table {
        workload: "permits",
        title: &format!("{TASKS} tasks of {PROCESSES} processes, {PERMITS} permits, each used for {HOLDS:?}"),
        unit: "permits/s",
        more_is_better: true,
        references: &[(LOCAL, "tokio's")],
        more: &["most inside"],
    };
    report.add(&table, &series);
    let cost = |name: &str, what: &str| {
        find(&series, name)?.costs.iter().find(|(one, _)| *one == what).and_then(|(_, value)| *value)
    };
    report.target("permits, commands", cost(OURS, COMMANDS));
    report.target(
        "permits, a semaphore",
        find(&series, LOCAL).and_then(|local| find(&series, OURS)?.over(local)),
    );
    let p99 = cost(OURS, P99).zip(cost(REDISSON, P99));
    report.target("permits, Redisson's p99", p99.map(|(ours, theirs)| ours / theirs));
}

const P99: &str = "wait in ms, p99";
const COMMANDS: &str = "commands/permit";

struct Local(Semaphore);

impl Client for Local {
    fn locked(&self, _: String, _: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let _permit = self.0.acquire().await.map_err(|error| error.to_string())?;
            body.await;
            Ok(())
        })
    }
}

/// One round of one contender.
struct Taken {
    rate: f64,
    /// From the call to the permit, in milliseconds.
    waits: Vec<f64>,
    commands: f64,
    /// Microseconds for each permit.
    server_cpu: f64,
    most_inside: u32,
}

struct Figures {
    series: Series,
    waits: Vec<f64>,
    commands: Vec<f64>,
    server_cpu: Vec<f64>,
    most_inside: u32,
}

impl Figures {
    fn new(way: &Way) -> Self {
        let series = Series::new(way.name, way.kind);
        Self { series, waits: Vec::new(), commands: Vec::new(), server_cpu: Vec::new(), most_inside: 0 }
    }

    fn add(&mut self, taken: Taken) {
        self.series.rounds.push(Some(taken.rate));
        self.waits.extend(taken.waits);
        self.commands.push(taken.commands);
        self.server_cpu.push(taken.server_cpu);
        self.most_inside = self.most_inside.max(taken.most_inside);
    }

    fn into_series(self) -> Series {
        let mut series = self.series;
        let is_local = series.name == LOCAL;
        let of = |values: &[f64], percent| Some(percentile(values, percent));
        series.cost("wait in ms, p50", of(&self.waits, 50));
        series.cost(P99, of(&self.waits, 99));
        series.cost("the longest", of(&self.waits, 100));
        series.cost(COMMANDS, of(&self.commands, 50).filter(|_| !is_local));
        series.cost("server CPU, µs/permit", of(&self.server_cpu, 50).filter(|_| !is_local));
        series.more = vec![json!(self.most_inside)];
        series
    }
}

async fn take_turns(server: &RedisServer, way: &Way, lasts: Duration, monitored: bool) -> Taken {
    let key = unique("smtp");
    // The store of permits by hand; ours has none.
    let _: String = server.run(&format!("SET {key} {PERMITS}"));
    let mut commands = if monitored {
        Commands::monitored(way.name, server).await
    } else {
        Commands::of(way.name, server).await
    };
    let mut stats = server.client();
    let (before, used) = (commands.so_far().await, server_cpu(&mut stats));
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let waits = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let client = Arc::clone(&way.many[number % way.many.len()]);
        let (key, inside, most, waits) =
            (key.clone(), Arc::clone(&inside), Arc::clone(&most), Arc::clone(&waits));
        tasks.push(tokio::spawn(async move {
            while start.elapsed() < lasts {
                let (inside, most, waits) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&waits));
                let asked = Instant::now();
                let body = async move {
                    waits.lock().unwrap().push(asked.elapsed().as_secs_f64() * 1e3);
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(HOLDS).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                // Nobody counts the wait of a caller that gets no permit, and the rate tells.
                let _ = client.locked(key.clone(), 10 * lasts, Box::pin(body)).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let elapsed = start.elapsed().as_secs_f64();
    let used = server_cpu(&mut stats).saturating_sub(used);
    let sent = commands.so_far().await - before;
    let waits = std::mem::take(&mut *waits.lock().unwrap());
    let each = |total: f64| total / waits.len().max(1) as f64;
    Taken {
        rate: waits.len() as f64 / elapsed,
        commands: each(sent),
        server_cpu: each(used.as_secs_f64() * 1e6),
        most_inside: most.load(Ordering::SeqCst),
        waits,
    }
}
