//! A lock is for one tick: which one, what a taken tick says, and what a release says of it.

use std::time::UNIX_EPOCH;

use super::*;
use crate::base::tick::{Tick, TickMissed};
use crate::engine::protocol::{TickEffect, TickRequest};

const HOUR_MS: u64 = 3_600_000;

/// The server names it.
const NAMED: u64 = 1_795_687_200_000;

impl Scenario {
    fn asks_for_a_tick(&mut self, id: Id, wait: Option<Duration>, missed: TickMissed) -> Outcome {
        let (mut ask, outcome) = self.ask(wait, None);
        ask.kind = TickRequest::of(Tick { every_ms: HOUR_MS, at_ms: None, missed }, self.now);
        ask.fenced = false;
        self.table.acquire(self.now, id, ask, token_of(id));
        self.send();
        outcome
    }

    /// Returns what the next request says of its tick.
    fn next_tick(&self) -> Option<&TickRequest> {
        self.sent.first().and_then(|(_, _, request)| request.kind.tick())
    }
}

fn of_tick(verdict: Verdict) -> Reply {
    Reply::Acquire(Verdict::OfTick { at_ms: NAMED, verdict: Box::new(verdict) })
}

fn taken() -> Reply {
    of_tick(Verdict::TickTaken { last_ms: NAMED, by: Some(Owner::read("host:2/5/m::f")) })
}

fn busy(scenario: &Scenario) -> Reply {
    match scenario.busy(0) {
        Reply::Acquire(verdict) => of_tick(verdict),
        other => other,
    }
}

fn granted() -> Reply {
    of_tick(Verdict::Granted { fence: 1 })
}

#[test]
fn a_tick_that_is_taken_costs_one_request_and_names_who_has_it() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
    let first = scenario.sent.first().map(|(_, _, request)| (request.is_direct(), request.fenced));
    assert_eq!(first, Some((false, true)), "the server looks at the record, so it is asked by the script");
    scenario.answers(JOIN, taken());
    let error = failed(&mut outcome);
    assert!(
        matches!(&error, Some(LockError::TickTaken { tick, by, .. })
        if *tick == UNIX_EPOCH + Duration::from_millis(NAMED) && by.function() == Some("m::f")),
        "{error:?}"
    );
    let words = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(words.contains("2026-11-26 10:00:00 UTC was taken by host:2 in m::f"), "{words}");
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_waiter_keeps_the_tick_that_its_first_answer_has_told() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
    let first = scenario.next_tick().map(|tick| (tick.tick.at_ms, tick.asked));
    assert_eq!(first, Some((None, scenario.now)));
    let busy = busy(&scenario);
    scenario.answers(JOIN, busy);
    scenario.passes(40 * 60 * SECOND);
    scenario.tick();
    assert_eq!(scenario.next_tick().and_then(|tick| tick.tick.at_ms), Some(NAMED));
    scenario.answers(AGAIN, of_tick(Verdict::Claimed { fence: 2 }));
    assert_eq!(held(&mut outcome).and_then(|lease| lease.tick()), Some(NAMED));
}

#[test]
fn a_request_that_comes_late_is_for_the_tick_of_its_call() {
    let mut scenario = Scenario::connected();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let _outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
    let asked = scenario.now;
    scenario.passes(100 * SECOND);
    scenario.connects();
    scenario.send();
    assert_eq!(scenario.next_tick().map(|tick| tick.asked), Some(asked));
}

#[test]
fn a_waiter_that_is_granted_the_lock_asks_for_its_tick_before_its_body_begins() {
    for is_taken in [false, true] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Retry);
        let busy = busy(&scenario);
        scenario.answers(JOIN, busy);
        scenario.passes(SECOND / 10);
        scenario.grants(1, scenario.server_time());
        assert!(held(&mut outcome).is_none(), "no grant has looked at the record");
        if is_taken {
            scenario.answers(AGAIN, taken());
            assert!(matches!(failed(&mut outcome), Some(LockError::TickTaken { .. })));
            // The next waiter gets the lock.
            assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
            scenario.answers(Action::Release, Reply::Done);
            assert!(scenario.table.is_idle());
        } else {
            scenario.answers(AGAIN, of_tick(Verdict::Claimed { fence: 2 }));
            assert!(held(&mut outcome).is_some());
        }
    }
}

