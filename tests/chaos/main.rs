//! Chaos: processes that take locks while they are frozen, killed, cut off and deceived; and a
//! checker of all that they did. It finds nothing with the scripts as they are, and a mistake in a
//! script that is broken on purpose.
//!
//! A mistake that is found here shows in one of some hundred calls, and each search makes up to
//! [`MOST_CALLS`]. One that shows only in how long something takes, or in very few calls, is found in
//! `tests/sim/tests/mistakes.rs`, where a seed repeats the time as well.
//!
//! `CHAOS_SECONDS` makes it longer, `CHAOS_SEED` repeats the random choices, `CHAOS_NODES` is the
//! size of the quorum, `CHAOS_STOP=1` ends a run as soon as something is found.
//! `cargo run --release -p redlocked-sim --example mutants -- --chaos` puts what use has found
//! back, and looks whether it is found. For hours, and with all faults at once:
//! `cargo run --release --example chaos`, of the same modules in `kit::chaos`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod bodies;
mod clients;
mod cluster;
mod mark;
mod quorum;
mod shares;
mod tickets;

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::{Duration, Instant};

use kit::chaos::checker::history::History;
use kit::chaos::environment::Environment;
use kit::chaos::environment::one_server::{OneServer, Plan};
use kit::chaos::random::Random;
use kit::chaos::run::Chaos;
use kit::{Job, LIMIT};

#[test]
#[ignore = "what a worker process runs"]
fn worker() {
    if let Some(job) = Job::of_this_process() {
        kit::chaos::workload::worker::work(&job);
    }
}

/// Visible with `--nocapture`, and when a test fails.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn setting(name: &str, default: impl FnOnce() -> u64) -> u64 {
    env::var(name).map_or_else(|_| default(), |text| text.parse().expect("a number"))
}

fn seed() -> u64 {
    setting("CHAOS_SEED", || RandomState::new().hash_one(0))
}

fn summary<G>(chaos: &Chaos<G>) {
    let result = chaos.history.result();
    report(&format!(
        "{} violations, {} excused, {} free, {} ownerless; {} holds, {:?} over the time, {} foreign ones, {} by one of {} central limits; {} tickets given, {} redeemed; {} ticks, {} runs, {} results, {} excused; {} writes, {} of them refused; {}; \
         the latest {:.1?} late; {}",
        result.violations.len(),
        result.excused,
        chaos.history.liveness.free(),
        chaos.history.liveness.ownerless(),
        result.holds,
        chaos.history.entered_over_time(4),
        result.foreign,
        result.by_central_limit,
        chaos.history.limits_set,
        chaos.history.tickets.given,
        chaos.history.tickets.redeemed,
        chaos.history.bodies.ticks(),
        chaos.history.bodies.runs(),
        chaos.history.bodies.returned,
        chaos.history.check_bodies().excused,
        result.writes,
        result.refused,
        chaos.history.calls,
        chaos.history.calls.latest,
        chaos.log
    ));
}

/// A clean run: no violation, no stall, no late call, no key left. On a busy machine it goes on
/// until there is `enough` to look at; with `CHAOS_STOP=1` it ends as soon as something is found.
fn is_clean_with<G: Environment>(
    environment: impl FnOnce(&mut Random) -> G,
    seconds: u64,
    enough: impl Fn(&Chaos<G>) -> bool,
) -> Chaos<G> {
    let (lasts, seed) = (Duration::from_secs(setting("CHAOS_SECONDS", || seconds)), seed());
    report(&format!("chaos for {lasts:?}; again with CHAOS_SEED={seed}"));
    let mut chaos = Chaos::new(environment(&mut Random::new(seed)), seed);
    let (start, stops) = (Instant::now(), setting("CHAOS_STOP", || 0) == 1);
    chaos.run(lasts + 10 * LIMIT, |chaos| {
        let found = if stops { chaos.history.found() } else { Vec::new() };
        for what in &found {
            // In seconds: the example `mutants` of the simulation reads it.
            report(&format!("after {:.1}s: {what}", start.elapsed().as_secs_f64()));
        }
        !found.is_empty() || (start.elapsed() >= lasts && enough(chaos))
    });
    summary(&chaos);
    let (found, stories) = (chaos.history.found(), chaos.history.stories.join("\n"));
    assert!(found.is_empty(), "CHAOS_SEED={seed}: {found:#?}\n{stories}");
    let leaks = chaos.leaks();
    assert!(leaks.is_empty(), "CHAOS_SEED={seed}: left behind: {leaks:#?}");
    chaos
}

