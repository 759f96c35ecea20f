//! redlocked beside the locks of others and beside the bare commands.
//!
//! ```text
//! cargo run --release --manifest-path benches/comparison/Cargo.toml -- [--quick] [--write] [--server PATH] [WORKLOAD]...
//! cargo run --manifest-path benches/comparison/Cargo.toml -- --draw benches/comparison/results/PROCESSOR.jsonl
//! ```
//!
//! The contenders take turns in rounds, so that other work of the machine hits all of them. A ratio
//! is the median over rounds of the ratio within one round. Quote the ratios; the times depend on
//! the machine. The tables go to standard output, each figure of each round into
//! `target/benchmarks.jsonl`; `--write` keeps the run in `results/`, and makes `BENCHMARKS.md` and its
//! pictures from it. `--draw` makes them again from a run that was kept, without measuring.
//! `--server` names the `redis-server` of another version, which some workloads measure beside the
//! one on PATH.

mod articles;
mod by_hand;
mod contender;
mod counted;
mod direct;
mod fenced;
mod field;
mod flash_sale;
mod flash_sale_http;
mod fleet;
mod foreign;
mod hand_off;
mod machine;
mod ours;
mod page;
mod peers;
mod permits;
mod picture;
mod polls;
mod product;
mod quorum;
mod readers;
mod renewals;
mod report;
mod results;
mod series;
mod sheet;
mod shown;
mod sizes;
mod sync;
mod targets;
mod throughput;
mod uncontended;
mod used;
mod workload;

use std::path::PathBuf;
use std::time::Instant;

use kit::{Arguments, RedisServer, or_usage, second_server};
use report::Report;
use results::Run;
use workload::{Extent, Servers};

struct Workload {
    name: &'static str,
    /// Its text on the page: a heading and an explanation.
    prose: &'static str,
    measure: fn(&Servers, Extent, &mut Report),
}

/// In the order of the page.
const WORKLOADS: &[Workload] = &[
    Workload {
        name: "uncontended",
        prose: include_str!("../prose/uncontended.md"),
        measure: uncontended::measure,
    },
    Workload { name: "sync", prose: include_str!("../prose/sync.md"), measure: sync::measure },
    Workload {
        name: "throughput",
        prose: include_str!("../prose/throughput.md"),
        measure: throughput::measure,
    },
    Workload { name: "hand_off", prose: include_str!("../prose/hand_off.md"), measure: hand_off::measure },
    Workload {
        name: "flash_sale",
        prose: include_str!("../prose/flash_sale.md"),
        measure: flash_sale::measure,
    },
    Workload {
        name: "flash_sale_http",
        prose: include_str!("../prose/flash_sale_http.md"),
        measure: flash_sale_http::measure,
    },
    Workload { name: "readers", prose: include_str!("../prose/readers.md"), measure: readers::measure },
    Workload { name: "permits", prose: include_str!("../prose/permits.md"), measure: permits::measure },
    Workload { name: "fleet", prose: include_str!("../prose/fleet.md"), measure: fleet::measure },
    Workload { name: "quorum", prose: include_str!("../prose/quorum.md"), measure: quorum::measure },
    Workload { name: "renewals", prose: include_str!("../prose/renewals.md"), measure: renewals::measure },
    Workload { name: "polls", prose: include_str!("../prose/polls.md"), measure: polls::measure },
    Workload { name: "fenced", prose: include_str!("../prose/fenced.md"), measure: fenced::measure },
    Workload { name: "sizes", prose: include_str!("../prose/sizes.md"), measure: sizes::measure },
];

/// The text of each workload, by its name.
fn prose() -> Vec<(&'static str, &'static str)> {
    WORKLOADS.iter().map(|workload| (workload.name, workload.prose)).collect()
}

struct Options {
    /// The file of a run to write the page from; nothing is measured then.
    draw: Option<PathBuf>,
    extent: Extent,
    write: bool,
    server: Option<PathBuf>,
    workloads: Vec<&'static Workload>,
}

impl Options {
    fn read(mut arguments: Arguments) -> Result<Self, String> {
        let mut options = Self {
            draw: arguments.value("--draw", "the file of a run that was kept")?,
            extent: Extent { quick: arguments.flag("--quick") },
            write: arguments.flag("--write"),
            server: arguments.server()?,
            workloads: Vec::new(),
        };
        for name in arguments.names() {
            match WORKLOADS.iter().find(|workload| workload.name == name) {
                Some(workload) => options.workloads.push(workload),
                None => return Err(format!("`{name}` is neither an option nor a workload")),
            }
        }
        arguments.end()?;
        if options.workloads.is_empty() {
            options.workloads.extend(WORKLOADS);
        } else if options.write || options.draw.is_some() {
            return Err("--write and --draw make the whole page, of all workloads".to_owned());
        }
        Ok(options)
    }
}

fn main() {
    if renewals::was_ordered() || fleet::managers::was_ordered() {
        return;
    }
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let usage =
        format!("options: --quick --write --server PATH, or --draw FILE\nworkloads: {}", names.join(" "));
    let options = or_usage(Options::read(Arguments::of_this_process()), &usage);
    if let Some(file) = &options.draw {
        page::write(&or_usage(Run::read(file), &usage), false, &prose());
        return;
    }
    allow_many_files();
    let start = Instant::now();
    let servers = Servers { redis: RedisServer::start(), second: second_server(options.server.clone()) };
    let machine = machine::describe(&servers);
    for (what, is) in &machine {
        println!("{what}: {is}");
    }
    let mut report = Report::create();
    for (who, why) in field::LEFT_OUT {
        report.left_out(who, why);
    }
    if servers.second.is_none() {
        report.left_out("the rows of a second server", "no `--server PATH`");
    }
    for workload in &options.workloads {
        let start = Instant::now();
        report.begin(workload.name);
        (workload.measure)(&servers, options.extent, &mut report);
        println!("\n{}: {:.0} s", workload.name, start.elapsed().as_secs_f64());
    }
    let took = start.elapsed().as_secs_f64();
    println!("\n{took:.0} s in all; each figure is in {}.", report.path().display());
    if options.write {
        write(report, &machine, took / 60.0, options.extent.quick);
    }
}

fn write(report: Report, machine: &[(&str, String)], minutes: f64, quick: bool) {
    let fleet = report.fleet;
    // Before anything is written: it says whether the commit was changed.
    let run = Run::of(report, machine, minutes);
    // A quick look is not to be quoted, and not kept.
    if !quick {
        run.keep();
        fleet.write(&run.processor);
    }
    page::write(&run, quick, &prose());
}

fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}
