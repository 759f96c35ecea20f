//! Plans about what is stuck or full: a process that is stopped, a runtime that is blocked, a
//! server without room, a manager that ends while its server refuses. Here are also the names of all
//! plans that have one.

use fastrand::Rng;

use super::elections::elections;
use super::matters::{Matter, older_data, one_of, processes};
use super::once::once;
use super::shares::{rates, shares, starts, stopped_in_front};
use super::tickets::tickets;
use super::ticks::{leaping_clock, ticks};
use super::{Fault, Hold, Plan, Topology, Way, What};

/// As [`MATTERS`](super::matters::MATTERS), with their names for the command line.
pub(super) const STUCK: [(&str, Matter); 16] = [
    ("stopped-process", stopped_process),
    ("dead-in-front", dead_in_front),
    ("full-server", full_server),
    ("refused-until-the-end", refused_until_the_end),
    ("blocking-callers", blocking_callers),
    ("tickets", tickets),
    ("ticks", ticks),
    ("leaping-clock", leaping_clock),
    ("once", once),
    ("elections", elections),
    ("shares", shares),
    ("rates", rates),
    ("starts", starts),
    ("stopped-in-front", stopped_in_front),
    ("older-data", older_data),
    ("exits", exits),
];

/// A process with many waiters is stopped, or its host loses power, before the holder releases. The
/// callers of others have one try each, or wait for a moment.
fn stopped_process(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 5_000;
    plan.processes = processes(4);
    let end = random.u64(200..600);
    // It may be the holder's process that is stopped, with waiters of its own: then its lease ends.
    let is_holder = random.u32(0..4) == 0;
    let (stopped, ttl) = if is_holder { (0, 1_000) } else { (1, 10_000) };
    let holder = Hold { ttl, hold: if is_holder { 20_000 } else { end }, ..Hold::of(0) };
    plan = plan.with_call(0, 0, What::Hold(holder));
    for _ in 0..one_of(random, &[2, 10, 40]) {
        plan = plan.with_call(random.u64(10..100), stopped, What::Hold(Hold::of(0)));
    }
    let at = random.u64(110..end);
    plan.faults
        .push((at, if random.bool() { Fault::Freeze(stopped, 60_000) } else { Fault::PowerOff(stopped) }));
    let (wait, every) = (one_of(random, &[0, 0, 500, 900, 4_000]), one_of(random, &[20, 100, 700]));
    let mut next = end + random.u64(0..200);
    while next < plan.length {
        let caller = Hold { wait: Some(wait), hold: random.u64(0..30), ..Hold::of(0) };
        plan = plan.with_call(next, 2 + random.usize(0..2), What::Hold(caller));
        next += every;
    }
    plan
}

/// Waiters that are dead are in front of one or two that live, and the key goes without a release:
/// an operator deletes it, or a client of another kind gives it back.
fn dead_in_front(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 10_000;
    plan.processes = processes(3);
    let gone = random.u64(1_000..2_500);
    if random.bool() {
        plan = plan.with_call(0, 0, What::Hold(Hold { ttl: 20_000, hold: 20_000, ..Hold::of(0) }));
        plan.faults.push((gone, Fault::Delete(0)));
    } else {
        plan.faults.push((0, Fault::Foreign(0, gone)));
    }
    for _ in 0..random.usize(2..60) {
        plan = plan.with_call(20, 1, What::Hold(Hold::of(0)));
    }
    for _ in 0..random.usize(1..3) {
        plan = plan.with_call(random.u64(60..300), 2, What::Hold(Hold::of(0)));
    }
    plan.faults.push((random.u64(310..900), Fault::Kill(1)));
    plan
}

/// The server is full for a while, in which locks that others wait for are given back.
fn full_server(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 5_000;
    plan.processes = processes(random.usize(1..4));
    let from = random.u64(100..400);
    for key in 0..random.u8(1..3) {
        let holder = Hold {
            hold: from + random.u64(10..400),
            way: one_of(random, &[Way::Release, Way::Drop, Way::Run]),
            ..Hold::of(key)
        };
        let process = random.usize(0..plan.processes.len());
        plan = plan.with_call(0, process, What::Hold(holder));
        for _ in 0..random.usize(0..6) {
            let process = random.usize(0..plan.processes.len());
            let waiter = Hold { hold: random.u64(0..50), ..Hold::of(key) };
            plan = plan.with_call(random.u64(10..from + 300), process, What::Hold(waiter));
        }
    }
    plan.faults.push((from, Fault::Full(0, random.u64(1_000..4_000))));
    plan
}

