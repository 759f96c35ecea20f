//! Locks that several hold at once: readers, and the holders of permits.

use super::*;
use crate::base::limit::Limit;
use crate::engine::protocol::Releases;

const READER: Limit = Limit::NONE;
const WRITER: Limit = Limit::ONE;

fn scenario() -> Scenario {
    Scenario::with(HANDS_OVER_AND_TRACKS)
}

fn asks(scenario: &mut Scenario, id: Id, limit: Limit) -> Outcome {
    let (mut ask, outcome) = scenario.ask(None, None);
    ask.kind = Kind::of_limit(limit);
    scenario.table.acquire(scenario.now, id, ask, token_of(id));
    scenario.send();
    outcome
}

fn granted(fence: u64) -> Reply {
    Reply::Acquire(Verdict::Granted { fence })
}

/// It asks, and is let in.
#[track_caller]
fn enters(scenario: &mut Scenario, id: Id, phase: u64) -> Arc<Lease> {
    let mut outcome = asks(scenario, id, READER);
    scenario.answers(JOIN, granted(phase));
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    lease
}

/// The unanswered requests, with their limits.
fn sent(scenario: &Scenario) -> Vec<(Id, Action, u32)> {
    let sent = scenario.sent.iter();
    sent.map(|(id, _, request)| (*id, request.action, request.kind.limit().number())).collect()
}

#[test]
fn several_of_one_process_are_inside_at_once_each_with_its_own_lease() {
    let mut scenario = scenario();
    let leases = [1, 2, 3].map(|id| enters(&mut scenario, id, 7));
    assert!(leases.iter().all(|lease| lease.fence() == 7 && lease.remaining(scenario.now).is_some()));
    scenario.drops_guard(2);
    assert_eq!(sent(&scenario), [(2, Action::Release, 0)], "one command to leave");
    scenario.answers(Action::Release, Reply::Done);
    let is_held = leases.map(|lease| lease.remaining(scenario.now).is_some());
    assert_eq!(is_held, [true, false, true]);
    scenario.assert_quiet();
    for id in [1, 3] {
        scenario.drops_guard(id);
        scenario.answers(Action::Release, Reply::Done);
    }
    assert!(scenario.table.is_idle());
}

#[test]
fn a_counted_lock_costs_two_commands_and_neither_is_direct() {
    let mut scenario = scenario();
    let (mut ask, mut outcome) = scenario.ask(None, None);
    (ask.kind, ask.fenced) = (Kind::of_limit(Limit::of(5)), false);
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    let commands = |scenario: &Scenario| {
        let sent = scenario.sent.iter();
        sent.map(|(_, _, request)| (request.is_direct(), request.kind.limit().number())).collect::<Vec<_>>()
    };
    assert_eq!(commands(&scenario), [(false, 5)]);
    scenario.answers(JOIN, granted(7));
    assert!(held(&mut outcome).is_some());
    scenario.drops_guard(1);
    assert_eq!(commands(&scenario), [(false, 5)]);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_writer_beside_readers_of_its_process_asks_the_queue() {
    let mut scenario = scenario();
    let _reader = enters(&mut scenario, 1, 7);
    let (mut ask, _outcome) = scenario.ask(None, None);
    (ask.kind, ask.fenced) = (Kind::of_limit(WRITER), false);
    scenario.table.acquire(scenario.now, 2, ask, token_of(2));
    scenario.send();
    assert!(scenario.sent.iter().all(|(_, _, request)| !request.is_direct()), "the key is not free");
    assert_eq!(sent(&scenario), [(2, JOIN, 1)]);
}

#[test]
fn a_push_lets_each_reader_in_and_each_claims_its_own_ttl() {
    let mut scenario = scenario();
    let mut outcomes = [1, 2].map(|id| {
        let outcome = asks(&mut scenario, id, READER);
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        outcome
    });
    let at = scenario.server_time();
    for id in [1, 2] {
        scenario.grants(id, at);
    }
    let leases = outcomes.each_mut().map(held);
    assert!(leases.iter().all(Option::is_some), "both are inside");
    scenario.assert_quiet();
    scenario.passes(CLAIM / 2);
    scenario.tick();
    let renewals: Vec<_> = scenario.unanswered();
    let renewed = |id| renewals.iter().filter(|(of, action)| (*of, *action) == (id, RENEW)).count();
    assert_eq!([renewed(1), renewed(2)], [1, 1], "{renewals:?}");
}

/// A client that knows no counted locks has granted it, without a fencing token.
#[test]
fn a_reader_that_was_granted_the_lock_alone_asks_before_it_is_inside() {
    let mut scenario = scenario();
    let mut outcome = asks(&mut scenario, 1, READER);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    let at = scenario.server_time();
    scenario.tells(1, PushKind::Granted { fence: 0, at, marked: true });
    assert!(held(&mut outcome).is_none());
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 7 }));
    assert!(held(&mut outcome).is_some_and(|lease| lease.fence() == 7));
}

