//! Locks that travel from one process to another, and the mistakes that the checker finds there.

use super::{is_clean_with, is_found_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::one_server::{OneServer, Plan};

#[test]
fn a_lock_that_travels_has_one_holder_while_processes_are_frozen_and_killed() {
    is_clean_with(|_| OneServer::of(Plan::TRAVELS), 6, |chaos| chaos.history.tickets.redeemed > 20);
}

fn has_two_inside(history: &History) -> bool {
    history.check().overlaps() > 0
}

#[test]
fn a_ticket_that_takes_the_lock_from_anybody_is_found() {
    let taken = ("holder ~= token and holder ~= ARGV[8] then", "holder ~= token and holder == nil     then");
    is_found_with(Plan::TRAVELS, taken, has_two_inside);
}

#[test]
fn a_redemption_without_a_larger_fencing_token_is_found() {
    let same = (
        "kind == 'unfenced' and 0 or next_fence(clock, floor), tonumber",
        "redis.call('GET', clock) + 0                        , tonumber",
    );
    is_found_with(Plan::TRAVELS, same, |history| history.check().fences() > 0);
}
