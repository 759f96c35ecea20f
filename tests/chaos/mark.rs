//! Mistakes with the mark of a lock that callers wait for, each found on one server.
//!
//! A lock that is marked too late, or whose mark is lost, is deleted by its holder while callers
//! wait: they ask only when their poll is due. A marked lock without its grace goes to the next
//! caller before its lease is over. These are found only by the model in `tests/models`, because a
//! poll or a second push mends them before the checker looks: an `again` that does not mark,
//! waiters that are not told, one that keeps its place, a comparison with the marked value, a lock
//! without any grace, and a plain `SET NX` by a waiter.

use super::{is_clean, is_found_with};
use kit::chaos::checker::history::History;
use kit::chaos::environment::one_server::{OneServer, Plan};

fn is_idle(history: &History) -> bool {
    history.check().idle() > 0
}

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
fn a_waiter_that_does_not_mark_the_lock_is_found() {
    let unmarked = ("leave_unanswered()\nset_mark(value", "leave_unanswered()\ntype(    value");
    is_found_with(Plan::FEW_WAITERS, unmarked, is_idle);
}

#[test]
fn a_grant_that_forgets_the_mark_is_found() {
    let unmarked = ("if #waiters > 0 or grace", "if #waiters < 0 or grace");
    is_found_with(Plan::FEW_WAITERS, unmarked, is_idle);
}

#[test]
fn a_renewal_that_removes_the_mark_is_found() {
    let unmarked =
        ("redis.call('PEXPIRE', KEYS[1], lasts + grace)", "redis.call('SET',KEYS[1],ARGV[1],'PX', lasts)");
    is_found_with(Plan::FEW_WAITERS, unmarked, is_idle);
}

#[test]
fn a_release_that_deletes_a_marked_lock_is_found() {
    let deleted = (
        "if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end",
        "if without_time(value, ARGV[1]) == ARGV[1] .. '!' then value = ARGV[1] end                                                ",
    );
    is_found_with(Plan::FEW_WAITERS, deleted, is_idle);
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
    let early =
        ("redis.call('PEXPIRE', KEYS[1], lasts + grace)", "redis.call('PEXPIRE', KEYS[1], lasts + 0    )");
    is_found_with(Plan::SHORT_TTLS, early, has_two_inside);
}

#[test]
fn a_mark_on_a_foreign_value_is_found() {
    let marked = ("if not holder or grace > 0 then return end", "if not value  or grace > 0 then return end");
    is_found_with(Plan::SHORT_TTLS, marked, |history| history.check().changed() > 0);
}
