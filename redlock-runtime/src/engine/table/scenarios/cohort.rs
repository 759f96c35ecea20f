//! Locks that are passed on within the process, by hand.

use super::*;

const RESERVE: Action = Action::Reserve { count: 3 };

/// A holder with so many behind it, who have asked nobody.
fn a_line(of: Id) -> (Scenario, Vec<Outcome>) {
    let mut scenario = Scenario::connected();
    scenario.table.settings.cohort = 3;
    let mut outcomes: Vec<_> = (0..=of).map(|id| scenario.acquires(id, None)).collect();
    scenario.answers(JOIN, Reply::Granted { fence: 7 });
    assert!(held(&mut outcomes.remove(0)).is_some());
    (scenario, outcomes)
}

fn releases(scenario: &mut Scenario, id: Id) {
    scenario.table.release(scenario.now, id, None);
    scenario.send();
}

#[test]
fn a_lock_is_passed_on_as_often_as_there_are_fencing_tokens() {
    let (mut scenario, mut outcomes) = a_line(5);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    for (id, fence) in [(0, 40), (1, 41), (2, 42)] {
        releases(&mut scenario, id);
        let lease = held(&mut outcomes.remove(0)).map(|lease| lease.fence());
        assert_eq!(lease, Some(fence));
        scenario.is_quiet();
    }
    releases(&mut scenario, 3);
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Granted { fence: 43 });
    assert_eq!(held(&mut outcomes.remove(0)).map(|lease| lease.fence()), Some(43));
}

#[test]
fn a_body_that_is_quicker_than_the_answer_waits_for_it() {
    let (mut scenario, mut outcomes) = a_line(2);
    releases(&mut scenario, 0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(40));
    scenario.is_quiet();
}

#[test]
fn without_fencing_tokens_it_is_given_back() {
    let (mut scenario, mut outcomes) = a_line(2);
    releases(&mut scenario, 0);
    scenario.answers(RESERVE, Reply::NotHeld);
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.answers(JOIN, Reply::Granted { fence: 9 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn an_answer_that_never_comes_is_not_waited_for() {
    let (mut scenario, mut outcomes) = a_line(2);
    releases(&mut scenario, 0);
    assert_eq!(scenario.next().map(|(_, _, request)| request.action), Some(RESERVE));
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Granted { fence: 9 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn what_the_server_says_of_the_row_is_about_whoever_has_the_lock() {
    let (mut scenario, mut outcomes) = a_line(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.passes(TTL / 3);
    scenario.tick();
    releases(&mut scenario, 0);
    let second = held(&mut outcomes[0]);
    assert!(second.as_ref().is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(second.is_some_and(|lease| lease.remaining(scenario.now).is_none()), "it is lost");
}

#[test]
fn without_a_connection_nobody_follows() {
    let (mut scenario, mut outcomes) = a_line(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.table.disconnected("gone".into());
    releases(&mut scenario, 0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario
        .table
        .connected(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Granted { fence: 43 });
    assert!(held(&mut outcomes[0]).is_some());
}

#[test]
fn a_lease_that_is_nearly_over_is_not_passed_on() {
    let (mut scenario, mut outcomes) = a_line(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.passes(TTL * 2 / 3);
    releases(&mut scenario, 0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario.answers(Action::Release, Reply::Done);
}

#[test]
fn whoever_has_gone_is_not_in_the_way() {
    let (mut scenario, _) = a_line(0);
    drop(scenario.acquires_for(1, None, Some(SECOND)));
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    releases(&mut scenario, 0);
    // Not kept for its `min_hold`.
    scenario.answers(Action::Release, Reply::Done);
    let mut next = scenario.acquires(2, None);
    scenario.answers(JOIN, Reply::Granted { fence: 43 });
    assert!(held(&mut next).is_some());
}
