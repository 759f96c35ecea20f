//! From the last line of one holder to the first line of the next, while others wait.
//!
//! A holder that has released asks again when the next one is inside, not before: else it would
//! mostly get the lock back at once, and the other waiters would starve.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::figures::percentile;
use kit::load::runtime;
use kit::{Cores, DelayProxy, RedisServer, unique};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::contender::{Client, Contender, Kind, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, whole};
use crate::uncontended::worst;
use crate::used::{Commands, needs_monitor};
use crate::workload::{Crowd, Extent, Servers};

/// The waiters are spread over at most this many clients.
const CLIENTS: usize = 10;

/// The most waiters of a contender that needs a thread or a connection for each.
const FEW: usize = 50;

const SOME: usize = 500;

const MANY: usize = 10_000;

/// Where the callers and their server run, and how many wait.
struct Scene {
    place: Place,
    cores: Cores,
    waiters: usize,
    results: Vec<Result>,
}

impl Scene {
    fn new(url: &str, holds_ms: u64, cores: Cores, waiters: usize) -> Self {
        Self { place: Place { url: url.to_owned(), holds_ms }, cores, waiters, results: Vec::new() }
    }

    fn is_on_loopback(&self) -> bool {
        self.place.holds_ms == 1
    }

    fn name(&self) -> String {
        let waiters = whole(self.waiters);
        if self.is_on_loopback() {
            format!("{waiters} wait, {}", self.cores)
        } else {
            format!("{waiters} wait, 1 ms away")
        }
    }

    fn of(&self, name: &str) -> Option<&Result> {
        self.results.iter().find(|one| one.times.name == name)
    }

    fn over(&self, name: &str, other: &str) -> Option<f64> {
        self.of(name)?.times.over(&self.of(other)?.times)
    }
}

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let server = &servers.redis;
    let delayed = DelayProxy::to(server.port(), Duration::from_micros(500));
    let mut foreign = foreign::all(report);
    // Held long enough for the last holder to ask again.
    let on_loopback = [FEW, 2, SOME, MANY]
        .into_iter()
        .flat_map(|waiters| [Cores::One, Cores::Two].map(|cores| (cores, waiters)))
        .map(|(cores, waiters)| Scene::new(&server.url(), 1, cores, waiters));
    // The proxy is one more process: where they all run is left to the kernel.
    let away = Scene::new(&delayed.url(), 4, Cores::Any, FEW);
    let mut scenes: Vec<Scene> = on_loopback.chain([away]).collect();
    if extent.quick {
        scenes.retain(|scene| scene.waiters != SOME);
    }
    for scene in &mut scenes {
        let most = if scene.waiters == MANY { extent.of(3500, 2500) } else { extent.of(1000, 450) };
        let crowd = Crowd {
            waiters: scene.waiters,
            holds: Duration::from_millis(scene.place.holds_ms),
            lasts: Duration::from_millis(most),
        };
        let clients: Vec<u32> = foreign.iter().map(Foreign::process).collect();
        scene.cores.place(&clients, server.process());
        let compare = compare(server, &scene.place, &crowd, extent, &mut foreign);
        scene.results = runtime(1).block_on(compare);
    }
    Cores::Any.place(&[], server.process());
    tell(&scenes, report);
}

struct Place {
    url: String,
    holds_ms: u64,
}

/// The hand-overs of one contender, and its commands for each.
struct Result {
    times: Series,
    commands: Series,
}

