//! A ping: over connections that break, page by page, and within one limit.

use super::*;
use crate::engine::command::{AdminCall, AdminOp};

type Health = oneshot::Receiver<Result<(), LockError>>;

const FIRST: Action = Action::Ping { cursor: 0 };

impl Scenario {
    fn pings(&mut self) -> Health {
        let (caller, health) = oneshot::channel();
        let op = AdminOp::Ping { name: "lock:%queue".into(), cursor: 0, caller };
        self.table.call(self.now, 1, AdminCall { key: None, op, by: self.now.after(SECOND) });
        self.send();
        health
    }

    fn breaks(&mut self) {
        self.sent.clear();
        self.table.disconnected(self.now, "it broke".into());
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
    assert_eq!(health.try_recv(), Ok(Ok(())));
}

#[test]
fn all_primaries_and_connections_of_a_ping_have_one_limit() {
    let mut scenario = Scenario::connected();
    let mut health = scenario.pings();
    scenario.passes(SECOND / 2);
    scenario.answers(FIRST, Reply::Page { cursor: 1, names: Vec::new() });
    scenario.breaks();
    scenario.connects();
    scenario.send();
    assert!(scenario.sent.iter().any(|(_, _, request)| request.action == Action::Ping { cursor: 1 }));
    scenario.passes(SECOND / 2);
    scenario.tick();
    assert!(matches!(health.try_recv(), Ok(Err(LockError::Unavailable { key: None, .. }))));
    assert!(scenario.table.has_no_admin_calls());
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