#[test]
fn a_tick_that_is_over_with_its_grant_is_released_as_any_lock() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
    assert_eq!(scenario.next_tick().map(|tick| tick.effect), Some(TickEffect::Record));
    scenario.answers(JOIN, granted());
    assert!(held(&mut outcome).is_some());
    scenario.drops_guard(1);
    assert_eq!(scenario.next_tick(), None);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn only_a_run_that_has_ended_well_ends_a_tick_that_is_retried() {
    for (has_failed, is_released, ends) in [(false, true, true), (true, true, false), (false, false, false)] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Retry);
        assert_eq!(scenario.next_tick().map(|tick| tick.effect), Some(TickEffect::Look));
        scenario.answers(JOIN, granted());
        let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
        if has_failed {
            lease.fails_tick();
        }
        if is_released {
            lease.ends_tick();
        }
        let _released = scenario.releases(1);
        let effect = scenario.next_tick().map(|tick| (tick.effect, tick.tick.at_ms));
        assert_eq!(effect, ends.then_some((TickEffect::Record, Some(NAMED))), "{has_failed} {is_released}");
        let direct = scenario.sent.first().map(|(_, _, request)| request.is_direct());
        assert_eq!(direct, Some(!ends), "the script writes the record");
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_lock_that_was_lost_ends_no_tick() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Retry);
    scenario.answers(JOIN, granted());
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    lease.ends_tick();
    lease.end(LostReason::Expired);
    scenario.drops_guard(1);
    assert_eq!(scenario.next_tick(), None);
}

#[test]
fn a_caller_that_leaves_before_its_body_begins_leaves_the_tick_to_others() {
    for (missed, expected) in [(TickMissed::Skip, Some(TickEffect::Undo)), (TickMissed::Retry, None)] {
        // Its request is unanswered.
        let mut scenario = Scenario::connected();
        let _outcome = scenario.asks_for_a_tick(1, None, missed);
        scenario.abandons(1);
        let release = scenario.sent.get(1).and_then(|(_, _, request)| request.kind.tick());
        assert_eq!(release.map(|tick| tick.effect), expected);
        // It has gone when the lock comes.
        let mut scenario = Scenario::connected();
        drop(scenario.asks_for_a_tick(1, None, missed));
        scenario.answers(JOIN, granted());
        assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
        assert_eq!(scenario.next_tick().map(|tick| tick.effect), expected);
    }
}

#[test]
fn a_grant_that_comes_too_late_gives_its_tick_back_before_it_asks_again() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
    scenario.passes(2 * TTL);
    scenario.answers(JOIN, granted());
    let told: Vec<_> = scenario.sent.iter().map(|(_, _, request)| request).collect();
    assert!(
        matches!(told[..], [release, again]
        if release.action == Action::Release
            && release.kind.tick().is_some_and(|tick| tick.effect == TickEffect::Undo)
            && again.kind.tick().is_some_and(|tick| tick.tick.at_ms == Some(NAMED))
            && again.token != release.token),
        "{told:?}"
    );
}

#[test]
fn a_nominal_time_that_the_server_refuses_is_a_mistake_of_the_caller() {
    for (is_ahead, says) in [(true, "a day ahead"), (false, "so old")] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.asks_for_a_tick(1, None, TickMissed::Skip);
        scenario.answers(JOIN, of_tick(Verdict::TickUnknown { is_ahead }));
        let error = failed(&mut outcome);
        assert!(
            matches!(&error, Some(LockError::InvalidRequest { reason, .. }) if reason.contains(says)),
            "{error:?}"
        );
        scenario.assert_quiet();
        assert!(scenario.table.is_idle());
    }
}
