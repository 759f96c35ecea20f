//! From the last line of one holder to the first line of the next, while others wait.
//!
//! A holder that has released asks again when the next one is inside, not before: else it would mostly get the lock back
//! at once, and the other waiters would starve.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::by_hand::{EVERY_2_S, EVERY_50_MS, SPINS, connect};
use crate::contender::{Client, Contender, Kind, PING, Part};
use crate::direct::DIRECT;
use crate::field;
use crate::foreign::{self, Foreign};
use crate::ours;
use crate::report::Report;
use crate::series::{Series, Table, find, whole};
use crate::used::commands;
use crate::workload::{Crowd, Extent};
use kit::DelayProxy;
use kit::{RedisServer, unique};

/// The waiters are spread over at most this many clients.
const CLIENTS: usize = 10;

const COMMANDS: &str = "commands/acquisition";

/// The most waiters of a contender that needs a thread or a connection for each.
const FEW: usize = 50;

const MANY: usize = 10_000;

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let delayed = |one_way| DelayProxy::to(server.port(), Duration::from_micros(one_way));
    let (near, far) = (delayed(500), delayed(5_000));
    // Held long enough for the last holder to ask again.
    let places = [
        Place { name: "on loopback", url: server.url(), round_trip_ms: 0, holds_ms: 1 },
        Place { name: "at a round trip of 1 ms", url: near.url(), round_trip_ms: 1, holds_ms: 4 },
        Place { name: "at a round trip of 10 ms", url: far.url(), round_trip_ms: 10, holds_ms: 20 },
    ];
    let mut foreign = foreign::all(report);
    let mut at_1_ms: Vec<f64> = Vec::new();
    for place in &places {
        for waiters in [2, FEW, 500, MANY] {
            if extent.quick && !matches!((place.round_trip_ms, waiters), (0, 2 | FEW | MANY) | (1, FEW)) {
                continue;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let most = if waiters == MANY { extent.of(3500, 2500) } else { extent.of(1000, 450) };
            let crowd = Crowd {
                waiters,
                holds: Duration::from_millis(place.holds_ms),
                lasts: Duration::from_millis(most + 20 * place.round_trip_ms),
            };
            let series = runtime.block_on(compare(server, place, &crowd, extent, &mut foreign));
            let ours = find(&series, ours::ASYNC).unwrap();
            match (place.round_trip_ms, waiters) {
                (0, MANY) => {
                    let commands = ours.costs.iter().find(|(what, _)| *what == COMMANDS);
                    report.target("commands, 10,000 waiters", commands.and_then(|(_, value)| *value));
                }
                (1, 2..=500) => at_1_ms.extend(find(&series, PING).and_then(|ping| ours.over(ping))),
                _ => {}
            }
            add(report, place, waiters, &series);
        }
    }
    report.target("hand-off, 1 ms", at_1_ms.into_iter().max_by(f64::total_cmp));
}

struct Place {
    name: &'static str,
    url: String,
    round_trip_ms: u64,
    holds_ms: u64,
}

