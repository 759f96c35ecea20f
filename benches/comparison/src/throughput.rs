//! Uncontended locks, by many tasks, each with a key of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use crate::by_hand::{SetNx, connect};
use crate::contender::{Client, Contender, Kind, LIMIT, LIMIT_APART, Part};
use crate::field;
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, whole};
use crate::used::server_cpu;
use crate::workload::Extent;
use kit::RedisServer;
use kit::figures::own_cpu;

const PIPELINES: &str = "the same in pipelines, by one task";

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    for (tasks, threads) in [(1, Threads::One), (64, Threads::One), (64, Threads::Two), (1024, Threads::Two)]
    {
        let runtime = threads.runtime();
        let contenders = runtime.block_on(field::all(&server.url(), 1));
        let takes_part = |one: &&Contender| {
            // A thread or a connection for each of a thousand tasks is another experiment.
            one.kind != Kind::Article && matches!(one.part, Part::Free | Part::Everything)
        };
        let mut field: Vec<_> = contenders
            .iter()
            .filter(takes_part)
            .map(|one| Runner { way: Way::Locks(&one.clients[0]), results: Results::new(one.name, one.kind) })
            .collect();
        if tasks > 1 {
            let way = Way::Pipelines(runtime.block_on(SetNx::once(&server.url())));
            field.insert(2, Runner { way, results: Results::new(PIPELINES, Kind::Limit) });
        }
        let mut stats = runtime.block_on(connect(&server.url()));
        for round in 0..extent.of(11, 4) {
            let turns = field.len();
            for turn in 0..turns {
                let runner = &mut field[(turn + round) % turns];
                let load = load(
                    &runtime,
                    &mut stats,
                    &runner.way,
                    tasks,
                    Duration::from_millis(extent.of(200, 100)),
                );
                // The first round warms up.
                if round > 0 {
                    runner.results.add(&load);
                }
            }
        }
        let table = Table {
            workload: &format!("throughput, {tasks} tasks on {}", threads.name()),
            title: &format!("Without waiters: {} on {}", one_or_many(tasks), threads.name()),
            unit: "locks/s",
            more_is_better: true,
            limits: &[(LIMIT_APART, "bare, own thread"), (LIMIT, "bare")],
            more: &[],
        };
        let results: Vec<Results> = field.into_iter().map(|runner| runner.results).collect();
        let targets = targets(tasks, threads, &results);
        report.add(&table, &results.into_iter().map(Results::finish).collect::<Vec<_>>());
        for (name, value) in targets {
            report.target(name, value);
        }
    }
}

/// The threads of the runtime of the callers.
#[derive(Clone, Copy)]
enum Threads {
    One,
    /// The default of `#[tokio::main]` on a machine with two cores.
    Two,
}

impl Threads {
    fn runtime(self) -> Runtime {
        let builder = match self {
            Self::One => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            Self::Two => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        };
        builder.unwrap()
    }

    fn name(self) -> &'static str {
        match self {
            Self::One => "one thread",
            Self::Two => "two threads",
        }
    }
}

fn one_or_many(tasks: usize) -> String {
    if tasks == 1 { "one task".to_owned() } else { format!("{} tasks, a key each", whole(tasks)) }
}

fn targets(tasks: usize, threads: Threads, results: &[Results]) -> Vec<(&'static str, Option<f64>)> {
    let ratio = |limit: &str, figures: fn(&Results) -> &Series| {
        let find = |name: &str| results.iter().map(figures).find(|series| series.name == name);
        find(ours::ASYNC)?.over(find(limit)?)
    };
    match (tasks, threads) {
        (1, _) => vec![
            ("client CPU", ratio(LIMIT_APART, |one| &one.cpu)),
            ("client CPU, caller's runtime", ratio(LIMIT, |one| &one.cpu)),
        ],
        (64, Threads::Two) => vec![("throughput, 64 tasks", ratio(LIMIT, |one| &one.rate))],
        (64, Threads::One) => vec![("throughput, 64 tasks, one thread", ratio(LIMIT, |one| &one.rate))],
        _ => Vec::new(),
    }
}

enum Way<'a> {
    Locks(&'a Arc<dyn Client>),
    Pipelines(SetNx),
}

struct Runner<'a> {
    way: Way<'a>,
    results: Results,
}

struct Results {
    rate: Series,
    /// Microseconds of CPU for each lock: of this process, and of the server.
    cpu: Series,
    server_cpu: Series,
}

/// The figures of one round.
struct Load {
    locks: f64,
    elapsed: Duration,
    own_cpu: Duration,
    server_cpu: Duration,
}

impl Results {
    fn new(name: &str, kind: Kind) -> Self {
        let series = || Series::new(name, kind);
        Self { rate: series(), cpu: series(), server_cpu: series() }
    }

    fn add(&mut self, load: &Load) {
        let of = |value: f64| (load.locks > 0.0).then_some(value);
        self.rate.rounds.push(of(load.locks / load.elapsed.as_secs_f64()));
        self.cpu.rounds.push(of(load.own_cpu.as_secs_f64() * 1e6 / load.locks));
        self.server_cpu.rounds.push(of(load.server_cpu.as_secs_f64() * 1e6 / load.locks));
    }

    fn finish(mut self) -> Series {
        self.rate.cost("client CPU, µs/lock", self.cpu.middle());
        self.rate.cost("server CPU, µs/lock", self.server_cpu.middle());
        self.rate
    }
}

fn load(
    runtime: &Runtime,
    stats: &mut MultiplexedConnection,
    way: &Way,
    tasks: usize,
    lasts: Duration,
) -> Load {
    runtime.block_on(async {
        let served = server_cpu(stats).await;
        let (used, start) = (own_cpu(), Instant::now());
        let locks = match way {
            Way::Locks(client) => locks(client, tasks, lasts).await,
            Way::Pipelines(by_hand) => pipelines(by_hand, tasks, lasts).await,
        };
        let (elapsed, own_cpu) = (start.elapsed(), own_cpu().saturating_sub(used));
        let server_cpu = server_cpu(stats).await.saturating_sub(served);
        Load { locks: f64::from(locks), elapsed, own_cpu, server_cpu }
    })
}

async fn pipelines(by_hand: &SetNx, locks: usize, lasts: Duration) -> u32 {
    let start = Instant::now();
    let keys: Vec<String> = (0..locks).map(|number| format!("throughput:{number}")).collect();
    let mut done = 0;
    while start.elapsed() < lasts {
        done += by_hand.all_at_once(&keys).await;
    }
    done
}

async fn locks(client: &Arc<dyn Client>, tasks: usize, lasts: Duration) -> u32 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|number| {
            let client = Arc::clone(client);
            tokio::spawn(async move {
                let mut done = 0;
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
    done
}
