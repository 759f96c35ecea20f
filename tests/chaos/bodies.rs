//! Bodies that run once per tick, or once for all, and the mistakes that the checker finds there.

use super::{is_clean_with, is_found_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::one_server::{OneServer, Plan};
use kit::chaos::run::Chaos;

#[test]
fn a_tick_has_one_run_at_most_while_processes_are_frozen_and_killed() {
    is_clean_with(|_| OneServer::of(Plan::TICKS), 6, |chaos| chaos.history.bodies.ticks() > 10);
}

#[test]
fn all_have_one_result_while_processes_are_frozen_and_killed() {
    is_clean_with(
        |_| OneServer::of(Plan::ONCE),
        6,
        |chaos| chaos.history.bodies.runs() > 10 && chaos.history.bodies.returned > 100,
    );
}

#[test]
fn a_flush_costs_another_run_and_a_lock_that_is_taken_away_costs_none() {
    let has_both = |chaos: &Chaos<OneServer>| {
        chaos.history.check_bodies().excused > 0 && chaos.log.count("locks taken away") > 0
    };
    let chaos = is_clean_with(|_| OneServer::of(Plan::FORGOTTEN_RECORDS), 6, has_both);
    assert!(has_both(&chaos), "it tests nothing");
}

fn has_run_twice(history: &History) -> bool {
    !history.check_bodies().violations.is_empty()
}

#[test]
fn a_tick_at_whose_record_nobody_looks_is_found() {
    let looks_at_none = ("is_taken = is_over and", "is_taken = false   and");
    is_found_with(Plan::TICKS, looks_at_none, has_run_twice);
}

#[test]
fn a_result_at_which_nobody_looks_is_found() {
    let looks_at_none = ("found.result or found.result_before", "found.resulT or found.resulT_before");
    is_found_with(Plan::ONCE, looks_at_none, has_run_twice);
}

#[test]
fn a_result_that_is_not_stored_is_found() {
    let is_not_stored = ("set_record(fingerprint, 'd'", "set_record(fingerprint, 's'");
    is_found_with(Plan::ONCE, is_not_stored, has_run_twice);
}
