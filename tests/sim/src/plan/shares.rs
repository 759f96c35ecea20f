//! Plans about locks that several have together: readers, holders of permits, and callers that must
//! be alone, for the same keys. Some die inside, are stopped, or let their leases end.

use fastrand::Rng;

use super::matters::{one_of, processes};
use super::{ALLOWED, CENTRAL, Fault, Hold, Plan, Topology, Way, What};
use crate::world::CutKind;

pub(super) fn shares(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 6_000;
    plan.processes = processes(random.usize(2..6));
    let count = plan.processes.len();
    if random.u32(0..8) == 0 {
        plan.topology = Topology::Cluster(plan.topology.version(), 3);
    }
    // In some plans most callers read, and a few write.
    let most_read = random.bool();
    let keys = one_of(random, &[1, 1, 2]);
    let is_short = random.bool();
    for _ in 0..random.usize(4..40) {
        let others = one_of(random, &ALLOWED);
        let allows = if most_read { one_of(random, &[0, 0, 0, 1]) } else { others };
        let hold = one_of(random, &[0, 5, 40, 300, 1_500]);
        let leaves = random.u32(0..10) == 0;
        let min_hold = (random.u32(0..16) == 0).then(|| random.u64(1..300));
        let caller = Hold {
            ttl: one_of(random, &[300, 1_000, 1_000, 3_000, 10_000]),
            allows,
            wait: one_of(random, &[None, None, None, Some(0), Some(500), Some(4_000)]),
            leaves_after: leaves.then(|| random.u64(0..300)),
            hold: random.u64(0..=hold),
            renew: min_hold.is_some() || random.u32(0..8) > 0,
            extend: if random.u32(0..12) == 0 { vec![(random.u64(0..50), 300)] } else { Vec::new() },
            min_hold,
            way: one_of(random, &[Way::Release, Way::Drop, Way::Run]),
            ..Hold::of(random.u8(0..keys))
        };
        let at = random.u64(0..if is_short { 200 } else { 4_000 });
        plan = plan.with_call(at, random.usize(0..count), What::Hold(caller));
    }
    for _ in 0..one_of(random, &[0, 0, 1, 1, 3]) {
        let (process, key) = (random.usize(0..count), random.u8(0..keys));
        let fault = match random.u32(0..12) {
            0..4 => Fault::Kill(process),
            4 => Fault::PowerOff(process),
            5 | 6 => Fault::Freeze(process, one_of(random, &[300, 1_500, 5_000])),
            7 => Fault::Cut(process, 0, CutKind::Reset),
            8 => Fault::Delete(key),
            9 => Fault::DeleteQueue(key),
            10 => Fault::Foreign(key, random.u64(20..800)),
            _ => Fault::Full(0, random.u64(200..2_000)),
        };
        plan.faults.push((random.u64(0..4_000), fault));
    }
    let operator = match random.u32(0..12) {
        0 => Some(What::ForceRelease as fn(u8) -> What),
        1..=3 => Some(What::Revoke as fn(u8) -> What),
        _ => None,
    };
    if let Some(operator) = operator {
        plan = plan.with_call(random.u64(100..3_000), random.usize(0..count), operator(0));
    }
    for _ in 0..one_of(random, &[0, 0, 1, 2, 5]) {
        let permits = one_of(random, &CENTRAL);
        let sets = What::SetPermits(random.u8(0..keys), permits);
        plan = plan.with_call(random.u64(0..4_000), random.usize(0..count), sets);
    }
    plan
}

/// Callers with a `min_hold` wait for permits, and some of their processes die as soon as they are let
/// in, within their claims.
pub(super) fn rates(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 8_000;
    let (permits, waiters) = (random.u32(2..4), random.usize(3..9));
    plan.processes = processes(waiters + 1);
    plan.latency.usual = one_of(random, &[1, 1, 60]);
    let end = random.u64(200..800);
    for _ in 0..permits {
        let holder = Hold { allows: permits, hold: end, ..Hold::of(0) };
        plan = plan.with_call(0, 0, What::Hold(holder));
    }
    let min_hold = one_of(random, &[700, 1_500, 2_500]);
    for process in 1..=waiters {
        let waiter = Hold {
            ttl: one_of(random, &[300, 1_000, 3_000]),
            allows: permits,
            min_hold: Some(min_hold),
            hold: one_of(random, &[0, 20, 5_000]),
            way: one_of(random, &[Way::Release, Way::Drop, Way::Run]),
            ..Hold::of(0)
        };
        plan = plan.with_call(random.u64(1..1_500), process, What::Hold(waiter));
        let dies = one_of(random, &[Fault::Kill as fn(usize) -> Fault, Fault::PowerOff]);
        if random.bool() {
            plan.faults.push((end + random.u64(0..1_500), dies(process)));
        }
    }
    plan
}

/// As [`rates`], with callers that hold nothing once they have started, in some plans one start in a time.
pub(super) fn starts(plan: Plan, random: &mut Rng) -> Plan {
    let mut plan = rates(plan, random);
    let is_one = random.u32(0..3) == 0;
    for call in &mut plan.calls {
        let What::Hold(hold) = &mut call.what else { continue };
        if is_one {
            hold.allows = 1;
        }
        hold.starts = hold.min_hold.is_some();
        if hold.starts {
            (hold.hold, hold.wait) = (0, one_of(random, &[None, None, Some(0), Some(3_000)]));
        }
    }
    plan
}

/// A process is stopped whose caller waits for the lock alone, behind readers that stay: other readers
/// have room beside those.
pub(super) fn stopped_in_front(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 8_000;
    plan.processes = processes(4);
    let reader = |hold| Hold { allows: 0, hold, ..Hold::of(0) };
    plan = plan.with_call(0, 0, What::Hold(reader(20_000)));
    for _ in 0..random.usize(1..4) {
        plan = plan.with_call(random.u64(20..200), 1, What::Hold(Hold::of(0)));
    }
    let stops = random.u64(210..1_500);
    let fault = if random.bool() { Fault::Freeze(1, 60_000) } else { Fault::PowerOff(1) };
    plan.faults.push((stops, fault));
    for _ in 0..random.usize(1..10) {
        let hold = one_of(random, &[0, 30, 700]);
        plan = plan.with_call(random.u64(250..4_000), random.usize(2..4), What::Hold(reader(hold)));
    }
    plan
}
