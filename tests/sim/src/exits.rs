//! Processes that end right behind a call: what the call has promised to send is with the servers then.
//! It has written its releases before it returned, so its locks are free when these have arrived.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::callers::key;
use crate::oracle::{CallId, Oracle};
use crate::plan::Plan;
use crate::room::Room;
use crate::run::{Fleet, judge};
use crate::world::{ProcessId, ServerId, World};

const MILLISECOND: u64 = 1_000_000;

thread_local! {
    static EXITS: RefCell<Exits> = RefCell::default();
}

#[derive(Default)]
struct Exits {
    /// The process of each call, by its number in the plan.
    processes: Vec<usize>,
    /// Nothing else goes wrong, so the process had its connections, and its bytes are not late.
    are_judged: bool,
    /// So long its last bytes are under way, at most: in nanoseconds.
    under_way: u64,
    /// By process.
    ended: BTreeMap<usize, Ended>,
}

struct Ended {
    call: CallId,
    at: u64,
    /// Its locks that no other caller of the process had, or waited for.
    keys: Vec<u8>,
    /// It had them all. Else the last caller of its process may have had one, and waited for its release.
    has_held: bool,
}

/// Begins a new run of this plan.
pub fn begin(plan: &Plan) {
    let exits = Exits {
        processes: plan.calls.iter().map(|call| call.process).collect(),
        are_judged: plan.faults.is_empty() && plan.latency.late == 0,
        under_way: (plan.latency.usual + 1) * MILLISECOND,
        ended: BTreeMap::new(),
    };
    EXITS.with_borrow_mut(|all| *all = exits);
}

/// The process of the caller, which has had these locks, ends. Nothing of it runs behind this poll.
pub(crate) fn ends(call: CallId, process: ProcessId, keys: &[u8], has_held: bool) {
    let world = World::here();
    world.note(|| format!("call {call}: process {} exits", process.0));
    let mut keys = keys.to_vec();
    judge(|oracle| {
        keys.retain(|number| !oracle.has_others(call, process, &key(*number)));
        oracle.exits(process);
    });
    EXITS.with_borrow_mut(|exits| {
        if let Some(number) = exits.processes.get(call).copied() {
            exits.ended.insert(number, Ended { call, at: world.now(), keys, has_held });
        }
    });
    world.exit(process);
}

/// Looks at the locks on the servers.
pub fn look(oracle: &mut Oracle, fleet: &Fleet) {
    let world = World::here();
    let primary = fleet.primary().map(|primary| vec![primary]);
    let servers = primary.unwrap_or_else(|| fleet.servers.clone());
    EXITS.with_borrow(|exits| {
        if !exits.are_judged {
            return;
        }
        for (number, Ended { call, at, keys, has_held }) in &exits.ended {
            if world.now() <= at + exits.under_way {
                continue;
            }
            let is_theirs = |holder: &CallId| {
                // Within a process, a lock is passed on under the token of its first holder.
                holder == call || *has_held && exits.processes.get(*holder) == Some(number)
            };
            for held in keys.iter().map(|number| key(*number)) {
                let has = |server: &ServerId| {
                    let room = world.with_server(*server, |server, now| Room::of(server, now, &held));
                    room.is_some_and(|room| room.holders.iter().any(is_theirs))
                };
                if servers.iter().any(has) {
                    let what = format!("call {call} has given {held} back, and its process has ended");
                    oracle.violated("the locks of a process that ends behind a call are free", what);
                }
            }
        }
    });
}
