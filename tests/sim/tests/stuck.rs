//! Fleets with something that is stuck or full: `plan/stuck.rs`. With the defects of that kind,
//! which `mutants/stuck.rs` puts back, one of these is red.

use redlocked_sim::plan::Plan;
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
fn a_lock_that_travels_has_one_holder_at_a_time_and_is_redeemed_once() {
    holds("tickets");
}

#[test]
fn one_body_leads_at_a_time_and_the_next_one_follows_at_once() {
    holds("elections");
}
