//! Schedules of the simulated fleet: fixed ones and fresh ones.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redlocked_sim::plan::{Plan, Topology};
use redlocked_sim::run::run;
use redlocked_sim::shrink::shrink;

/// How long fresh schedules are run.
const FRESH: Duration = Duration::from_mins(1);

/// No more of them, so that a quick machine has the same as a slow one.
const MOST: u64 = 8_000;

fn holds(seed: u64) {
    let plan = Plan::of(seed);
    let report = run(&plan, false);
    if let Some(violation) = report.violation {
        let short = shrink(&plan);
        let trace = run(&short, true).trace;
        let trace = trace[trace.len().saturating_sub(60)..].join("\n");
        unreachable!("seed {seed}: {}: {}\n{short:#?}\n{trace}", violation.property, violation.what);
    }
}

#[test]
fn a_seed_repeats_its_run_to_the_bit() {
    for seed in 0..40 {
        let plan = Plan::of(seed);
        let (first, second) = (run(&plan, true), run(&plan, true));
        assert!(first.trace.len() > 3, "seed {seed} is traced");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!((first.holds, first.lasted), (second.holds, second.lasted), "seed {seed}");
    }
}

#[test]
fn no_fixed_schedule_violates_a_property() {
    (0..2_000).for_each(holds);
}

/// In CI the same for the same sources: what it finds, it finds again.
fn first_seed() -> u64 {
    let sources = ["HEAD:redlock-runtime/src", "HEAD:tests/sim/src"];
    let trees = Command::new("git").arg("rev-parse").args(sources).output();
    let trees = trees.ok().filter(|trees| trees.status.success() && std::env::var_os("CI").is_some());
    let digits = |trees: Vec<u8>| trees.into_iter().filter(u8::is_ascii_hexdigit).map(u64::from);
    match trees {
        Some(trees) => digits(trees.stdout).fold(0, |sum, digit| (sum * 31 + digit) % (1 << 40)),
        None => fastrand::u64(0..1 << 40),
    }
}

#[test]
fn a_minute_of_fresh_schedules_violates_no_property() {
    let first = first_seed();
    let start = Instant::now();
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if start.elapsed() > FRESH || seed - first > MOST {
                        return;
                    }
                    holds(seed);
                }
            });
        }
    });
}

#[test]
fn an_hour_of_ten_processes_violates_no_property() {
    let report = run(&Plan::fleet(1, 3_600_000), false);
    assert_eq!(report.violation, None);
    assert!(report.lasted >= Duration::from_hours(1) && report.holds > 1_000, "{report:?}");
}

#[test]
fn a_plan_becomes_shorter_only_as_long_as_it_violates_the_same_property() {
    let plan = Plan::of(1);
    assert_eq!(shrink(&plan).calls.len(), plan.calls.len(), "nothing is wrong with it");
    assert!(matches!(plan.topology, Topology::One(_) | Topology::Quorum(..)));
}
