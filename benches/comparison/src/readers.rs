//! 64 readers of one key: alone, and beside a writer that comes again and again. And what a lock
//! that several may hold costs its server when nobody disturbs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kit::contender::Run;
use kit::figures::percentile;
use kit::load::{Keys, Load, runtime};
use kit::{Cores, RedisServer, unique};
use redlocked::LockManager;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::contender::{Client, Kind};
use crate::counted::{self, READERS, REDISSON, Way};
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::uncontended::worst;
use crate::workload::{Extent, Servers};

const TASKS: usize = 64;

/// As in a fleet of ten processes.
pub const PROCESSES: usize = 10;

/// How long a reader stays, and the writer.
const HOLDS: Duration = Duration::from_millis(1);

/// From the end of a writer to its next call.
const PAUSE: Duration = Duration::from_millis(10);

const EXCLUSIVE: &str = "redlocked, exclusive, a key each";

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let (server, runtime) = (&servers.redis, runtime(1));
    Cores::Two.place(&[], server.process());
    let ways = runtime.block_on(counted::readers(&server.url(), PROCESSES));
    // How many readers, how long the writer waited.
    let mut beside: Vec<(Vec<f64>, Vec<f64>)> = ways.iter().map(|_| Default::default()).collect();
    let mut all: Vec<Loads> = ways.iter().map(|way| Loads::new(way.name, way.kind)).collect();
    all.push(Loads::new(EXCLUSIVE, Kind::Reference));
    let exclusive: Arc<dyn Client> =
        Arc::new(Run(runtime.block_on(LockManager::connect(server.url())).unwrap()));
    let mut stats = server.client();
    let lasts = Duration::from_millis(extent.of(300, 100));
    for round in 0..extent.of(11, 3) {
        for turn in 0..all.len() {
            let next = (turn + round) % all.len();
            let load = match ways.get(next) {
                Some(way) => Load::of_fleet(&way.many, TASKS, Keys::One, lasts, &runtime, &mut stats),
                None => Load::of(&exclusive, TASKS, lasts, &runtime, &mut stats),
            };
            // The first round warms up.
            if round > 0 {
                all[next].add(load);
            }
        }
    }
    for round in 0..extent.of(5, 1) {
        for turn in 0..ways.len() {
            let next = (turn + round) % ways.len();
            let lasts = Duration::from_millis(extent.of(1000, 500));
            let (rate, waits) = runtime.block_on(beside_a_writer(&ways[next], lasts));
            beside[next].0.push(rate);
            beside[next].1.extend(waits);
        }
    }
    target(server, &runtime, extent, report);
    Cores::Any.place(&[], server.process());
    tell(all, &beside, report);
}

fn tell(all: Vec<Loads>, beside: &[(Vec<f64>, Vec<f64>)], report: &mut Report) {
    let mut series: Vec<Series> = all.into_iter().map(Loads::into_series).collect();
    for (series, (rates, waits)) in series.iter_mut().zip(beside) {
        series.more =
            vec![json!(percentile(rates, 50)), json!(percentile(waits, 50)), json!(percentile(waits, 99))];
    }
    let table = Table {
        workload: "readers",
        title: &format!("{TASKS} readers of one key, {PROCESSES} processes"),
        unit: "locks/s",
        more_is_better: true,
        references: &[(EXCLUSIVE, "exclusive")],
        more: &["beside a writer: readers/s", "the writer's wait in ms, p50", "the writer's wait in ms, p99"],
    };
    report.add(&table, &series);
    let over = |name: &str| find(&series, READERS)?.over(find(&series, name)?);
    report.target("readers, Redisson's way", over(REDISSON));
    let writer = |name: &str| {
        let (_, waits) = &beside[series.iter().position(|one| one.name == name)?];
        Some(percentile(waits, 99))
    };
    let writers = writer(READERS).zip(writer(REDISSON));
    report.target("readers, a writer", writers.map(|(ours, theirs)| ours / theirs));
}

/// The server's time for a lock with several holders that has one at a time, beside an exclusive
/// one with a fencing token.
fn target(server: &RedisServer, runtime: &Runtime, extent: Extent, report: &mut Report) {
    let (exclusive, shared, permits) = runtime.block_on(async {
        let exclusive: Arc<dyn Client> = Arc::new(Run(LockManager::connect(server.url()).await.unwrap()));
        let shared = counted::readers(&server.url(), 1).await.swap_remove(0).many.remove(0);
        let permits = counted::permits(&server.url(), 1).await.swap_remove(0).many.remove(0);
        (exclusive, shared, permits)
    });
    let ways = [exclusive, shared, permits];
    let mut loads = ["exclusive", "shared", "permits"].map(|name| Loads::new(name, Kind::Ours));
    let mut stats = server.client();
    let lasts = Duration::from_millis(extent.of(200, 100));
    for round in 0..extent.of(11, 3) {
        for turn in 0..ways.len() {
            let next = (turn + round) % ways.len();
            let load = Load::of(&ways[next], TASKS, lasts, runtime, &mut stats);
            if round > 0 {
                loads[next].add(load);
            }
        }
    }
    let [exclusive, shared, permits] = loads;
    let over = [shared, permits].map(|one| one.server_cpu.over(&exclusive.server_cpu));
    report.target("counted, server CPU", worst(&over));
}

/// The figures of one contender.
struct Loads {
    rate: Series,
    own_cpu: Series,
    server_cpu: Series,
}

impl Loads {
    fn new(name: &str, kind: Kind) -> Self {
        let series = || Series::new(name, kind);
        Self { rate: series(), own_cpu: series(), server_cpu: series() }
    }

    fn add(&mut self, load: Option<Load>) {
        self.rate.rounds.push(load.map(|load| load.rate));
        self.own_cpu.rounds.push(load.map(|load| load.own_cpu));
        self.server_cpu.rounds.push(load.map(|load| load.server_cpu));
    }

    fn into_series(self) -> Series {
        let mut series = self.rate;
        series.cost("client CPU, µs/lock", self.own_cpu.middle());
        series.cost("server CPU, µs/lock", self.server_cpu.middle());
        series
    }
}

/// The readers a second, and how long each writer waited, in milliseconds.
async fn beside_a_writer(way: &Way, lasts: Duration) -> (f64, Vec<f64>) {
    let (key, start) = (unique("catalogue"), Instant::now());
    let done = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let (client, key, done) =
            (Arc::clone(&way.many[number % way.many.len()]), key.clone(), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            while start.elapsed() < lasts {
                let stays = Box::pin(tokio::time::sleep(HOLDS));
                if client.locked(key.clone(), 2 * lasts, stays).await.is_ok() {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    let writer = way.writer.as_ref().unwrap();
    let mut waits = Vec::new();
    tokio::time::sleep(PAUSE).await;
    while start.elapsed() < lasts {
        let (tell, inside) = tokio::sync::oneshot::channel();
        let asked = Instant::now();
        let body = async move {
            let _ = tell.send(Instant::now());
            tokio::time::sleep(HOLDS).await;
        };
        // One that never gets in waits until the readers have gone, and counts as that long.
        let _ = writer.locked(key.clone(), 2 * lasts, Box::pin(body)).await;
        let since = inside.await.unwrap_or_else(|_| Instant::now());
        waits.push((since - asked).as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    (f64::from(done.load(Ordering::Relaxed)) / start.elapsed().as_secs_f64(), waits)
}
