//! Plans about ticks: the timers of several processes fire a little early and a little late, and
//! bodies are killed, stopped and cut off in each phase. No server loses its data here.

use std::time::Duration;

use fastrand::Rng;
use redlock_runtime::TickMissed;

use super::matters::{one_of, processes};
use super::{Fault, Hold, Plan, TICK, Way, What};
use crate::world::{CutKind, Latency};

/// So far ahead the clock of a server leaps, in ms: by less than the records of ticks last.
const LEAP: i64 = 49 * 3_600_000;

pub(super) fn ticks(mut plan: Plan, random: &mut Rng) -> Plan {
    let tick = u64::try_from(Duration::as_millis(&TICK)).unwrap_or(u64::MAX);
    plan.length = 7_000;
    plan.processes = processes(random.usize(2..5));
    let count = plan.processes.len();
    let keys = one_of(random, &[1, 1, 2]);
    let missed = one_of(random, &[TickMissed::Skip, TickMissed::Retry]);
    let (longest, wait) =
        (one_of(random, &[1, 50, 400, 1_500]), one_of(random, &[None, Some(0), Some(2_500)]));
    for process in 0..count {
        // A timer of each process, which is late by something each time.
        let shift = random.u64(0..tick);
        for number in 0..5 {
            let timer = Hold {
                ttl: one_of(random, &[300, 1_000, 10_000]),
                wait,
                leaves_after: (random.u32(0..8) == 0).then(|| random.u64(0..8)),
                hold: random.u64(0..longest),
                tick: Some(missed),
                way: one_of(random, &[Way::Release, Way::Release, Way::Drop, Way::Run]),
                ..Hold::of(random.u8(0..keys))
            };
            let at = number * tick + shift + random.u64(0..30);
            plan = plan.with_call(at, process, What::Hold(timer));
        }
    }
    for _ in 0..random.u64(0..6) {
        let other = Hold { hold: random.u64(0..50), wait: Some(500), ..Hold::of(random.u8(0..keys)) };
        plan = plan.with_call(random.u64(0..5_000), random.usize(0..count), What::Hold(other));
    }
    if random.bool() {
        plan.latency = Latency { usual: 1, late: 20, lateness: 30 };
    }
    for _ in 0..one_of(random, &[0, 0, 1, 3]) {
        let (process, short) = (random.usize(0..count), random.u64(1..300));
        let fault = match random.u32(0..8) {
            0 => Fault::Kill(process),
            1 => Fault::Freeze(process, one_of(random, &[500, 2_000])),
            2 => Fault::Cut(process, 0, CutKind::Reset),
            3 => Fault::Cut(process, 0, CutKind::LateRequests(short)),
            4 => Fault::Restart(0, true, short),
            5 => Fault::ServerClock(0, one_of(random, &[-300, -20, 20, 2_000])),
            6 => Fault::Part(process, 0, short),
            _ => Fault::FreezeServer(0, short),
        };
        plan.faults.push((random.u64(0..5_000), fault));
    }
    plan
}

/// Between the calls of two processes for one tick, the clock of the server is two days ahead for a
/// moment, in which nobody calls: the server deletes what has expired by then.
pub(super) fn leaping_clock(mut plan: Plan, random: &mut Rng) -> Plan {
    let tick = u64::try_from(Duration::as_millis(&TICK)).unwrap_or(u64::MAX);
    plan.length = 6_000;
    plan.processes = processes(2);
    let missed = one_of(random, &[TickMissed::Skip, TickMissed::Retry]);
    for number in 1..4 {
        for (process, late) in [(0, random.u64(0..200)), (1, random.u64(400..700))] {
            let timer = Hold {
                wait: one_of(random, &[None, Some(0)]),
                hold: random.u64(0..50),
                tick: Some(missed),
                ..Hold::of(0)
            };
            plan = plan.with_call(number * tick + late, process, What::Hold(timer));
        }
    }
    let at = random.u64(1..4) * tick + random.u64(280..350);
    plan.faults.push((at, Fault::ServerClock(0, LEAP)));
    plan.faults.push((at + random.u64(1..40), Fault::ServerClock(0, -LEAP)));
    plan
}