/// A clean run with enough holds to test something.
fn is_clean<G: Environment>(environment: impl FnOnce(&mut Random) -> G, seconds: u64) -> Chaos<G> {
    const ENOUGH: usize = 30;
    let has_enough = |chaos: &Chaos<G>| {
        let result = chaos.history.check();
        result.holds > ENOUGH && result.writes > ENOUGH
    };
    let chaos = is_clean_with(environment, seconds, has_enough);
    assert!(has_enough(&chaos), "it tests nothing: {:?}", chaos.history.result());
    chaos
}

/// So many calls end at most until a mistake is found. The rarest shows once in about three thousand,
/// so one search in e^30 does not find it, on a slow machine as on a quick one.
const MOST_CALLS: u64 = 100_000;

/// A run that ends when the checker finds `what`.
fn is_found<G: Environment>(environment: G, what: impl Fn(&History) -> bool) -> Chaos<G> {
    let (seed, start) = (seed(), Instant::now());
    let mut chaos = Chaos::new(environment, seed);
    let is_found = chaos.search(MOST_CALLS, |chaos| what(&chaos.history));
    report(&format!("after {} calls, {:.1?}:", chaos.history.calls.count(), start.elapsed()));
    summary(&chaos);
    assert!(is_found, "CHAOS_SEED={seed}: not found in {MOST_CALLS} calls: {:?}", chaos.history.result());
    chaos
}

#[test]
fn at_most_one_is_inside_whatever_happens() {
    is_clean(|_| OneServer::of(Plan::NO_DATA_LOSS), 6);
}

/// Mistakes: a text of a script, and its replacement.
const DOES_NOT_COMPARE: (&str, &str) = ("'unfenced', holder == token, {}", "'unfenced', holder ~= nil  , {}");

/// A number comes twice: to the last one that has drawn it, and to the next one.
const IS_NOT_RAISED: (&str, &str) = (
    "local fence = redis.call('INCR', clock)\nlocal least = tonumber(floor) or LEAST\n",
    "local fence=(redis.call('GET',clock)or 0)+0\nlocal least=tonumber(floor)or 0   \n",
);

/// The key of a lock that is handed over ends long before the lease that the push tells the waiter of.
const CLAIM_ENDS_EARLY: (&str, &str) =
    ("string.format('%d', lasts + GRACE)", "string.format('%d', lasts / 9    )");

/// One server, with this text of a script replaced by that.
fn is_found_with(plan: Plan, words: (&'static str, &'static str), what: impl Fn(&History) -> bool) {
    let chaos = is_found(OneServer::rewritten(plan, words), what);
    assert!(chaos.environment.rewrites() > 0, "no script contains {:?} any more", words.0);
}

#[test]
fn a_release_that_does_not_compare_is_found() {
    is_found_with(Plan::MINOR_FAULTS, DOES_NOT_COMPARE, |history| history.check().overlaps() > 0);
}

#[test]
fn a_fencing_token_that_is_not_raised_is_found() {
    // Seldom a stale write: the fences that a cohort has reserved are raised, and the resource sees
    // them soon.
    is_found_with(Plan::MINOR_FAULTS, IS_NOT_RAISED, |history| history.check().fences() > 0);
}

#[test]
fn a_claim_that_ends_before_its_lease_is_found() {
    is_found_with(Plan::MINOR_FAULTS, CLAIM_ENDS_EARLY, |history| history.check().overlaps() > 0);
}
