//! Plans about one matter, in which nothing else goes wrong: some promises hold only there, and
//! some defects show only where a few callers meet at the right time.

use fastrand::Rng;

use super::kinds::UNASKED;
use super::{Fault, Hold, Plan, ProcessPlan, Topology, What};
use crate::world::{CutKind, Latency};

/// Makes a plan of one in which nothing happens yet.
pub(super) type Matter = fn(Plan, &mut Rng) -> Plan;

/// Each changes a plan in which nothing happens yet, and which has no processes.
pub(super) const MATTERS: [Matter; 17] = [
    waiters_that_go,
    claim_that_runs_out,
    late_renewals,
    late_asks,
    crowd_that_dies,
    clock_that_goes_back,
    data_lost_by_cohorts,
    nodes_that_differ,
    several_keys,
    callers_that_leave_at_once,
    node_that_forgets,
    late_force_release,
    key_that_vanishes,
    foreign_clients,
    refused_renewals,
    followers,
    replies_that_nothing_asked_for,
];

pub(super) fn processes(count: usize) -> Vec<ProcessPlan> {
    vec![ProcessPlan::default(); count]
}

pub(super) fn one_of<T: Copy>(random: &mut Rng, of: &[T]) -> T {
    of[random.usize(0..of.len())]
}

fn dies(random: &mut Rng, process: usize) -> Fault {
    if random.bool() { Fault::Kill(process) } else { Fault::PowerOff(process) }
}

/// A holder releases, or its lease ends, in front of a few waiters of other processes. Some of them
/// die, and some leave.
fn waiters_that_go(mut plan: Plan, random: &mut Rng) -> Plan {
    let waiters = random.usize(2..10);
    plan.length = 5_000;
    plan.processes = processes(waiters + 2);
    let end = random.u64(100..1_200);
    let ttl = one_of(random, &[300, 1_000, 10_000]);
    let holder_dies = ttl < 10_000;
    let first = Hold { ttl, hold: if holder_dies { 60_000 } else { end }, ..Hold::of(0) };
    plan = plan.with_call(0, 0, What::Hold(first));
    if holder_dies {
        plan.faults.push((end, dies(random, 0)));
    }
    let (most, leave) = (random.u32(0..4), random.bool());
    for process in 1..=waiters {
        let at = random.u64(1..end);
        let goes = at + random.u64(0..end + 1_200 - at);
        let is_going = random.u32(0..4) < most;
        let waiter = Hold {
            ttl: one_of(random, &[300, 1_000, 10_000]),
            wait: one_of(random, &[None, Some(4_000)]),
            leaves_after: (is_going && leave).then_some(goes - at),
            hold: one_of(random, &[0, 5, 200, 1_000]),
            ..Hold::of(0)
        };
        if is_going && !leave || random.u32(0..5) == 0 {
            plan.faults.push((goes, dies(random, process)));
        }
        plan = plan.with_call(at, process, What::Hold(waiter));
    }
    // About when the lease is over.
    for _ in 0..random.usize(0..4) {
        let newcomer = Hold { wait: one_of(random, &[None, Some(0), Some(500)]), ..Hold::of(0) };
        let at = end + ttl.min(1_000) * 2 / 3;
        plan = plan.with_call(random.u64(at..at + 600), waiters + 1, What::Hold(newcomer));
    }
    plan
}

