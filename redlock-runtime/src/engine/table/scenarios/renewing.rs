//! Renewals, and what becomes of a lease when its holder wants another ttl, by hand.

use super::*;
use crate::engine::command::Extension;

type Extended = oneshot::Receiver<Result<(), LockError>>;

/// The action of a renewal after so many changes of the ttl.
const fn renewal(nth: u32, shortens: bool) -> Action {
    Action::Renew { nth, shortens }
}

fn holder() -> (Script, Arc<Lease>) {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    (script, lease)
}

fn extends(script: &mut Script, ttl: Duration) -> Extended {
    let (caller, outcome) = oneshot::channel();
    script.table.extend(script.now, 1, Extension { ttl, caller });
    script.send();
    outcome
}

/// As long as the lease lasts from now on, in whole seconds and rounded up.
fn lasts(script: &Script, lease: &Lease) -> u64 {
    lease.remaining(script.now).map_or(0, |left| left.as_secs() + 1)
}

#[test]
fn a_shorter_ttl_ends_the_lease_from_when_it_is_sent() {
    let (mut script, lease) = holder();
    let mut extended = extends(&mut script, SECOND);
    assert_eq!(lasts(&script, &lease), 1);
    assert!(extended.try_recv().is_err(), "the server has not answered");
    script.passes(SECOND);
    script.tick();
    assert!(lease.ended().is_cancelled(), "a body that sleeps is woken");
    assert!(extended.try_recv().is_err(), "it is dropped: the guard knows why");
}

#[test]
fn a_shorter_ttl_that_cannot_be_sent_changes_nothing() {
    let (mut script, lease) = holder();
    script.table.disconnected("cut".into());
    let mut extended = extends(&mut script, SECOND);
    assert_eq!(lasts(&script, &lease), 30);
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    assert_eq!(lasts(&script, &lease), 1);
    script.answers(renewal(1, true), Reply::Done);
    assert_eq!(extended.try_recv(), Ok(Ok(())));
}

#[test]
fn the_answer_to_a_longer_renewal_does_not_undo_a_shorter_one_behind_it() {
    let (mut script, lease) = holder();
    script.passes(TTL / 3);
    script.tick();
    let mut extended = extends(&mut script, SECOND);
    script.answers(RENEW, Reply::Done);
    assert_eq!(lasts(&script, &lease), 1);
    assert!(extended.try_recv().is_err());
    script.answers(renewal(1, true), Reply::Done);
    assert_eq!(extended.try_recv(), Ok(Ok(())));
    assert_eq!(lasts(&script, &lease), 1);
}

/// As over a quorum.
#[test]
fn an_answer_that_was_overtaken_counts_no_more() {
    let (mut script, lease) = holder();
    script.passes(TTL / 3);
    script.tick();
    let Some((id, sent, request)) = script.next() else { unreachable!("it is renewed") };
    let _extended = extends(&mut script, SECOND);
    script.answers(renewal(1, true), Reply::Done);
    script.table.reply(script.now, id, sent, &request, Reply::Done);
    assert_eq!(lasts(&script, &lease), 1);
}

#[test]
fn while_nobody_knows_what_was_done_the_earliest_end_counts() {
    let (mut script, lease) = holder();
    let _extended = extends(&mut script, 3 * SECOND);
    script.passes(SECOND);
    script.table.disconnected("cut".into());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    assert_eq!(lasts(&script, &lease), 2);
    script.sent.remove(0);
    script.answers(renewal(1, true), Reply::Done);
    assert_eq!(lasts(&script, &lease), 3);
}

#[test]
fn a_longer_ttl_behind_a_shorter_one_counts_when_it_is_confirmed() {
    let (mut script, lease) = holder();
    let mut shorter = extends(&mut script, SECOND);
    let mut longer = extends(&mut script, 20 * SECOND);
    script.answers(renewal(1, true), Reply::Done);
    assert_eq!((lasts(&script, &lease), shorter.try_recv()), (1, Ok(Ok(()))));
    // The first one may not have been done: then this one has to shorten, too.
    script.answers(renewal(2, true), Reply::Done);
    assert_eq!((lasts(&script, &lease), longer.try_recv()), (20, Ok(Ok(()))));
    let mut longest = extends(&mut script, 2 * TTL);
    script.answers(renewal(3, false), Reply::Done);
    assert_eq!((lasts(&script, &lease), longest.try_recv()), (60, Ok(Ok(()))));
}

#[test]
fn a_refused_renewal_is_sent_again_soon() {
    let (mut script, lease) = holder();
    for refusal in [Refusal::Later("NOREPLICAS".into()), Refusal::Never("NOPERM".into())] {
        script.passes(TTL / 3);
        script.tick();
        script.answers(RENEW, Reply::Refused(refusal));
        script.is_quiet();
        script.passes(SECOND);
        script.tick();
        script.answers(RENEW, Reply::Done);
        assert_eq!(lasts(&script, &lease), 30);
    }
}
