//! What is said: at the start, every ten seconds, and at the end.

use std::cell::Cell;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kit::Job;
use kit::chaos::calls::PROMPT;
use kit::chaos::dice::Dice;
use kit::chaos::driver::Chaos;
use kit::chaos::ground::Ground;
use kit::chaos::nodes::{self, Nodes};
use kit::chaos::one_server::{OneServer, Plan};
use kit::chaos::shards::{Shards, Unrest};

use super::keeper;
use super::options::{Options, Place, USAGE};

const NEWS: Duration = Duration::from_secs(10);

pub(crate) fn main() -> ExitCode {
    if let Some(job) = Job::of_this_process() {
        kit::chaos::worker::work(&job);
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

/// What is looked at in one go, and how.
type Round = (&'static str, fn(u64, Duration, &AtomicBool) -> bool);

const ONE_SERVER: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(OneServer::of(Plan::FORGETFUL), seed, lasts, end)),
    ("late requests", |seed, lasts, end| wreak(OneServer::of(Plan::LATE), seed, lasts, end)),
    ("no answers", |seed, lasts, end| wreak(OneServer::of(Plan::SILENT), seed, lasts, end)),
    ("operators", |seed, lasts, end| wreak(OneServer::of(Plan::OPERATED), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(OneServer::of(Plan::CROWDED), seed, lasts, end)),
    ("dead waiters", |seed, lasts, end| wreak(OneServer::of(Plan::ABANDONED), seed, lasts, end)),
    ("bursts", |seed, lasts, end| wreak(OneServer::of(Plan::BURSTS), seed, lasts, end)),
    ("dropped calls", |seed, lasts, end| wreak(OneServer::of(Plan::DROPPED), seed, lasts, end)),
];

const THREE_NODES: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(quorum(nodes::Plan::everything(3)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(quorum(nodes::Plan::crowded(3)), seed, lasts, end)),
    ("hand-over", |seed, lasts, end| wreak(quorum(nodes::Plan::hand_over(3)), seed, lasts, end)),
];

const FIVE_NODES: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(quorum(nodes::Plan::everything(5)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(quorum(nodes::Plan::crowded(5)), seed, lasts, end)),
    ("hand-over", |seed, lasts, end| wreak(quorum(nodes::Plan::hand_over(5)), seed, lasts, end)),
];

const CLUSTER: &[Round] = &[
    ("everything", |seed, lasts, end| wreak(Shards::start(Unrest::Everything), seed, lasts, end)),
    ("rights", |seed, lasts, end| wreak(Shards::denied(&mut Dice::new(seed)), seed, lasts, end)),
    ("crowds", |seed, lasts, end| wreak(Shards::start(Unrest::Crowds), seed, lasts, end)),
    ("bursts", |seed, lasts, end| wreak(Shards::start(Unrest::Bursts), seed, lasts, end)),
];

fn quorum(plan: nodes::Plan) -> Nodes {
    Nodes::new(plan, |_, server| server.port())
}

/// One after the other, and again until the time is over.
fn all_rounds(options: &Options, end: &AtomicBool) -> ExitCode {
    /// Of one round.
    const MOST: Duration = Duration::from_mins(2);
    println!("chaos {}", options.words());
    let rounds = match options.place {
        Place::OneServer => ONE_SERVER,
        Place::Quorum(3) => THREE_NODES,
        Place::Quorum(_) => FIVE_NODES,
        Place::Cluster => CLUSTER,
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

/// One round, with what is said about it. True when anything is wrong.
fn wreak<G: Ground>(ground: G, seed: u64, lasts: Duration, end: &AtomicBool) -> bool {
    let start = Instant::now();
    let mut chaos = Chaos::new(ground, seed);
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
    let verdict = chaos.history.check();
    format!(
        "{:>5} s  {} holds, {} violations, {} excused, {} stalled, {} late; {}",
        since.as_secs(),
        chaos.history.count(),
        verdict.violations.len(),
        verdict.excused,
        chaos.history.liveness.found.len(),
        chaos.history.calls.late.len(),
        chaos.deeds
    )
}

/// True when anything is wrong.
fn tell<G>(chaos: &Chaos<G>, lasted: Duration, leaks: &[String], told: usize) -> bool {
    let (verdict, calls) = (chaos.history.verdict(), &chaos.history.calls);
    println!("\nafter {:.0} s", lasted.as_secs_f64());
    println!("done to them   {}", chaos.deeds);
    println!("calls          {calls}");
    println!(
        "holds          {} by workers, {} by a client of another kind; {} writes, {} of them refused for their fencing \
         token",
        verdict.holds, verdict.foreign, verdict.writes, verdict.refused
    );
    println!(
        "violations     {}: {} overlaps, {} fencing tokens out of order, {} stale writes, {} times a lock that was \
         waited for had no holder",
        verdict.violations.len(),
        verdict.overlaps(),
        verdict.fences(),
        verdict.stale_writes(),
        verdict.idle()
    );
    let liveness = &chaos.history.liveness;
    println!(
        "liveness       {} locks free while a call waited, {} locks of a process that had no call for them",
        liveness.free(),
        liveness.ownerless()
    );
    let longest = verdict.longest_excused;
    println!(
        "excused        {} at times when locks were forgotten (a flush, a failover, a clock that jumped){}",
        verdict.excused,
        if verdict.excused > 0 {
            format!("; two were inside for {longest:.1?} at most")
        } else {
            String::new()
        }
    );
    println!("left keys      {}, looked for on every node after the longest ttl", leaks.len());
    println!(
        "late callers   {} came back more than {PROMPT:?} later than they had to and than a plain timer; the latest {:.1?}",
        calls.late.len(),
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
    !(verdict.violations.is_empty() && liveness.found.is_empty() && calls.late.is_empty() && leaks.is_empty())
}
