//! A ticket over a primary that moves, and over a quorum.

use kit::{LIMIT, Quorum, SECOND, SentinelGroup, eventually};
use redlocked::{LockError, LockManager, LostReason, ReleaseOutcome, Ticket, distributed_lock};

#[test]
fn a_ticket_is_good_on_the_next_primary_or_lost_and_nobody_is_there_twice() {
    let group = SentinelGroup::start();
    let connect = || LockManager::connect_blocking(group.url()).unwrap();
    let (locks, others) = (connect(), connect());
    let give = |key| {
        let guard = locks.lock(key).ttl(100 * SECOND).acquire_blocking().unwrap();
        (guard.fencing_token(), guard.into_ticket_blocking(100 * SECOND).unwrap())
    };
    let redeem = |ticket: &Ticket| others.redeem(ticket.clone()).wait(LIMIT).acquire_blocking();
    let lost = |outcome: Result<redlocked::LockGuard, LockError>| match outcome.map(drop) {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };

    // While the primary stays.
    let (fence, ticket) = give("before");
    let guard = redeem(&ticket).unwrap();
    assert!(guard.fencing_token() > fence);
    assert_eq!(lost(redeem(&ticket)), LostReason::TicketUsed);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);

    let ((fence, replicated), (_, forgotten)) = (give("replicated"), give("forgotten"));
    eventually("the replicas have the lock of the ticket", || {
        group.servers.iter().all(|server| server.run::<i32>("EXISTS lock:replicated") == 1)
    });
    group.forget_on_replicas("forgotten");
    let before = group.primary().port();
    group.fail_over();
    group.wait_for_another_primary_than(before);
    // For a moment the old primary still acts as one.
    eventually("locks are where the primary is", || {
        drop(others.lock("other").wait(LIMIT).acquire_blocking().unwrap());
        let guard = others.lock("there").wait(LIMIT).acquire_blocking().unwrap();
        let there = group.primary().keys().contains(&"lock:there".to_owned());
        drop(guard);
        there
    });

    let busy = others.lock("replicated").acquire_blocking().unwrap_err();
    assert!(busy.is_busy(), "it is left to its ticket: {busy}");
    let guard = redeem(&replicated).unwrap();
    assert!(guard.fencing_token() > fence);
    assert_eq!(lost(redeem(&replicated)), LostReason::TicketUsed);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);

    assert_eq!(lost(redeem(&forgotten)), LostReason::TicketOver);
    let guard = others.lock("forgotten").acquire_blocking().unwrap();
    assert_eq!(lost(redeem(&forgotten)), LostReason::TicketUsed);
    assert!(guard.is_held());
}

/// A body that asks for a ticket, is refused, and then asks whether its lock is held.
#[distributed_lock(key = "k", constant_key, ticket = lock, manager = locks)]
fn gives(locks: &LockManager, others: &LockManager) -> Result<(LockError, bool), LockError> {
    let refused = lock.into_ticket_blocking(100 * SECOND).unwrap_err();
    let error = others.lock("k").acquire_blocking().unwrap_err();
    Ok((refused, error.is_busy()))
}

#[test]
fn over_a_quorum_there_is_no_ticket_and_the_lock_stays_held() {
    let quorum = Quorum::durable(3);
    let (locks, others) = (quorum.manager(), quorum.manager());
    let (refused, is_held) = gives(&locks, &others).unwrap();
    assert!(matches!(refused, LockError::InvalidRequest { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(
        text.contains("`k`") && text.contains("a quorum of independent servers has no tickets"),
        "{text}"
    );
    assert!(is_held, "the body still has it");
    // Nor does a majority count those that are inside together.
    let guard = locks.lock("reads").acquire_blocking().unwrap();
    let refused = guard.downgrade_blocking().unwrap_err().to_string();
    assert!(refused.contains("over a quorum of independent servers") && guard.is_held(), "{refused}");
    drop(guard);
    // A guard that is used up is released.
    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert!(guard.into_ticket_blocking(100 * SECOND).is_err());
    quorum.assert_nothing_left();
}
