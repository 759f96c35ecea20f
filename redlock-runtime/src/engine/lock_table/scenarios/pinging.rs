//! A ping, and other calls of operators: over connections that break, and within one limit.

use super::*;
use crate::engine::protocol::Listed;

type Health = oneshot::Receiver<Result<Reply, LockError>>;

const FIRST: Action = Action::Ping { cursor: 0 };

impl Scenario {
    fn pings(&mut self) -> Health {
        self.calls(1, FIRST, "lock:%queue")
    }

    fn breaks(&mut self) {
        self.sent.clear();
        self.table.disconnected(self.now, "it broke".into(), &[]);
    }
}

#[test]
fn a_ping_is_sent_again_over_the_next_connection() {
    let mut scenario = Scenario::connected();
    let mut health = scenario.pings();
    for _ in 0..3 {
        scenario.breaks();
        assert!(health.try_recv().is_err(), "it has its time");
        scenario.connects();
        scenario.send();
    }
    scenario.answers(FIRST, Reply::Done);
    assert_eq!(health.try_recv(), Ok(Ok(Reply::Done)));
}

#[test]
fn a_call_that_changes_nothing_is_sent_again_over_the_next_connection_and_any_other_fails() {
    let repeated = [
        Action::Inspect,
        Action::List { cursor: 0, what: Listed::Locks },
        Action::LastTick,
        Action::Record,
        Action::Leader,
        Action::WatchLeader,
    ];
    let sent_once = [Action::ForceRelease, Action::ClearTick, Action::ClearRecord, Action::Release];
    for (action, is_repeated) in
        repeated.map(|action| (action, true)).into_iter().chain(sent_once.map(|action| (action, false)))
    {
        let mut scenario = Scenario::connected();
        let mut call = scenario.calls(1, action, "lock:k");
        scenario.breaks();
        scenario.connects();
        scenario.send();
        let is_sent = scenario.sent.iter().any(|(_, _, request)| request.action == action);
        assert_eq!((is_sent, call.try_recv().is_err()), (is_repeated, is_repeated), "{action:?}");
    }
}

#[test]
fn all_connections_of_a_ping_have_one_limit() {
    let mut scenario = Scenario::connected();
    let mut health = scenario.pings();
    scenario.passes(SECOND / 2);
    scenario.breaks();
    scenario.connects();
    scenario.send();
    assert!(scenario.sent.iter().any(|(_, _, request)| request.action == FIRST));
    scenario.passes(SECOND / 2);
    scenario.tick();
    assert!(matches!(health.try_recv(), Ok(Err(LockError::Unavailable { key: None, .. }))));
    assert!(!scenario.table.has_other_callers());
}

#[test]
fn without_a_server_a_ping_fails_at_once() {
    let mut scenario = Scenario::connected();
    let mut health = scenario.pings();
    scenario.breaks();
    scenario.table.unreachable(scenario.now, Disconnected::passing("refused"));
    assert!(matches!(health.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
    assert!(matches!(scenario.pings().try_recv(), Ok(Err(LockError::Unavailable { .. }))));
}
