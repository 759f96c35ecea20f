//! Uncontended locks, by many tasks, each with a key of its own: on runtimes of one thread and of
//! two, and on a second server.

use std::time::Duration;

use kit::load::{Load, runtime};
use kit::{Cores, RedisServer};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::contender::{Contender, PING, Part, REFERENCE};
use crate::direct::DIRECT;
use crate::field;
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, best_peer, find};
use crate::uncontended::{least, worst};
use crate::workload::{Extent, Servers};

const MANY: usize = 64;

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let one_task = compare(&[&servers.redis], 1, 1, Cores::One, extent).remove(0);
    let both: Vec<&RedisServer> = servers.all().collect();
    let one_core = compare(&both, MANY, 1, Cores::One, extent);
    let two_cores = compare(&both, MANY, 1, Cores::Two, extent);
    // Its workers would share a core, so the kernel places them.
    let two_workers = compare(&both, MANY, 2, Cores::Any, extent);
    let places = [&one_core, &two_cores, &two_workers];
    let second = servers.second.as_ref().map(RedisServer::version);
    let mut heads: Vec<String> =
        ["two cores: locks/s", "two cores: ÷ bare", "two workers: locks/s", "two workers: ÷ bare"]
            .map(str::to_owned)
            .into();
    if let Some(name) = second {
        let figures = ["one core: ÷ bare", "two cores: ÷ bare", "two workers: ÷ bare", "server CPU, ÷ bare"];
        heads.extend(figures.map(|head| format!("{name}, {head}")));
    }
    let rates = |loads: &[Loads]| loads.iter().map(|one| one.rate.clone()).collect::<Vec<_>>();
    let mut series = rates(&one_core[0]);
    for one in &mut series {
        let loads = &one_core[0];
        one.cost("client CPU, µs/lock", found(loads, &one.name).and_then(|loads| loads.own_cpu.middle()));
        one.cost("server CPU, µs/lock", found(loads, &one.name).and_then(|loads| loads.server_cpu.middle()));
        for place in &places[1..] {
            one.more.push(json!(found(&place[0], &one.name).and_then(|loads| loads.rate.middle())));
            one.more.push(json!(over_bare(&place[0], &one.name, |loads| &loads.rate)));
        }
        if servers.second.is_some() {
            for place in places {
                one.more.push(json!(over_bare(&place[1], &one.name, |loads| &loads.rate)));
            }
            one.more.push(json!(over_bare(&one_core[1], &one.name, |loads| &loads.server_cpu)));
        }
    }
    let table = Table {
        workload: "many tasks",
        title: &format!("Uncontended: {MANY} tasks, a key each, on a runtime of one thread, one core"),
        unit: "locks/s",
        more_is_better: true,
        references: &[(REFERENCE, "bare")],
        more: &heads.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &series);

    let rate: fn(&Loads) -> &Series = |loads| &loads.rate;
    let rates_over_bare = |name: &str, places: &[&Vec<Vec<Loads>>], server: usize| {
        let each = |place: &&Vec<Vec<Loads>>| over_bare(place.get(server)?, name, rate);
        least(&places.iter().map(each).collect::<Vec<_>>())
    };
    let (threads, workers) = places.split_at(2);
    report.target("64 tasks, one thread", rates_over_bare(ours::ANNOTATED, threads, 0));
    report.target("64 tasks, two workers", rates_over_bare(ours::ANNOTATED, workers, 0));
    report.target("64 tasks, fenced, one thread", rates_over_bare(ours::RUN, threads, 0));
    report.target("64 tasks, fenced, two workers", rates_over_bare(ours::RUN, workers, 0));
    let over_peer = |place: &Vec<Vec<Loads>>| {
        let rates = rates(&place[0]);
        find(&rates, ours::ANNOTATED)?.over(best_peer(&rates, true)?)
    };
    report.target("64 tasks, peers", least(&places.map(over_peer)));
    report.target("64 tasks, second server", rates_over_bare(ours::ANNOTATED, &places, 1));
    let cpu: fn(&Loads) -> &Series = |loads| &loads.own_cpu;
    let many = [&one_task, &one_core[0], &two_cores[0]];
    report.target("client CPU", worst(&many.map(|loads| over_bare(loads, ours::ANNOTATED, cpu))));
    let cpu: fn(&Loads) -> &Series = |loads| &loads.server_cpu;
    for (target, name, server) in [
        ("server CPU", ours::ANNOTATED, 0),
        ("server CPU, second server", ours::ANNOTATED, 1),
        ("server CPU, fenced", ours::RUN, 0),
        ("server CPU, fenced, second server", ours::RUN, 1),
    ] {
        let each = |place: &&Vec<Vec<Loads>>| over_bare(place.get(server)?, name, cpu);
        report.target(target, worst(&threads.iter().map(each).collect::<Vec<_>>()));
    }
}

fn found<'a>(loads: &'a [Loads], name: &str) -> Option<&'a Loads> {
    loads.iter().find(|one| one.rate.name == name)
}

fn over_bare(loads: &[Loads], name: &str, of: fn(&Loads) -> &Series) -> Option<f64> {
    of(found(loads, name)?).over(of(found(loads, REFERENCE)?))
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
fn compare(
    servers: &[&RedisServer],
    tasks: usize,
    workers: usize,
    cores: Cores,
    extent: Extent,
) -> Vec<Vec<Loads>> {
    for server in servers {
        cores.place(&[], server.process());
    }
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
    for server in servers {
        Cores::Any.place(&[], server.process());
    }
    fields.into_iter().map(|field| field.loads).collect()
}
