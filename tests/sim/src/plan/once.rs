//! Plans about bodies that run once: callers of several processes want the result of one, while those
//! that run it are killed, stopped, cut off and dropped, or leave a body that is in a task of its own.
//! Some bodies take longer than their records last. In a few, a server loses its data.

use fastrand::Rng;
use redlock_runtime::OnInterrupted;

use super::matters::{one_of, processes};
use super::{Fault, Hold, Once, Plan, Topology, What};
use crate::world::{CutKind, Latency};

pub(super) fn once(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 6_000;
    plan.processes = processes(random.usize(2..5));
    let count = plan.processes.len();
    if random.u32(0..8) == 0 {
        plan.topology = Topology::Cluster(plan.topology.version(), 3);
    }
    let keys = one_of(random, &[1, 1, 2]);
    let on_interrupted = one_of(random, &[OnInterrupted::Rerun, OnInterrupted::Error]);
    let lasts = one_of(random, &[300, 2_000, 30_000]);
    let spread = one_of(random, &[50, 1_000, 4_000]);
    let (longest, has_others) = (one_of(random, &[1, 50, 400, 1_500]), random.u32(0..4) == 0);
    let (most, are_crowds) = (one_of(random, &[0, 0, 4, 10]), random.u32(0..3) == 0);
    for _ in 0..if are_crowds { random.usize(20..60) } else { random.usize(3..20) } {
        let body = Once {
            lasts,
            by: has_others.then(|| random.u8(0..2)),
            on_interrupted,
            fails: random.u32(0..40) < most,
            clears: random.u32(0..4) == 0,
            spawn: random.u32(0..3) == 0,
        };
        let caller = Hold {
            ttl: one_of(random, &[300, 1_000, 10_000]),
            wait: one_of(random, &[None, None, Some(0), Some(500), Some(4_000)]),
            leaves_after: (random.u32(0..20) < most).then(|| random.u64(0..=longest)),
            hold: random.u64(0..longest),
            renew: random.u32(0..8) > 0,
            once: Some(body),
            ..Hold::of(random.u8(0..keys))
        };
        let at = random.u64(0..spread);
        plan = plan.with_call(at, random.usize(0..count), What::Hold(caller));
    }
    for _ in 0..one_of(random, &[0, 0, 2, 6]) {
        let other = Hold { hold: random.u64(0..50), wait: Some(500), ..Hold::of(random.u8(0..keys)) };
        plan = plan.with_call(random.u64(0..4_000), random.usize(0..count), What::Hold(other));
    }
    if random.u32(0..3) == 0 {
        plan.latency = Latency { usual: 1, late: 20, lateness: 30 };
    }
    for _ in 0..one_of(random, &[0, 0, 1, 3]) {
        let (process, short) = (random.usize(0..count), random.u64(1..300));
        let fault = match random.u32(0..14) {
            0 | 1 => Fault::Kill(process),
            2 => Fault::PowerOff(process),
            3 | 4 => Fault::Freeze(process, one_of(random, &[500, 2_000])),
            5 => Fault::Cut(process, 0, CutKind::Reset),
            6 => Fault::Cut(process, 0, CutKind::LateRequests(random.u64(300..1_500))),
            7 => Fault::Restart(0, true, short),
            8 => Fault::ServerClock(0, one_of(random, &[-300, 2_000])),
            9 => Fault::Part(process, 0, one_of(random, &[short, 1_500])),
            10 => Fault::FreezeServer(0, short),
            11 => Fault::Delete(random.u8(0..keys)),
            12 => Fault::Forbid(0, one_of(random, &["publish", "zadd", "set"]), short),
            _ => one_of(random, &[Fault::Flush as fn(usize) -> Fault, |server| Fault::Full(server, 800)])(0),
        };
        plan.faults.push((random.u64(0..4_000), fault));
    }
    if random.u32(0..12) == 0 {
        plan = plan.with_call(random.u64(100..3_000), random.usize(0..count), What::ForceRelease(0));
    }
    plan
}
