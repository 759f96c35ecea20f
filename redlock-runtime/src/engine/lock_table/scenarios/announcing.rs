//! How often a leader writes its record, and for how long it asks the server to keep it.

use super::*;

fn leads() -> Scenario {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    scenario.table.on_command(scenario.now, Command::Announce { id: 1, text: Some("here".into()) });
    scenario.send();
    scenario
}

/// The holder renews after a third of its ttl, and the server confirms it.
#[track_caller]
fn renews(scenario: &mut Scenario) {
    scenario.passes(TTL / 3);
    scenario.tick();
    scenario.answers(RENEW, Reply::Done);
}

/// Until when the server keeps the record that is being written.
#[track_caller]
fn record_ends(scenario: &mut Scenario, reply: Reply) -> Moment {
    let lasts = scenario.sent.first().and_then(|(_, _, request)| Some(request.kind.announcement()?.lasts));
    let Some(lasts) = lasts else { unreachable!("no record is written: {:?}", scenario.unanswered()) };
    scenario.answers(Action::Announce, reply);
    scenario.now.after(lasts)
}

#[test]
fn a_record_is_written_with_each_second_renewal_and_outlasts_its_lock() {
    let mut scenario = leads();
    let mut record = record_ends(&mut scenario, Reply::Done);
    for nth in 1..=12 {
        renews(&mut scenario);
        if nth % 2 == 0 {
            record = record_ends(&mut scenario, Reply::Done);
        }
        scenario.assert_quiet();
        let lock = scenario.now.after(TTL);
        assert!(record > lock, "the server keeps it for as long as the lock");
        assert!(record < lock.after(TTL), "and not for much longer");
    }
}

#[test]
fn a_record_that_is_not_confirmed_is_written_again_with_the_next_renewal() {
    let mut scenario = leads();
    record_ends(&mut scenario, Reply::NotHeld);
    renews(&mut scenario);
    record_ends(&mut scenario, Reply::Refused(Refusal::Permanent("no memory".into())));
    renews(&mut scenario);
    record_ends(&mut scenario, Reply::Done);
    renews(&mut scenario);
    scenario.assert_quiet();
}

#[test]
fn a_record_is_written_again_over_the_next_connection() {
    let mut scenario = leads();
    record_ends(&mut scenario, Reply::Done);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.answers(RENEW, Reply::Done);
    record_ends(&mut scenario, Reply::Done);
    scenario.assert_quiet();
}

#[test]
fn the_release_of_a_leader_leaves_no_lock_free() {
    for (leads, releases) in [(false, 1), (true, 0)] {
        let mut scenario = Scenario::connected();
        let _lease = scenario.holds(1);
        if leads {
            scenario.table.on_command(scenario.now, Command::Announce { id: 1, text: Some("here".into()) });
            scenario.send();
            scenario.answers(Action::Announce, Reply::Done);
            scenario.table.on_command(scenario.now, Command::Announce { id: 1, text: None });
        }
        let _released = scenario.releases(1);
        scenario.send();
        let release = scenario.sent.iter().find(|(_, _, request)| request.action == Action::Release);
        assert_eq!(release.map(|(_, _, request)| request.releases), Some(releases));
    }
}
