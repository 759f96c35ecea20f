//! From a plan that violates a property to a short one that violates the same: what is not needed
//! is left out.

use crate::plan::{Plan, What};
use crate::run::run;

/// How often a plan is tried at most.
const TRIES: usize = 2_000;

/// The shortest plan that was found.
#[must_use]
pub fn shrink(plan: &Plan) -> Plan {
    let Some(violation) = run(plan, false).violation else {
        return plan.clone();
    };
    let mut tries = 0;
    let mut still = |plan: &Plan| {
        tries += 1;
        tries <= TRIES && run(plan, false).violation.is_some_and(|other| other.property == violation.property)
    };
    let mut plan = plan.clone();
    loop {
        let before = plan.calls.len() + plan.faults.len();
        leave_out(&mut plan, |plan| &mut plan.faults, &mut still);
        leave_out(&mut plan, |plan| &mut plan.calls, &mut still);
        if plan.calls.len() + plan.faults.len() == before {
            break;
        }
    }
    for call in 0..plan.calls.len() {
        let candidate = with_one_alone(&plan, call);
        if still(&candidate) {
            plan = candidate;
        }
    }
    for simpler in [without_reordering, with_even_latency, with_true_clocks] {
        let candidate = simpler(&plan);
        if still(&candidate) {
            plan = candidate;
        }
    }
    plan
}

/// Leaves out as many items in a row as possible: halves first, then less.
fn leave_out<T: Clone>(
    plan: &mut Plan,
    items: impl Fn(&mut Plan) -> &mut Vec<T>,
    still: &mut impl FnMut(&Plan) -> bool,
) {
    let mut size = items(plan).len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < items(plan).len() {
            let mut candidate = plan.clone();
            let all = items(&mut candidate);
            let end = (at + size).min(all.len());
            all.drain(at..end);
            if still(&candidate) {
                *plan = candidate;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
}

/// That caller allows nobody beside it.
fn with_one_alone(plan: &Plan, call: usize) -> Plan {
    let mut plan = plan.clone();
    if let Some(What::Hold(hold)) = plan.calls.get_mut(call).map(|call| &mut call.what) {
        (hold.allows, hold.takes) = (1, 1);
        hold.shares.clear();
    }
    plan
}

fn without_reordering(plan: &Plan) -> Plan {
    Plan { reorder: 0, ..plan.clone() }
}

fn with_even_latency(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.latency.late = 0;
    plan
}

fn with_true_clocks(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.processes.iter_mut().for_each(|process| process.fast = 0);
    plan
}
