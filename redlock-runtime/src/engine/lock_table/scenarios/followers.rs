//! Followers: the waiters that a grant names, to which the process passes the lock on itself.

use super::*;

/// So long after its grant, a lock goes back to the server.
const LONGEST: Duration = Duration::from_millis(10);

/// Three waiters with places, of which the first is granted the lock, followed by these.
fn followed_by(ids: &[Id]) -> (Scenario, Vec<Outcome>) {
    let mut scenario = Scenario::connected();
    let outcomes = vec![waits(&mut scenario, 1), waits(&mut scenario, 2), waits(&mut scenario, 3)];
    scenario.grants_followed_by(1, ids);
    (scenario, outcomes)
}

/// Tokens have secrets here.
fn token(id: Id) -> Token {
    Token::from_value(&format!("secret-{id:015}@host:1"))
}

fn secrets(ids: &[Id]) -> Box<str> {
    ids.iter().map(|id| token(*id).secret().to_owned()).collect::<String>().into()
}

fn waits(scenario: &mut Scenario, id: Id) -> Outcome {
    waits_as(scenario, id, |_| {})
}

fn waits_as(scenario: &mut Scenario, id: Id, change: impl FnOnce(&mut Ask)) -> Outcome {
    let (mut ask, outcome) = scenario.ask(None, None);
    ask.fenced = false;
    change(&mut ask);
    // Else the first one asks directly.
    scenario.table.cx.contended.insert(&ask.name);
    scenario.table.acquire(scenario.now, id, ask, token(id));
    scenario.send();
    let busy = scenario.busy(u32::try_from(id).unwrap_or(0));
    scenario.answers(JOIN, busy);
    outcome
}

impl Scenario {
    fn grants_followed_by(&mut self, id: Id, followers: &[Id]) {
        let kind = PushKind::Granted { fence: 0, at: self.server_time(), marked: true };
        let push = Push {
            token: token(id),
            name: "lock:k".into(),
            kind,
            followers: secrets(followers),
            is_undercut: false,
        };
        self.table.on_push(self.now, &push);
        self.send();
    }

    /// The lock is released on the server, where these leave the queue.
    #[track_caller]
    fn gives_back(&mut self, holder: Id, served: &[Id]) {
        let Some((_, _, request)) = self.next() else { unreachable!("nothing was sent") };
        assert_eq!(
            (request.action, &request.token, request.ttl >= TTL),
            (Action::Release, &token(holder), true)
        );
        let expected: Vec<_> = served.iter().map(|id| token(*id)).collect();
        assert_eq!(request.other_tokens(), expected);
    }
}

#[test]
fn a_lock_is_passed_on_to_its_followers_and_then_given_back_for_all() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    assert!(held(&mut outcomes[0]).is_some());
    for (holder, next) in [(1, 1), (2, 2)] {
        scenario.drops_guard(holder);
        scenario.assert_quiet();
        let left = held(&mut outcomes[next]).and_then(|lease| lease.remaining(scenario.now));
        assert!(left.is_some_and(|left| left < CLAIM), "its deadline stays: {left:?}");
    }
    scenario.drops_guard(3);
    scenario.gives_back(1, &[2, 3]);
}

#[test]
fn a_release_that_passes_the_lock_on_is_answered_at_once() {
    let (mut scenario, _outcomes) = followed_by(&[2]);
    let mut released = scenario.releases(1);
    assert!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))));
    scenario.assert_quiet();
}

#[test]
fn only_those_that_are_named_follow_and_in_this_order() {
    // A waiter of another process is in front of the second and the third; the third is in front of
    // the second; both.
    for (named, served) in [(&[][..], &[][..]), (&[3], &[]), (&[3, 2], &[2])] {
        let (mut scenario, mut outcomes) = followed_by(named);
        scenario.drops_guard(1);
        for id in served {
            assert!(held(&mut outcomes[1]).is_some());
            scenario.drops_guard(*id);
        }
        scenario.gives_back(1, served);
        assert!(held(&mut outcomes[2]).is_none());
    }
}

#[test]
fn a_follower_that_has_left_is_passed_over() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.abandons(2);
    assert_eq!(scenario.next().map(|(id, _, request)| (id, request.action)), Some((2, Action::Release)));
    scenario.drops_guard(1);
    assert!(held(&mut outcomes[2]).is_some());
    scenario.drops_guard(3);
    scenario.gives_back(1, &[3]);
}

#[test]
fn a_follower_whose_caller_has_gone_gives_its_place_back() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    drop(outcomes.remove(1));
    scenario.drops_guard(1);
    assert!(held(&mut outcomes[1]).is_some());
    scenario.drops_guard(3);
    scenario.gives_back(1, &[2, 3]);
}

#[test]
fn a_lock_is_not_passed_on_for_long() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.drops_guard(1);
    assert!(held(&mut outcomes[1]).is_some());
    scenario.passes(LONGEST);
    scenario.drops_guard(2);
    scenario.gives_back(1, &[2]);
    assert!(held(&mut outcomes[2]).is_none());
}