fn tell(scenes: &[Scene], report: &mut Report) {
    let (few, others) = scenes.split_first().unwrap();
    let mut heads = vec!["commands".to_owned()];
    for scene in others {
        heads.extend([
            format!("{}: p50", scene.name()),
            format!("{}: ÷ direct", scene.name()),
            format!("{}: commands", scene.name()),
        ]);
    }
    let mut series: Vec<Series> = few.results.iter().map(|one| one.times.clone()).collect();
    for one in &mut series {
        one.more.push(json!(few.of(&one.name).and_then(|there| there.commands.middle())));
        for scene in others {
            let there = scene.of(&one.name);
            one.more.push(json!(there.and_then(|there| there.times.middle())));
            one.more.push(json!(scene.over(&one.name, DIRECT)));
            one.more.push(json!(there.and_then(|there| there.commands.middle())));
        }
    }
    let table = Table {
        workload: "hand-off",
        title: &format!("{FEW} wait, on loopback, {}: from a release to the next holder", few.cores),
        unit: "p50 in ms",
        more_is_better: false,
        references: &[(PING, "PING"), (DIRECT, "direct")],
        more: &heads.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &series);
    let on_loopback = || scenes.iter().filter(|scene| scene.is_on_loopback());
    for (target, waiters) in [
        ("hand-off, 2 waiters", 2),
        ("hand-off, 50 waiters", FEW),
        ("hand-off, 500 waiters", SOME),
        ("hand-off, 10,000 waiters", MANY),
    ] {
        let both = on_loopback().filter(|scene| scene.waiters == waiters);
        let both: Vec<Option<f64>> = both.map(|scene| scene.over(ours::ANNOTATED, DIRECT)).collect();
        report.target(target, worst(&both));
    }
    let p99 = |scene: &Scene, name: &str| Some(percentile(&scene.of(name)?.times.all, 99));
    let both = on_loopback().filter(|scene| scene.waiters == FEW);
    let both: Vec<Option<f64>> =
        both.map(|scene| Some(p99(scene, ours::ANNOTATED)? / p99(scene, foreign::PYTHON)?)).collect();
    report.target("hand-off, 50 waiters, p99", worst(&both));
    let commands: Vec<Option<f64>> =
        on_loopback().map(|scene| scene.of(ours::ANNOTATED)?.commands.middle()).collect();
    report.target("commands", worst(&commands));
}

enum Who<'a> {
    Here(&'a Contender),
    Elsewhere(&'a mut Foreign),
}

struct Runner<'a> {
    who: Who<'a>,
    series: Series,
    commands: Series,
}

impl<'a> Runner<'a> {
    fn new(who: Who<'a>, name: &str, kind: Kind) -> Self {
        Self { who, series: Series::new(name, kind), commands: Series::new(name, kind) }
    }
}

fn takes_part(contender: &Contender, waiters: usize) -> bool {
    match contender.part {
        // Its waiters ask one by one for each process: their commands do not tell when all of them
        // wait.
        Part::Waiting => contender.name != ours::COHORT,
        Part::Everything => contender.name != ours::MEMORY,
        Part::Some => waiters <= FEW,
        Part::Free => contender.name == PING,
        Part::Sale => false,
    }
}

async fn compare(
    server: &RedisServer,
    place: &Place,
    crowd: &Crowd,
    extent: Extent,
    foreign: &mut [Foreign],
) -> Vec<Result> {
    let waiters = crowd.waiters;
    let contenders = field::all(&place.url, CLIENTS.min(waiters)).await;
    let here = contenders.iter().filter(|one| takes_part(one, waiters));
    let mut field: Vec<Runner> =
        here.map(|contender| Runner::new(Who::Here(contender), contender.name, contender.kind)).collect();
    for foreign in foreign.iter_mut().filter(|one| waiters <= one.most_waiters) {
        let name = foreign.name;
        field.push(Runner::new(Who::Elsewhere(foreign), name, Kind::Peer));
    }
    let rounds = match waiters {
        _ if extent.quick => 1,
        MANY => 2,
        _ => 3,
    };
    for round in 0..rounds {
        let turns = field.len();
        for turn in 0..turns {
            let Runner { who, series, commands } = &mut field[(turn + round) % turns];
            let mut sent = Commands::of(&series.name, server).await;
            let one = match who {
                Who::Here(ping) if ping.name == PING => {
                    series.add_round(&pings(&ping.clients[0], crowd.holds).await);
                    continue;
                }
                Who::Here(contender) => hand_overs(contender, crowd, &mut sent).await,
                Who::Elsewhere(foreign) => {
                    let times = foreign.hand_overs(&place.url, crowd);
                    let counts = AtomicBool::new(true);
                    let (times, sent) =
                        tokio::join!(times, sent_meanwhile(crowd, &mut sent, &counts, async |_| true));
                    RoundFigures { times, sent }
                }
            };
            commands.rounds.push(one.commands_each());
            series.add_round(&one.times);
        }
    }
    for Runner { who, commands, .. } in &mut field {
        if let Who::Here(contender) = who
            && needs_monitor(contender.name)
        {
            // It takes longer until many wait.
            let crowd = Crowd { lasts: 2 * crowd.lasts, ..*crowd };
            let mut sent = Commands::monitored(contender.name, server).await;
            let turn = hand_overs(contender, &crowd, &mut sent).await;
            commands.rounds = vec![turn.commands_each()];
        }
    }
    field.into_iter().map(|Runner { series, commands, .. }| Result { times: series, commands }).collect()
}

