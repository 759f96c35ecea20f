//! Plans about everything at once, or about one part of the fleet: each call and each fault is
//! drawn by itself.

use fastrand::Rng;

use super::{Call, Fault, Hold, Plan, ProcessPlan, Topology, Way, What};
use crate::world::{CutKind, Latency};

/// What a plan is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Nothing goes wrong.
    Calm,
    /// Many callers come at once, and many leave.
    Burst,
    /// The network.
    Network,
    /// The servers.
    Servers,
    /// The processes.
    Processes,
    /// Everything.
    All,
}

pub(super) const KINDS: [Kind; 6] =
    [Kind::Calm, Kind::Burst, Kind::Network, Kind::Servers, Kind::Processes, Kind::All];

/// A plan of that kind, of so many milliseconds and so many times the calls and faults.
pub(super) fn drawn(
    seed: u64,
    random: &mut Rng,
    kind: Kind,
    topology: Topology,
    length: u64,
    times: u64,
) -> Plan {
    let latency = match random.u32(0..4) {
        0 => Latency { usual: 0, late: 0, lateness: 0 },
        1 => Latency { usual: 2, late: 0, lateness: 0 },
        2 => Latency { usual: 1, late: 20, lateness: 30 },
        _ => Latency { usual: 3, late: 50, lateness: 200 },
    };
    let reorder = [0, 0, 10, 3][random.usize(0..4)];
    let processes: Vec<_> = (0..random.usize(1..5)).map(|_| process(random)).collect();
    let keys = [1, 1, 2, 4][random.usize(0..4)];
    let count = match kind {
        Kind::Burst => random.u64(20..150),
        _ => random.u64(5..60),
    };
    let calls = (0..count * times).map(|_| call(random, kind, &processes, keys, length)).collect();
    let faults = match kind {
        Kind::Calm | Kind::Burst => 0,
        _ => random.u64(1..8),
    };
    let faults = (0..faults * times)
        .map(|_| (random.u64(0..length), fault(random, kind, &processes, topology, keys)))
        .collect();
    let (foreign_clients, may_kill) = (random.bool(), random.u32(0..3) > 0);
    Plan {
        seed,
        topology,
        length,
        latency,
        reorder,
        foreign_clients,
        may_kill,
        processes,
        calls,
        faults,
        mutant: None,
    }
}

fn process(random: &mut Rng) -> ProcessPlan {
    ProcessPlan {
        fast: [0, 0, 9_000, -9_000][random.usize(0..4)],
        cohort: [0, 0, 0, 8][random.usize(0..4)],
        own_thread: random.u32(0..6) == 0,
        max_waiters: [100_000, 100_000, 100_000, 3][random.usize(0..4)],
        io_timeout: [1_000, 1_000, 300][random.usize(0..3)],
        runtimes: random.usize(1..3),
    }
}

fn call(random: &mut Rng, kind: Kind, processes: &[ProcessPlan], keys: u8, length: u64) -> Call {
    let process = random.usize(0..processes.len());
    // Many at the same time.
    let at = if kind == Kind::Burst { random.u64(0..4) * length / 4 } else { random.u64(0..length) };
    let runtime = random.usize(0..processes[process].runtimes);
    let what = match random.u32(0..40) {
        0 => What::Inspect(random.u8(0..keys)),
        1 => What::List,
        2 if kind != Kind::Calm => What::ForceRelease(random.u8(0..keys)),
        3 => What::Nested(random.u8(0..keys)),
        _ => What::Hold(hold(random, kind, keys)),
    };
    Call { at, process, runtime, what }
}

