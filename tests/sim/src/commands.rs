//! What locks may cost: the commands that the only server has executed for them, against what its
//! callers have done.
//!
//! A bound for the whole run, up to each look: so much for a call, for a hold and for a caller that
//! leaves without one, and so much for the time that callers of a process wait or hold. Ten
//! thousand waiters must cost no more than a few of them, so no time of theirs counts but once for
//! each process and lock.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::oracle::CallId;
use crate::plan::{Fault, Plan, Topology, What};
use crate::promises::Broken;
use crate::server::Version;
use crate::world::World;

const MILLISECOND: u64 = 1_000_000;

/// In thousandths of a command, as all that follow: a call asks, and may have to ask once more.
const CALL: u64 = 1_300;

/// One that draws a fencing token without a script has the number drawn, and looks at the lock.
const DRAWS: u64 = 2_000;

/// Its grant is confirmed, watched and released.
const HOLD: u64 = 2_500;

/// It lets others in beside it, and watches the lock again.
const DOWNGRADE: u64 = 3_000;

/// A caller that leaves gives its place up. At its limit the server is asked before.
const LEAVES: u64 = 3_300;

/// An operator's call, and what it makes of the holder.
const OPERATOR: u64 = 6_000;

/// What a client tries out at the start of a connection.
const CONNECTION: u64 = 8_000;

/// The first waiter of a process asks at least so much later, where the server tells it of its
/// turn, and where not.
const TOLD: u64 = 300 * MILLISECOND;
const NOT_TOLD: u64 = 25 * MILLISECOND;

/// A release has its answer within this time.
const ANSWERED: u64 = 200 * MILLISECOND;

/// A waiter that is refused asks at least so much later, except for the first times.
const REFUSED: u64 = 500 * MILLISECOND;
const FIRST_REFUSALS: u64 = 5_000;

#[derive(Clone, Copy)]
enum Phase {
    Waiting,
    Inside,
    /// Then its release was sent, which is perhaps refused.
    Ended {
        at: u64,
        is_refused: bool,
    },
}

/// Judges the number of commands.
pub struct Commands {
    plan: Rc<Plan>,
    calls: BTreeMap<CallId, Phase>,
    /// The bound, except for connections.
    allowed: u64,
    looked: u64,
    pause: u64,
    /// What a renewal costs, with those who watch its key.
    renewal: u64,
    refuses: bool,
}

impl Commands {
    /// Makes the counters of a run of this plan, if nothing but refusals goes wrong in it.
    #[must_use]
    pub fn of(plan: &Rc<Plan>) -> Option<Self> {
        let Topology::One(version) = plan.topology else { return None };
        let is_calm = plan.faults.iter().all(|(_, fault)| matches!(fault, Fault::RefuseWrites(..)));
        let in_cohorts = plan.processes.iter().any(|process| process.cohort > 0);
        (is_calm && !in_cohorts && plan.latency.late == 0 && !plan.has_other_costs()).then(|| Self {
            plan: Rc::clone(plan),
            calls: BTreeMap::new(),
            allowed: 8_000,
            looked: 0,
            pause: if version == Version::Redis5 { NOT_TOLD } else { TOLD },
            // Redis 6.2 tells a client of the changes that its own scripts make, too.
            renewal: if version == Version::Redis62 { 8_000 } else { 4_000 },
            refuses: false,
        })
    }

    fn count(&self, call: CallId) -> u64 {
        number(keys(&self.plan, call).len())
    }

    /// A caller asks.
    pub fn begins(&mut self, call: CallId) {
        self.calls.insert(call, Phase::Waiting);
        self.allowed += match self.plan.calls.get(call).map(|call| &call.what) {
            Some(What::Hold(hold)) => {
                let downgrades = if hold.downgrades.is_some() { DOWNGRADE } else { 0 };
                let draws = hold.fenced && hold.keys.len() == 1;
                CALL * self.count(call) + if draws { DRAWS } else { 0 } + downgrades
            }
            Some(What::Nested(_)) => 2 * (CALL + HOLD),
            _ => OPERATOR,
        };
        self.allowed += if self.refuses { FIRST_REFUSALS } else { 0 };
    }