fn add(report: &mut Report, place: &Place, waiters: usize, series: &[Series]) {
    let table = Table {
        workload: &format!("hand-off {}, {waiters} waiters", place.name),
        title: &format!("{} wait, {}: from a release to the next holder", whole(waiters), place.name),
        unit: "p50 in ms",
        more_is_better: false,
        limits: &[(PING, "PING"), (DIRECT, "direct")],
        more: &["of so many"],
    };
    report.add(&table, series);
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

fn takes_part(contender: &Contender, place: &Place, waiters: usize) -> bool {
    let near = place.round_trip_ms == 0;
    match contender.part {
        _ if contender.name == EVERY_2_S => near && waiters == FEW,
        // One waiter of each process asks: the number of commands does not tell when all of many wait.
        _ if contender.name == ours::COHORT => waiters < FEW,
        // The articles wait in the same ways as `SET NX PX`: two of them are enough here.
        _ if contender.kind == Kind::Article && (!near || waiters == MANY) => {
            [EVERY_50_MS, SPINS].contains(&contender.name)
        }
        Part::Everything => contender.name != ours::MEMORY,
        Part::Waiting => true,
        Part::Some => waiters <= FEW,
        Part::Free => contender.name == PING,
        Part::Alone | Part::OneProcess => false,
    }
}

async fn compare(
    server: &RedisServer,
    place: &Place,
    crowd: &Crowd,
    extent: Extent,
    foreign: &mut [Foreign],
) -> Vec<Series> {
    let waiters = crowd.waiters;
    let contenders = field::all(&place.url, CLIENTS.min(waiters)).await;
    let here = contenders.iter().filter(|one| takes_part(one, place, waiters));
    let mut field: Vec<Runner> =
        here.map(|contender| Runner::new(Who::Here(contender), contender.name, contender.kind)).collect();
    for foreign in foreign.iter_mut().filter(|one| waiters <= one.most_waiters) {
        let name = foreign.name;
        field.push(Runner::new(Who::Elsewhere(foreign), name, Kind::Peer));
    }
    let mut stats = connect(&server.url()).await;
    let rounds = match (place.round_trip_ms, waiters) {
        _ if extent.quick => 1,
        (0, MANY) => 2,
        (_, MANY) => 1,
        (10, _) => 2,
        _ => 3,
    };
    for round in 0..rounds {
        let turns = field.len();
        for turn in 0..turns {
            let Runner { who, series, commands } = &mut field[(turn + round) % turns];
            let mut crowd = *crowd;
            if series.name == EVERY_2_S {
                if round > 0 {
                    continue;
                }
                crowd.lasts = Duration::from_secs(8);
            }
            let one = match who {
                Who::Here(ping) if ping.name == PING => {
                    series.add_round(&pings(&ping.clients[0], crowd.holds).await);
                    continue;
                }
                Who::Here(contender) => hand_overs(contender, &crowd, &mut stats).await,
                Who::Elsewhere(foreign) => {
                    let name = foreign.name;
                    let times = foreign.hand_overs(&place.url, &crowd);
                    let counts = AtomicBool::new(true);
                    let (times, sent) =
                        tokio::join!(times, sent_meanwhile(name, &crowd, &mut stats, &counts, |_| true));
                    Turn { times, sent }
                }
            };
            commands.rounds.push((!one.times.is_empty()).then(|| one.sent / one.times.len() as f64));
            series.add_round(&one.times);
        }
    }
    let finish = |runner: Runner| {
        let Runner { mut series, commands, .. } = runner;
        series.cost(COMMANDS, commands.middle());
        series.more = vec![series.all.len().to_string()];
        series
    };
    field.into_iter().map(finish).collect()
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

/// The commands that the server gets while the round counts: from when `all_wait` is true of the commands so far.
async fn sent_meanwhile(
    name: &str,
    crowd: &Crowd,
    stats: &mut MultiplexedConnection,
    counts: &AtomicBool,
    all_wait: impl Fn(f64) -> bool,
) -> f64 {
    let start = tokio::time::Instant::now();
    tokio::time::sleep_until(start + crowd.counts_from()).await;
    let mut before = commands(stats, name).await;
    while !all_wait(before) && start.elapsed() < crowd.counts_to() {
        tokio::time::sleep(Duration::from_millis(5)).await;
        before = commands(stats, name).await;
    }
    counts.store(true, Ordering::SeqCst);
    tokio::time::sleep_until(start + crowd.counts_to()).await;
    counts.store(false, Ordering::SeqCst);
    commands(stats, name).await - before
}

#[derive(Default)]
struct Baton {
    left_at: Option<Instant>,
    times: Vec<f64>,
}

async fn hand_overs(contender: &Contender, crowd: &Crowd, stats: &mut MultiplexedConnection) -> Turn {
    let &Crowd { waiters, holds, lasts } = crowd;
    let key = unique("hand-off");
    let baton = Arc::new(Mutex::new(Baton::default()));
    let held = Arc::new(watch::Sender::new(0_u32));
    let counts = Arc::new(AtomicBool::new(false));
    let first = commands(stats, contender.name).await;
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
    // Then each waiter has asked once: each former holder has released and asked again, but for the last ones.
    let all_wait = |sent: f64| sent - first - 2.0 * f64::from(*held.borrow()) + 4.0 >= waiters as f64;
    let sent = sent_meanwhile(contender.name, crowd, stats, &counts, all_wait).await;
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