/// A waiter that is dead is granted the lock. Most of those behind it leave during its claim, or
/// die, and others come when the claim is over.
fn claim_that_runs_out(mut plan: Plan, random: &mut Rng) -> Plan {
    let waiters = random.usize(3..11);
    plan.length = 5_000;
    plan.processes = processes(waiters + 2);
    let (end, most_die) = (random.u64(200..1_200), random.u32(0..3) == 0);
    plan = plan.with_call(0, 0, What::Hold(Hold { hold: end, ..Hold::of(0) }));
    for process in 1..=waiters {
        // In the order of their numbers.
        let at = 20 + u64::try_from(process).unwrap_or(0) * 10;
        let mut waiter = Hold { ttl: one_of(random, &[300, 10_000]), hold: 1_000, ..Hold::of(0) };
        let claim = random.u64(end..end + 1_000);
        match random.u32(0..8) {
            _ if process == 1 => plan.faults.push((random.u64(at..end), Fault::PowerOff(process))),
            0..5 if process < waiters && most_die => plan.faults.push((claim, Fault::Kill(process))),
            0..5 if process < waiters => waiter.leaves_after = Some(claim - at),
            5 => plan.faults.push((claim, Fault::PowerOff(process))),
            // It may have the lock by then.
            6 => plan.faults.push((claim + 1_000, Fault::PowerOff(process))),
            _ => {}
        }
        plan = plan.with_call(at, process, What::Hold(waiter));
    }
    for _ in 0..random.usize(0..3) {
        let newcomer = Hold { wait: one_of(random, &[None, Some(0), Some(500)]), ..Hold::of(0) };
        plan = plan.with_call(end + random.u64(1_000..1_110), waiters + 1, What::Hold(newcomer));
    }
    plan
}

/// A connection is lost, and what was sent over it arrives late: the server cannot be asked to end
/// it. Returns when.
fn loses_a_connection(plan: &mut Plan, random: &mut Rng) -> u64 {
    plan.length = 7_000;
    plan.may_kill = false;
    // Far enough for a request to be on its way then.
    plan.latency = Latency { usual: one_of(random, &[30, 30, 120]), late: 0, lateness: 0 };
    let io_timeout = if plan.latency.usual > 30 { 1_000 } else { 300 };
    plan.processes = vec![ProcessPlan { io_timeout, ..ProcessPlan::default() }; 2];
    let cut = random.u64(200..1_400);
    plan.faults.push((cut, Fault::Cut(0, 0, CutKind::LateRequests(random.u64(400..1_500)))));
    cut
}

/// A renewal arrives late, and the ttl has changed meanwhile.
fn late_renewals(mut plan: Plan, random: &mut Rng) -> Plan {
    let cut = loses_a_connection(&mut plan, random);
    for _ in 0..random.usize(1..3) {
        let at = random.u64(0..200);
        // It may be on its way when the connection is lost.
        let on_its_way = random.u64(0..=plan.latency.usual);
        let earlier =
            if random.bool() { (cut - at).saturating_sub(on_its_way) } else { random.u64(0..cut - at) };
        let before = (earlier, one_of(random, &[1_000, 10_000]));
        let after = (cut - at + random.u64(50..600), one_of(random, &[10_000, 10_000, 1_000]));
        let holder = Hold {
            ttl: one_of(random, &[1_000, 3_000, 10_000]),
            hold: random.u64(3_000..7_000),
            extend: if random.bool() { vec![after] } else { vec![before, after] },
            ..Hold::of(0)
        };
        plan = plan.with_call(at, 0, What::Hold(holder));
    }
    for _ in 0..random.usize(1..6) {
        let rival = Hold { wait: one_of(random, &[None, Some(0), Some(2_000)]), ..Hold::of(0) };
        plan = plan.with_call(random.u64(100..5_000), 1, What::Hold(rival));
    }
    plan
}

/// A waiter asks again, has the lock, and changes its ttl before its request arrives.
fn late_asks(mut plan: Plan, random: &mut Rng) -> Plan {
    let cut = loses_a_connection(&mut plan, random);
    let first = Hold { hold: cut + random.u64(20..400), ..Hold::of(0) };
    let waiter = Hold {
        ttl: one_of(random, &[1_000, 3_000]),
        hold: 5_000,
        extend: vec![(random.u64(100..600), 10_000)],
        ..Hold::of(0)
    };
    plan.with_call(0, 1, What::Hold(first)).with_call(random.u64(100..200), 0, What::Hold(waiter)).with_call(
        random.u64(1_000..3_000),
        1,
        What::Hold(Hold::of(0)),
    )
}

