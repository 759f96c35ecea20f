//! Faults that clients cause each other: many waiters, bursts and dropped calls; operators that
//! flush, delete and force-release; rights and connections that come and go.
//!
//! A mistake in a script is made on the wire, below. These that use has found are put back into a
//! copy of the repository, one after the other, by `cargo run --release -p redlocked-sim --example
//! mutants -- --chaos`, and found within a minute:
//!
//! | mistake | found by |
//! | --- | --- |
//! | a reply that nothing has asked for answers the next command | `a_reply_that_nothing_has_asked_for_…`, also on a quorum and in a Cluster |
//! | each stuck waiter of a process costs a claim | `a_stuck_process_costs_others_a_claim` |
//! | a full server keeps a lock whose next waiter is fenced | `a_full_server_takes_locks_back` |
//! | a deleted lock wakes nobody behind dead waiters | `waiters_behind_dead_ones_…` |
//! | calls that were only refused owe releases | `a_manager_whose_calls_were_refused_…`, also in a Cluster |
//! | a command from the loop's own runtime is not looked after | `a_caller_that_blocks_its_runtime_…` |
//!
//! Others were put back by hand, in a few lines, and `CHAOS_STOP=1 CHAOS_SECONDS=60` found them:
//!
//! | mistake | put back | found by |
//! | --- | --- | --- |
//! | a shorter ttl counts from its answer | `lock_table/lock/held.rs`: `lease.shorten` left out | `…_while_it_has_no_answers` |
//! | a release overtakes its acquire | `redis/requests/connection.rs`: a batch without `unconstrained` | `calls_that_are_dropped_…` |
//! | one node's abilities are taken for all | `lock_table/lock/replies.rs`: `Claimed` counts for the ttl without hand-off; `topology/cluster/mod.rs`: abilities told once | `…_while_the_rights_differ_in_a_cluster` |
//! | a late request shortens a lock | `acquire.lua`: `take` without its `at_least` | `…_however_late_a_request_arrives` |
//! | a queue that vanishes is not noticed | `acquire.lua`: `notify_place_lost` left out; `lock_table/lock/events.rs`: `ask_early` after a flush | `a_lock_that_is_waited_for_…` |
//! | dead waiters in front hold others up | `most.lua`: 64 at a time; `acquire.lua`, `release.lua`: and no more calls | `dead_waiters_hold_up_no_other` |
//! | a grant before its place is ignored | `lock_table/lock/replies.rs`: `deferred_push` dropped | `bursts_are_served_at_once` |

use super::{is_clean, is_clean_with};
use kit::chaos::environment::cluster::ClusterNodes;
use kit::chaos::environment::one_server::{OneServer, Plan};

#[test]
fn a_lock_that_is_waited_for_is_handed_over_whatever_operators_do() {
    is_clean(|_| OneServer::of(Plan::CROWDS), 6);
}

#[test]
fn dead_waiters_hold_up_no_other() {
    is_clean(|_| OneServer::of(Plan::DEAD_WAITERS), 5);
}

#[test]
fn a_stuck_process_costs_others_a_claim() {
    is_clean(|_| OneServer::of(Plan::STUCK), 25);
}

#[test]
fn a_full_server_takes_locks_back() {
    is_clean(|_| OneServer::of(Plan::FULL), 10);
}

#[test]
fn a_caller_that_blocks_its_runtime_has_given_its_lock_back() {
    is_clean(|_| OneServer::of(Plan::BLOCKED_RUNTIMES), 12);
}

#[test]
fn dead_waiters_hold_up_no_other_when_no_release_sees_them() {
    is_clean(|_| OneServer::of(Plan::DEAD_WAITERS_BEHIND_OTHERS), 15);
}

#[test]
fn waiters_behind_dead_ones_have_a_deleted_lock_at_once() {
    is_clean(|_| OneServer::of(Plan::DEAD_IN_FRONT), 12);
}

#[test]
fn a_reply_that_nothing_has_asked_for_grants_nothing() {
    let chaos = is_clean(|_| OneServer::of(Plan::STRAY_REPLIES), 10);
    assert!(chaos.log.count("stray replies") > 0);
}

#[test]
fn a_manager_whose_calls_were_refused_owes_nothing() {
    is_clean_with(|_| OneServer::of(Plan::REFUSED), 10, |chaos| chaos.history.calls.ends > 0);
}

#[test]
fn bursts_are_served_at_once() {
    is_clean(|_| OneServer::of(Plan::BURSTS), 4);
}

#[test]
fn calls_that_are_dropped_at_any_moment_leave_nothing() {
    is_clean_with(|_| OneServer::of(Plan::DROPPED_CALLS), 4, |_| true);
}

#[test]
fn a_lock_is_held_as_long_as_its_holder_thinks_however_late_a_request_arrives() {
    is_clean(|_| OneServer::of(Plan::LATE_REQUESTS), 5);
}

#[test]
fn a_lock_is_held_as_long_as_its_holder_thinks_while_it_has_no_answers() {
    is_clean(|_| OneServer::of(Plan::NO_REPLIES), 5);
}

#[test]
fn a_lock_is_held_as_long_as_its_holder_thinks_while_the_rights_differ_in_a_cluster() {
    is_clean(ClusterNodes::denied, 6);
}

#[test]
fn a_holder_is_told_when_its_lock_is_taken_away() {
    is_clean(|_| OneServer::of(Plan::OPERATORS), 5);
}
