//! A long wait is reported: the server is asked for the holder when a report is due, and not
//! before.

use super::*;
use crate::engine::protocol::Inspection;

/// Waiters wait for longer than this.
const LIMIT: Duration = SECOND;

fn limited(warn_after: Option<Duration>) -> Scenario {
    let mut scenario = Scenario::connected();
    let mut table = LockTable::new(EngineSettings { warn_after, ..EngineSettings::for_a_test() });
    table.connected(scenario.now, HANDS_OVER);
    scenario.table = table;
    scenario
}

impl Scenario {
    /// Runs the timers for so long, as an event loop would: every 10 ms, while each request of a waiter
    /// is answered with "busy". Returns when the server was asked for the holder.
    fn waits(&mut self, time: Duration) -> Vec<Duration> {
        let (end, mut asked) = (self.now.after(time), Vec::new());
        while self.now < end {
            self.passes(Duration::from_millis(10));
            self.tick();
            while let Some((id, sent, request)) = self.next() {
                let reply = match request.action {
                    Action::Inspect => {
                        asked.push(self.now.since(self.start));
                        found()
                    }
                    Action::Acquire(_) => self.busy(0),
                    _ => continue,
                };
                self.table.reply(self.now, id, sent, &request, reply);
                self.send();
            }
        }
        asked
    }

    /// The questions that are unanswered.
    fn questions(&self) -> usize {
        self.sent.iter().filter(|(_, _, request)| request.action == Action::Inspect).count()
    }
}

fn found() -> Reply {
    let holder = Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() };
    Reply::Found(Some(Inspection {
        holder,
        value: Token::empty(),
        waiters: 1,
        queue: vec![None],
        record: None,
        counted: None,
    }))
}

#[test]
fn a_wait_is_reported_after_the_limit_and_each_time_it_is_four_times_as_long() {
    let mut scenario = limited(Some(LIMIT));
    let _outcome = queued(1, &mut scenario);
    assert_eq!(scenario.waits(70 * SECOND), [1, 4, 16, 64].map(Duration::from_secs));
}

#[test]
fn a_shorter_wait_asks_for_no_holder() {
    let mut scenario = limited(Some(LIMIT));
    let mut outcome = queued(1, &mut scenario);
    assert!(scenario.waits(Duration::from_millis(990)).is_empty());
    let at = scenario.server_time();
    scenario.grants(1, at);
    assert!(held(&mut outcome).is_some() && scenario.waits(10 * SECOND).is_empty());
}

#[test]
fn without_a_limit_or_with_one_try_there_is_no_report_and_no_timer_for_one() {
    let mut scenario = limited(None);
    let _first = queued(1, &mut scenario);
    let _second = queued(2, &mut scenario);
    scenario.abandons(1);
    assert!(scenario.waits(100 * SECOND).is_empty());

    let mut scenario = limited(Some(Duration::ZERO));
    let _outcome = scenario.acquires(1, Some(Duration::ZERO));
    assert_eq!(scenario.table.next_timer(), Some(scenario.now.after(SECOND)), "that of the reply");
}

#[test]
fn a_limit_of_zero_reports_at_once_and_the_timers_come_to_an_end() {
    let mut scenario = limited(Some(Duration::ZERO));
    let _outcome = queued(1, &mut scenario);
    assert_eq!(scenario.waits(Duration::from_millis(50)).len(), 3, "after 10, 20 and 50 ms");
}

#[test]
fn of_the_waiters_of_one_lock_one_is_reported_until_its_wait_ends() {
    let mut scenario = limited(Some(LIMIT));
    let outcomes: Vec<_> = (1..=5).map(|id| queued(id, &mut scenario)).collect();
    assert_eq!(scenario.waits(3 * SECOND), [SECOND], "one question for five waiters");
    scenario.abandons(1);
    assert_eq!(scenario.waits(12 * SECOND), [4 * SECOND], "another one takes its place");
    drop(outcomes);
}

#[test]
fn a_report_that_a_broken_connection_left_unanswered_is_asked_for_again() {
    let mut scenario = limited(Some(LIMIT));
    let _outcome = queued(1, &mut scenario);
    scenario.passes(LIMIT);
    scenario.tick();
    assert_eq!(scenario.questions(), 1);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    assert_eq!(scenario.questions(), 1);
}

#[test]
fn without_a_connection_the_report_needs_no_server() {
    let mut scenario = limited(Some(LIMIT));
    let _outcome = queued(1, &mut scenario);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    assert!(scenario.waits(2 * SECOND).is_empty());
    scenario.connects();
    assert_eq!(scenario.waits(10 * SECOND), [4 * SECOND]);
}

#[test]
fn a_server_that_has_forgotten_the_script_is_asked_again() {
    let mut scenario = limited(Some(LIMIT));
    let _outcome = queued(1, &mut scenario);
    scenario.passes(LIMIT);
    scenario.tick();
    scenario.sent.retain(|(_, _, request)| request.action == Action::Inspect);
    scenario.answers(Action::Inspect, Reply::Refused(Refusal::NoScript));
    scenario.answers(Action::Inspect, found());
    scenario.assert_quiet();
}