#[test]
fn a_reader_that_loses_its_lock_leaves_the_others_theirs() {
    let mut scenario = scenario();
    let leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    scenario.passes(TTL / 3);
    scenario.tick();
    while let Some((id, sent, request)) = scenario.next() {
        let is_lost = id == 1 && request.action == RENEW;
        let reply = match request.action {
            RENEW if is_lost => Reply::NotHeld,
            RENEW => Reply::Done,
            Action::Watch => Reply::HeldFor { left: TTL },
            _ => Reply::NotHeld,
        };
        scenario.table.reply(scenario.now, id, sent, &request, reply);
        scenario.send();
    }
    assert_eq!(leases[0].lost_reason(), Some(LostReason::KeyChanged));
    assert!(leases[1].remaining(scenario.now).is_some());
}

/// The key of all of them is gone: one compares, and none asks for itself.
#[test]
fn a_key_that_is_deleted_ends_the_leases_of_a_phase_by_one_watch() {
    let mut scenario = scenario();
    let leases = [1, 2, 3].map(|id| enters(&mut scenario, id, 7));
    scenario.passes(SECOND / 10);
    scenario.tick();
    for _ in 0..3 {
        scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    }
    scenario.changes();
    assert_eq!(scenario.unanswered().len(), 1, "{:?}", scenario.unanswered());
    assert!(
        scenario.sent.iter().all(|(_, _, request)| matches!(request.kind, Kind::Counted { phase: 7, .. }))
    );
    scenario.answers(Action::Watch, Reply::Free);
    let lost = leases.map(|lease| lease.lost_reason());
    assert_eq!(lost, [Some(LostReason::KeyChanged); 3]);
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

/// What one of this process writes ends the watch, and the server does not tell of it.
#[test]
fn one_that_stays_looks_again_once_for_all_that_leave() {
    let mut scenario = scenario();
    let _stays = enters(&mut scenario, 1, 7);
    scenario.passes(SECOND / 10);
    scenario.tick();
    scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    for id in [2, 3, 4] {
        let _left = enters(&mut scenario, id, 7);
        scenario.drops_guard(id);
        scenario.answers(Action::Release, Reply::Done);
    }
    scenario.assert_quiet();
    // It is still told of what others change, and compares.
    scenario.changes();
    scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, Action::Watch)]);
}

#[test]
fn a_force_release_through_this_manager_ends_all_leases_of_the_lock() {
    let mut scenario = scenario();
    let leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    let _answer = scenario.calls(9, Action::ForceRelease, "lock:k");
    assert_eq!(leases.map(|lease| lease.lost_reason()), [Some(LostReason::ForceReleased); 2]);
}

/// All that have it in this phase, and none of a later one.
#[test]
fn a_force_release_that_names_a_phase_ends_the_leases_of_that_phase() {
    let mut scenario = scenario();
    let leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    let names = |phase| Request::new(Action::ForceRelease, "lock:k".into(), Token::naming_phase(phase), TTL);
    let _answer = scenario.calls_with(8, names(6));
    assert!(leases.iter().all(|lease| lease.remaining(scenario.now).is_some()));
    let _answer = scenario.calls_with(9, names(7));
    assert_eq!(leases.map(|lease| lease.lost_reason()), [Some(LostReason::ForceReleased); 2]);
}

/// Its release follows: a request for its place may arrive later than the push.
#[test]
fn one_of_several_that_an_operator_ends_loses_its_lock_and_the_others_keep_theirs() {
    let mut scenario = scenario();
    let leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    scenario.tells(1, PushKind::Revoked);
    assert_eq!(leases[0].lost_reason(), Some(LostReason::Revoked));
    assert!(leases[1].remaining(scenario.now).is_some());
    scenario.answers(Action::Release, Reply::NotHeld);
    // A second push, or one for a caller that waits, changes nothing.
    let mut waiter = asks(&mut scenario, 3, WRITER);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    for id in [1, 3] {
        scenario.tells(id, PushKind::Revoked);
    }
    scenario.assert_quiet();
    assert!(leases[1].remaining(scenario.now).is_some() && held(&mut waiter).is_none());
}

/// Through the manager of the holder.
#[test]
fn a_holder_of_the_manager_that_revokes_it_loses_its_lock_at_once() {
    let mut scenario = scenario();
    let leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    let request = Request::new(Action::Release, "lock:k".into(), token_of(1), TTL);
    let request = Request { release: Releases::AmongSeveral, ..request };
    let _answer = scenario.calls_with(9, request);
    assert_eq!(leases[0].lost_reason(), Some(LostReason::Revoked));
    assert!(leases[1].remaining(scenario.now).is_some());
}

