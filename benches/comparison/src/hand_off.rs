//! From the last line of one holder to the first line of the next, while others wait.
//!
//! A holder that has released asks again when the next one is inside, not before: else it would
//! mostly get the lock back at once, and the other waiters would starve.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::load::runtime;
use kit::{DelayProxy, RedisServer, unique};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::contender::{Client, Contender, Kind, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, figure, whole};
use crate::uncontended::worst;
use crate::used::{Commands, needs_monitor};
use crate::workload::{Crowd, Extent, Servers};

/// The waiters are spread over at most this many clients.
const CLIENTS: usize = 10;

/// The most waiters of a contender that needs a thread or a connection for each.
const FEW: usize = 50;

const MANY: usize = 10_000;

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let server = &servers.redis;
    let delayed = DelayProxy::to(server.port(), Duration::from_micros(500));
    // Held long enough for the last holder to ask again.
    let (loopback, delayed) =
        (Place { url: server.url(), holds_ms: 1 }, Place { url: delayed.url(), holds_ms: 4 });
    let mut foreign = foreign::all(report);
    let mut results = Vec::new();
    for (place, waiters) in
        [(&loopback, FEW), (&loopback, 2), (&loopback, 500), (&loopback, MANY), (&delayed, FEW)]
    {
        if extent.quick && waiters == 500 {
            continue;
        }
        let most = if waiters == MANY { extent.of(3500, 2500) } else { extent.of(1000, 450) };
        let crowd = Crowd {
            waiters,
            holds: Duration::from_millis(place.holds_ms),
            lasts: Duration::from_millis(most),
        };
        let by_contender = runtime(1).block_on(compare(server, place, &crowd, extent, &mut foreign));
        let name = match place.holds_ms {
            1 => wait(waiters),
            _ => format!("{}, 1 ms away", wait(waiters)),
        };
        results.push((name, by_contender));
    }
    tell(&results, report);
}

fn wait(waiters: usize) -> String {
    format!("{} wait", whole(waiters))
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

fn tell(results: &[(String, Vec<Result>)], report: &mut Report) {
    let found = |results: &[Result], name: &str| -> Option<(Series, Option<f64>)> {
        let one = results.iter().find(|one| one.times.name == name)?;
        Some((one.times.clone(), one.commands.middle()))
    };
    let over_direct = |results: &[Result], name: &str| {
        let direct = found(results, DIRECT)?.0;
        found(results, name)?.0.over(&direct)
    };
    let ((_, few), others) = results.split_first().unwrap();
    let mut heads = vec!["commands".to_owned()];
    for (name, _) in others {
        heads.extend([format!("{name}: p50"), "÷ direct".to_owned(), "commands".to_owned()]);
    }
    let mut series: Vec<Series> = few.iter().map(|one| one.times.clone()).collect();
    for one in &mut series {
        one.more.push(figure(found(few, &one.name).and_then(|(_, commands)| commands)));
        for (_, results) in others {
            let there = found(results, &one.name);
            one.more.push(figure(there.as_ref().and_then(|(times, _)| times.middle())));
            one.more.push(figure(over_direct(results, &one.name)));
            one.more.push(figure(there.and_then(|(_, commands)| commands)));
        }
    }
    let table = Table {
        workload: "hand-off",
        title: &format!("{FEW} wait, on loopback: from a release to the next holder"),
        unit: "p50 in ms",
        more_is_better: false,
        limits: &[(PING, "PING"), (DIRECT, "direct")],
        more: &heads.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &series);
    let of = |waiters: usize| results.iter().find(|(name, _)| *name == wait(waiters));
    let ours = |waiters| over_direct(&of(waiters)?.1, ours::ANNOTATED);
    report.target("hand-off, 2 waiters", ours(2));
    report.target("hand-off, 50 waiters", ours(FEW));
    let on_loopback = results.iter().filter(|(name, _)| !name.contains("away"));
    let commands: Vec<Option<f64>> =
        on_loopback.map(|(_, results)| found(results, ours::ANNOTATED)?.1).collect();
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
                    Turn { times, sent }
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
struct Turn {
    times: Vec<f64>,
    sent: f64,
}

impl Turn {
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

async fn hand_overs(contender: &Contender, crowd: &Crowd, commands: &mut Commands) -> Turn {
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
        // Then each waiter has asked once: each former holder has released and asked again, but for
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
    Turn { times, sent }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
