//! Runs schedule after schedule of a simulated fleet, and prints what was seen.
//!
//! ```text
//! cargo run --release -p redlocked-sim --example simulate -- --hours 8
//! cargo run --release -p redlocked-sim --example simulate -- --seconds 60 --threads 1
//! cargo run --release -p redlocked-sim --example simulate -- --seed 42      one schedule, with its trace
//! cargo run --release -p redlocked-sim --example simulate -- --fleet 42     an hour of ten processes
//! cargo run --release -p redlocked-sim --example simulate -- --mutant NAME  with a defect in the scripts
//! cargo run --release -p redlocked-sim --example simulate -- --about NAME   plans of `plan/stuck.rs` alone
//! cargo run --release -p redlocked-sim --example simulate -- --from 0 --step 640  backlogs alone: `plan/backlog.rs`
//! ```
//!
//! The exit code is 1 when a property was violated: the seed repeats it.
#![allow(clippy::print_stdout, reason = "this is what the program is for")]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kit::{Arguments, or_usage};
use redlocked_sim::coverage::Coverage;
use redlocked_sim::mutants::{self, Mutant};
use redlocked_sim::plan::Plan;
use redlocked_sim::run::{Report, run};
use redlocked_sim::shrink::shrink;

/// An hour, in milliseconds.
const HOUR: u64 = 3_600_000;

#[derive(Default)]
struct Total {
    schedules: u64,
    calls: u64,
    holds: u64,
    lasted: Duration,
    faults: BTreeMap<&'static str, u64>,
    errors: BTreeMap<&'static str, u64>,
    met: Coverage,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.schedules += 1;
        self.calls += report.calls;
        self.holds += report.holds;
        self.lasted += report.lasted;
        for (kind, count) in &report.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.met.add(&report.met);
        for (kind, count) in &report.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }

    fn print(&self, since: Instant) {
        let took = since.elapsed();
        println!(
            "{} schedules in {took:.1?}, {:.0} an hour; {:.1?} of virtual time; {} calls, {} holds",
            self.schedules,
            3600.0 * f64::from(u32::try_from(self.schedules).unwrap_or(u32::MAX)) / took.as_secs_f64(),
            self.lasted,
            self.calls,
            self.holds,
        );
        println!("faults: {:?}", self.faults);
        println!("errors of callers: {:?}", self.errors);
    }
}

const USAGE: &str = "usage: simulate [--seconds N | --hours N] [--threads N] [--from SEED] [--step N] [--schedules N] [--about NAME]
                [--mutant NAME]
       simulate --seed SEED [--shrink] [--about NAME] [--mutant NAME]
       simulate --fleet SEED [--mutant NAME]";

/// What the command line asks for.
enum Order {
    /// One schedule, with its trace.
    One(Box<Plan>, bool),
    /// Schedule after schedule.
    Many(Many),
}

struct Many {
    mutant: Option<&'static Mutant>,
    about: Option<String>,
    length: Duration,
    threads: u64,
    first: u64,
    most: u64,
    every: u64,
}

