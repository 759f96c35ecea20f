//! Fleets with something that is stuck or full: `plan/stuck.rs`. With the defects of that kind,
//! which `mutants/stuck.rs` puts back, one of these is red.

use redlocked_sim::plan::{BodyEnds, Fault, Hold, Plan, What};
use redlocked_sim::run::run;

#[track_caller]
fn holds(matter: &str) {
    for seed in 0..30 {
        let Some(plan) = Plan::about(matter, seed) else { unreachable!("no plan is about {matter}") };
        assert_eq!(run(&plan, false).violation, None, "`simulate --about {matter} --seed {seed}`");
    }
}

#[test]
fn a_process_that_is_stuck_costs_others_a_claim() {
    holds("stopped-process");
}

#[test]
fn waiters_that_are_dead_keep_nobody_from_a_lock_that_was_deleted() {
    holds("dead-in-front");
}

#[test]
fn a_full_server_takes_back_what_is_given_back() {
    holds("full-server");
}

#[test]
fn calls_that_were_refused_owe_nothing_to_a_server_that_refuses() {
    holds("refused-until-the-end");
}

#[test]
fn a_caller_that_blocks_its_runtime_has_given_its_lock_back() {
    holds("blocking-callers");
}

#[test]
fn a_process_that_ends_behind_a_call_leaves_no_lock() {
    holds("exits");
}

#[test]
fn a_lock_that_travels_has_one_holder_at_a_time_and_is_redeemed_once() {
    holds("tickets");
}

#[test]
fn a_tick_is_run_once_whoever_is_killed_stopped_or_cut_off() {
    holds("ticks");
}

#[test]
fn one_body_leads_at_a_time_and_the_next_one_follows_at_once() {
    holds("elections");
}

/// By virtual time, so to the millisecond: a test on a real machine must allow for its load.
#[test]
fn a_killed_leader_is_followed_within_its_ttl_and_a_tenth_of_a_second() {
    const TTL: u32 = 1_000;
    for seed in 0..50_u32 {
        let killed = 2_000 + 7 * seed;
        let mut plan = Plan::quiet(seed.into(), 3);
        plan.length = 6_000;
        for process in 0..3_usize {
            let candidate = Hold {
                ttl: TTL.into(),
                hold: 20_000,
                leaves_after: Some(5_000),
                leads: Some(BodyEnds::Returns),
                ..Hold::of(0)
            };
            plan = plan.with_call(if process == 0 { 0 } else { 100 }, process, What::Hold(candidate));
        }
        plan.faults.push((killed.into(), Fault::Kill(0)));
        let report = run(&plan, true);
        assert_eq!(report.violation, None, "seed {seed}");
        let began: Vec<f64> = report
            .trace
            .iter()
            .filter(|line| line.contains(" leads, term "))
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
            .collect();
        let next = began.iter().find(|at| **at > f64::from(killed)).copied();
        let after = next.map(|at| at - f64::from(killed));
        assert!(
            began.first().is_some_and(|at| *at < 100.0)
                && after.is_some_and(|after| after <= f64::from(TTL + 100)),
            "seed {seed}: {began:?} and killed at {killed}"
        );
    }
}
