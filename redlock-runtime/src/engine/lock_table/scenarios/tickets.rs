//! A lock is left to a ticket, and a ticket is redeemed.

use super::*;

type Ended = oneshot::Receiver<command::Released>;

/// The token of the ticket, if there is one.
fn ticket(ended: &mut Ended) -> Option<Token> {
    match ended.try_recv() {
        Ok(command::Released { outcome: Ok(ReleaseOutcome::Released), lock, .. }) => {
            lock.map(|(_, token)| token)
        }
        _ => None,
    }
}

fn granted(fence: u64) -> Reply {
    Reply::Acquire(Verdict::Granted { fence })
}

fn error(ended: &mut Ended) -> Option<LockError> {
    ended.try_recv().ok().and_then(|released| released.outcome.err()).map(|error| *error)
}

fn taken_from(request: &Request) -> Option<&Token> {
    if let Kind::Ticket(ticket) = &request.kind { Some(ticket) } else { None }
}

#[test]
fn the_lease_ends_at_once_and_the_ticket_is_there_with_the_reply() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut ended = scenario.hands_over(1);
    assert_eq!(lease.lost_reason(), Some(LostReason::HandedOver));
    assert!(ended.try_recv().is_err(), "not yet");
    let ttl = scenario.sent.first().map(|(_, _, request)| request.ttl);
    assert_eq!(ttl, Some(10 * SECOND + Duration::from_millis(1)));
    scenario.answers(Action::ExpireLater, Reply::Done);
    assert_eq!(ticket(&mut ended), Some(token_of(1)));
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_lock_that_was_lost_gives_no_ticket() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut ended = scenario.hands_over(1);
    // Over a new connection, too: nobody can have redeemed it.
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.answers(Action::ExpireLater, Reply::NotHeld);
    let ended = ended.try_recv().ok().and_then(|released| released.outcome.ok());
    assert_eq!(ended, Some(ReleaseOutcome::AlreadyLost));
    assert!(lease.check(scenario.now).is_none() && scenario.table.is_idle());
}

#[test]
fn a_lost_reply_is_asked_for_again() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut ended = scenario.hands_over(1);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.answers(Action::ExpireLater, Reply::Done);
    assert_eq!(ticket(&mut ended), Some(token_of(1)));
    assert!(scenario.table.is_idle());
}

#[test]
fn a_caller_that_hears_of_an_error_has_no_ticket_and_the_lock_is_released() {
    // No answer in time: the reply comes after that.
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut ended = scenario.hands_over(1);
    scenario.passes(SECOND);
    scenario.tick();
    assert!(matches!(error(&mut ended), Some(LockError::Unavailable { .. })));
    scenario.answers(Action::ExpireLater, Reply::Done);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());

    // A refusal.
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut ended = scenario.hands_over(1);
    scenario.answers(Action::ExpireLater, Reply::Refused(Refusal::Permanent("NOPERM".into())));
    assert!(matches!(error(&mut ended), Some(LockError::Misconfigured { .. })));
    scenario.passes(SECOND);
    scenario.tick();
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());

    // No connection in time: the ticket is asked for never, and the release over the next one.
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let mut ended = scenario.hands_over(1);
    scenario.passes(SECOND);
    scenario.tick();
    assert!(matches!(error(&mut ended), Some(LockError::Unavailable { .. })));
    scenario.connects();
    scenario.send();
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_caller_that_has_left_leaves_no_ticket() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    drop(scenario.hands_over(1));
    scenario.answers(Action::ExpireLater, Reply::Done);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_quorum_refuses_and_the_lock_is_still_held() {
    let mut scenario = Scenario::with(Abilities { votes: true, ..NEITHER });
    let mut outcome = scenario.acquires(1, None);
    let Some((id, sent, request)) = scenario.next() else { unreachable!("it asks") };
    scenario.table.reply(scenario.now, id, sent, &request, granted(1));
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    let mut ended = scenario.hands_over(1);
    assert!(matches!(error(&mut ended), Some(LockError::InvalidRequest { .. })));
    assert!(lease.check(scenario.now).is_some());
    scenario.assert_quiet();
    let mut outcome = scenario.redeems(2);
    assert!(matches!(failed(&mut outcome), Some(LockError::InvalidRequest { .. })));
    scenario.assert_quiet();
}

#[test]
fn a_waiter_of_the_same_process_waits_until_the_ticket_is_over() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut waiter = queued(2, &mut scenario);
    let mut ended = scenario.hands_over(1);
    scenario.answers(Action::ExpireLater, Reply::Done);
    assert!(ticket(&mut ended).is_some());
    assert!(held(&mut waiter).is_none(), "the ticket is in front");
    // The server has told it when to ask.
    let next = PushKind::Next { claim: 10 * SECOND, at: scenario.server_time() };
    scenario.tells(2, next);
    scenario.passes(11 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 2 }));
    assert!(held(&mut waiter).is_some());
}