    /// A caller is inside.
    pub fn enters(&mut self, call: CallId) {
        self.allowed += HOLD * self.count(call);
        self.calls.insert(call, Phase::Inside);
    }

    /// A caller has left.
    pub fn ends(&mut self, call: CallId) {
        let ended = Phase::Ended { at: World::here().now(), is_refused: self.refuses };
        if let Some(Phase::Waiting) = self.calls.insert(call, ended) {
            self.allowed += LEAVES * self.count(call);
        }
        self.allowed += if self.refuses { FIRST_REFUSALS } else { 0 };
    }

    /// The server refuses, or does so no more: all that wait, hold or release ask once more.
    pub fn refuses(&mut self, refuses: bool) {
        self.refuses = refuses;
        let now = World::here().now();
        for phase in self.calls.values_mut() {
            match *phase {
                Phase::Waiting => self.allowed += FIRST_REFUSALS,
                Phase::Inside => self.allowed += CALL,
                Phase::Ended { at, is_refused } => {
                    let is_refused = is_refused || at + ANSWERED > now;
                    self.allowed += if is_refused { FIRST_REFUSALS } else { 0 };
                    *phase = Phase::Ended { at, is_refused: refuses && is_refused };
                }
            }
        }
    }

    /// So many commands were executed, over so many connections.
    pub fn look(&mut self, executed: u64, connections: u64) -> Option<Broken> {
        let now = World::here().now();
        let passed = now - std::mem::replace(&mut self.looked, now);
        let (mut waiters, mut rate) = (BTreeSet::new(), 0);
        for (id, phase) in &self.calls {
            let Some(What::Hold(hold)) = self.plan.calls.get(*id).map(|call| &call.what) else { continue };
            let ttl = hold.extend.iter().map(|(_, ttl)| *ttl).fold(hold.ttl, u64::min) * MILLISECOND;
            // Each third of the ttl; if it is refused, each tenth.
            let renewals = if self.refuses { 10 } else { 3 } * self.renewal * MILLISECOND / ttl;
            match phase {
                Phase::Ended { is_refused: true, .. } => {
                    rate += self.count(*id) * 1_000 * MILLISECOND / REFUSED;
                }
                Phase::Ended { .. } => {}
                Phase::Inside => rate += self.count(*id) * renewals,
                // Behind a waiter that has a place and is not refused yet, each one asks. Without a
                // queue, none is refused that finds the lock held.
                Phase::Waiting if self.refuses && self.pause == TOLD => {
                    rate += 1_000 * MILLISECOND / REFUSED;
                }
                Phase::Waiting => {
                    let process = self.plan.calls[*id].process;
                    waiters.extend(hold.keys.iter().map(|key| (process, *key)));
                    // A call for several keys may hold all except one, and asks for all again when
                    // `max_hold` ends the first of its locks.
                    let others = self.count(*id) - 1;
                    let again = if others > 0 { others * HOLD + LEAVES + CALL } else { 0 };
                    rate += others * renewals + hold.max_hold.map_or(0, |most| again / most);
                }
            }
        }
        rate += number(waiters.len()) * 1_000 * MILLISECOND / self.pause;
        self.allowed += rate * (passed / MILLISECOND);
        let bound = self.allowed + connections * CONNECTION;
        (executed * 1_000 > bound).then(|| {
            (
                "commands for locks within their bound",
                format!("{executed} executed, at most {} expected", bound / 1_000),
            )
        })
    }
}

fn keys(plan: &Plan, call: CallId) -> &[u8] {
    match plan.calls.get(call).map(|call| &call.what) {
        Some(What::Hold(hold)) => &hold.keys,
        _ => &[],
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
