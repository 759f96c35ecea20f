//! Unsent requests: taken back when their caller has gone, and never a reason to lose a lock.

use super::*;

impl Scenario {
    /// As `acquires`, but nothing is sent.
    fn ask_for(&mut self, id: Id) -> Outcome {
        let (ask, outcome) = self.ask(None, None);
        self.table.acquire(self.now, id, ask, token_of(id));
        outcome
    }
}

#[test]
fn an_unsent_request_is_taken_back_when_its_caller_goes() {
    let mut scenario = Scenario::connected();
    let _outcomes = [scenario.ask_for(1), scenario.ask_for(2), scenario.ask_for(3)];
    scenario.abandons(2);
    assert_eq!(scenario.unanswered(), [(1, JOIN), (3, JOIN)]);
    assert_eq!(scenario.table.cx.attempts.count(), 2);
    // A request that was sent needs a release.
    scenario.abandons(3);
    assert_eq!(scenario.unanswered(), [(1, JOIN), (3, JOIN), (3, Action::Release)]);
}

#[test]
fn an_unsent_request_is_taken_back_when_its_time_is_up() {
    let mut scenario = Scenario::connected();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let _outcome = scenario.acquires(1, Some(SECOND));
    scenario.connects();
    scenario.passes(SECOND);
    scenario.tick();
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_waiter_that_had_asked_before_leaves_its_place() {
    let mut scenario = Scenario::connected();
    let _outcome = queued(1, &mut scenario);
    scenario.passes(10 * SECOND);
    // It asks again, and that request is not sent.
    scenario.table.tick(scenario.now);
    scenario.abandons(1);
    assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
}

#[test]
fn a_request_whose_reply_was_lost_is_released_too() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.abandons(1);
    assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
}

#[test]
fn a_call_that_ended_before_the_engine_read_it_sends_nothing() {
    let mut scenario = Scenario::connected();
    let (ask, outcome) = scenario.ask(None, None);
    drop(outcome);
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_grant_takes_back_an_unsent_request_that_would_shorten_the_lease() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(10 * SECOND);
    scenario.table.tick(scenario.now);
    let at = scenario.server_time();
    scenario.grants(1, at);
    assert!(held(&mut outcome).is_some());
    scenario.assert_quiet();
}

#[test]
fn a_renewal_is_sent_before_acquires_and_releases() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let _outcomes: Vec<_> = (2..100).map(|id| scenario.ask_for(id)).collect();
    scenario.passes(TTL / 3);
    scenario.tick();
    assert!(matches!(scenario.unanswered().first(), Some((1, Action::Renew { .. }))));
}

#[test]
fn a_waiter_that_is_refused_again_and_again_asks_less_and_less_often() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    let mut asked = 0;
    let until = scenario.now.after(20 * SECOND);
    while scenario.now < until {
        if scenario.next().is_some() {
            asked += 1;
            let name = Arc::from("lock:k");
            let request = Request::new(JOIN, name, Token::from_value("token 1"), TTL);
            let refusal = Reply::Refused(Refusal::Transient("NOREPLICAS".into()));
            scenario.table.reply(scenario.now, 1, scenario.now, &request, refusal);
        }
        scenario.passes(Duration::from_millis(1));
        scenario.tick();
    }
    // At least every second and a half, and not every 50 ms.
    assert!((14..50).contains(&asked), "{asked}");
}

#[test]
fn of_refused_waiters_only_the_first_asks_again() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=3).map(|id| scenario.acquires(id, None)).collect();
    let refused = || Reply::Refused(Refusal::Transient("OOM".into()));
    for _ in &outcomes {
        scenario.answers(JOIN, refused());
    }
    for _ in 0..5 {
        scenario.passes(2 * SECOND);
        scenario.tick();
        assert_eq!(scenario.unanswered(), [(1, JOIN_AGAIN)]);
        scenario.answers(JOIN_AGAIN, refused());
    }
    // It leaves: the next one asks.
    scenario.abandons(1);
    scenario.assert_quiet();
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(2, JOIN_AGAIN)]);
    let busy = scenario.busy(0);
    scenario.answers(JOIN_AGAIN, busy);
    scenario.send();
    assert_eq!(scenario.unanswered(), [(3, JOIN_AGAIN)], "it is refused no longer");
}

#[test]
fn waiters_behind_a_refused_one_ask_when_it_has_the_lock() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=3).map(|id| scenario.acquires(id, None)).collect();
    for _ in &outcomes {
        scenario.answers(JOIN, Reply::Refused(Refusal::Transient("OOM".into())));
    }
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(JOIN_AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    scenario.send();
    assert_eq!(scenario.unanswered(), [(2, JOIN_AGAIN), (3, JOIN_AGAIN)]);
}
