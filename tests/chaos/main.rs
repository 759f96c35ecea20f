//! Chaos: processes that take locks while they are frozen, killed, cut off and deceived; and a checker of what they
//! did. It finds nothing with the scripts as they are, and what is wrong with each script that is broken on purpose.
//!
//! `CHAOS_SECONDS` makes it longer, `CHAOS_SEED` throws the same dice again, `CHAOS_NODES` is the size of the quorum,
//! `CHAOS_STOP=1` ends a run as soon as something is found.
//! For hours of it, and with all that can go wrong at once: `cargo run --release --example chaos`, of the same modules.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod caller;
mod calls;
mod checker;
mod cluster;
mod company;
mod crowd;
mod crowds;
mod deeds;
mod dice;
mod driver;
mod ground;
mod history;
mod liveness;
mod nodes;
#[allow(dead_code, reason = "the example needs more of it")]
mod one_server;
mod quorum;
mod shards;
mod stranger;
mod ticker;
mod visit;
mod ways;
mod worker;

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::{Duration, Instant};

use checker::Verdict;
use driver::Chaos;
use ground::Ground;
use history::History;
use kit as support;
use kit::{Job, LIMIT};
use one_server::{OneServer, Plan};

#[test]
#[ignore = "what a worker process runs"]
fn worker() {
    if let Some(job) = Job::of_this_process() {
        worker::work(&job);
    }
}

/// For whoever reads along.
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
    let verdict = chaos.history.verdict();
    report(&format!(
        "{} violations, {} excused, {} free, {} ownerless; {} holds, {:?} over the time, {} foreign ones; {} writes, {} of them refused; {}; \
         the latest {:.1?} late; {}",
        verdict.violations.len(),
        verdict.excused,
        chaos.history.liveness.free(),
        chaos.history.liveness.ownerless(),
        verdict.holds,
        chaos.history.entered_over_time(4),
        verdict.foreign,
        verdict.writes,
        verdict.refused,
        chaos.history.calls,
        chaos.history.calls.latest,
        chaos.deeds
    ));
}

/// For that time, and on a busy machine until there is `enough` to look at; with `CHAOS_STOP=1` until something is found.
fn run_until<G: Ground>(chaos: &mut Chaos<G>, lasts: Duration, enough: impl Fn(&Chaos<G>) -> bool) {
    let (start, stops) = (Instant::now(), setting("CHAOS_STOP", || 0) == 1);
    chaos.run(lasts + 2 * LIMIT, |chaos| {
        let found = if stops { chaos.history.found() } else { Vec::new() };
        for what in &found {
            report(&format!("after {:.1?}: {what}", start.elapsed()));
        }
        !found.is_empty() || (start.elapsed() >= lasts && enough(chaos))
    });
}

fn run<G: Ground>(chaos: &mut Chaos<G>, lasts: Duration) {
    run_until(chaos, lasts, |chaos| chaos.history.len() > 100);
}

/// After a run: no violation, nobody late, nothing left.
fn nothing_is_wrong<G: Ground>(chaos: &mut Chaos<G>, seed: u64) {
    nothing_is_found(chaos, seed);
    let verdict = chaos.history.verdict();
    assert!(verdict.holds > 50 && verdict.writes > 50, "it tests nothing: {verdict:?}");
}

fn nothing_is_found<G: Ground>(chaos: &mut Chaos<G>, seed: u64) {
    summary(chaos);
    let (found, stories) = (chaos.history.found(), chaos.history.stories.join("\n"));
    assert!(found.is_empty(), "CHAOS_SEED={seed}: {found:#?}\n{stories}");
    let leaks = chaos.leaks();
    assert!(leaks.is_empty(), "CHAOS_SEED={seed}: left behind: {leaks:#?}");
}

#[test]
fn at_most_one_is_inside_whatever_happens() {
    let (lasts, seed) = (Duration::from_secs(setting("CHAOS_SECONDS", || 6)), seed());
    report(&format!("chaos for {lasts:?}; again with CHAOS_SEED={seed}"));
    let mut chaos = Chaos::new(OneServer::of(Plan::UNWELL), seed);
    run(&mut chaos, lasts);
    nothing_is_wrong(&mut chaos, seed);
}

/// Mistakes: what of a script becomes what.
const DOES_NOT_COMPARE: (&str, &str) = ("if holder ~= token then", "if holder == nil   then");

const IS_NOT_RAISED: (&str, &str) = ("return fence", "return '1'  ");

/// A grant that claims to be from the far future was given, as far as the waiter can tell, when it was received.
const COUNTS_FROM_RECEIPT: (&str, &str) = (".. '|' .. now ..", "..'|9' .. now ..");

/// With this in a script replaced by that, the checker finds `what` it looks for.
fn is_found(words: (&'static str, &'static str), what: impl Fn(&Verdict) -> bool) {
    is_found_by(Plan::WELL, words, |history| what(&history.check()));
}

/// Where that is done to them, it is found within a minute.
fn is_found_by(plan: Plan, words: (&'static str, &'static str), what: impl Fn(&History) -> bool) {
    let (seed, start) = (seed(), Instant::now());
    let mut chaos = Chaos::new(OneServer::rewritten(plan, words), seed);
    chaos.run(3 * LIMIT, |chaos| {
        let is_whole = chaos.ground.rewrites() == 0 && chaos.history.len() > 50;
        is_whole || what(&chaos.history)
    });
    assert!(chaos.ground.rewrites() > 0, "no script contains {:?} any more", words.0);
    report(&format!("{:?} after {:.1?}:", words.1, start.elapsed()));
    summary(&chaos);
    assert!(what(&chaos.history), "CHAOS_SEED={seed}: not found in time");
}

#[test]
fn a_release_that_does_not_compare_is_found() {
    is_found(DOES_NOT_COMPARE, |verdict| verdict.overlaps() > 0);
}

#[test]
fn a_fencing_token_that_is_not_raised_is_found() {
    // Seldom a stale write: what a cohort has reserved is raised, and the resource has seen it soon.
    is_found(IS_NOT_RAISED, |verdict| verdict.fences() > 0);
}

#[test]
fn a_grant_that_is_counted_from_its_receipt_is_found() {
    is_found(COUNTS_FROM_RECEIPT, |verdict| verdict.overlaps() > 0);
}
