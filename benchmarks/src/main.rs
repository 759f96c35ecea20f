//! redlocked beside the locks of others and beside the bare limits.
//!
//! ```text
//! cargo run --release --manifest-path benchmarks/Cargo.toml [-- --quick]
//! ```
//!
//! The contenders take turns in rounds, so that what else the machine does hits all of them. A ratio is the median over
//! rounds of what the same round gave the other one. Quote the ratios; the times depend on the machine. The tables go to
//! standard output, each figure of each round into `target/benchmarks.jsonl`.

#[path = "../../tests/support/mod.rs"]
mod support;

#[path = "../../benches/support/delay.rs"]
mod delay;

mod by_hand;
mod contender;
mod flash_sale;
mod hand_off;
mod ours;
mod peers;
mod report;
mod throughput;
mod uncontended;

use std::time::Instant;

use report::Report;
use support::RedisServer;

/// `--quick` is a look, in under two minutes; the figures to quote are those of the full run.
#[derive(Clone, Copy)]
pub struct Extent {
    pub quick: bool,
}

impl Extent {
    pub fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

fn main() {
    let extent = match std::env::args().nth(1).as_deref() {
        None => Extent { quick: false },
        Some("--quick") => Extent { quick: true },
        Some(other) => {
            eprintln!("{other} is no option; --quick is the only one");
            std::process::exit(2);
        }
    };
    allow_many_files();
    let start = Instant::now();
    let server = RedisServer::start();
    let version: String = server.run("INFO server");
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Redis {} on loopback, {cores} cores, {}.", version.trim(), extent.of("full", "quick"));
    let mut report = Report::create();
    for (name, why) in contender::LEFT_OUT {
        println!("Left out: {name}: {why}");
    }
    uncontended::measure(&server, extent, &mut report);
    throughput::measure(&server, extent, &mut report);
    hand_off::measure(&server, extent, &mut report);
    flash_sale::measure(&server, extent, &mut report);
    println!(
        "\n{:.0} s in all; each figure is in {}.",
        start.elapsed().as_secs_f64(),
        report.path().display()
    );
}

fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}
