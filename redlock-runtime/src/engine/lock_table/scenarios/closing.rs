//! The shutdown of a manager that holds locks.

use super::*;
use crate::base::outcome::LostReason;
use crate::engine::command::ShutdownIncomplete;
use crate::engine::lock_table::closing::Closing;

type End = oneshot::Receiver<Result<(), ShutdownIncomplete>>;

const GRACE: Duration = SECOND;

impl Scenario {
    fn shuts_down(&mut self, limit: Duration) -> (Closing, End) {
        let (caller, end) = oneshot::channel();
        self.table.close(self.now);
        self.send();
        (Closing::new(self.now.after(limit), GRACE, caller), end)
    }

    /// `None` once the caller has been answered.
    fn looks(&mut self, closing: Closing) -> Option<Closing> {
        let closing = closing.look(self.now, &mut self.table, LockTable::is_idle);
        self.send();
        closing
    }
}

#[test]
fn a_lock_released_before_the_limit_is_not_stopped() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let (closing, mut end) = scenario.shuts_down(2 * SECOND);
    scenario.passes(SECOND);
    let Some(closing) = scenario.looks(closing) else { unreachable!("it is held") };
    assert_eq!(lease.lost_reason(), None);
    scenario.drops_guard(1);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Ok(())));
}

#[test]
fn a_lock_held_at_the_limit_ends_and_is_released_by_its_guard() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let (closing, mut end) = scenario.shuts_down(SECOND);
    assert_eq!(closing.due(), scenario.now.after(SECOND));
    scenario.passes(SECOND);
    let Some(closing) = scenario.looks(closing) else { unreachable!("its guard is not dropped yet") };
    assert_eq!(lease.lost_reason(), Some(LostReason::ManagerClosed));
    scenario.assert_quiet();
    scenario.drops_guard(1);
    let Some(closing) = scenario.looks(closing) else { unreachable!("it is not answered yet") };
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(ShutdownIncomplete { stopped: 1, unreleased: 0 })));
}

#[test]
fn a_sync_body_that_goes_on_keeps_its_key_until_that_has_expired() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    scenario.passes(TTL / 2);
    scenario.tick();
    let Some((id, sent, renewal)) = scenario.next() else { unreachable!("it is renewed") };
    let (closing, mut end) = scenario.shuts_down(Duration::ZERO);
    let Some(closing) = scenario.looks(closing) else { unreachable!("the body goes on") };
    // The reply to the renewal does not revive it, and a change of the ttl is not sent.
    scenario.table.reply(scenario.now, id, sent, &renewal, Reply::Done);
    let (caller, mut extended) = oneshot::channel();
    scenario.table.extend(scenario.now, 1, command::Extension { ttl: TTL, caller });
    assert!(matches!(extended.try_recv(), Err(TryRecvError::Closed)));
    scenario.table.disconnected(scenario.now, "cut".into());
    scenario.connects();
    scenario.passes(GRACE);
    scenario.tick();
    assert_eq!(closing.due(), scenario.now);
    assert!(scenario.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(ShutdownIncomplete { stopped: 1, unreleased: 1 })));
    scenario.passes(TTL);
    scenario.tick();
    scenario.assert_quiet();
    assert!(scenario.table.is_idle(), "its key has expired");
    assert_eq!(lease.lost_reason(), Some(LostReason::ManagerClosed));
}

#[test]
fn unanswered_releases_are_counted() {
    let mut scenario = Scenario::connected();
    drop(scenario.holds(1));
    scenario.table.release(scenario.now, 1, None);
    let (closing, mut end) = scenario.shuts_down(SECOND);
    scenario.passes(SECOND);
    let Some(closing) = scenario.looks(closing) else { unreachable!("it is not answered yet") };
    scenario.passes(GRACE);
    assert!(scenario.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(ShutdownIncomplete { stopped: 0, unreleased: 1 })));
}
