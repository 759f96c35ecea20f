//! What has not been sent yet: taken back when its caller has gone, and no reason to lose a lock.

use super::*;

impl Script {
    /// As `acquires`, but nothing is sent yet.
    fn is_asked_for(&mut self, id: Id) -> Outcome {
        let (ask, outcome) = self.ask(None, None);
        self.table.acquire(self.now, id, ask, Token::from_value(&format!("token {id}")));
        outcome
    }

    fn is_abandoned(&mut self, id: Id) {
        self.table.abandon(self.now, id);
        self.send();
    }

    fn actions(&self) -> Vec<(Id, Action)> {
        self.sent.iter().map(|(id, _, request)| (*id, request.action)).collect()
    }
}

#[test]
fn what_was_not_sent_is_taken_back_when_its_caller_goes() {
    let mut script = Script::connected();
    let _outcomes = [script.is_asked_for(1), script.is_asked_for(2), script.is_asked_for(3)];
    script.is_abandoned(2);
    assert_eq!(script.actions(), [(1, JOIN), (3, JOIN)]);
    assert_eq!(script.table.busy_with(), 2);
    // What was sent is released.
    script.is_abandoned(3);
    assert_eq!(script.actions(), [(1, JOIN), (3, JOIN), (3, Action::Release)]);
}

#[test]
fn what_was_not_sent_is_taken_back_when_its_time_is_up() {
    let mut script = Script::connected();
    script.table.disconnected("cut".into());
    let _outcome = script.acquires(1, Some(SECOND));
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.passes(SECOND);
    script.tick();
    script.is_quiet();
    assert!(script.table.is_idle());
}

#[test]
fn a_waiter_that_had_asked_before_gives_its_place_back() {
    let mut script = Script::connected();
    let _outcome = queued(1, &mut script);
    script.passes(10 * SECOND);
    // It asks again, and that is not sent.
    script.table.tick(script.now);
    script.is_abandoned(1);
    assert_eq!(script.actions(), [(1, Action::Release)]);
}

#[test]
fn an_answer_that_was_lost_is_given_back_too() {
    let mut script = Script::connected();
    let _outcome = script.acquires(1, None);
    script.sent.clear();
    script.table.disconnected("cut".into());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.is_abandoned(1);
    assert_eq!(script.actions(), [(1, Action::Release)]);
}

#[test]
fn a_call_that_ended_before_it_was_looked_at_is_not_begun() {
    let mut script = Script::connected();
    let (ask, outcome) = script.ask(None, None);
    drop(outcome);
    script.table.acquire(script.now, 1, ask, Token::from_value("token 1"));
    script.send();
    script.is_quiet();
    assert!(script.table.is_idle());
}

#[test]
fn a_grant_takes_a_question_back_that_would_shorten_it() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    script.passes(10 * SECOND);
    script.table.tick(script.now);
    let at = script.server_time();
    script.grants(1, at);
    assert!(held(&mut outcome).is_some());
    script.is_quiet();
}

#[test]
fn a_renewal_goes_ahead_of_what_others_ask_for_and_give_back() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let _outcomes: Vec<_> = (2..100).map(|id| script.is_asked_for(id)).collect();
    script.passes(TTL / 3);
    script.tick();
    assert!(matches!(script.actions().first(), Some((1, Action::Renew { .. }))));
}

#[test]
fn who_is_refused_again_and_again_asks_less_and_less() {
    let mut script = Script::connected();
    let _outcome = script.acquires(1, None);
    let mut asked = 0;
    let until = script.now.after(20 * SECOND);
    while script.now < until {
        if script.next().is_some() {
            asked += 1;
            let name = Arc::from("lock:k");
            let request = Request { action: JOIN, name, token: Token::from_value("token 1"), ttl: TTL };
            let refusal = Reply::Refused(Refusal::Later("NOREPLICAS".into()));
            script.table.reply(script.now, 1, script.now, &request, refusal);
        }
        script.passes(Duration::from_millis(1));
        script.tick();
    }
    // At least every second and a half, and not every 50 ms.
    assert!((14..50).contains(&asked), "{asked}");
}

#[test]
fn of_the_waiters_that_are_refused_the_first_asks_for_all() {
    let mut script = Script::connected();
    let outcomes: Vec<_> = (1..=3).map(|id| script.acquires(id, None)).collect();
    let refused = || Reply::Refused(Refusal::Later("OOM".into()));
    for _ in &outcomes {
        script.answers(JOIN, refused());
    }
    for _ in 0..5 {
        script.passes(2 * SECOND);
        script.tick();
        assert_eq!(script.actions(), [(1, JOIN)]);
        script.answers(JOIN, refused());
    }
    // It goes: the next one asks in its place.
    script.is_abandoned(1);
    script.send();
    script.answers(Action::Release, Reply::Done);
    script.passes(2 * SECOND);
    script.tick();
    assert_eq!(script.actions(), [(2, JOIN)]);
    let busy = script.busy(0);
    script.answers(JOIN, busy);
    script.send();
    assert_eq!(script.actions(), [(3, JOIN)], "it is refused no longer");
}

#[test]
fn who_waits_behind_a_refused_waiter_asks_when_that_has_the_lock() {
    let mut script = Script::connected();
    let outcomes: Vec<_> = (1..=3).map(|id| script.acquires(id, None)).collect();
    for _ in &outcomes {
        script.answers(JOIN, Reply::Refused(Refusal::Later("OOM".into())));
    }
    script.passes(2 * SECOND);
    script.tick();
    script.answers(JOIN, Reply::Held { fence: 1 });
    script.send();
    assert_eq!(script.actions(), [(2, JOIN), (3, JOIN)]);
}