/// With the pauses of a hand-over, so that the threads are equally asleep in both.
async fn pings(client: &Arc<dyn Client>, pause: Duration) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        client.locked(String::new(), Duration::ZERO, Box::pin(async {})).await.unwrap();
        times.push(millis(start.elapsed()));
    }
    times
}

/// The counted times and commands of one contender in one round.
struct RoundFigures {
    times: Vec<f64>,
    sent: f64,
}

impl RoundFigures {
    fn commands_each(&self) -> Option<f64> {
        (!self.times.is_empty()).then(|| self.sent / self.times.len() as f64)
    }
}

/// The commands that the server gets while the round counts: from when `all_wait`.
async fn sent_meanwhile(
    crowd: &Crowd,
    commands: &mut Commands,
    counts: &AtomicBool,
    all_wait: impl AsyncFn(&mut Commands) -> bool,
) -> f64 {
    let start = tokio::time::Instant::now();
    tokio::time::sleep_until(start + crowd.counts_from()).await;
    while !all_wait(commands).await && start.elapsed() < crowd.counts_to() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = commands.so_far().await;
    counts.store(true, Ordering::SeqCst);
    tokio::time::sleep_until(start + crowd.counts_to()).await;
    counts.store(false, Ordering::SeqCst);
    commands.so_far().await - before
}

#[derive(Default)]
struct Baton {
    left_at: Option<Instant>,
    times: Vec<f64>,
}

async fn hand_overs(contender: &Contender, crowd: &Crowd, commands: &mut Commands) -> RoundFigures {
    let &Crowd { waiters, holds, lasts } = crowd;
    let key = unique("hand-off");
    let baton = Arc::new(Mutex::new(Baton::default()));
    let held = Arc::new(watch::Sender::new(0_u32));
    let counts = Arc::new(AtomicBool::new(false));
    let first = commands.by_statistics().await;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..waiters {
        let client = Arc::clone(&contender.clients[number % contender.clients.len()]);
        let (key, baton, held, counts) =
            (key.clone(), Arc::clone(&baton), Arc::clone(&held), Arc::clone(&counts));
        tasks.spawn(async move {
            let left = || lasts.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
            while let Some(wait) = left() {
                let mine = Arc::new(AtomicU32::new(0));
                let (baton, held_now, number, counts) =
                    (Arc::clone(&baton), Arc::clone(&held), Arc::clone(&mine), Arc::clone(&counts));
                let body = async move {
                    let now = Instant::now();
                    {
                        let mut baton = baton.lock().unwrap();
                        let left_at = baton.left_at.take().filter(|_| counts.load(Ordering::SeqCst));
                        if let Some(left_at) = left_at {
                            baton.times.push(millis(now - left_at));
                        }
                    }
                    held_now.send_modify(|times| {
                        *times += 1;
                        number.store(*times, Ordering::Relaxed);
                    });
                    tokio::time::sleep(holds).await;
                    baton.lock().unwrap().left_at = Some(Instant::now());
                };
                if client.locked(key.clone(), wait, Box::pin(body)).await.is_ok() {
                    let mut entered = held.subscribe();
                    let next_is_inside = entered.wait_for(|times| *times > mine.load(Ordering::Relaxed));
                    let _ = tokio::time::timeout(left().unwrap_or_default(), next_is_inside).await;
                }
            }
        });
    }
    let all_wait = async |commands: &mut Commands| {
        if needs_monitor(contender.name) {
            // A process passes a lock on without a command: the queue tells who waits.
            return commands.queued(&key).await + 4 >= waiters;
        }
        // Then each waiter has asked once: each former holder has released and asked again, except for
        // the last ones.
        let sent = commands.by_statistics().await - first;
        sent - 2.0 * f64::from(*held.borrow()) + 4.0 >= waiters as f64
    };
    let sent = sent_meanwhile(crowd, commands, &counts, all_wait).await;
    // Some contenders do not give up in time.
    let all = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
    tasks.shutdown().await;
    let times = std::mem::take(&mut baton.lock().unwrap().times);
    RoundFigures { times, sent }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
