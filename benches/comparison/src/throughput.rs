//! Uncontended locks, by many tasks, each with a key of its own: on runtimes of one thread and of
//! two, and on a second server.

use std::time::Duration;

use kit::RedisServer;
use kit::load::{Load, runtime};
use tokio::runtime::Runtime;

use crate::contender::{Contender, LIMIT, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best_peer, figure, find};
use crate::uncontended::worst;
use crate::workload::{Extent, Servers};

const MANY: usize = 64;

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let one_task = compare(&[&servers.redis], 1, 1, extent).remove(0);
    let both: Vec<&RedisServer> = servers.all().collect();
    let one_thread = compare(&both, MANY, 1, extent);
    let two_threads = compare(&both, MANY, 2, extent);
    let second = servers.second.as_ref().map(RedisServer::version);
    let heads = second.map(|name| {
        [format!("{name}: ÷ bare"), "two workers: ÷ bare".to_owned(), "server CPU, ÷ bare".to_owned()]
    });
    let heads: Vec<&str> = ["two workers: locks/s", "÷ bare"]
        .into_iter()
        .chain(heads.iter().flatten().map(String::as_str))
        .collect();
    let rates = |loads: &[Loads]| loads.iter().map(|one| one.rate.clone()).collect::<Vec<_>>();
    let mut series = rates(&one_thread[0]);
    for one in &mut series {
        let loads = &one_thread[0];
        one.cost("client CPU, µs/lock", found(loads, &one.name).and_then(|loads| loads.own_cpu.middle()));
        one.cost("server CPU, µs/lock", found(loads, &one.name).and_then(|loads| loads.server_cpu.middle()));
        one.more = vec![
            figure(found(&two_threads[0], &one.name).and_then(|loads| loads.rate.middle())),
            figure(over_bare(&two_threads[0], &one.name, |loads| &loads.rate)),
        ];
        if let (Some(one_thread), Some(two_threads)) = (one_thread.get(1), two_threads.get(1)) {
            one.more.push(figure(over_bare(one_thread, &one.name, |loads| &loads.rate)));
            one.more.push(figure(over_bare(two_threads, &one.name, |loads| &loads.rate)));
            one.more.push(figure(over_bare(one_thread, &one.name, |loads| &loads.server_cpu)));
        }
    }
    let table = Table {
        workload: "many tasks",
        title: &format!("Uncontended: {MANY} tasks, a key each, on a runtime of one thread"),
        unit: "locks/s",
        more_is_better: true,
        limits: &[(LIMIT, "bare")],
        more: &heads,
    };
    report.add(&table, &series);

    let ratio = |loads: &[Loads], of| over_bare(loads, ours::ANNOTATED, of);
    let rate: fn(&Loads) -> &Series = |loads| &loads.rate;
    report.target("64 tasks, one thread", ratio(&one_thread[0], rate));
    report.target("64 tasks, two workers", ratio(&two_threads[0], rate));
    let over_peer = |loads: &[Loads]| {
        let rates = rates(loads);
        find(&rates, ours::ANNOTATED)?.over(best_peer(&rates, true)?)
    };
    report.target("64 tasks, peers", least(&[over_peer(&one_thread[0]), over_peer(&two_threads[0])]));
    let second = |loads: &[Vec<Loads>]| ratio(loads.get(1)?, rate);
    report.target("64 tasks, second server", least(&[second(&one_thread), second(&two_threads)]));
    let cpu: fn(&Loads) -> &Series = |loads| &loads.own_cpu;
    report.target("client CPU", worst(&[ratio(&one_task, cpu), ratio(&one_thread[0], cpu)]));
    let cpu: fn(&Loads) -> &Series = |loads| &loads.server_cpu;
    report.target("server CPU", ratio(&one_thread[0], cpu));
    report.target("server CPU, second server", one_thread.get(1).and_then(|second| ratio(second, cpu)));
}

/// The smallest; nothing when one is missing.
fn least(ratios: &[Option<f64>]) -> Option<f64> {
    worst(&ratios.iter().map(|ratio| ratio.map(|ratio| -ratio)).collect::<Vec<_>>()).map(|ratio| -ratio)
}

fn found<'a>(loads: &'a [Loads], name: &str) -> Option<&'a Loads> {
    loads.iter().find(|one| one.rate.name == name)
}

fn over_bare(loads: &[Loads], name: &str, of: fn(&Loads) -> &Series) -> Option<f64> {
    of(found(loads, name)?).over(of(found(loads, LIMIT)?))
}

/// The figures of one contender.
struct Loads {
    rate: Series,
    own_cpu: Series,
    server_cpu: Series,
}

impl Loads {
    fn of(contender: &Contender) -> Self {
        let series = || Series::new(contender.name, contender.kind);
        Self { rate: series(), own_cpu: series(), server_cpu: series() }
    }

    fn add(&mut self, load: Option<Load>) {
        self.rate.rounds.push(load.map(|load| load.rate));
        self.own_cpu.rounds.push(load.map(|load| load.own_cpu));
        self.server_cpu.rounds.push(load.map(|load| load.server_cpu));
    }
}

/// The contenders on one server, and what they have done.
struct Field {
    contenders: Vec<Contender>,
    loads: Vec<Loads>,
    stats: redis::Connection,
}

impl Field {
    fn new(server: &RedisServer, runtime: &Runtime) -> Self {
        let mut contenders = runtime.block_on(field::all(&server.url(), 1));
        contenders.retain(|one| {
            matches!(one.part, Part::Free | Part::Everything)
                && ![PING, DIRECT, ours::MEMORY].contains(&one.name)
        });
        let loads = contenders.iter().map(Loads::of).collect();
        Self { contenders, loads, stats: server.client() }
    }
}

/// On each server in turn.
fn compare(servers: &[&RedisServer], tasks: usize, workers: usize, extent: Extent) -> Vec<Vec<Loads>> {
    let runtime = runtime(workers);
    let lasts = Duration::from_millis(extent.of(200, 100));
    let mut fields: Vec<Field> = servers.iter().map(|server| Field::new(server, &runtime)).collect();
    for round in 0..extent.of(21, 4) {
        for field in &mut fields {
            let turns = field.contenders.len();
            for turn in 0..turns {
                let next = (turn + round) % turns;
                let client = &field.contenders[next].clients[0];
                let load = Load::of(client, tasks, lasts, &runtime, &mut field.stats);
                // The first round warms up.
                if round > 0 {
                    field.loads[next].add(load);
                }
            }
        }
    }
    fields.into_iter().map(|field| field.loads).collect()
}
