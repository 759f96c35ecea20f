//! Plans about tickets: callers give their locks away, others redeem them in time, too late, or a
//! second time, and waiters stand behind.

use fastrand::Rng;

use super::matters::{one_of, processes};
use super::{Fault, Gift, Hold, Plan, What};
use crate::world::{CutKind, Latency};

pub(super) fn tickets(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 8_000;
    plan.processes = processes(random.usize(2..5));
    let count = plan.processes.len();
    let in_cohorts = random.u32(0..4) == 0;
    for process in &mut plan.processes {
        process.cohort = if in_cohorts { 4 } else { 0 };
    }
    let keys = one_of(random, &[1, 1, 2]);
    for _ in 0..random.u64(1..8) {
        let (at, key, hold) = (random.u64(0..4_000), random.u8(0..keys), random.u64(0..200));
        let lasts = one_of(random, &[50, 300, 1_000, 3_000]);
        let leaves_after = (random.u32(0..4) == 0).then(|| random.u64(0..8));
        let giver = Hold {
            ttl: one_of(random, &[300, 1_000, 10_000]),
            wait: one_of(random, &[None, Some(2_000)]),
            hold,
            gives: Some(Gift { lasts, leaves_after }),
            ..Hold::of(key)
        };
        plan = plan.with_call(at, random.usize(0..count), What::Hold(giver));
        for _ in 0..random.u64(0..4) {
            let at = at + hold + random.u64(0..lasts + 100);
            let redeemer = Hold {
                ttl: one_of(random, &[300, 1_000, 10_000]),
                wait: Some(0),
                hold: random.u64(0..400),
                redeems: true,
                gives: (random.u32(0..4) == 0).then_some(Gift { lasts, leaves_after: None }),
                ..Hold::of(key)
            };
            plan = plan.with_call(at, random.usize(0..count), What::Hold(redeemer));
        }
    }
    for _ in 0..random.u64(0..12) {
        let waiter = Hold {
            wait: one_of(random, &[None, None, Some(0), Some(500)]),
            hold: random.u64(0..50),
            ..Hold::of(random.u8(0..keys))
        };
        plan = plan.with_call(random.u64(0..5_000), random.usize(0..count), What::Hold(waiter));
    }
    if random.bool() {
        plan.latency = Latency { usual: 1, late: 20, lateness: 30 };
    }
    for _ in 0..one_of(random, &[0, 0, 1, 3]) {
        let (process, short) = (random.usize(0..count), random.u64(1..300));
        let fault = match random.u32(0..6) {
            0 => Fault::Kill(process),
            1 => Fault::Freeze(process, one_of(random, &[500, 2_000])),
            2 => Fault::Cut(process, 0, CutKind::Reset),
            3 => Fault::Cut(process, 0, CutKind::LateRequests(short)),
            4 => Fault::Restart(0, random.bool(), short),
            _ => Fault::FreezeServer(0, short),
        };
        plan.faults.push((random.u64(0..5_000), fault));
    }
    plan
}
