//! Locks that several hold together, and the mistakes that the checker finds there.

use super::{is_clean_with, is_found_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::one_server::{OneServer, Plan};

#[test]
fn no_more_are_inside_than_each_of_them_allows_while_processes_are_frozen_and_killed() {
    let chaos = is_clean_with(
        |_| OneServer::of(Plan::SHARES),
        6,
        |chaos| chaos.history.count() > 200 && chaos.history.check().by_central_limit > 0,
    );
    assert!(chaos.history.limits_set > 0, "no operator has set a central limit");
}

fn has_too_many_inside(history: &History) -> bool {
    history.check().overlaps() > 0
}

#[test]
fn one_more_than_all_of_them_allow_is_found() {
    let one_more = ("inside + extra + weight <= most", "inside + extra          <= most");
    is_found_with(Plan::SHARES, one_more, has_too_many_inside);
}

#[test]
fn a_holder_that_leaves_and_takes_the_key_of_the_others_is_found() {
    let takes = ("if left <= 0 then", "if left >= 0 then");
    is_found_with(Plan::SHARES, takes, has_too_many_inside);
}

#[test]
fn a_lowered_number_that_is_not_read_is_found() {
    let own_number = ("return central or number", "return            number");
    is_found_with(Plan::SHARES, own_number, has_too_many_inside);
}

#[test]
fn a_cleared_number_that_stays_is_found() {
    let stays = ("redis.call('DEL', permits) else", "redis.call('GET', permits) else");
    is_found_with(Plan::SHARES, stays, has_too_many_inside);
}
