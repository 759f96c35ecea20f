//! Locks that are taken away, forged pushes, and answers that are out of date, by hand.

use super::*;
use crate::engine::command::{Errand, Question};

#[test]
fn the_holder_of_ones_own_is_out_when_an_operator_takes_its_lock() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    let lease = held(&mut outcome);
    let mut waiter = queued(2, &mut script);
    let (caller, mut answer) = oneshot::channel();
    let question = Question::ForceRelease { name: "lock:k".into(), caller };
    script.table.errand(script.now, 9, Errand { key: None, question, by: script.now.after(SECOND) });
    script.send();
    assert!(lease.is_some_and(|lease| lease.ended().is_cancelled()));
    // In this order: its own release would leave nothing to tell of.
    let found = (Holder { name: Some("host:1".into()), free_in: Some(TTL) }, 1);
    script.answers(Action::ForceRelease, Reply::Found(Some(found.clone())));
    script.answers(Action::Release, Reply::NotMine);
    assert_eq!(answer.try_recv(), Ok(Ok(Some(found))));
    script.grants(2, script.server_time());
    assert!(held(&mut waiter).is_some());
}

#[test]
fn a_push_about_another_lock_is_dropped() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    let what = What::Granted { fence: 7, at: script.server_time() };
    let notice = Notice { token: Token::from_value("token 1"), name: "lock:other".into(), what };
    script.table.notice(script.now, &notice);
    script.send();
    script.is_quiet();
    assert!(held(&mut outcome).is_none());
}

/// The grant is pushed, and the answer to a whole batch comes when its last one does.
#[test]
fn what_a_waiter_saw_says_nothing_of_a_lock_that_was_granted_since() {
    let mut script = Script::with(Abilities { hands_off: true, watches: true, votes: false });
    let mut outcome = script.acquires(1, None);
    let foreign = Holder { name: None, free_in: None };
    let place = Some(Place { in_front: 0, at: script.server_time() });
    script.answers(JOIN, Reply::Busy { holder: foreign, place });
    script.grants(1, script.server_time());
    let lease = held(&mut outcome);
    for reply in [Reply::NotMine, Reply::Nobodys] {
        let request = Request {
            action: Action::WatchHolder,
            name: "lock:k".into(),
            token: Token::from_value("token 1"),
            ttl: TTL,
        };
        script.table.reply(script.now, 1, script.now, &request, reply);
    }
    assert!(lease.is_some_and(|lease| lease.remaining(script.now).is_some()));
}

#[test]
fn a_refused_release_is_told_at_once_and_sent_less_and_less_often_until_the_ttl_is_over() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    script.table.release(script.now, 1, Some(Response::to(response)));
    script.send();
    script.answers(Action::Release, Reply::Refused(Refusal::Never("NOPERM".into())));
    assert!(matches!(released.try_recv(), Ok(Err(LockError::Misconfigured { .. }))));
    let mut times = 0;
    while !script.table.is_idle() {
        script.passes(SECOND / 100);
        script.tick();
        if !script.sent.is_empty() {
            times += 1;
            script.answers(Action::Release, Reply::Refused(Refusal::Never("NOPERM".into())));
        }
    }
    assert!((15..=80).contains(&times), "{times} times in {TTL:?}");
    assert!(script.now.since(script.start) >= TTL);
}

#[test]
fn a_release_that_the_server_cannot_do_now_is_told_at_once_and_one_in_a_failover_is_waited_for() {
    for (refusal, is_told) in [
        ("MISCONF cannot save", true),
        ("LOADING the data", true),
        ("NOREPLICAS", true),
        ("CLUSTERDOWN", false),
        ("TRYAGAIN", false),
    ] {
        let mut script = Script::connected();
        let mut outcome = script.acquires(1, None);
        script.answers(JOIN, Reply::Held { fence: 1 });
        assert!(held(&mut outcome).is_some());
        let (response, mut released) = oneshot::channel();
        script.table.release(script.now, 1, Some(Response::to(response)));
        script.send();
        script.answers(Action::Release, Reply::Refused(Refusal::Later(refusal.into())));
        let told = released.try_recv();
        assert_eq!(matches!(&told, Ok(Err(LockError::Unavailable { .. }))), is_told, "{refusal}: {told:?}");
        script.passes(SECOND / 10);
        script.tick();
        script.answers(Action::Release, Reply::Done);
        assert!(script.table.is_idle(), "{refusal}");
        assert_eq!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))), !is_told, "{refusal}");
    }
}

/// Which of a Cluster's nodes answered is not known here, nor what the others can do.
#[test]
fn how_long_a_lock_lasts_is_what_its_answer_says() {
    for (hands_off, reply, lasts) in
        [(false, Reply::Claimed { fence: 1 }, CLAIM), (true, Reply::Held { fence: 1 }, TTL)]
    {
        let mut script = Script::with(Abilities { hands_off, watches: false, votes: false });
        let mut outcome = queued(1, &mut script);
        script.passes(2 * SECOND);
        script.tick();
        script.answers(AGAIN, reply);
        let left = held(&mut outcome).and_then(|lease| lease.remaining(script.now));
        assert!(left.is_some_and(|left| left <= lasts && left > lasts / 2), "{left:?}");
    }
}

#[test]
fn waiters_that_wait_for_each_other_ask_when_all_nodes_hand_over() {
    let mut script = Script::with(Abilities { hands_off: false, watches: false, votes: false });
    let _first = script.acquires(1, None);
    let _second = script.acquires(2, None);
    script.answers(JOIN, Reply::Busy { holder: Holder::default(), place: None });
    script.is_quiet();
    script.table.can(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    assert!(matches!(script.sent.as_slice(), [(2, _, Request { action: JOIN, .. })]));
}