/// To the server, the holders of a cohort are one: the ticket names the token that it knows.
#[test]
fn the_ticket_of_a_lock_that_was_passed_on_here_has_the_token_that_the_server_knows() {
    for is_told in [false, true] {
        let mut scenario = Scenario::connected();
        scenario.table.cx.settings.cohort = 4;
        let _first = scenario.holds(1);
        let mut second = scenario.acquires(2, None);
        scenario.answers(Action::Reserve { count: 4 }, Reply::Reserved { last: 8 });
        scenario.drops_guard(1);
        assert!(held(&mut second).is_some(), "passed on");
        if is_told {
            scenario.passes(SECOND);
            scenario.tick();
            assert_eq!(scenario.unanswered(), [(2, RENEW)], "it names the second one");
        }
        let mut ended = scenario.hands_over(2);
        if is_told {
            scenario.answers(RENEW, Reply::Done);
        }
        let request = scenario.sent.first().map(|(_, _, request)| request.clone());
        let Some(request) = request else { unreachable!("the ticket is asked for") };
        scenario.answers(Action::ExpireLater, Reply::Done);
        let expected = if is_told { token_of(2) } else { token_of(1) };
        assert_eq!((request.token, ticket(&mut ended)), (token_of(1), Some(expected)), "{is_told}");
    }
}

#[test]
fn a_ticket_is_redeemed_beside_those_who_wait_here() {
    let mut scenario = Scenario::connected();
    let mut waiter = queued(2, &mut scenario);
    let mut outcome = scenario.redeems(3);
    let request = scenario.sent.first().map(|(_, _, request)| request.clone());
    let Some(request) = request else { unreachable!("it is redeemed") };
    assert_eq!((&request.token, taken_from(&request)), (&token_of(3), Some(&token_of(1))));
    scenario.answers(Action::Redeem, granted(9));
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    assert_eq!(lease.fence(), 9);
    assert!(held(&mut waiter).is_none());
    // Its release is one of its own: it names no ticket.
    scenario.drops_guard(3);
    let released = scenario.sent.iter().find(|(_, _, request)| request.action == Action::Release);
    assert!(released.is_some_and(|(_, _, request)| taken_from(request).is_none() && !request.is_direct()));
}

#[test]
fn a_ticket_that_is_over_or_used_is_lost_with_the_reason_and_nothing_is_released() {
    for (is_free, expected) in [(true, LostReason::TicketOver), (false, LostReason::TicketUsed)] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.redeems(2);
        scenario.answers(Action::Redeem, Reply::Acquire(Verdict::NoTicket { is_free }));
        let lost = failed(&mut outcome);
        assert!(matches!(lost, Some(LockError::Lost { reason, .. }) if reason == expected), "{lost:?}");
        scenario.assert_quiet();
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_redemption_whose_reply_was_lost_is_asked_for_again_with_the_same_token() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.redeems(2);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    let token = scenario.sent.first().map(|(_, _, request)| request.token.clone());
    assert_eq!(token, Some(token_of(2)));
    scenario.answers(Action::Redeem, granted(9));
    assert!(held(&mut outcome).is_some());

    // A node of a Cluster.
    let mut outcome = scenario.redeems(4);
    let unknown = || Refusal::OutcomeUnknown("the node is away".into());
    scenario.answers(Action::Redeem, Reply::Refused(unknown()));
    scenario.passes(SECOND / 4);
    scenario.tick();
    scenario.answers(Action::Redeem, granted(10));
    assert!(held(&mut outcome).is_some());
}

/// The server may have given it the lock: then that is released, and the ticket is used up.
#[test]
fn a_caller_that_leaves_its_redemption_releases_what_it_may_have_got() {
    let mut scenario = Scenario::connected();
    drop(scenario.redeems(2));
    scenario.abandons(2);
    scenario.answers(Action::Redeem, granted(9));
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_redemption_that_gets_no_answer_is_unavailable_and_released() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.redeems(2);
    for _ in 0..4 {
        scenario.passes(SECOND);
        scenario.tick();
    }
    assert!(matches!(failed(&mut outcome), Some(LockError::Unavailable { .. })));
    let actions: Vec<_> = scenario.unanswered().into_iter().map(|(_, action)| action).collect();
    assert_eq!(actions, [Action::Redeem, Action::Release]);
}

#[test]
fn a_grant_that_comes_when_its_ttl_is_over_is_lost_and_released() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.redeems(2);
    scenario.passes(TTL);
    scenario.answers(Action::Redeem, granted(9));
    let lost = failed(&mut outcome);
    assert!(matches!(lost, Some(LockError::Lost { reason: LostReason::Expired, .. })), "{lost:?}");
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_ticket_whose_time_is_over_before_it_is_asked_for_is_none() {
    let mut scenario = Scenario::connected();
    scenario.table.cx.settings.io_timeout = TTL;
    let _lease = scenario.holds(1);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let mut ended = scenario.hands_over(1);
    scenario.passes(11 * SECOND);
    scenario.connects();
    scenario.send();
    scenario.answers(Action::Release, Reply::Done);
    assert!(matches!(error(&mut ended), Some(LockError::Unavailable { .. })));
    assert!(scenario.table.is_idle());
}