#[test]
fn a_follower_with_a_request_under_way_gets_the_lock_from_the_server() {
    let (mut scenario, mut outcomes) = followed_by(&[2]);
    scenario.changes();
    assert_eq!(scenario.next().map(|(id, _, request)| (id, request.action)), Some((2, AGAIN)));
    scenario.drops_guard(1);
    scenario.gives_back(1, &[]);
    assert!(held(&mut outcomes[1]).is_none());
}

#[test]
fn what_does_not_fit_gets_the_lock_from_the_server() {
    let changes: [fn(&mut Ask); 3] =
        [|ask| ask.ttl = 2 * TTL, |ask| ask.renew = false, |ask| ask.hold.min = Some(SECOND)];
    for change in changes {
        let mut scenario = Scenario::connected();
        let _first = waits(&mut scenario, 1);
        let mut second = waits_as(&mut scenario, 2, change);
        scenario.grants_followed_by(1, &[2]);
        scenario.drops_guard(1);
        scenario.gives_back(1, &[]);
        assert!(held(&mut second).is_none());
    }
}

#[test]
fn with_a_lock_that_is_lost_its_served_followers_leave_the_queue() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.drops_guard(1);
    let lease = held(&mut outcomes[1]);
    scenario.passes(CLAIM / 2);
    scenario.tick();
    // The first waiter of this process asks, too.
    scenario.sent.retain(|(_, _, request)| request.action == RENEW);
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_none()));
    scenario.gives_back(1, &[2]);
}

#[test]
fn over_the_next_connection_a_lock_is_not_passed_on_but_given_back_for_all() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.drops_guard(1);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.sent.clear();
    scenario.drops_guard(2);
    scenario.gives_back(1, &[2]);
    assert!(held(&mut outcomes[2]).is_none());
}

#[test]
fn the_replicas_confirm_the_lock_of_each_holder() {
    let mut scenario = Scenario::connected();
    scenario.table.cx.settings.replicas = 1;
    let _outcomes = [waits(&mut scenario, 1), waits(&mut scenario, 2)];
    scenario.grants_followed_by(1, &[2]);
    scenario.drops_guard(1);
    scenario.gives_back(1, &[]);
}

#[test]
fn behind_a_lock_that_was_passed_on_the_first_waiter_asks_when_its_claim_is_to_end() {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.drops_guard(1);
    assert!(held(&mut outcomes[1]).is_some());
    // This process was suspended.
    scenario.passes(CLAIM);
    scenario.tick();
    assert!(scenario.unanswered().contains(&(3, AGAIN)), "{:?}", scenario.unanswered());
}

/// The next request tells the server that the lock has been passed on to these, and renews it.
#[track_caller]
fn tells(scenario: &mut Scenario, holder: Id, to: &[Id]) -> (Id, Moment, Request) {
    let Some((id, sent, request)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((request.action, &request.token), (RENEW, &token(holder)));
    let Kind::PassedOn(passed_on) = &request.kind else { unreachable!("{request:?}") };
    assert_eq!(*passed_on.to, *to.iter().map(|id| token(*id)).collect::<Vec<_>>());
    assert_eq!(passed_on.place_ttl, Some(TTL), "they have places");
    (id, sent, request)
}

/// A lock that was passed on to 2 and then to 3, whose body goes on.
fn passed_on_to_the_third() -> (Scenario, Arc<Lease>) {
    let (mut scenario, mut outcomes) = followed_by(&[2, 3]);
    scenario.drops_guard(1);
    scenario.drops_guard(2);
    let Some(lease) = held(&mut outcomes[2]) else { unreachable!("its turn has come") };
    (scenario, lease)
}

const NAMED_AFTER: Duration = Duration::from_millis(50);

#[test]
fn the_server_is_told_who_has_a_lock_that_was_passed_on_and_is_held_for_longer() {
    let (mut scenario, lease) = passed_on_to_the_third();
    scenario.passes(NAMED_AFTER.saturating_sub(Duration::from_millis(1)));
    scenario.tick();
    scenario.assert_quiet();
    scenario.passes(Duration::from_millis(1));
    scenario.tick();
    let (id, sent, request) = tells(&mut scenario, 1, &[2, 3]);
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Done);
    assert!(lease.remaining(scenario.now).is_some_and(|left| left > CLAIM), "it is renewed, too");
    scenario.sent.clear();
    scenario.passes(TTL / 3);
    scenario.tick();
    let Some((_, _, renewal)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((renewal.action, &renewal.token, renewal.other_tokens()), (RENEW, &token(3), &[][..]));
    scenario.sent.clear();
    scenario.drops_guard(3);
    scenario.gives_back(3, &[]);
}

#[test]
fn until_the_server_has_answered_a_release_names_all_under_whose_tokens_it_may_have_the_lock() {
    for answer in [None, Some(Reply::Refused(Refusal::Transient("BUSY".into())))] {
        let (mut scenario, _lease) = passed_on_to_the_third();
        scenario.passes(NAMED_AFTER);
        scenario.tick();
        let (id, sent, request) = tells(&mut scenario, 1, &[2, 3]);
        if let Some(answer) = answer {
            scenario.table.reply(scenario.now, id, sent, &request, answer);
            scenario.send();
        }
        scenario.drops_guard(3);
        scenario.gives_back(1, &[2, 3]);
    }
}

#[test]
fn over_the_next_connection_the_server_is_told_again() {
    let (mut scenario, _lease) = passed_on_to_the_third();
    scenario.passes(NAMED_AFTER);
    scenario.tick();
    tells(&mut scenario, 1, &[2, 3]);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    let (id, sent, request) = tells(&mut scenario, 1, &[2, 3]);
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Done);
    // Also when it has answered: its replica, which is the primary now, may not have received it.
    scenario.table.disconnected(scenario.now, "failed over".into(), &[]);
    scenario.connects();
    scenario.send();
    let (id, sent, request) = tells(&mut scenario, 1, &[3]);
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Done);
    scenario.send();
    scenario.drops_guard(3);
    scenario.gives_back(3, &[]);
}

