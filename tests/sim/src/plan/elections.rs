//! Plans about elections: candidates of several processes lead one after the other, resign, fail,
//! return or leave, beside callers that want the same lock.

use fastrand::Rng;

use super::matters::{one_of, processes};
use super::{BodyEnds, Fault, Hold, Plan, Topology, What};
use crate::world::{CutKind, Latency};

pub(super) fn elections(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 12_000;
    let version = plan.topology.version();
    plan.topology = match random.u32(0..8) {
        0 => Topology::Quorum(version, 3),
        1 => Topology::Cluster(version, 3),
        2 => Topology::Sentinel(version),
        _ => plan.topology,
    };
    plan.processes = processes(random.usize(2..5));
    let count = plan.processes.len();
    let in_cohorts = random.u32(0..8) == 0 && matches!(plan.topology, Topology::One(_));
    for process in &mut plan.processes {
        process.cohort = if in_cohorts { 4 } else { 0 };
    }
    let keys = one_of(random, &[1, 1, 2]);
    for number in 0..random.usize(2..7) {
        let candidate = Hold {
            ttl: one_of(random, &[300, 1_000, 3_000]),
            leaves_after: Some(random.u64(500..9_000)),
            hold: one_of(random, &[20, 300, 1_500, 20_000]) + random.u64(0..100),
            leads: Some(one_of(
                random,
                &[
                    BodyEnds::Resigns,
                    BodyEnds::Resigns,
                    BodyEnds::Fails,
                    BodyEnds::StopsOnError,
                    BodyEnds::Returns,
                ],
            )),
            ..Hold::of(random.u8(0..keys))
        };
        plan = plan.with_call(random.u64(0..3_000), number % count, What::Hold(candidate));
    }
    for _ in 0..one_of(random, &[0, 0, 2, 6]) {
        let waiter = Hold {
            wait: one_of(random, &[None, Some(0), Some(500)]),
            hold: random.u64(0..50),
            ..Hold::of(random.u8(0..keys))
        };
        plan = plan.with_call(random.u64(0..8_000), random.usize(0..count), What::Hold(waiter));
    }
    if random.u32(0..4) == 0 {
        plan.latency = Latency { usual: 1, late: 20, lateness: 30 };
    }
    for _ in 0..one_of(random, &[0, 0, 1, 3]) {
        let (at, process, short) = (random.u64(500..8_000), random.usize(0..count), random.u64(1..300));
        let fault = match random.u32(0..12) {
            0 | 1 => Fault::Kill(process),
            2 | 3 => Fault::Freeze(process, one_of(random, &[500, 2_000, 5_000])),
            4 => Fault::Starve(process, 0, one_of(random, &[500, 2_000])),
            5 => Fault::Part(process, 0, one_of(random, &[200, 2_000, 4_000])),
            6 => Fault::Cut(process, 0, CutKind::Reset),
            7 => Fault::Restart(0, true, short),
            8 => Fault::FreezeServer(0, short),
            9 => Fault::DropRuntime(process, 0),
            10 => Fault::Delete(random.u8(0..keys)),
            _ => Fault::ShutDown(process),
        };
        plan.faults.push((at, fault));
    }
    // Where something else goes wrong, too, nobody can say when the next one is to lead.
    if random.u32(0..3) == 0
        && plan.faults.is_empty()
        && let Some(What::Hold(hold)) = plan.calls.first_mut().map(|call| &mut call.what)
    {
        (hold.leads, hold.hold) = (Some(BodyEnds::Blocks), random.u64(0..400));
    }
    if random.u32(0..8) == 0 {
        let key = random.u8(0..keys);
        plan = plan.with_call(random.u64(500..8_000), random.usize(0..count), What::ForceRelease(key));
    }
    plan
}
