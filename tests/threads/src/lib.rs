//! The races of the engine's threads: its own files, with the names of
//! [shuttle](https://docs.rs/shuttle) for the synchronisation, run in many of the orders in which
//! their threads can meet.
//!
//! `build.rs` copies the files, once as they are and once for each of the mutants. The loop itself,
//! the server, tokio and the clock have models. A thread that is never woken is a deadlock, which
//! shuttle finds; so are two threads that poll one loop, which the model of tokio finds. Not
//! explored: weaker orders of memory than one after the other, time limits of condition variables,
//! and what the table, the transport and the connections do, which is `tests/sim`.
#![cfg(test)]
#![allow(dead_code, unused_imports, unused_qualifications, unreachable_pub, missing_docs, reason = "copies")]
#![allow(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::panic, reason = "copies, and tests")]

mod host;
mod tokio;

/// Its name, the scenario that finds it, and all scenarios with it.
type Copy = (&'static str, &'static str, &'static [(&'static str, fn())]);

include!(concat!(env!("OUT_DIR"), "/copies.rs"));

/// The runs of each scenario. `THREADS_RUNS` makes it longer.
fn runs() -> usize {
    std::env::var("THREADS_RUNS").map_or(1_000, |runs| runs.parse().unwrap())
}

fn explore(scenario: fn(), runs: usize) {
    shuttle::check_random(scenario, runs);
    shuttle::check_pct(scenario, runs, 3);
}

fn scenario(copy: &Copy, name: &str) -> fn() {
    copy.2.iter().find(|(scenario, _)| *scenario == name).unwrap().1
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() {
            explore(scenario(&COPIES[0], stringify!($name)), runs());
        })*

        #[test]
        fn each_scenario_has_its_test() {
            let names: Vec<_> = COPIES[0].2.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

scenarios! {
    loop_waker when_woken alarm
    one two three two_and_by_hand limited limited_and_by_hand
    moved moved_and_dropped moved_as_a_caller_leaves dropped_beside_a_command
    computes_behind_its_command computes_beside_callers
    ends_behind_its_command
}

/// In a process of its own: a thread that is not served may abort it, in a destructor that waits
/// for another thread.
fn is_found(mutant: &str) -> bool {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "one_mutant", "--ignored"]).env(MUTANT, mutant).output().unwrap();
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(printed[0].contains("running 1 test"), "{printed:?}");
    !output.status.success() && printed.iter().any(|text| text.contains("panicked"))
}

const MUTANT: &str = "THREADS_MUTANT";

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn one_mutant() {
    let name = std::env::var(MUTANT).unwrap();
    let copy = COPIES.iter().find(|copy| copy.0 == name).unwrap();
    // Most are found in the first hundreds, and the rarest once in some ten thousand.
    explore(scenario(copy, copy.1), 100 * runs());
}

#[test]
fn each_mutant_is_found() {
    let missed: Vec<_> = COPIES[1..].iter().map(|copy| copy.0).filter(|name| !is_found(name)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
