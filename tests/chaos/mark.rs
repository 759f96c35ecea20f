//! The mark of a lock that callers wait for, and mistakes with its grace, each found on one server: a
//! marked lock without its grace goes to the next caller before its lease is over.
//!
//! A lock that is marked too late, or whose mark is lost, is deleted by its holder while callers
//! wait: they ask only when their poll is due. These are found in `tests/sim/tests/mistakes.rs`.

use super::{is_clean, is_found_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::one_server::{OneServer, Plan};

fn has_two_inside(history: &History) -> bool {
    history.check().overlaps() > 0
}

#[test]
fn a_lock_with_a_few_waiters_is_handed_over_at_once() {
    is_clean(|_| OneServer::of(Plan::FEW_WAITERS), 4);
}

#[test]
fn at_most_one_is_inside_a_lock_of_a_short_ttl_and_foreign_values_stay_as_they_are() {
    is_clean(|_| OneServer::of(Plan::SHORT_TTLS), 4);
}

#[test]
fn a_mark_without_its_grace_is_found() {
    is_found_with(Plan::SHORT_TTLS, ("pttl + GRACE))", "pttl + 0    ))"), has_two_inside);
}

#[test]
fn a_grant_without_its_grace_is_found() {
    let early = ("lasts, mark = lasts + GRACE, '!'", "lasts, mark = lasts + 0    , '!'");
    is_found_with(Plan::SHORT_TTLS, early, has_two_inside);
}

#[test]
fn a_renewal_without_its_grace_is_found() {
    let early = (
        "lasts = math.max(lasts, left) end\nredis.call('PEXPIRE', lock, lasts + grace)",
        "lasts = math.max(lasts, left) end\nredis.call('PEXPIRE', lock, lasts + 0    )",
    );
    is_found_with(Plan::SHORT_TTLS, early, has_two_inside);
}

#[test]
fn a_mark_on_a_foreign_value_is_found() {
    let marked = ("if not holder or grace > 0 then return end", "if not value  or grace > 0 then return end");
    is_found_with(Plan::SHORT_TTLS, marked, |history| history.check().changed() > 0);
}