/// A process with a crowd of waiters dies, with a few waiters of other processes behind them.
fn crowd_that_dies(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 3_000;
    plan.processes = processes(3);
    let holder = Hold { hold: random.u64(200..600), ..Hold::of(0) };
    plan = plan.with_call(0, 0, What::Hold(holder));
    for _ in 0..random.usize(40..140) {
        plan = plan.with_call(10, 1, What::Hold(Hold::of(0)));
    }
    plan.faults.push((random.u64(50..150), dies(random, 1)));
    for _ in 0..random.usize(1..4) {
        plan = plan.with_call(random.u64(20..300), 2, What::Hold(Hold::of(0)));
    }
    plan
}

/// The clock of the server goes back under a queue.
fn clock_that_goes_back(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 2_000;
    plan.processes = processes(random.usize(2..5));
    for _ in 0..random.usize(10..50) {
        let hold = Hold { hold: random.u64(0..40), ..Hold::of(0) };
        let process = random.usize(0..plan.processes.len());
        plan = plan.with_call(random.u64(0..1_000), process, What::Hold(hold));
    }
    plan.faults.push((random.u64(20..600), Fault::ServerClock(0, -one_of(random, &[20, 300, 5_000]))));
    plan
}

/// The data are lost after callers of cohorts have passed a lock to each other, and another process
/// comes.
fn data_lost_by_cohorts(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 500;
    plan.processes =
        vec![ProcessPlan { cohort: one_of(random, &[8, 1_000, 50_000]), ..ProcessPlan::default() }; 3];
    let lost = random.u64(20..100);
    for _ in 0..random.usize(20..60) {
        let hold = Hold { hold: random.u64(0..3), ..Hold::of(0) };
        plan = plan.with_call(random.u64(0..lost), random.usize(0..2), What::Hold(hold));
    }
    for _ in 0..random.usize(1..10) {
        plan = plan.with_call(lost + random.u64(0..30), 2, What::Hold(Hold::of(0)));
    }
    plan.faults.push((lost, if random.bool() { Fault::Flush(0) } else { Fault::Restart(0, false, 5) }));
    plan
}

/// Processes take locks with fencing tokens all the time, alone and one behind the other, while older
/// data take the place of the newest again and again, at once. Data that are younger than 40 ms may go
/// unnoticed by a process that has not seen the newest numbers.
pub(super) fn older_data(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 3_000;
    plan.processes = processes(random.usize(2..4));
    let (processes, keys) = (plan.processes.len(), random.u8(1..3));
    for _ in 0..random.usize(100..300) {
        let hold = Hold { ttl: 200, hold: random.u64(0..4), ..Hold::of(random.u8(0..keys)) };
        plan = plan.with_call(random.u64(0..2_800), random.usize(0..processes), What::Hold(hold));
    }
    for _ in 0..random.usize(1..6) {
        plan.faults.push((random.u64(50..1_800), Fault::Reload(0, random.u64(200..1_000))));
    }
    plan
}

/// In a Cluster, one node has fewer rights than the others. Holders die there, and a waiter that
/// asks has the lock for a claim.
fn nodes_that_differ(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 5_000;
    plan.topology = Topology::Cluster(plan.topology.version(), 3);
    plan.processes = processes(3);
    let command = one_of(random, &["publish", "zadd", "zrange", "subscribe"]);
    plan.faults.push((0, Fault::Forbid(random.usize(0..3), command, 5_000)));
    for _ in 0..random.usize(10..30) {
        let hold = Hold { hold: one_of(random, &[10, 500, 2_500]), ..Hold::of(random.u8(0..4)) };
        plan = plan.with_call(random.u64(0..3_000), random.usize(0..3), What::Hold(hold));
    }
    for call in &mut plan.calls {
        if let (0, What::Hold(hold)) = (call.process, &mut call.what) {
            hold.ttl = 1_000;
        }
    }
    plan.faults.push((random.u64(500..3_000), dies(random, 0)));
    plan
}

