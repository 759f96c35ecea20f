//! An uncontended lock by one task: acquire and release, beside the bare pair (`SET NX PX`, and a
//! script that compares and deletes) on a connection of the same runtime.
//!
//! ```text
//! cargo bench --bench uncontended -- [--server PATH]
//! ```
//!
//! `--server` names the `redis-server` of another version, which is measured beside the one on
//! PATH. The contenders take turns in small rounds, so that other work of the machine hits all of
//! them. Read the ratios: the times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::Arc;
use std::time::Instant;

use kit::bare::{Bare, BareSync, OwnThread, Ping};
use kit::contender::{Annotated, AnnotatedSync, Client, Run};
use kit::figures::{median, micros, over, percentile, rounds, table};
use kit::load::{one_by_one, runtime};
use kit::{RedisServer, second_server, second_server_argument};
use redlocked::LockManager;
use tokio::runtime::Runtime;

const IN_A_ROUND: usize = 25;

fn main() {
    let second = second_server_argument();
    let server = RedisServer::start();
    let second = second_server(second);
    let mut groups = Vec::new();
    for server in [Some(&server), second.as_ref()].into_iter().flatten() {
        groups.push(Group::on_runtime(server, 1));
        groups.push(Group::on_runtime(server, 2));
    }
    groups.push(Group::blocking(&server));
    for round in 0..rounds(250, 3) {
        for group in &mut groups {
            group.take_turns(round);
        }
    }
    let rows: Vec<_> = groups.iter().flat_map(Group::rows).collect();
    let title = "Acquire and release, one task: microseconds; ratios are medians over rounds";
    table(title, &["", "p50", "p99", "p50 / bare"], &rows);
}

/// Contenders that are compared with the first of them.
struct Group {
    name: String,
    contenders: Vec<Contender>,
}

struct Contender {
    name: &'static str,
    one_round: Box<dyn Fn() -> Vec<f64>>,
    /// One lock each, in microseconds.
    times: Vec<f64>,
    /// The median of each round.
    medians: Vec<f64>,
}

impl Contender {
    fn new(name: &'static str, one_round: impl Fn() -> Vec<f64> + 'static) -> Self {
        Self { name, one_round: Box::new(one_round), times: Vec::new(), medians: Vec::new() }
    }

    fn on(runtime: &Arc<Runtime>, name: &'static str, client: impl Client + 'static) -> Self {
        let (runtime, client): (_, Arc<dyn Client>) = (Arc::clone(runtime), Arc::new(client));
        Self::new(name, move || one_by_one(&client, IN_A_ROUND, &runtime))
    }

    fn blocking(name: &'static str, pair: impl Fn(&str) + 'static) -> Self {
        let one = move || {
            let start = Instant::now();
            pair("uncontended:sync");
            micros(start.elapsed())
        };
        // The first lock finds cold caches and a sleeping thread.
        Self::new(name, move || (0..=IN_A_ROUND).map(|_| one()).skip(1).collect())
    }
}

impl Group {
    /// Each with a connection that this runtime drives, as far as the contender lets it.
    fn on_runtime(server: &RedisServer, workers: usize) -> Self {
        let (runtime, url) = (Arc::new(runtime(workers)), server.url());
        let contenders = runtime.block_on(async {
            let locks = LockManager::connect(&url).await.unwrap();
            let memory = LockManager::connect("memory://uncontended").await.unwrap();
            vec![
                Contender::on(&runtime, "bare pair", Bare::connect(&url).await),
                Contender::on(&runtime, "one PING", Ping::connect(&url).await),
                Contender::on(&runtime, "annotated async fn", Annotated(locks.clone())),
                Contender::on(&runtime, "run, with a fencing token", Run(locks)),
                Contender::on(&runtime, "annotated async fn, memory://", Annotated(memory)),
            ]
        });
        let threads = if workers == 1 { "one thread" } else { "two workers" };
        Self { name: format!("{}, {threads}", server.version()), contenders }
    }

    /// Without a runtime of the caller's.
    fn blocking(server: &RedisServer) -> Self {
        let url = server.url();
        let bare = BareSync::connect(&url);
        let (thread, blocks) = (OwnThread::start(), runtime(1));
        let apart = blocks.block_on(Bare::connect_on(&thread, &url));
        let annotated = AnnotatedSync(LockManager::connect_blocking(&url).unwrap());
        let contenders = vec![
            Contender::blocking("bare pair, redis::Connection", move |key| bare.pair(key)),
            Contender::blocking("bare pair, its connection on a thread of its own", move |key| {
                let _lives_as_long = &thread;
                blocks.block_on(apart.clone().pair(key));
            }),
            Contender::blocking("annotated fn", move |key| annotated.call(key)),
        ];
        Self { name: format!("{}, sync", server.version()), contenders }
    }

    fn take_turns(&mut self, round: usize) {
        for turn in 0..self.contenders.len() {
            let next = (turn + round) % self.contenders.len();
            let contender = &mut self.contenders[next];
            let times = (contender.one_round)();
            contender.medians.push(median(&times));
            contender.times.extend(times);
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let bare = &self.contenders[0].medians;
        let row = |one: &Contender| {
            vec![
                format!("{}: {}", self.name, one.name),
                format!("{:.1}", percentile(&one.times, 50)),
                format!("{:.1}", percentile(&one.times, 99)),
                format!("{:.2}", over(&one.medians, bare)),
            ]
        };
        self.contenders.iter().map(row).collect()
    }
}
