//! Locks that are passed on within the process, by hand.

use super::*;

const RESERVE: Action = Action::Reserve { count: 3 };

/// A holder with so many behind it, who have asked nobody.
fn a_line(of: Id) -> (Script, Vec<Outcome>) {
    let mut script = Script::connected();
    script.table.cohort = 3;
    let mut outcomes: Vec<_> = (0..=of).map(|id| script.acquires(id, None)).collect();
    script.answers(JOIN, Reply::Held { fence: 7 });
    assert!(held(&mut outcomes.remove(0)).is_some());
    (script, outcomes)
}

fn releases(script: &mut Script, id: Id) {
    script.table.release(script.now, id, None);
    script.send();
}

#[test]
fn a_lock_is_passed_on_as_often_as_there_are_fencing_tokens() {
    let (mut script, mut outcomes) = a_line(5);
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    for (id, fence) in [(0, 40), (1, 41), (2, 42)] {
        releases(&mut script, id);
        let lease = held(&mut outcomes.remove(0)).map(|lease| lease.fence());
        assert_eq!(lease, Some(fence));
        script.is_quiet();
    }
    releases(&mut script, 3);
    script.answers(Action::Release, Reply::Done);
    script.answers(JOIN, Reply::Held { fence: 43 });
    assert_eq!(held(&mut outcomes.remove(0)).map(|lease| lease.fence()), Some(43));
}

#[test]
fn a_body_that_is_quicker_than_the_answer_waits_for_it() {
    let (mut script, mut outcomes) = a_line(2);
    releases(&mut script, 0);
    assert!(held(&mut outcomes[0]).is_none());
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(40));
    script.is_quiet();
}

#[test]
fn without_fencing_tokens_it_is_given_back() {
    let (mut script, mut outcomes) = a_line(2);
    releases(&mut script, 0);
    script.answers(RESERVE, Reply::NotMine);
    script.answers(Action::Release, Reply::NotMine);
    script.answers(JOIN, Reply::Held { fence: 9 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn an_answer_that_never_comes_is_not_waited_for() {
    let (mut script, mut outcomes) = a_line(2);
    releases(&mut script, 0);
    assert_eq!(script.next().map(|(_, _, request)| request.action), Some(RESERVE));
    script.passes(SECOND / 5);
    script.tick();
    script.answers(Action::Release, Reply::Done);
    script.answers(JOIN, Reply::Held { fence: 9 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn what_the_server_says_of_the_row_is_about_whoever_has_the_lock() {
    let (mut script, mut outcomes) = a_line(2);
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    script.passes(TTL / 3);
    script.tick();
    releases(&mut script, 0);
    let second = held(&mut outcomes[0]);
    assert!(second.as_ref().is_some_and(|lease| lease.remaining(script.now).is_some()));
    script.answers(RENEW, Reply::NotMine);
    assert!(second.is_some_and(|lease| lease.remaining(script.now).is_none()), "it is lost");
}

#[test]
fn without_a_connection_nobody_follows() {
    let (mut script, mut outcomes) = a_line(2);
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    script.table.disconnected("gone".into());
    releases(&mut script, 0);
    assert!(held(&mut outcomes[0]).is_none());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    script.answers(Action::Release, Reply::Done);
    script.answers(JOIN, Reply::Held { fence: 43 });
    assert!(held(&mut outcomes[0]).is_some());
}

#[test]
fn a_lease_that_is_nearly_over_is_not_passed_on() {
    let (mut script, mut outcomes) = a_line(2);
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    script.passes(TTL * 2 / 3);
    releases(&mut script, 0);
    assert!(held(&mut outcomes[0]).is_none());
    script.answers(Action::Release, Reply::Done);
}

#[test]
fn whoever_has_gone_is_not_in_the_way() {
    let (mut script, _) = a_line(0);
    drop(script.acquires_for(1, None, Some(SECOND)));
    script.answers(RESERVE, Reply::Reserved { last: 42 });
    releases(&mut script, 0);
    // Not kept for its `min_hold`.
    script.answers(Action::Release, Reply::Done);
    let mut next = script.acquires(2, None);
    script.answers(JOIN, Reply::Held { fence: 43 });
    assert!(held(&mut next).is_some());
}
