//! The shutdown of a manager with locks that are still held.

use super::*;
use crate::engine::command::Unfinished;
use crate::engine::table::closing::Closing;
use crate::lost_reason::LostReason;

type End = oneshot::Receiver<Result<(), Unfinished>>;

const GRACE: Duration = SECOND;

impl Script {
    fn shuts_down(&mut self, limit: Duration) -> (Closing, End) {
        let (caller, end) = oneshot::channel();
        self.table.close(self.now);
        self.send();
        (Closing::new(self.now.after(limit), GRACE, caller), end)
    }

    /// `None` once the caller has been answered.
    fn looks(&mut self, closing: Closing) -> Option<Closing> {
        let closing = closing.look(self.now, &mut self.table, Table::is_idle);
        self.send();
        closing
    }

    fn holds(&mut self, id: Id) -> Arc<Lease> {
        let mut outcome = self.acquires(id, None);
        self.answers(JOIN, Reply::Held { fence: 1 });
        let Some(lease) = held(&mut outcome) else { unreachable!("it is held") };
        lease
    }
}

#[test]
fn what_ends_by_itself_before_the_limit_is_not_stopped() {
    let mut script = Script::connected();
    let lease = script.holds(1);
    let (closing, mut end) = script.shuts_down(2 * SECOND);
    script.passes(SECOND);
    let Some(closing) = script.looks(closing) else { unreachable!("it is held") };
    assert_eq!(lease.lost_reason(), None);
    script.table.release(script.now, 1, None);
    script.send();
    script.answers(Action::Release, Reply::Done);
    assert!(script.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Ok(())));
}

#[test]
fn what_is_held_at_the_limit_ends_and_is_released_by_its_guard() {
    let mut script = Script::connected();
    let lease = script.holds(1);
    let (closing, mut end) = script.shuts_down(SECOND);
    assert_eq!(closing.due(), script.now.after(SECOND));
    script.passes(SECOND);
    let Some(closing) = script.looks(closing) else { unreachable!("its guard is not dropped yet") };
    assert_eq!(lease.lost_reason(), Some(LostReason::ManagerClosed));
    script.is_quiet();
    script.table.release(script.now, 1, None);
    script.send();
    let Some(closing) = script.looks(closing) else { unreachable!("it is not answered yet") };
    script.answers(Action::Release, Reply::Done);
    assert!(script.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(Unfinished { stopped: 1, unreleased: 0 })));
}

#[test]
fn a_sync_body_that_goes_on_keeps_its_key_until_that_has_expired() {
    let mut script = Script::connected();
    let lease = script.holds(1);
    script.passes(TTL / 2);
    script.tick();
    let Some((id, sent, renewal)) = script.next() else { unreachable!("it is renewed") };
    let (closing, mut end) = script.shuts_down(Duration::ZERO);
    let Some(closing) = script.looks(closing) else { unreachable!("the body goes on") };
    // What was on its way does not revive it, and a wish for more is not sent.
    script.table.reply(script.now, id, sent, &renewal, Reply::Done);
    let (caller, mut extended) = oneshot::channel();
    script.table.extend(script.now, 1, crate::engine::command::Extension { ttl: TTL, caller });
    assert!(matches!(extended.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    script.table.disconnected("cut".into());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.passes(GRACE);
    script.tick();
    assert_eq!(closing.due(), script.now);
    assert!(script.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(Unfinished { stopped: 1, unreleased: 1 })));
    script.passes(TTL);
    script.tick();
    script.is_quiet();
    assert!(script.table.is_idle(), "its key has expired");
    assert_eq!(lease.lost_reason(), Some(LostReason::ManagerClosed));
}

#[test]
fn releases_that_are_not_answered_are_counted() {
    let mut script = Script::connected();
    drop(script.holds(1));
    script.table.release(script.now, 1, None);
    let (closing, mut end) = script.shuts_down(SECOND);
    script.passes(SECOND);
    let Some(closing) = script.looks(closing) else { unreachable!("it is not answered yet") };
    script.passes(GRACE);
    assert!(script.looks(closing).is_none());
    assert_eq!(end.try_recv(), Ok(Err(Unfinished { stopped: 0, unreleased: 1 })));
}