/// The server lets the next one in.
#[test]
fn a_reader_that_leaves_hands_nothing_over_by_itself() {
    let mut scenario = scenario();
    let _leases = [1, 2].map(|id| enters(&mut scenario, id, 7));
    let mut writer = asks(&mut scenario, 3, WRITER);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.sent.clear();
    for id in [1, 2] {
        scenario.drops_guard(id);
        assert_eq!(sent(&scenario), [(id, Action::Release, 0)], "the writer does not ask");
        scenario.answers(Action::Release, Reply::Done);
    }
    let at = scenario.server_time();
    scenario.grants(3, at);
    assert!(held(&mut writer).is_some());
}

/// A writer has asked first here, but joined the queue behind a reader, because its first request was
/// a direct one. The reader is in front of all, and has room before the writer has.
#[test]
fn the_head_of_the_queue_asks_when_there_is_room_for_it_whoever_asked_first_here() {
    let mut scenario = scenario();
    let _outcomes = [(1, WRITER), (2, READER)].map(|(id, limit)| asks(&mut scenario, id, limit));
    let has_room_in = Duration::from_millis(200);
    for (in_front, expires_in) in [(1, TTL), (0, has_room_in)] {
        let holder = Holder { inside: 3, expires_in: Some(expires_in), ..Holder::default() };
        let place = Some(Place { in_front, at: scenario.server_time() });
        scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder, place }));
    }
    scenario.passes(has_room_in + SECOND / 500);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(2, AGAIN)]);
}

/// Else the first one here would ask for it, and hear of a time of its own in between.
#[test]
fn who_is_told_when_there_is_room_for_it_asks_then_whoever_asked_first_here() {
    let mut scenario = scenario();
    let _outcomes = [(1, WRITER), (2, READER)].map(|(id, limit)| asks(&mut scenario, id, limit));
    for in_front in [2, 1] {
        let busy = scenario.busy(in_front);
        scenario.answers(JOIN, busy);
    }
    let (claim, at) = (Duration::from_millis(200), scenario.server_time());
    scenario.tells(2, PushKind::Next { claim, at });
    scenario.passes(claim + SECOND / 500);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(2, AGAIN)]);
}

/// The head of the queue asks as often as behind other holders, not as behind a client of another
/// kind, which is not named either.
#[test]
fn behind_readers_nobody_asks_as_behind_a_client_of_another_kind() {
    for (inside, is_quiet) in [(0, false), (5, true)] {
        let mut scenario = Scenario::with(HANDS_OVER);
        let _writer = asks(&mut scenario, 1, WRITER);
        let holder = Holder { inside, expires_in: Some(TTL), ..Holder::default() };
        let place = Some(Place { in_front: 0, at: scenario.server_time() });
        scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder, place }));
        scenario.passes(SECOND / 5);
        scenario.tick();
        assert_eq!(scenario.unanswered().is_empty(), is_quiet, "{:?}", scenario.unanswered());
    }
}

/// Only the first waiter asks there, so the one that gets in asks for the next to try.
#[test]
fn where_nothing_is_handed_over_the_next_of_the_process_asks_as_soon_as_one_is_in() {
    let mut scenario = Scenario::with(NEITHER);
    let mut outcomes = [1, 2, 3].map(|id| asks(&mut scenario, id, READER));
    for id in [1, 2, 3] {
        assert_eq!(sent(&scenario), [(id, JOIN, 0)], "one after the other");
        scenario.answers(JOIN, granted(7));
    }
    assert!(outcomes.iter_mut().all(|outcome| held(outcome).is_some()));
}

/// One of several that leaves changes nothing in the key, and the last one does.
#[test]
fn where_nothing_is_handed_over_a_writer_watches_and_a_waiter_for_a_permit_asks_often() {
    for (limit, watches) in [(WRITER, true), (READER, false), (Limit::of(3), false)] {
        let mut scenario = Scenario::with(TRACKS);
        let _outcome = asks(&mut scenario, 1, limit);
        let holder = Holder { inside: 3, expires_in: Some(TTL), ..Holder::default() };
        scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder, place: None }));
        let watch: &[_] = if watches { &[(1, Action::WatchHolder)] } else { &[] };
        assert_eq!(scenario.unanswered(), watch);
        scenario.sent.clear();
        scenario.passes(SECOND / 10);
        scenario.tick();
        assert_eq!(scenario.unanswered().is_empty(), watches);
    }
}

#[test]
fn one_of_several_holders_gives_no_ticket() {
    let mut scenario = scenario();
    let lease = enters(&mut scenario, 1, 7);
    let mut answer = scenario.hands_over(1);
    let refused = answer.try_recv().is_ok_and(|released| released.outcome.is_err());
    assert!(refused && lease.remaining(scenario.now).is_some(), "it is still held");
}