fn hold(random: &mut Rng, kind: Kind, keys: u8) -> Hold {
    let several = keys > 1 && random.u32(0..8) == 0;
    let ttl = [300, 1_000, 3_000, 10_000][random.usize(0..4)];
    let often = |random: &mut Rng, of: u32| random.u32(0..of) == 0;
    let leaves = often(random, if kind == Kind::Burst { 3 } else { 8 });
    let min_hold = often(random, 20).then(|| random.u64(1..300));
    let max_hold = (min_hold.is_none() && often(random, 20)).then(|| random.u64(10..1_000));
    Hold {
        keys: if several { (0..keys).collect() } else { vec![random.u8(0..keys)] },
        shares: Vec::new(),
        ttl,
        fenced: true,
        allows: 1,
        takes: 1,
        wait: match random.u32(0..6) {
            0 => Some(0),
            1 => None,
            2 => Some(random.u64(1..200)),
            _ => Some(random.u64(200..8_000)),
        },
        leaves_after: leaves.then(|| random.u64(0..40)),
        hold: match random.u32(0..16) {
            0..4 => 0,
            4..7 => random.u64(0..400),
            // Long enough for renewals.
            7 => random.u64(400..4_000),
            _ => random.u64(0..30),
        },
        downgrades: None,
        extend: if often(random, 8) { vec![extension(random)] } else { Vec::new() },
        renew: !often(random, 8),
        min_hold,
        starts: false,
        max_hold,
        forks: often(random, 16),
        redeems: false,
        gives: None,
        tick: None,
        once: None,
        leads: None,
        way: [Way::Release, Way::Drop, Way::Run][random.usize(0..3)],
        blocks: 0,
        exits: false,
    }
}

fn extension(random: &mut Rng) -> (u64, u64) {
    (random.u64(0..50), [100, 500, 5_000, 20_000][random.usize(0..4)])
}

/// Commands whose rights are taken away.
const COMMANDS: [&str; 8] = ["publish", "zadd", "zrange", "eval", "evalsha", "get", "pexpire", "del"];

/// Replies, each of which grants a lock, refuses one, or confirms something.
pub(super) const UNASKED: [&str; 4] = ["+OK\r\n", "$-1\r\n", ":1\r\n", ":0\r\n"];

fn fault(random: &mut Rng, kind: Kind, processes: &[ProcessPlan], topology: Topology, keys: u8) -> Fault {
    let process = random.usize(0..processes.len());
    let server = random.usize(0..topology.servers());
    let of = match kind {
        Kind::Network => 0..6,
        Kind::Servers => 6..20,
        Kind::Processes => 20..27,
        _ => 0..27,
    };
    let short = random.u64(1..400);
    let long = random.u64(100..4_000);
    match random.u32(of) {
        0 => Fault::Cut(process, server, CutKind::Reset),
        1 => Fault::Cut(process, server, CutKind::LateRequests(long)),
        2 => Fault::Cut(process, server, CutKind::HalfOpen(short)),
        3 => Fault::Part(process, server, long),
        4 => Fault::Unasked(process, server, UNASKED[random.usize(0..UNASKED.len())]),
        5 => Fault::Slow(Latency { usual: 20, late: 10, lateness: 500 }, long),
        6 | 7 => Fault::FreezeServer(server, long),
        8 => Fault::Restart(server, true, short),
        9 => Fault::Restart(server, false, short),
        10 => Fault::Flush(server),
        11 => Fault::Delete(random.u8(0..keys)),
        12 => Fault::DeleteQueue(random.u8(0..keys)),
        13 => Fault::Forbid(server, COMMANDS[random.usize(0..COMMANDS.len())], long),
        14 => Fault::RefuseWrites(server, long),
        15 => Fault::OldData(server, short),
        16 => Fault::ServerClock(server, [-300, -20, 20, 2_000][random.usize(0..4)]),
        17 | 18 => Fault::SlowServer(server, random.u64(1..20), long),
        19 => Fault::FailOver(server, short),
        20 | 21 => Fault::Freeze(process, long),
        22 => Fault::Starve(process, random.usize(0..processes[process].runtimes), long),
        23 => Fault::DropRuntime(process, random.usize(0..processes[process].runtimes)),
        24 => Fault::Kill(process),
        25 => Fault::ClockAhead(process, long),
        _ => Fault::Foreign(random.u8(0..keys), short),
    }
}