/// Callers want several keys, and one that they have is taken away while they wait for the next.
fn several_keys(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 4_000;
    plan.processes = processes(3);
    for _ in 0..random.usize(1..4) {
        let last = Hold { hold: random.u64(200..1_500), ..Hold::of(2) };
        plan = plan.with_call(random.u64(0..1_500), 2, What::Hold(last));
    }
    for _ in 0..random.usize(1..4) {
        let all = Hold {
            keys: vec![0, 1, 2],
            min_hold: random.bool().then(|| random.u64(500..3_000)),
            wait: one_of(random, &[None, Some(3_000)]),
            ..Hold::of(0)
        };
        plan = plan.with_call(random.u64(100..1_500), random.usize(0..2), What::Hold(all));
    }
    for _ in 0..random.usize(0..3) {
        plan.faults.push((random.u64(200..2_000), Fault::Delete(random.u8(0..2))));
    }
    plan
}

/// Callers drop their calls as soon as they have asked.
fn callers_that_leave_at_once(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 2_000;
    plan.reorder = 3;
    plan.processes = processes(2);
    for _ in 0..random.usize(10..60) {
        let leaves_after = (random.u32(0..4) > 0).then(|| random.u64(0..4));
        let hold = Hold { leaves_after, ..Hold::of(random.u8(0..2)) };
        plan = plan.with_call(random.u64(0..1_500), random.usize(0..2), What::Hold(hold));
    }
    plan
}

/// A node of a quorum is back without its votes, and another one did not hear of the lock.
fn node_that_forgets(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 5_000;
    plan.topology = Topology::Quorum(plan.topology.version(), 3);
    plan.processes = processes(2);
    plan.faults.push((0, Fault::Part(0, 2, random.u64(500..4_000))));
    plan.faults.push((random.u64(200..2_000), Fault::Restart(0, false, random.u64(1..300))));
    let holder = Hold { hold: random.u64(2_000..5_000), ..Hold::of(0) };
    plan = plan.with_call(random.u64(10..100), 0, What::Hold(holder));
    for _ in 0..random.usize(1..4) {
        plan = plan.with_call(random.u64(100..3_000), 1, What::Hold(Hold::of(0)));
    }
    plan
}

/// An operator's call arrives late at one node of a quorum, and another one has not heard of the
/// holder that came meanwhile.
fn late_force_release(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 3_000;
    plan.topology = Topology::Quorum(plan.topology.version(), 3);
    plan.latency = Latency { usual: random.u64(5..30), late: 0, lateness: 0 };
    plan.may_kill = false;
    plan.processes = processes(4);
    let forced = random.u64(50..400);
    let next = forced + random.u64(60..200);
    let late = random.usize(0..3);
    plan.faults
        .push((forced + random.u64(0..30), Fault::Cut(0, late, CutKind::LateRequests(random.u64(300..900)))));
    plan.faults.push((random.u64(0..next), Fault::Part(2, (late + 1) % 3, 2_000)));
    let first = Hold { hold: random.u64(200..1_500), ..Hold::of(0) };
    let second = Hold { hold: random.u64(700..2_000), ..Hold::of(0) };
    plan.with_call(0, 1, What::Hold(first))
        .with_call(forced, 0, What::ForceRelease(0))
        .with_call(next, 2, What::Hold(second))
        .with_call(next + random.u64(50..300), 3, What::Hold(Hold::of(0)))
}

/// The key of a lock is deleted. Its waiters are behind those of a process that is dead, perhaps,
/// and some have become the first of their process without asking.
fn key_that_vanishes(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 4_000;
    plan.processes = processes(3);
    let end = random.u64(100..500);
    plan = plan.with_call(0, 0, What::Hold(Hold { hold: end, ..Hold::of(0) })).with_call(
        20,
        1,
        What::Hold(Hold { hold: 3_000, ..Hold::of(0) }),
    );
    for _ in 0..random.u64(1..5) {
        plan = plan.with_call(30, 2, What::Hold(Hold::of(0)));
    }
    for _ in 0..random.u64(1..4) {
        plan = plan.with_call(50, 1, What::Hold(Hold::of(0)));
    }
    if random.u32(0..4) > 0 {
        plan.faults.push((random.u64(60..end + 200), dies(random, 2)));
    }
    plan.faults.push((end + random.u64(20..2_500), Fault::Delete(0)));
    plan
}

