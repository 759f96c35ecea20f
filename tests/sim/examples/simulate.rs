//! Runs schedule after schedule of a simulated fleet, and prints what was seen.
//!
//! ```text
//! cargo run --release -p redlocked-sim --example simulate -- --hours 8
//! cargo run --release -p redlocked-sim --example simulate -- --seconds 60 --threads 1
//! cargo run --release -p redlocked-sim --example simulate -- --seed 42      one schedule, with its trace
//! cargo run --release -p redlocked-sim --example simulate -- --fleet 42     an hour of ten processes
//! cargo run --release -p redlocked-sim --example simulate -- --mutant NAME  with a defect in the scripts
//! cargo run --release -p redlocked-sim --example simulate -- --from 0 --step 640  backlogs alone: `plan/backlog.rs`
//! ```
//!
//! The exit code is 1 when a property was violated: the seed repeats it.
#![allow(clippy::print_stdout, reason = "this is what the program is for")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redlocked_sim::coverage::Coverage;
use redlocked_sim::mutants;
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

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    let mutant = match args.iter().position(|arg| arg == "--mutant") {
        None => None,
        Some(at) => {
            let named =
                mutants::all().find(|mutant| args.get(at + 1).is_some_and(|name| name == mutant.name));
            let Some(mutant) = named.filter(|mutant| mutant.is_of_scripts()) else {
                println!("--mutant takes the name of a mutant of scripts");
                return ExitCode::from(2);
            };
            Some(mutant)
        }
    };
    let plan_of = |seed| Plan { mutant, ..Plan::of(seed) };
    if let Some(seed) = number("--seed") {
        return one(&plan_of(seed), args.iter().any(|arg| arg == "--shrink"));
    }
    if let Some(seed) = number("--fleet") {
        return one(&Plan::fleet(seed, HOUR), false);
    }
    let hours = number("--hours").map(|hours| hours * 3600);
    let length = Duration::from_secs(number("--seconds").or(hours).unwrap_or(60));
    let threads = number("--threads").unwrap_or(2);
    let first = number("--from").unwrap_or_else(|| fastrand::u64(0..1 << 40));
    let most = number("--schedules").unwrap_or(u64::MAX);
    let every = number("--step").unwrap_or(1);
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
                    let seed = first + number * every;
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