/// Its place is named after its kind, too.
#[test]
fn a_reader_that_gives_up_behind_a_writer_leaves_the_queue_with_its_kind() {
    let mut scenario = scenario();
    let outcome = asks(&mut scenario, 1, READER);
    let busy = scenario.busy(1);
    scenario.answers(JOIN, busy);
    drop(outcome);
    scenario.abandons(1);
    assert_eq!(sent(&scenario), [(1, Action::Release, 0)]);
}

/// So many bodies begin in this time at most.
const RATE: Duration = Duration::from_secs(60);

fn asks_for_a_rate(scenario: &mut Scenario, id: Id) -> Outcome {
    let (mut ask, outcome) = scenario.ask(None, Some(RATE));
    (ask.kind, ask.hold.limits_rate) = (Kind::of_limit(Limit::of(2)), true);
    scenario.table.acquire(scenario.now, id, ask, token_of(id));
    scenario.send();
    outcome
}

/// For how long the server is asked to keep the place, in the oldest unanswered request.
fn lasts(scenario: &Scenario) -> Option<Duration> {
    scenario.sent.first().map(|(_, _, request)| request.lasts())
}

#[test]
fn the_server_keeps_a_place_for_its_min_hold_before_its_body_begins() {
    for was_pushed in [true, false] {
        let mut scenario = scenario();
        let mut outcome = asks_for_a_rate(&mut scenario, 1);
        assert_eq!(lasts(&scenario), Some(TTL + RATE), "also where nobody is in front");
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        scenario.passes(SECOND / 10);
        if was_pushed {
            let at = scenario.server_time();
            scenario.grants(1, at);
        } else {
            // The push was lost, and it asks.
            scenario.passes(TTL);
            scenario.tick();
            scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 7 }));
        }
        assert!(held(&mut outcome).is_none(), "its claim is shorter");
        assert_eq!((scenario.unanswered(), lasts(&scenario)), (vec![(1, RENEW)], Some(TTL + RATE)));
        scenario.answers(RENEW, Reply::Done);
        let lease = held(&mut outcome);
        assert!(lease.is_some_and(|lease| lease.fence() == 7 && lease.limit() == Limit::of(2)));
        scenario.assert_quiet();
    }
}

#[test]
fn a_claim_that_was_over_before_its_body_began_is_asked_for_again() {
    let mut scenario = scenario();
    let mut outcome = asks_for_a_rate(&mut scenario, 1);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(held(&mut outcome).is_none());
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
    // And one that the server refuses for now.
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 7 }));
    scenario.answers(RENEW, Reply::Refused(Refusal::NoScript));
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 7 }));
    scenario.answers(RENEW, Reply::Done);
    assert!(held(&mut outcome).is_some());
}

/// The answer, and the caller's task, take their time.
#[test]
fn a_min_hold_counts_from_the_begin_of_the_body() {
    let late = 3 * SECOND;
    for is_lost in [false, true] {
        let mut scenario = scenario();
        let mut outcome = asks_for_a_rate(&mut scenario, 1);
        scenario.answers(JOIN, granted(7));
        let lease = held(&mut outcome);
        scenario.passes(late);
        let now = scenario.now;
        let Some(lease) = lease else { unreachable!("it is granted") };
        lease.begins(|| now);
        scenario.passes(SECOND);
        if is_lost {
            // Its place is kept all the same.
            lease.end(LostReason::Expired);
            scenario.tick();
        }
        scenario.drops_guard(1);
        let kept = Duration::from_millis(59_001);
        assert_eq!(lasts(&scenario), Some(kept), "{is_lost}: {:?}", scenario.unanswered());
        scenario.answers(Action::ExpireLater, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_body_that_outlasts_its_min_hold_costs_its_ttl_when_it_dies() {
    let mut scenario = scenario();
    let mut outcome = asks_for_a_rate(&mut scenario, 1);
    scenario.answers(JOIN, granted(7));
    let lease = held(&mut outcome);
    let now = scenario.now;
    let Some(lease) = lease else { unreachable!("it is granted") };
    lease.begins(|| now);
    let mut renewals = Vec::new();
    while scenario.now.since(now) < RATE + TTL {
        scenario.passes(TTL / 3);
        scenario.tick();
        while let Some((id, sent, request)) = scenario.next() {
            let is_renewal = request.action == RENEW;
            renewals.extend(is_renewal.then(|| request.lasts()));
            let reply = if is_renewal { Reply::Done } else { Reply::HeldFor { left: TTL } };
            scenario.table.reply(scenario.now, id, sent, &request, reply);
            scenario.send();
        }
    }
    assert_eq!((renewals.first(), renewals.last()), (Some(&(TTL + RATE)), Some(&TTL)));
    assert!(lease.remaining(scenario.now).is_some_and(|left| left <= TTL));
}
