//! Plans of one server that keeps many callers waiting: it is slow, or refuses writes for seconds.
//! Nothing else goes wrong, so their fleets are held to sharper promises.

use fastrand::Rng;

use super::{Call, Fault, Hold, Plan, ProcessPlan, Topology, VERSIONS, What};

/// One plan in so many: callers by the hundred take long.
const SLOW: u64 = 640;
const REFUSING: u64 = 96;

/// The plan of this seed, if it is one of these.
pub(super) fn of(seed: u64) -> Option<Plan> {
    let mut random = Rng::with_seed(seed);
    match (seed % SLOW, seed % REFUSING) {
        (0, _) => Some(slow(seed, &mut random)),
        (_, 1) => Some(refusing(seed, &mut random)),
        _ => None,
    }
}

fn quiet(seed: u64, random: &mut Rng, processes: usize) -> Plan {
    let version = VERSIONS[random.usize(0..VERSIONS.len())];
    Plan { topology: Topology::One(version), foreign_clients: random.bool(), ..Plan::quiet(seed, processes) }
}

/// Hundreds of callers of one process, each for a lock of its own, and a few holders that renew
/// meanwhile.
fn slow(seed: u64, random: &mut Rng) -> Plan {
    let mut plan = quiet(seed, random, 1);
    plan.length = 4_000;
    plan.processes[0].io_timeout = [300, 1_000][random.usize(0..2)];
    for key in 0..3 {
        let hold = Hold { ttl: random.u64(2_000..3_500), hold: 3_000, ..Hold::of(key) };
        plan = plan.with_call(0, 0, What::Hold(hold));
    }
    for number in 0..random.u64(700..1_000) {
        let key = 3 + u8::try_from(number % 250).unwrap_or(0);
        plan = plan.with_call(random.u64(200..600), 0, What::Hold(Hold::of(key)));
    }
    plan.faults.push((100, Fault::SlowServer(0, random.u64(6..9), 6_000)));
    plan
}

/// Dozens of callers for one lock or two, while the server refuses writes.
fn refusing(seed: u64, random: &mut Rng) -> Plan {
    let processes = random.usize(1..4);
    let mut plan = quiet(seed, random, processes);
    plan.processes = vec![ProcessPlan { own_thread: random.u32(0..4) == 0, ..plan.processes[0] }; processes];
    let (keys, calls) = (random.u8(1..3), random.u64(20..80));
    plan.length = 5_000;
    plan.faults = vec![(random.u64(0..1_000), Fault::RefuseWrites(0, random.u64(1_000..4_000)))];
    for _ in 0..calls {
        let hold = Hold { hold: random.u64(0..20), wait: Some(20_000), ..Hold::of(random.u8(0..keys)) };
        let call = Call {
            at: random.u64(0..2_000),
            process: random.usize(0..processes),
            runtime: 0,
            what: What::Hold(hold),
        };
        plan.calls.push(call);
    }
    plan
}