/// Clients that do not know of queues use the lock, too.
fn foreign_clients(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 3_000;
    plan.foreign_clients = true;
    plan.processes = processes(2);
    for _ in 0..random.usize(2..15) {
        let hold = Hold { hold: random.u64(0..100), ..Hold::of(0) };
        plan = plan.with_call(random.u64(0..2_000), random.usize(0..2), What::Hold(hold));
    }
    for _ in 0..random.usize(1..5) {
        plan.faults.push((random.u64(0..2_500), Fault::Foreign(0, random.u64(20..800))));
    }
    plan
}

/// The server refuses writes for a moment, while locks are held that must be renewed.
fn refused_renewals(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 6_000;
    plan.processes = processes(2);
    for key in 0..3 {
        let hold =
            Hold { ttl: one_of(random, &[1_000, 3_000]), hold: random.u64(2_000..6_000), ..Hold::of(key) };
        plan = plan.with_call(random.u64(0..200), random.usize(0..2), What::Hold(hold));
    }
    for _ in 0..random.usize(1..4) {
        plan.faults.push((random.u64(200..4_000), Fault::RefuseWrites(0, random.u64(10..200))));
    }
    plan
}

/// Waiters of a few processes, often several of one behind each other, have the lock for a moment
/// each. In half of the plans, something happens to it, or to one of the processes, about when the
/// first of them has it.
fn followers(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 4_000;
    plan.processes = processes(random.usize(1..4));
    plan.foreign_clients = random.u32(0..4) == 0;
    let (mut at, ttl) = (10, one_of(random, &[1_000, 10_000]));
    for _ in 0..random.usize(2..12) {
        let process = random.usize(0..plan.processes.len());
        for _ in 0..random.usize(1..8) {
            at += one_of(random, &[0, 0, 1, 40]);
            let leaves = random.u32(0..8) == 0;
            let waiter = Hold {
                ttl: if random.u32(0..16) == 0 { 3_000 } else { ttl },
                leaves_after: leaves.then(|| random.u64(0..500)),
                wait: one_of(random, &[None, None, Some(3_000)]),
                hold: one_of(random, &[0, 0, 0, 1, 1, 4, 15, 700]),
                ..Hold::of(0)
            };
            plan = plan.with_call(at, process, What::Hold(waiter));
        }
    }
    let end = at + random.u64(10..100);
    plan = plan.with_call(0, 0, What::Hold(Hold { hold: end, ..Hold::of(0) }));
    let process = random.usize(0..plan.processes.len());
    let about = end + random.u64(0..60);
    match random.u32(0..16) {
        0 => plan.faults.push((about, Fault::Delete(0))),
        1 => plan.faults.push((about, Fault::DeleteQueue(0))),
        2 => plan.faults.push((about, Fault::Flush(0))),
        3 => plan.faults.push((about, dies(random, process))),
        4 | 8 => plan.faults.push((about, Fault::Freeze(process, one_of(random, &[50, 1_500])))),
        5 => plan.faults.push((about, Fault::Cut(process, 0, CutKind::Reset))),
        6 => plan.faults.push((about, Fault::Part(process, 0, random.u64(100..2_000)))),
        7 => plan = plan.with_call(about, process, What::ForceRelease(0)),
        _ => {}
    }
    plan
}

/// Callers of two processes ask for a lock that is nearly always held, and one of them is sent
/// replies that no command has asked for.
fn replies_that_nothing_asked_for(mut plan: Plan, random: &mut Rng) -> Plan {
    plan.length = 3_000;
    plan.processes = processes(2);
    for _ in 0..random.usize(4..12) {
        let wait = one_of(random, &[None, Some(0), Some(0), Some(500)]);
        let hold = one_of(random, &[0, 20, 300]);
        let call = What::Hold(Hold { wait, hold, ..Hold::of(0) });
        plan = plan.with_call(random.u64(0..3_000), random.usize(0..2), call);
    }
    for _ in 0..random.usize(1..6) {
        let unasked = Fault::Unasked(random.usize(0..2), 0, one_of(random, &UNASKED));
        plan.faults.push((random.u64(0..3_000), unasked));
    }
    plan
}