fn order(mut words: Arguments) -> Result<Order, String> {
    const NUMBER: &str = "a whole number from 1 on";
    const SEED: &str = "a whole number from 0 to 2^64 - 1";
    let seed = words.value("--seed", SEED)?;
    let names = Plan::matters().collect::<Vec<_>>().join(", ");
    let about: Option<String> = words.value("--about", &names)?;
    if let Some(about) = about.as_ref().filter(|about| Plan::about(about, 0).is_none()) {
        return Err(format!("`--about {about}` is not one of {names}"));
    }
    let plan =
        |seed| about.as_ref().and_then(|about| Plan::about(about, seed)).unwrap_or_else(|| Plan::of(seed));
    let mutant = match words.value::<String>("--mutant", "the name of a mutant of scripts")? {
        None => None,
        Some(name) => {
            let found = mutants::all().find(|mutant| mutant.name == name && mutant.is_of_scripts());
            Some(found.ok_or_else(|| format!("`--mutant {name}` is not the name of a mutant of scripts"))?)
        }
    };
    if let Some(seed) = seed {
        let shrinks = words.flag("--shrink");
        words.end()?;
        return Ok(Order::One(Box::new(Plan { mutant, ..plan(seed) }), shrinks));
    }
    if let Some(seed) = words.value("--fleet", SEED)? {
        words.end()?;
        return Ok(Order::One(Box::new(Plan { mutant, ..Plan::fleet(seed, HOUR) }), false));
    }
    let hours: Option<NonZero<u32>> = words.value("--hours", "a whole number of hours from 1 on")?;
    let seconds: Option<NonZero<u64>> = words.value("--seconds", "a whole number of seconds from 1 on")?;
    let length = match (seconds, hours) {
        (Some(_), Some(_)) => return Err("`--seconds` and `--hours` both say how long".to_owned()),
        (None, Some(hours)) => Duration::from_secs(u64::from(hours.get()) * 3600),
        (seconds, None) => Duration::from_secs(seconds.map_or(60, NonZero::get)),
    };
    let mut number = |name| words.value::<NonZero<u64>>(name, NUMBER);
    let many = Many {
        mutant,
        about: about.clone(),
        length,
        threads: number("--threads")?.map_or(2, NonZero::get),
        most: number("--schedules")?.map_or(u64::MAX, NonZero::get),
        every: number("--step")?.map_or(1, NonZero::get),
        first: words.value("--from", SEED)?.unwrap_or_else(|| fastrand::u64(0..1 << 40)),
    };
    words.end()?;
    Ok(Order::Many(many))
}

fn main() -> ExitCode {
    match or_usage(order(Arguments::of_this_process()), USAGE) {
        Order::One(plan, shrinks) => one(&plan, shrinks),
        Order::Many(many) => run_many(&many),
    }
}

fn run_many(many: &Many) -> ExitCode {
    let Many { mutant, length, threads, first, most, every, .. } = *many;
    let about = |seed| many.about.as_ref().and_then(|about| Plan::about(about, seed));
    let plan_of = |seed| Plan { mutant, ..about(seed).unwrap_or_else(|| Plan::of(seed)) };
    println!("from seed {first}, on {threads} threads");
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (total, found) = (Mutex::new(Total::default()), Mutex::new(None));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while start.elapsed() < length && !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= most {
                        return;
                    }
                    let seed = first.wrapping_add(number.wrapping_mul(every));
                    let report = run(&plan_of(seed), false);
                    if let Ok(mut total) = total.lock() {
                        total.add(&report);
                    }
                    if let (Some(violation), Ok(mut found)) = (report.violation, found.lock()) {
                        stop.store(true, Ordering::Relaxed);
                        found.get_or_insert((seed, violation));
                    }
                }
            });
        }
    });
    if let Ok(total) = total.into_inner() {
        total.print(start);
        println!("{}", total.met);
    }
    let Some((seed, violation)) = found.into_inner().ok().flatten() else {
        println!("no violation");
        return ExitCode::SUCCESS;
    };
    println!("VIOLATION with seed {seed}: {}: {}", violation.property, violation.what);
    ExitCode::FAILURE
}

fn one(plan: &Plan, shrinks: bool) -> ExitCode {
    let plan = if shrinks { shrink(plan) } else { plan.clone() };
    let (start, is_long) = (Instant::now(), plan.length > HOUR / 2);
    let report = run(&plan, !is_long);
    if !is_long {
        println!("{plan:#?}");
    }
    for line in &report.trace {
        println!("{line}");
    }
    let mut total = Total::default();
    total.add(&report);
    total.print(start);
    match report.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("VIOLATION: {}: {}", violation.property, violation.what);
            ExitCode::FAILURE
        }
    }
}
