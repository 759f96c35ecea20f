//! What the faults of a plan do to a process.

use redlocked_sim::plan::{Fault, Hold, Plan, Way, What};
use redlocked_sim::run::run;
use redlocked_sim::world::CutKind;

/// When a process that waits in a queue, and sends nothing, says hello again after this fault, in
/// milliseconds.
fn reconnects_at(how: CutKind) -> Option<f64> {
    let mut plan = Plan::quiet(1, 2)
        .with_call(0, 0, What::Hold(Hold { ttl: 30_000, hold: 20_000, ..Hold::of(0) }))
        .with_call(500, 1, What::Hold(Hold { wait: Some(10_000), ..Hold::of(0) }));
    plan.faults.push((1_000, Fault::Cut(1, 0, how)));
    let report = run(&plan, true);
    assert_eq!(report.violation, None, "{how:?}");
    let hello = report.trace.iter().filter(|line| line.contains("HELLO")).nth(2)?;
    hello.split_whitespace().next()?.parse().ok()
}

/// It may pause for a moment before it connects.
fn is_soon_after(at: Option<f64>, fault: f64) -> bool {
    at.is_some_and(|at| (fault..fault + 20.0).contains(&at))
}

#[test]
fn a_process_hears_of_a_lost_connection() {
    assert!(is_soon_after(reconnects_at(CutKind::Reset), 1_000.0));
    assert!(is_soon_after(reconnects_at(CutKind::LateRequests(300)), 1_000.0));
}

#[test]
fn a_process_hears_late_that_a_connection_is_half_open() {
    assert!(is_soon_after(reconnects_at(CutKind::HalfOpen(50)), 1_050.0));
}

#[test]
fn a_forked_child_has_no_lock_and_its_parent_keeps_it() {
    let holder = |way| Hold { hold: 2_000, forks: true, way, ..Hold::of(0) };
    let waiter = Hold { hold: 10, ..Hold::of(0) };
    let report = run(
        &Plan::quiet(1, 2)
            .with_call(0, 0, What::Hold(holder(Way::Release)))
            .with_call(10, 0, What::Hold(holder(Way::Run)))
            .with_call(20, 1, What::Hold(waiter)),
        true,
    );
    assert_eq!(report.violation, None);
    assert_eq!(report.trace.iter().filter(|line| line.ends_with("process 1 forks")).count(), 2);
    assert_eq!(report.holds, 3);
}
