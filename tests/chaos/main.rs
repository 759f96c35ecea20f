//! Chaos: processes that take locks while they are frozen, killed, cut off and deceived; and a checker of what they
//! did. It finds nothing with the scripts as they are, and what is wrong with each script that is broken on purpose.
//!
//! `CHAOS_SECONDS` makes it longer, `CHAOS_SEED` throws the same dice again, `CHAOS_NODES` is the size of the quorum.
//! For hours of it, and with all that can go wrong at once: `cargo run --release --example chaos`, of the same modules.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod calls;
mod checker;
mod cluster;
mod deeds;
mod dice;
mod driver;
mod ground;
mod history;
mod nodes;
mod one_server;
mod quorum;
mod shards;
mod stranger;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::{Duration, Instant};

use checker::Verdict;
use driver::Chaos;
use ground::Ground;
use one_server::OneServer;
use support::{Job, LIMIT, RedisServer, Rewriter};

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
        "{} violations, {} excused; {} holds, {:?} over the time, {} foreign ones; {} writes, {} of them refused; {}; \
         the latest {:.1?} late; {}",
        verdict.violations.len(),
        verdict.excused,
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

/// For that time, and on a busy machine until there is enough to look at.
fn run<G: Ground>(chaos: &mut Chaos<G>, lasts: Duration) {
    let start = Instant::now();
    chaos.run(lasts + 2 * LIMIT, |chaos| start.elapsed() >= lasts && chaos.history.len() > 100);
}

/// After a run: no violation, nobody late, nothing left.
fn nothing_is_wrong<G: Ground>(chaos: &mut Chaos<G>, seed: u64) {
    summary(chaos);
    let (verdict, late) = (chaos.history.verdict(), &chaos.history.calls.late);
    assert!(verdict.violations.is_empty(), "CHAOS_SEED={seed}: {}", chaos.history.stories.join("\n"));
    let late: Vec<String> = late.values().map(ToString::to_string).collect();
    assert!(late.is_empty(), "CHAOS_SEED={seed}: {late:#?}");
    assert!(verdict.holds > 50 && verdict.writes > 50, "it tests nothing: {verdict:?}");
    let leaks = chaos.leaks();
    assert!(leaks.is_empty(), "CHAOS_SEED={seed}: left behind: {leaks:#?}");
}

#[test]
fn at_most_one_is_inside_whatever_happens() {
    let (lasts, seed) = (Duration::from_secs(setting("CHAOS_SECONDS", || 6)), seed());
    report(&format!("chaos for {lasts:?}; again with CHAOS_SEED={seed}"));
    let mut chaos = Chaos::new(OneServer::unwell(false), seed);
    run(&mut chaos, lasts);
    nothing_is_wrong(&mut chaos, seed);
}

/// Mistakes: what of a script becomes what.
const DOES_NOT_COMPARE: (&str, &str) = ("if holder ~= token then", "if holder == nil   then");

const IS_NOT_RAISED: (&str, &str) = ("return fence", "return '1'  ");

/// A grant that claims to be from the far future was given, as far as the waiter can tell, when it was received.
const COUNTS_FROM_RECEIPT: (&str, &str) = (".. '|' .. now ..", "..'|9' .. now ..");

/// With this in a script replaced by that, the checker finds `what` it looks for.
fn is_found((pattern, replacement): (&'static str, &'static str), what: impl Fn(&Verdict) -> bool) {
    let (server, seed, start) = (RedisServer::start(), seed(), Instant::now());
    let rewriter = Rewriter::to(server.port(), pattern, replacement);
    let mut chaos = Chaos::new(OneServer::well(server, rewriter.url()), seed);
    chaos.run(3 * LIMIT, |chaos| {
        let is_whole = rewriter.rewritten() == 0 && chaos.history.len() > 50;
        is_whole || what(&chaos.history.check())
    });
    assert!(rewriter.rewritten() > 0, "no script contains {pattern:?} any more");
    let verdict = chaos.history.verdict();
    report(&format!(
        "{replacement:?}: {} overlaps, {} fences, {} stale writes in {} holds after {:.1?}",
        verdict.overlaps(),
        verdict.fences(),
        verdict.stale_writes(),
        verdict.holds,
        start.elapsed()
    ));
    assert!(what(verdict), "CHAOS_SEED={seed}: not found in time: {verdict:?}");
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
