//! The shutdown of a manager that holds locks.

use super::*;
use crate::base::outcome::LostReason;
use crate::engine::command::ShutdownIncomplete;

type End = oneshot::Receiver<Result<(), ShutdownIncomplete>>;

const GRACE: Duration = SECOND;

impl Scenario {
    fn shuts_down(&mut self, limit: Duration) -> End {
        let (caller, end) = oneshot::channel();
        self.table.on_command(self.now, Command::Shutdown { until: self.now.after(limit), caller });
        self.send();
        end
    }

    /// True once the caller has been answered.
    fn is_answered(&mut self) -> bool {
        self.table.poll_closing(self.now, true);
        self.send();
        self.table.closing.is_empty()
    }

    /// Returns when the shutdown is due.
    fn is_due_at(&self) -> Moment {
        self.table.closing[0].due(GRACE)
    }
}

#[test]
fn a_lock_released_before_the_limit_is_not_stopped() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut end = scenario.shuts_down(2 * SECOND);
    scenario.passes(SECOND);
    assert!(!scenario.is_answered(), "it is held");
    assert_eq!(lease.lost_reason(), None);
    scenario.drops_guard(1);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.is_answered());
    assert_eq!(end.try_recv(), Ok(Ok(())));
}

#[test]
fn a_lock_held_at_the_limit_ends_and_is_released_by_its_guard() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut end = scenario.shuts_down(SECOND);
    assert_eq!(scenario.is_due_at(), scenario.now.after(SECOND));
    scenario.passes(SECOND);
    assert!(!scenario.is_answered(), "its guard is not dropped yet");
    assert_eq!(lease.lost_reason(), Some(LostReason::ManagerClosed));
    scenario.assert_quiet();
    scenario.drops_guard(1);
    assert!(!scenario.is_answered(), "it is not answered yet");
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.is_answered());
    assert_eq!(end.try_recv(), Ok(Err(ShutdownIncomplete { stopped: 1, unreleased: 0 })));
}

#[test]
fn a_sync_body_that_goes_on_keeps_its_key_until_that_has_expired() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    scenario.passes(TTL / 2);
    scenario.tick();
    let Some((id, sent, renewal)) = scenario.next() else { unreachable!("it is renewed") };
    let mut end = scenario.shuts_down(Duration::ZERO);
    assert!(!scenario.is_answered(), "the body goes on");
    // The reply to the renewal does not revive it, and a change of the ttl is not sent.
    scenario.table.reply(scenario.now, id, sent, &renewal, Reply::Done);
    let (caller, mut extended) = oneshot::channel();
    scenario.table.on_command(
        scenario.now,
        Command::Extend { id: 1, extension: command::Extension { ttl: TTL, caller } },
    );
    assert!(matches!(extended.try_recv(), Err(TryRecvError::Closed)));
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.passes(GRACE);
    scenario.tick();
    assert_eq!(scenario.is_due_at(), scenario.now);
    assert!(scenario.is_answered());
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
    scenario.table.on_command(scenario.now, Command::Release { id: 1, response: None });
    let mut end = scenario.shuts_down(SECOND);
    scenario.passes(SECOND);
    assert!(!scenario.is_answered(), "it is not answered yet");
    scenario.passes(GRACE);
    assert!(scenario.is_answered());
    assert_eq!(end.try_recv(), Ok(Err(ShutdownIncomplete { stopped: 0, unreleased: 1 })));
}