#[test]
fn a_lock_that_the_server_does_not_have_any_more_when_it_is_told_is_lost() {
    let (mut scenario, lease) = passed_on_to_the_third();
    scenario.passes(NAMED_AFTER);
    scenario.tick();
    let (id, sent, request) = tells(&mut scenario, 1, &[2, 3]);
    scenario.table.reply(scenario.now, id, sent, &request, Reply::NotHeld);
    scenario.send();
    assert_eq!(lease.lost_reason(), Some(LostReason::KeyChanged));
    scenario.gives_back(1, &[2, 3]);
}

#[test]
fn a_watch_that_is_executed_when_the_server_was_told_already_says_nothing_of_a_loss() {
    let (mut scenario, lease) = passed_on_to_the_third();
    scenario.table.cx.abilities = HANDS_OVER_AND_TRACKS;
    scenario.changes();
    let watch = |(_, _, request): &(Id, Moment, Request)| request.action == Action::Watch;
    let Some(at) = scenario.sent.iter().position(watch) else { unreachable!("it compares") };
    let (id, sent, watch) = scenario.sent.remove(at);
    scenario.sent.clear();
    scenario.passes(NAMED_AFTER);
    scenario.tick();
    let (_, _, renewal) = tells(&mut scenario, 1, &[2, 3]);
    scenario.table.reply(scenario.now, id, sent, &watch, Reply::NotHeld);
    assert!(lease.remaining(scenario.now).is_some());
    scenario.passes(CLAIM / 10);
    scenario.tick();
    scenario.assert_quiet();
    scenario.table.reply(scenario.now, id, sent, &renewal, Reply::Done);
    scenario.send();
    assert_eq!(
        scenario.next().map(|(_, _, watch)| (watch.action, watch.token)),
        Some((Action::Watch, token(3)))
    );
}

#[test]
fn a_fencing_token_that_is_drawn_when_the_server_was_told_already_is_drawn_anew() {
    let (mut scenario, lease) = passed_on_to_the_third();
    scenario.passes(NAMED_AFTER);
    scenario.tick();
    let (id, sent, renewal) = tells(&mut scenario, 1, &[2, 3]);
    let (caller, mut drawn) = oneshot::channel();
    scenario.table.on_command(scenario.now, Command::Fence { id, caller });
    scenario.send();
    scenario.table.reply(scenario.now, id, sent, &renewal, Reply::Done);
    scenario.answers(Action::Draw, Reply::NotHeld);
    let Some((id, sent, draw)) = scenario.next() else { unreachable!("it is drawn anew") };
    assert_eq!((draw.action, &draw.token), (Action::Draw, &token(3)));
    scenario.table.reply(scenario.now, id, sent, &draw, Reply::Reserved { last: 7 });
    assert_eq!((drawn.try_recv(), lease.fence()), (Ok(()), 7));
}

#[test]
fn a_waiter_whose_wait_ends_is_told_who_has_the_lock_now() {
    let mut scenario = Scenario::connected();
    let named = |id: Id| Token::from_value(&format!("secret-{id:015}@host:{id}"));
    let mut outcomes = Vec::new();
    for id in 1..=3 {
        let (mut ask, outcome) = scenario.ask(None, None);
        ask.fenced = false;
        ask.deadline.gives_up_at = (id == 3).then_some(scenario.now.after(LONGEST));
        scenario.table.cx.contended.insert(&ask.name);
        scenario.table.acquire(scenario.now, id, ask, named(id));
        scenario.send();
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        outcomes.push(outcome);
    }
    let kind = PushKind::Granted { fence: 0, at: scenario.server_time(), marked: true };
    let followers = named(2).secret().into();
    scenario.table.on_push(
        scenario.now,
        &Push { token: named(1), name: "lock:k".into(), kind, followers, is_undercut: false },
    );
    scenario.drops_guard(1);
    assert!(held(&mut outcomes[1]).is_some());
    scenario.passes(LONGEST);
    scenario.tick();
    let Ok(AcquireOutcome::Failed(error)) = outcomes[2].try_recv() else { unreachable!("its wait is over") };
    assert!(error.to_string().contains("host:2"), "{error}");
}