/// A server refuses from the start, and the manager whose calls it has refused shuts down
/// meanwhile.
fn refused_until_the_end(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 8_000;
    plan.processes = processes(2);
    let refuses = one_of(random, &[Fault::RefuseWrites as fn(usize, u64) -> Fault, Fault::Full]);
    plan.faults.push((0, refuses(0, 9_000)));
    for _ in 0..random.usize(1..10) {
        let hold = Hold {
            wait: one_of(random, &[Some(0), Some(300), None]),
            leaves_after: one_of(random, &[None, Some(200)]),
            ..Hold::of(random.u8(0..3))
        };
        plan = plan.with_call(random.u64(100..1_500), random.usize(0..2), What::Hold(hold));
    }
    for process in 0..2 {
        plan.faults.push((random.u64(1_000..2_500), Fault::ShutDown(process)));
    }
    plan
}

/// Callers give a lock back and block their runtime at once, for longer than others may wait for
/// it.
fn blocking_callers(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 20_000;
    plan.processes = processes(2);
    plan.processes[0].runtimes = random.usize(1..3);
    let mut at = random.u64(0..200);
    while at < 6_000 {
        // While nothing is asked for long, nobody looks after the loop.
        let hold = one_of(random, &[0, 50, 1_500, 2_500]) + random.u64(0..100);
        let blocks = random.u64(700..2_500);
        let holder = Hold { hold, way: Way::Drop, blocks, ..Hold::of(random.u8(0..2)) };
        plan = plan.with_call(at, 0, What::Hold(holder));
        for _ in 0..random.usize(0..2) {
            let other = Hold { wait: Some(random.u64(200..2_000)), ..Hold::of(random.u8(0..2)) };
            plan = plan.with_call(at + random.u64(0..hold + 300), 1, What::Hold(other));
        }
        at += hold + blocks + random.u64(200..1_500);
    }
    plan
}

/// Processes end right behind a call that does not wait for its release: behind a body, the drop of a
/// guard, or an attempt at several locks of which others have one. Others have their locks at once.
fn exits(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 4_000;
    let (ending, keys) = (random.usize(2..6), random.u8(1..4));
    plan.processes = processes(ending + 2);
    let version = plan.topology.version();
    plan.topology = match random.u32(0..8) {
        0 => Topology::Quorum(version, 3),
        1 => Topology::Cluster(version, 3),
        2 => Topology::Sentinel(version),
        _ => plan.topology,
    };
    for process in 0..ending {
        plan.processes[process].own_thread = random.bool();
        plan.processes[process].runtimes = random.usize(1..3);
        let at = random.u64(0..3_000);
        let key = random.u8(0..keys);
        let mut call = Hold {
            hold: one_of(random, &[0, 0, 3, 40, 400]),
            way: one_of(random, &[Way::Drop, Way::Run]),
            exits: true,
            ..Hold::of(key)
        };
        if random.u32(0..4) == 0 {
            // In a Cluster, several locks are of one slot.
            call.keys = if matches!(plan.topology, Topology::One(_)) { vec![key, keys] } else { vec![key] };
            call.wait = one_of(random, &[None, Some(0)]);
            if call.wait.is_some() {
                let holder = Hold { hold: 300, ..Hold::of(keys) };
                plan = plan.with_call(at.saturating_sub(random.u64(20..100)), ending, What::Hold(holder));
            }
        }
        // One comes while it has the lock, perhaps, and its process may not hear of that.
        if random.bool() {
            let is_quorum = matches!(plan.topology, Topology::Quorum(..));
            let allows = if is_quorum { 1 } else { one_of(random, &[1, 1, 0, 3]) };
            let comes = Hold { allows, wait: Some(20_000), hold: random.u64(0..60), ..Hold::of(key) };
            let later = random.u64(0..=call.hold + 5);
            plan = plan.with_call(at + later, ending + random.usize(0..2), What::Hold(comes));
        }
        plan = plan.with_call(at, process, What::Hold(call));
        // Before, so that the process has worked for a while.
        if random.bool() {
            plan = plan.with_call(random.u64(0..=at), process, What::Hold(Hold::of(random.u8(0..keys))));
        }
    }
    for _ in 0..random.usize(0..20) {
        let other = Hold { wait: Some(20_000), hold: random.u64(0..60), ..Hold::of(random.u8(0..=keys)) };
        plan = plan.with_call(random.u64(0..3_500), ending + random.usize(0..2), What::Hold(other));
    }
    plan
}
