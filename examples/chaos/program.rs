//! What is said: at the start, every ten seconds, and at the end.

#[path = "../../tests/chaos/calls.rs"]
mod calls;
#[path = "../../tests/chaos/checker.rs"]
mod checker;
#[path = "../../tests/chaos/deeds.rs"]
mod deeds;
#[path = "../../tests/chaos/dice.rs"]
mod dice;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/chaos/driver.rs"]
mod driver;
#[path = "../../tests/chaos/ground.rs"]
mod ground;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/chaos/history.rs"]
mod history;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/chaos/nodes.rs"]
mod nodes;
#[path = "../../tests/chaos/one_server.rs"]
mod one_server;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/chaos/shards.rs"]
mod shards;
#[path = "../../tests/chaos/stranger.rs"]
mod stranger;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../../tests/chaos/worker.rs"]
mod worker;

use std::cell::Cell;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::keeper;
use super::options::{Options, Place, USAGE};
use calls::PATIENCE;
use driver::Chaos;
use ground::Ground;
use nodes::{Nodes, Plan};
use one_server::OneServer;
use shards::Shards;
use support::Job;

const NEWS: Duration = Duration::from_secs(10);

pub(crate) fn main() -> ExitCode {
    if let Some(job) = Job::of_this_process() {
        worker::work(&job);
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
    let end = keeper::is_to_end();
    match options.place {
        Place::OneServer => wreak(OneServer::unwell(true), &options, &end),
        Place::Quorum(nodes) => {
            let direct = |_: usize, server: &support::RedisServer| server.port();
            wreak(Nodes::new(Plan::everything(nodes), direct), &options, &end)
        }
        Place::Cluster => wreak(Shards::everything(), &options, &end),
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

/// The whole run, with what is said about it.
fn wreak<G: Ground>(ground: G, options: &Options, end: &AtomicBool) -> ExitCode {
    println!("chaos {}", options.words());
    let start = Instant::now();
    let mut chaos = Chaos::new(ground, options.seed);
    let (told, stories) = (Cell::new(start), Cell::new(0));
    chaos.run(options.lasts, |chaos| {
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
    let found = tell(&chaos, lasted, &leaks, stories.get());
    println!("again: cargo run --release --example chaos -- {}", options.words());
    if found {
        ExitCode::FAILURE
    } else if end.load(Ordering::Relaxed) {
        println!("ended early");
        ExitCode::from(keeper::INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    }
}

fn news<G>(chaos: &Chaos<G>, since: Duration) -> String {
    let verdict = chaos.history.check();
    format!(
        "{:>5} s  {} holds, {} violations, {} excused, {} late; {}",
        since.as_secs(),
        chaos.history.len(),
        verdict.violations.len(),
        verdict.excused,
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
        "violations     {}: {} overlaps, {} fencing tokens out of order, {} stale writes",
        verdict.violations.len(),
        verdict.overlaps(),
        verdict.fences(),
        verdict.stale_writes()
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
        "hung callers   {} came back more than {PATIENCE:?} late; the latest {:.1?} after its wait",
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
    !(verdict.violations.is_empty() && calls.late.is_empty() && leaks.is_empty())
}
