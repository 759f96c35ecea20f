//! Mistakes in the scripts of the simulated servers, each found by a schedule of the fleet. The time
//! is virtual and the seeds are the same in each run, so a mistake is found by the same schedule
//! however busy the machine is: those here show in how long a lock is free, held or waited for, or
//! in very few calls. `tests/chaos` finds others on real servers.

use redlocked_sim::mutants;
use redlocked_sim::plan::Plan;
use redlocked_sim::run::run;

/// Tries schedules until one violates a property, or so many.
const MOST: u64 = 500;

#[track_caller]
fn are_found(mistakes: &[&str], plan: impl Fn(u64) -> Option<Plan>) {
    for name in mistakes {
        let Some(mutant) = mutants::all().find(|mutant| mutant.name == *name && mutant.is_of_scripts())
        else {
            unreachable!("no mistake in scripts is called {name}")
        };
        let is_seen = |seed| {
            let plan = plan(seed).map(|plan| Plan { mutant: Some(mutant), ..plan });
            plan.is_some_and(|plan| run(&plan, false).violation.is_some())
        };
        // Without the first, which is a backlog of thousands of calls.
        assert!((1..=MOST).any(is_seen), "{name}: {}", mutant.wrong);
    }
}

#[track_caller]
fn are_found_anywhere(mistakes: &[&str]) {
    are_found(mistakes, |seed| Some(Plan::of(seed)));
}

#[test]
fn a_lock_that_stays_or_goes_with_its_release_is_found() {
    are_found_anywhere(&["release-deletes-nothing", "hand-over-deletes", "granted-waiter-is-not-told"]);
}

#[test]
fn a_lock_that_ends_before_the_lease_of_its_next_holder_is_found() {
    are_found_anywhere(&["granted-lock-ends-early"]);
}

#[test]
fn a_lock_that_is_not_marked_while_callers_wait_is_found() {
    are_found_anywhere(&[
        "join-does-not-mark",
        "grant-forgets-the-mark",
        "renewal-removes-the-mark",
        "marked-lock-is-deleted",
    ]);
}

#[test]
fn nodes_of_a_quorum_that_keep_or_refuse_what_is_free_are_found() {
    are_found_anywhere(&["node-keeps-what-is-released", "node-refuses-all-votes"]);
}

#[test]
fn a_full_server_that_keeps_what_is_given_back_is_found() {
    are_found(&["full-server-keeps-a-lock"], |seed| Plan::about("full-server", seed));
}
