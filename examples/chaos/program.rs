//! Runs the rounds and prints a report: at the start, every ten seconds, and at the end.

use std::cell::Cell;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kit::Job;
use kit::chaos::environment::Environment;
use kit::chaos::environment::cluster::{ClusterFaults, ClusterNodes};
use kit::chaos::environment::one_server::{OneServer, Plan};
use kit::chaos::environment::quorum::{self, QuorumNodes};
use kit::chaos::random::Random;
use kit::chaos::run::Chaos;

use super::keeper;
use super::options::{Options, Topology, USAGE};

const NEWS: Duration = Duration::from_secs(10);

pub(crate) fn main() -> ExitCode {
    if let Some(job) = Job::of_this_process() {
        kit::chaos::workload::worker::work(&job);
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::read(&words) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !keeper::is_kept() {
        return match is_there() {
            Ok(()) => keeper::keep().unwrap_or_else(failed),
            Err(error) => failed(error),
        };
    }
    all_rounds(&options, &keeper::is_to_end())
}

/// A round: its name, and the function that runs it.
type Round = (&'static str, fn(u64, Duration, &AtomicBool) -> bool);

const ONE_SERVER: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(OneServer::of(Plan::DATA_LOSS), seed, lasts, end)),
    ("late requests", |seed, lasts, end| wreak(OneServer::of(Plan::LATE_REQUESTS), seed, lasts, end)),
    ("no answers", |seed, lasts, end| wreak(OneServer::of(Plan::NO_REPLIES), seed, lasts, end)),
    ("operators", |seed, lasts, end| wreak(OneServer::of(Plan::OPERATORS), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(OneServer::of(Plan::CROWDS), seed, lasts, end)),
    ("dead waiters", |seed, lasts, end| wreak(OneServer::of(Plan::DEAD_WAITERS), seed, lasts, end)),
    ("stuck process", |seed, lasts, end| wreak(OneServer::of(Plan::STUCK), seed, lasts, end)),
    ("full server", |seed, lasts, end| wreak(OneServer::of(Plan::FULL), seed, lasts, end)),
    ("dead waiters behind others", |seed, lasts, end| {
        wreak(OneServer::of(Plan::DEAD_WAITERS_BEHIND_OTHERS), seed, lasts, end)
    }),
    ("dead waiters in front", |seed, lasts, end| wreak(OneServer::of(Plan::DEAD_IN_FRONT), seed, lasts, end)),
    ("stray replies", |seed, lasts, end| wreak(OneServer::of(Plan::STRAY_REPLIES), seed, lasts, end)),
    ("refusals", |seed, lasts, end| wreak(OneServer::of(Plan::REFUSED), seed, lasts, end)),
    ("blocked runtimes", |seed, lasts, end| wreak(OneServer::of(Plan::BLOCKED_RUNTIMES), seed, lasts, end)),
    ("ticks", |seed, lasts, end| wreak(OneServer::of(Plan::TICKS), seed, lasts, end)),
    ("once", |seed, lasts, end| wreak(OneServer::of(Plan::ONCE), seed, lasts, end)),
    ("bursts", |seed, lasts, end| wreak(OneServer::of(Plan::BURSTS), seed, lasts, end)),
    ("dropped calls", |seed, lasts, end| wreak(OneServer::of(Plan::DROPPED_CALLS), seed, lasts, end)),
];

const THREE_NODES: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(on_quorum(quorum::Plan::everything(3)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(on_quorum(quorum::Plan::crowded(3)), seed, lasts, end)),
    ("hand-over", |seed, lasts, end| wreak(on_quorum(quorum::Plan::hand_over(3)), seed, lasts, end)),
    ("stray replies", |seed, lasts, end| wreak(on_quorum(quorum::Plan::stray_replies()), seed, lasts, end)),
];

const FIVE_NODES: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(on_quorum(quorum::Plan::everything(5)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(on_quorum(quorum::Plan::crowded(5)), seed, lasts, end)),
    ("hand-over", |seed, lasts, end| wreak(on_quorum(quorum::Plan::hand_over(5)), seed, lasts, end)),
];

const CLUSTER: &[Round] = &[
    ("everything", |seed, lasts, end| {
        wreak(ClusterNodes::start(ClusterFaults::Everything), seed, lasts, end)
    }),
    ("rights", |seed, lasts, end| wreak(ClusterNodes::denied(&mut Random::new(seed)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(ClusterNodes::start(ClusterFaults::Crowds), seed, lasts, end)),
    ("bursts", |seed, lasts, end| wreak(ClusterNodes::start(ClusterFaults::Bursts), seed, lasts, end)),
    ("stray replies", |seed, lasts, end| {
        wreak(ClusterNodes::start(ClusterFaults::StrayReplies), seed, lasts, end)
    }),
    ("refusals", |seed, lasts, end| wreak(ClusterNodes::start(ClusterFaults::Refusals), seed, lasts, end)),
];

fn on_quorum(plan: quorum::Plan) -> QuorumNodes {
    QuorumNodes::new(plan, |_, server| server.port())
}

/// The rounds, one after the other, repeated until the time is over.
fn all_rounds(options: &Options, end: &AtomicBool) -> ExitCode {
    /// How long one round lasts.
    const MOST: Duration = Duration::from_secs(120);
    println!("chaos {}", options.words());
    let rounds = match options.topology {
        Topology::OneServer => ONE_SERVER,
        Topology::Quorum(3) => THREE_NODES,
        Topology::Quorum(_) => FIVE_NODES,
        Topology::Cluster => CLUSTER,
    };
    let one = MOST.min(options.lasts / u32::try_from(rounds.len()).unwrap());
    let (start, mut found) = (Instant::now(), false);
    for (number, (name, round)) in (0..).zip(rounds.iter().cycle()) {
        println!("\n-- {name}");
        found |= round(options.seed.wrapping_add(number), one, end);
        let is_last =
            number + 1 >= u64::try_from(rounds.len()).unwrap() && start.elapsed() + one / 2 > options.lasts;
        if is_last || end.load(Ordering::Relaxed) {
            break;
        }
    }
    println!("\nagain: cargo run --release --example chaos -- {}", options.words());
    if found {
        ExitCode::FAILURE
    } else if end.load(Ordering::Relaxed) {
        println!("ended early");
        ExitCode::from(keeper::INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    }
}

fn failed(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn is_there() -> Result<(), String> {
    let mut version = Command::new("redis-server");
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match version {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`redis-server --version` fails: {status}")),
        Err(error) => Err(format!("this needs `redis-server` on PATH: {error}")),
    }
}

/// Runs one round and prints about it. True when anything is wrong.
fn wreak<G: Environment>(environment: G, seed: u64, lasts: Duration, end: &AtomicBool) -> bool {
    let start = Instant::now();
    let mut chaos = Chaos::new(environment, seed);
    let (told, stories) = (Cell::new(start), Cell::new(0));
    chaos.run(lasts, |chaos| {
        if told.get().elapsed() >= NEWS {
            told.set(Instant::now());
            println!("{}", news(chaos, start.elapsed()));
        }
        for story in chaos.history.stories.iter().skip(stories.replace(chaos.history.stories.len())) {
            println!("\n{story}\n");
        }
        end.load(Ordering::Relaxed)
    });
    let lasted = start.elapsed();
    let leaks = chaos.leaks();
    tell(&chaos, lasted, &leaks, stories.get())
}

fn news<G>(chaos: &Chaos<G>, since: Duration) -> String {
    let result = chaos.history.check();
    format!(
        "{:>5} s  {} holds, {} violations, {} excused, {} stalled, {} late; {}",
        since.as_secs(),
        chaos.history.count(),
        result.violations.len(),
        result.excused,
        chaos.history.liveness.found.len(),
        chaos.history.calls.late.len(),
        chaos.log
    )
}

/// True when anything is wrong.
fn tell<G>(chaos: &Chaos<G>, lasted: Duration, leaks: &[String], told: usize) -> bool {
    let (result, calls) = (chaos.history.result(), &chaos.history.calls);
    println!("\nafter {:.0} s", lasted.as_secs_f64());
    println!("done to them   {}", chaos.log);
    println!("calls          {calls}");
    println!(
        "holds          {} by workers, {} by a client of another kind; {} writes, {} of them refused for their fencing \
         token",
        result.holds, result.foreign, result.writes, result.refused
    );
    println!(
        "permits        {} times set or cleared by an operator; {} holds had room by that number alone",
        chaos.history.limits_set, result.by_central_limit
    );
    let tickets = &chaos.history.tickets;
    println!("tickets        {} given, {} redeemed", tickets.given, tickets.redeemed);
    let (bodies, checked) = (&chaos.history.bodies, chaos.history.check_bodies());
    println!(
        "bodies         {} ticks and {} results, which {} callers have got; {} wrong, and {} runs more because records were \
         forgotten",
        bodies.ticks(),
        bodies.runs(),
        bodies.returned,
        checked.violations.len(),
        checked.excused
    );
    println!(
        "violations     {}: {} overlaps, {} fencing tokens out of order, {} stale writes, {} times a lock that was \
         waited for had no holder",
        result.violations.len(),
        result.overlaps(),
        result.fences(),
        result.stale_writes(),
        result.idle()
    );
    let liveness = &chaos.history.liveness;
    println!(
        "liveness       {} locks free while a call waited, {} locks of a process that had no call for them",
        liveness.free(),
        liveness.ownerless()
    );
    let longest = result.longest_excused;
    println!(
        "excused        {} at times when locks were forgotten (a flush, a failover, a clock that jumped){}",
        result.excused,
        if result.excused > 0 {
            format!("; two were inside for {longest:.1?} at most")
        } else {
            String::new()
        }
    );
    println!("left keys      {}, looked for on every node after the longest ttl", leaks.len());
    println!(
        "late callers   {} came back more than {:?} later than they had to and than a plain timer; the latest {:.1?}",
        calls.late.len(),
        calls.prompt,
        calls.latest
    );
    for story in chaos.history.stories.iter().skip(told) {
        println!("\n{story}");
    }
    for (who, late) in &calls.late {
        println!("late: {who:?} {late}");
    }
    for leak in leaks {
        println!("left: {leak}");
    }
    for what in &checked.violations {
        println!("wrong: {what}");
    }
    for times in &checked.second_runs {
        println!("{}", chaos.history.faults_around(*times, &chaos.log));
    }
    !(result.violations.is_empty()
        && liveness.found.is_empty()
        && calls.late.is_empty()
        && leaks.is_empty()
        && checked.violations.is_empty())
}
