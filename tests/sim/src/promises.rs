//! What the library promises where nothing is wrong around a lock: sharper than `oracle.rs`, which
//! judges disturbed fleets, too.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::callers::key;
use crate::oracle::{CallId, poll_behind};
use crate::plan::{BodyEnds, Call, Fault, Hold, Plan, Topology, What};
use crate::room::{Room, Want, allow};
use crate::server::Version;
use crate::world::{ProcessId, ServerId, World};

const MILLISECOND: u64 = 1_000_000;

/// So long a lock may be free beside a waiter, and so many messages: the pause of the second
/// waiter, and the drift of a clock since it last asked.
const PROMPT: u64 = 130 * MILLISECOND;

/// So long a lock may have an owner that does not know of it, or has left, and so many messages.
const TOLD: u64 = 350 * MILLISECOND;

/// The first waiter of a process whose queue was deleted asks within this time, and so much later
/// for each caller that was in front of it.
const FIRST_POLL: u64 = 1_500 * MILLISECOND;
const POLL_BEHIND: u64 = 400 * MILLISECOND;

/// How long it takes until all have a connection again, and no waiter pauses after a refusal.
const SETTLES: u64 = 3_000 * MILLISECOND;

/// A claim: so long a stuck process keeps a lock that was granted to one of its waiters.
const CLAIM: u64 = 1_000 * MILLISECOND;

/// So long a caller may wait beyond the claims of those that are stuck.
const BEHIND_CLAIMS: u64 = 350 * MILLISECOND;

/// So long a lock that was given back may stay, where the caller blocks its runtime at once.
const BLOCKED: u64 = 500 * MILLISECOND;

/// So long a lock may be free beside a waiter that lives, behind others that are dead, when no
/// release has freed it: the 3 s of `docs/limits.md`, and its pause.
const DESERTED: u64 = 3_300 * MILLISECOND;

/// What a server stores of a lock.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the lock")]
pub struct Stored {
    /// The number of the key.
    pub key: u8,
    /// The key is missing, or marked and in its grace: since so many milliseconds, as far as the
    /// server knows.
    pub is_over: Option<u64>,
    /// Who has it, and for whom there is room.
    pub room: Room,
    /// The first two waiters belong to dead processes: no other waiter is notified when to ask.
    pub is_deserted: bool,
    /// The first waiter is of a process that is dead: behind a foreign client, only the first one
    /// watches the lock.
    pub is_unwatched: bool,
    /// It holds the value of a foreign client.
    pub is_foreign: bool,
    /// It holds the value of a foreign client, which another client has changed.
    pub is_changed: bool,
    /// The calls that wait for it.
    pub waiters: Vec<CallId>,
    /// Its value says that callers wait.
    pub is_marked: bool,
}

/// A property, and who violated it.
pub type Broken = (&'static str, String);

struct Known {
    process: ProcessId,
    began: u64,
    phase: Phase,
    /// When it was first seen in the queue. From then on, it has to claim what it is granted.
    queued_at: Option<u64>,
    has_been_inside: bool,
    /// Its lock was seen to be lost.
    is_lost: bool,
    /// It has given its lock back, and blocks its runtime since then.
    blocks_since: Option<u64>,
    /// It waits behind none that lives, and has had room since then.
    has_had_room_since: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Inside { since: u64 },
    Ended { at: u64, kept_until: u64 },
}

#[derive(Default)]
struct Key {
    over_since: Option<u64>,
    /// Its first two waiters were dead at the last look: the others get no message, and a newcomer
    /// may pass them.
    is_deserted: bool,
    /// The call that was last seen to hold it.
    last_holder: Option<CallId>,
    was_marked: bool,
    /// A foreign client held it last.
    was_foreign: bool,
    /// Its holder waits for it since then.
    waits_for_itself_since: Option<u64>,
    /// The calls that have left, or do not know yet, and have it.
    astray: BTreeMap<CallId, u64>,
    /// The calls that were seen to have it at the last look.
    holders: BTreeSet<CallId>,
    /// By what a waiter wants: since when there is room for it, where several may have the lock.
    room_since: BTreeMap<Want, u64>,
    /// When a call last came in or left.
    changed: u64,
    /// When it was last looked at.
    looked_at: u64,
    /// The calls that were granted the lock while their processes were stopped, and since when
    /// these were.
    claims: BTreeSet<(ProcessId, u64, CallId)>,
    /// When a caller last had it, or a foreign client.
    used: u64,
    /// The calls with a `min_hold` that have begun to use it, and when.
    begins: Vec<(CallId, u64)>,
    /// Until then its waiters may not know what has become of it.
    uncertain_until: u64,
}

/// Judges a run by its promises.
#[expect(clippy::struct_excessive_bools, reason = "each says of the plan what one promise depends on")]
pub struct Promises {
    plan: Rc<Plan>,
    /// The only server.
    server: Option<ServerId>,
    /// Bytes never take much longer than usual.
    is_even: bool,
    /// The server hands locks over, in the order of their waiters. Where others meddle with a lock
    /// in two ways, such as taking rights away and putting an old queue back, a waiter may have to
    /// poll: then only `oracle.rs` judges.
    hands_over: bool,
    /// The clock of the server goes back: keys last longer than their holders and waiters know.
    clock_goes_back: bool,
    /// Requests may arrive long after they were sent: a lock that one takes stays for its ttl.
    comes_late: bool,
    /// The only server is slow, and nothing else is wrong: it answers a renewal within so many
    /// nanoseconds.
    answers_within: Option<u64>,
    /// Nothing but refusals goes wrong.
    only_refuses: bool,
    /// Nothing goes wrong but a lack of memory on the server.
    is_only_full: bool,
    /// Nothing goes wrong but the death of processes, and locks that go without a release.
    is_only_deserted: bool,
    /// Nothing goes wrong, and no lock goes but by the release of its holder.
    are_all_released: bool,
    /// So many processes stop, each with waiters, perhaps, and nothing else goes wrong.
    stop: Option<u64>,
    /// Nothing goes wrong but the end or the stop of processes, whose clocks are right.
    keeps_rates: bool,
    calls: BTreeMap<CallId, Known>,
    keys: BTreeMap<u8, Key>,
    /// The processes that were dead at the last look, and had no connections.
    gone: BTreeSet<ProcessId>,
}

impl Promises {
    /// Returns the promises for a run of this plan.
    #[must_use]
    pub fn of(plan: &Rc<Plan>) -> Self {
        let is = |fits: fn(&Fault) -> bool| plan.faults.iter().any(|(_, fault)| fits(fault));
        let meddling: BTreeSet<_> = plan.faults.iter().filter_map(|(_, fault)| fault.meddling()).collect();
        Self {
            is_even: plan.latency.late == 0
                && !is(|fault| matches!(fault, Fault::Slow(..) | Fault::SlowServer(..))),
            // A waiter that was granted the lock, and was not told, has lost its place, and learns
            // of that when it asks. A process that connects without the right to the queues
            // releases beside those who wait in one.
            hands_over: matches!(plan.topology, Topology::One(version) if version != Version::Redis5)
                && !is(Fault::forbids_queues)
                && meddling.len() < 2,
            clock_goes_back: is(|fault| matches!(fault, Fault::ServerClock(..))),
            comes_late: !plan.may_kill
                || is(|fault| {
                    matches!(
                        fault,
                        Fault::Cut(..)
                            | Fault::Part(..)
                            | Fault::Restart(..)
                            | Fault::OldData(..)
                            | Fault::Reload(..)
                            | Fault::Unasked(..)
                    )
                }),
            answers_within: answers_within(plan),
            // Elsewhere nothing looks at the locks, so a loss is seen late.
            only_refuses: matches!(plan.topology, Topology::One(_))
                && !is(|fault| !matches!(fault, Fault::RefuseWrites(..))),
            is_only_full: is(|fault| matches!(fault, Fault::Full(..)))
                && !is(|fault| !matches!(fault, Fault::Full(..))),
            is_only_deserted: is(|fault| matches!(fault, Fault::Delete(_) | Fault::Foreign(..)))
                && !is(|fault| !matches!(fault, Fault::Kill(_) | Fault::Delete(_) | Fault::Foreign(..))),
            are_all_released: plan.is_calm() && plan.latency.late == 0 && plan.calls.iter().all(is_released),
            stop: stopped(plan),
            keeps_rates: keeps_rates(plan),
            plan: Rc::clone(plan),
            server: None,
            calls: BTreeMap::new(),
            keys: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Returns the promises of a run with this server alone.
    #[must_use]
    pub fn with_server(self, server: ServerId) -> Self {
        Self { server: Some(server), ..self }
    }

    /// What that caller wants of its lock.
    #[must_use]
    pub fn want(&self, call: CallId) -> Want {
        self.hold(call).map_or(Want::ALONE, Hold::want)
    }

    /// The keys that it has beside readers, whatever it wants of the others.
    #[must_use]
    pub fn shares(&self, call: CallId) -> Vec<String> {
        let shares = |hold: &Hold| hold.shares.iter().map(|number| key(*number)).collect();
        self.hold(call).map_or_else(Vec::new, shares)
    }

    fn allows(&self, call: CallId) -> u32 {
        self.want(call).allows
    }

    /// Others may be beside it, at once or after a while.
    fn lets_others_in(&self, call: CallId) -> bool {
        self.hold(call)
            .is_some_and(|hold| hold.allows != 1 || hold.downgrades.is_some() || !hold.shares.is_empty())
    }

    /// Several may have the lock.
    fn is_shared(&self, key: u8) -> bool {
        let mut calls = (0..self.plan.calls.len()).filter(|call| self.lets_others_in(*call));
        let shares = |call: CallId| self.hold(call).is_some_and(|hold| hold.shares.contains(&key));
        calls.any(|call| self.only_key(call) == Some(key) || shares(call))
    }

    fn hold(&self, call: CallId) -> Option<&Hold> {
        match &self.plan.calls.get(call)?.what {
            What::Hold(hold) => Some(hold),
            _ => None,
        }
    }

    /// The key of a call that wants one.
    fn only_key(&self, call: CallId) -> Option<u8> {
        match self.hold(call)?.keys.as_slice() {
            [key] => Some(*key),
            _ => None,
        }
    }

    fn on_changed(&mut self, call: CallId, now: u64) {
        let keys = self.hold(call).map(|hold| hold.keys.clone()).unwrap_or_default();
        for key in keys {
            self.keys.entry(key).or_default().changed = now;
        }
    }

    /// How long a few messages take, in nanoseconds.
    fn messages(&self) -> u64 {
        10 * self.plan.latency.usual * MILLISECOND
    }

    /// A caller asks for locks.
    pub fn begins(&mut self, call: CallId, process: ProcessId) {
        let began = World::here().now();
        self.calls.insert(
            call,
            Known {
                process,
                began,
                phase: Phase::Waiting,
                queued_at: None,
                has_been_inside: false,
                is_lost: false,
                blocks_since: None,
                has_had_room_since: None,
            },
        );
    }

    /// A caller that had the lock has given it back, and blocks its runtime.
    pub fn blocks(&mut self, call: CallId) {
        let now = World::here().now();
        if let Some(known) = self.calls.get_mut(&call) {
            known.blocks_since = Some(now);
        }
    }

    /// A call has ended because others had its lock. Nothing has been wrong around its process
    /// since `quiet`.
    #[must_use]
    pub fn is_refused(&self, call: CallId, quiet: u64) -> Option<Broken> {
        let (known, key) = (self.calls.get(&call)?, self.only_key(call)?);
        let used = self.keys.get(&key).map_or(0, |key| key.used);
        let is_late = known.began > used.max(quiet) + self.claims()?;
        is_late.then(|| ("a stuck process costs a claim", format!("call {call} is refused k{key}")))
    }

    /// So long the locks of processes that are stuck may stay unused, where that can be told.
    fn claims(&self) -> Option<u64> {
        let is_told = self.is_even && self.hands_over && !self.clock_goes_back && !self.comes_late;
        let stop = self.stop.filter(|_| is_told)?;
        // One of several may be let in while the claim of another one of its process lasts.
        let times = if (0..self.plan.calls.len()).any(|call| self.lets_others_in(call)) { 2 } else { 1 };
        Some(times * stop * CLAIM + BEHIND_CLAIMS + self.messages())
    }

    /// A caller has the lock and knows it, or keeps it taken, or a foreign client has it, or a
    /// caller that is not known by its label.
    fn is_used(&self, now: u64, lock: &Stored) -> bool {
        let known = |call| self.calls.get(&call);
        let has_it = |call: CallId| match known(call).map(|known| known.phase) {
            // It has one of its keys, and waits for the next. Or its own request took the lock, for
            // the ttl, and its process has stopped before the answer came.
            Some(Phase::Waiting) => {
                let took_it =
                    known(call).is_some_and(|known| known.queued_at.is_none() && !runs(known.process));
                took_it || self.only_key(call).is_none()
            }
            Some(Phase::Inside { .. }) | None => true,
            // Or its process has stopped before it was released.
            Some(Phase::Ended { kept_until, .. }) => {
                now < kept_until || known(call).is_some_and(|known| !runs(known.process))
            }
        };
        match lock.room.holders.as_slice() {
            [] => lock.is_foreign || lock.is_over.is_none(),
            holders => holders.iter().any(|holder| has_it(self.current(*holder))),
        }
    }

    /// Callers wait behind processes that are stuck. By call: nothing has been wrong around its
    /// process since then.
    #[must_use]
    pub fn are_kept_waiting(&self, quiet: impl Fn(CallId) -> u64) -> Option<Broken> {
        let (now, claims) = (World::here().now(), self.claims()?);
        let mut waiting = self.calls.iter().filter(|(_, known)| known.phase == Phase::Waiting);
        let (call, _) = waiting.find(|(call, known)| {
            let key = self.only_key(**call);
            let used = key.and_then(|key| self.keys.get(&key)).map(|key| key.used);
            let since = |used: u64| used.max(known.began).max(quiet(**call));
            // Those that began later may be in front: its first try may have come just before them.
            let came_before = |other: &(&CallId, &Known)| {
                let queued_at = known.queued_at.unwrap_or(known.began);
                other.0 != *call && other.1.began <= queued_at && self.only_key(*other.0) == key
            };
            // It was told nothing, where the process that is stuck had the lock from itself.
            let own_poll = poll_behind(self.calls.iter().filter(came_before).count());
            runs(known.process) && used.is_some_and(|used| now > since(used) + claims + own_poll)
        })?;
        Some(("a stuck process costs a claim", format!("call {call} waits")))
    }

    /// A caller is inside. `is_held`: by the account of its guard; `is_taken_away`: from another
    /// one, perhaps.
    pub fn enters(&mut self, call: CallId, is_held: bool, is_taken_away: bool) -> Option<Broken> {
        let now = World::here().now();
        let broken = self.exceeds_rate(call, now);
        if broken.is_some() {
            return broken;
        }
        let limits = |hold: &Hold| hold.starts || is_held && hold.min_hold.is_some() && hold.allows != 1;
        if self.hold(call).is_some_and(limits)
            && let Some(key) = self.only_key(call)
        {
            self.keys.entry(key).or_default().begins.push((call, now));
        }
        self.on_changed(call, now);
        let known = self.calls.get_mut(&call)?;
        (known.phase, known.has_been_inside) = (Phase::Inside { since: now }, true);
        for key in self.hold(call).map(|hold| hold.keys.clone()).unwrap_or_default() {
            self.keys.entry(key).or_default().used = now;
        }
        if !is_held && self.only_key(call).is_none() {
            return Some(("a call for several keys returns with all of them", format!("call {call}")));
        }
        // A ticket is redeemed past those who wait. Since when a candidate waits again after an
        // error, it alone knows.
        let is_first =
            self.hold(call).is_some_and(|hold| hold.redeems || hold.leads == Some(BodyEnds::Fails));
        if is_taken_away || is_first { None } else { self.passes(call, now) }
    }

    /// One that has a permit keeps it for its `min_hold`, whatever becomes of it.
    fn exceeds_rate(&self, call: CallId, now: u64) -> Option<Broken> {
        let key = self.only_key(call).filter(|_| self.keeps_rates)?;
        let keeps = |(other, at): &(CallId, u64)| {
            let min_hold = self.hold(*other)?.min_hold? * MILLISECOND;
            (now + MILLISECOND < at + min_hold).then(|| self.want(*other))
        };
        let kept: Vec<_> = self.keys.get(&key)?.begins.iter().filter_map(keeps).collect();
        let is_kept = kept.is_empty() || allow(kept.iter().copied().chain([self.want(call)]), None);
        (!is_kept).then(|| ("no more begin in a min_hold than there are permits", format!("call {call}")))
    }

    /// Readers have room beside those inside, and wait behind none that lives.
    #[must_use]
    pub fn are_kept_out(&mut self) -> Option<Broken> {
        let (now, claims) = (World::here().now(), self.claims()?);
        let reads = |call: CallId| self.allows(call) == 0;
        let is_kept_out = |(call, known): (&CallId, &Known)| {
            let key = self.only_key(*call).filter(|_| reads(*call) && runs(known.process))?;
            if known.phase != Phase::Waiting {
                return None;
            }
            let mut is_read = false;
            for (other, its) in self.calls.iter().filter(|(other, _)| self.only_key(**other) == Some(key)) {
                let is_in_the_way = match its.phase {
                    Phase::Waiting => runs(its.process),
                    Phase::Inside { .. } => true,
                    Phase::Ended { at, kept_until } => now < at.max(kept_until) + TOLD,
                };
                if is_in_the_way && !reads(*other) {
                    return None;
                }
                is_read |= matches!(its.phase, Phase::Inside { .. }) && runs(its.process);
            }
            is_read.then_some(*call)
        };
        let kept_out: BTreeSet<_> = self.calls.iter().filter_map(is_kept_out).collect();
        let own_poll = poll_behind(self.calls.len());
        let mut broken = None;
        for (call, known) in &mut self.calls {
            if !kept_out.contains(call) {
                known.has_had_room_since = None;
            } else if now > *known.has_had_room_since.get_or_insert(now) + claims + own_poll {
                broken = Some(("a stuck process costs a claim", format!("call {call} is kept out")));
            }
        }
        broken
    }

    /// First come, first served.
    fn passes(&self, call: CallId, now: u64) -> Option<Broken> {
        let key = self.only_key(call)?;
        let in_cohorts = self.plan.processes.iter().any(|process| process.cohort > 0);
        let is_disturbed = |fault: &Fault| {
            !matches!(fault, Fault::Kill(_) | Fault::PowerOff(_) | Fault::ServerClock(_, ..0))
        };
        let others = self.plan.faults.iter().any(|(_, fault)| is_disturbed(fault));
        let is_deserted = self.keys.get(&key).is_some_and(|key| key.is_deserted);
        if !self.is_even
            || !self.hands_over
            || self.plan.foreign_clients
            || in_cohorts
            || others
            || is_deserted
        {
            return None;
        }
        let world = World::here();
        let room = self.server.and_then(|server| {
            world.with_server(server, |server, now| Room::of(server, now, &crate::callers::key(key)))
        });
        // Several enter at a time, and some hear of it later.
        let granted = room.filter(|room| room.is_counted).map_or(Vec::new(), |room| room.holders);
        let late = self.calls.get(&call)?.began.saturating_sub(self.messages() + 30 * MILLISECOND);
        let mut waiters = self.calls.iter().filter(|(_, known)| known.phase == Phase::Waiting);
        let (passed, _) = waiters.find(|(other, known)| {
            let Some(hold) = self.hold(**other) else { return false };
            let until = hold.wait.map_or(u64::MAX, |wait| known.began + wait * MILLISECOND);
            hold.keys == [key]
                && !granted.contains(other)
                && !hold.redeems
                // It leaves the queue when it gets a result, or learns that its tick is taken.
                && hold.once.is_none()
                && hold.tick.is_none()
                // There may be fewer permits than it takes: then it leaves the queue, and is refused.
                && !(hold.takes > 1 && self.plan.sets_permits())
                && hold.wait != Some(0)
                && known.began < late
                && now + 50 * MILLISECOND < until
                && runs(known.process)
                && !self.has_run_out(known.process, key, known.began)
        })?;
        Some(("first come, first served", format!("call {call} has k{key} before call {passed}")))
    }

    /// A caller of this process that does not renew may have been inside until its lease was over,
    /// at `since` or later. Where clocks differ by all that a lease allows for, its release comes
    /// after that: till then the process seems to be stuck, and its waiters lose their places
    /// (`docs/limits.md`).
    fn has_run_out(&self, process: ProcessId, key: u8, since: u64) -> bool {
        let runs_out = |hold: &Hold| {
            let shortest = hold.extend.iter().map(|(_, ttl)| *ttl).fold(hold.ttl, u64::min);
            !hold.renew && hold.keys.contains(&key) && hold.hold >= shortest - shortest / 10
        };
        self.calls.iter().any(|(call, known)| {
            let is_over = matches!(known.phase, Phase::Ended { at, .. } if at < since);
            known.process == process
                && known.has_been_inside
                && !is_over
                && self.hold(*call).is_some_and(runs_out)
        })
    }

    /// A caller has left. The key may stay taken for so long.
    pub fn ends(&mut self, call: CallId, keeps: u64) {
        let now = World::here().now();
        self.on_changed(call, now);
        if let Some(known) = self.calls.get_mut(&call) {
            // A caller that has a ticket ends later than its hold.
            let before = if let Phase::Ended { kept_until, .. } = known.phase { kept_until } else { 0 };
            known.phase = Phase::Ended { at: now, kept_until: before.max(now + keeps) };
        }
    }

    /// The calls that are inside, as far as is known, and whose locks were not seen to be lost.
    #[must_use]
    pub fn insiders(&self) -> Vec<CallId> {
        let inside = self.calls.iter().filter(|(_, known)| matches!(known.phase, Phase::Inside { .. }));
        inside.filter(|(_, known)| !known.is_lost).map(|(call, _)| *call).collect()
    }

    /// A caller that was inside has lost its lock, by the account of its guard, since the last
    /// look.
    pub fn loses(&mut self, call: CallId, quiet: u64, may_be_lost: bool) -> Option<Broken> {
        let now = World::here().now();
        let hold = self.hold(call)?;
        let Phase::Inside { since } = self.calls.get(&call)?.phase else { return None };
        // A leader that blocks is not renewed.
        let blocks = hold.leads == Some(BodyEnds::Blocks);
        let is_kept = hold.renew && hold.max_hold.is_none() && hold.extend.is_empty() && !blocks;
        // A renewal that was refused is sent again soon.
        let is_well = if self.only_refuses {
            quiet + hold.ttl * MILLISECOND / 4 + self.messages() < now
        } else {
            // Its lease counts from its request, which was sent within a ttl before.
            quiet + hold.ttl * MILLISECOND < since
        };
        let is_alone = || {
            let others = (0..self.plan.calls.len())
                .filter(|other| *other != call && self.only_key(*other) == self.only_key(call));
            self.only_key(call).is_some() && others.count() == 0
        };
        // It is renewed after a third of its ttl.
        let is_kept_though_slow = self.answers_within.is_some_and(|time| hold.ttl * MILLISECOND / 3 > time)
            && is_alone()
            && !self.seems_lost();
        let is_certain = self.is_even && is_well || is_kept_though_slow;
        let is_caused = !runs(self.calls.get(&call)?.process) || may_be_lost || !is_certain;
        let known = self.calls.get_mut(&call)?;
        if !std::mem::replace(&mut known.is_lost, true) && is_kept && !is_caused {
            return Some(("a lock is lost only for a cause", format!("call {call}, inside since {since}")));
        }
        None
    }

    /// A server was silent for so long that a process may have given its connection up. What others
    /// send keeps it from answering, too.
    fn seems_lost(&self) -> bool {
        let silent = World::here().longest_silence() + self.messages();
        self.plan.processes.iter().any(|process| 2 * silent > process.io_timeout * MILLISECOND)
    }

    /// So many connections were made to the only server.
    #[must_use]
    pub fn keeps_connections(&self, connections: u64) -> Option<Broken> {
        let [_] = self.plan.processes.as_slice() else { return None };
        self.answers_within?;
        // The first one to a server that does not know RESP3 is closed.
        let first = if self.plan.topology.version() == Version::Redis5 { 2 } else { 1 };
        (connections > first && !self.seems_lost())
            .then(|| ("a connection ends only for a cause", format!("{connections} connections")))
    }

    /// An operator has deleted this key or its queue.
    pub fn set_uncertain(&mut self, number: u8) {
        let now = World::here().now();
        let callers = || {
            let wants = |call: CallId| self.hold(call).is_some_and(|hold| hold.keys.contains(&number));
            self.calls.iter().filter(move |(call, _)| wants(**call)).map(|(_, known)| known)
        };
        let waiting: Vec<_> = callers().filter(|known| known.phase == Phase::Waiting).collect();
        let is_one =
            waiting.iter().all(|known| Some(known.process) == waiting.first().map(|first| first.process));
        // Those in front may have gone since the waiter last asked.
        let first_began = waiting.iter().map(|known| known.began).min().unwrap_or(now);
        let in_front = callers().filter(|known| match known.phase {
            Phase::Ended { at, .. } => at >= first_began,
            _ => true,
        });
        // The first waiter may leave before it asks, and the next one pauses again, for longer if
        // more were in front of it. The waiters of other processes each learn of it by their own
        // polls, which are seldom far behind.
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let polls = if is_one { count(waiting.len()).clamp(1, 20) } else { 20 };
        let until = now + polls * (FIRST_POLL + count(in_front.count()).min(20) * POLL_BEHIND);
        let key = self.keys.entry(number).or_default();
        key.uncertain_until = key.uncertain_until.max(until);
    }

    /// Looks at what the only server stores. `inside`: the calls that are inside by their own
    /// account.
    pub fn look(&mut self, stored: &[Stored], inside: &BTreeSet<CallId>, quiet: u64) -> Option<Broken> {
        let now = World::here().now();
        if let Some(changed) = stored.iter().find(|lock| lock.is_changed) {
            return Some(("a foreign value stays as it is", format!("k{}", changed.key)));
        }
        let longer = inside.iter().find(|call| {
            let (Some(hold), Some(known)) = (self.hold(**call), self.calls.get(call)) else { return false };
            let Phase::Inside { since } = known.phase else { return false };
            hold.max_hold.is_some_and(|most| now > since + (most + most / 50 + 5) * MILLISECOND)
        });
        if let Some(call) = longer {
            return Some(("no caller is inside for longer than max_hold", format!("call {call}")));
        }
        for waiter in stored.iter().flat_map(|lock| &lock.waiters) {
            if let Some(known) = self.calls.get_mut(waiter) {
                known.queued_at.get_or_insert(now);
            }
        }
        let broken = stored.iter().find_map(|lock| self.look_at(now, lock, quiet));
        let world = World::here();
        let has_gone = |process: &ProcessId| world.is_dead(*process) && !world.has_connections(*process);
        self.gone = self.calls.values().map(|known| known.process).filter(has_gone).collect();
        broken
    }

    /// The call that has the lock, or was the last to have it, under the token of this one: within
    /// a process, a lock is passed on under the token of the first.
    fn current(&self, first: CallId) -> CallId {
        let ended = |known: &Known| match known.phase {
            Phase::Waiting => None,
            Phase::Inside { .. } => Some(u64::MAX),
            Phase::Ended { at, .. } => known.has_been_inside.then_some(at),
        };
        let Some((process, Some(at))) = self.calls.get(&first).map(|known| (known.process, ended(known)))
        else {
            return first;
        };
        let key = self.only_key(first);
        // Those that several have together do so under a token of their own.
        let is_alone = |call: CallId| self.allows(call) == 1;
        let others = self.calls.iter().filter(|(call, known)| {
            known.process == process
                && key.is_some()
                && self.only_key(**call) == key
                && is_alone(first)
                && is_alone(**call)
        });
        let last = others.filter_map(|(call, known)| Some((ended(known)?, *call))).max();
        last.filter(|(ended, _)| *ended > at).map_or(first, |(_, call)| call)
    }

    /// What has nothing to do with whether all is well around the processes.
    fn look_at_stuck(&self, now: u64, lock: &Stored, holder: CallId) -> Option<Broken> {
        let call = self.current(holder);
        let holder = self.calls.get(&call)?;
        let given_back = |since: u64| now.saturating_sub(since) > self.messages();
        if let Some(since) = holder.blocks_since
            && self.plan.faults.is_empty()
            && self.is_even
            && given_back(since + BLOCKED)
        {
            let what = format!("call {call} has given k{} back", lock.key);
            return Some(("a blocked runtime delays no release", what));
        }
        if let Phase::Ended { at, kept_until } = holder.phase
            && self.is_only_full
            && self.is_even
            && self.is_astray(call, now)
            && given_back(at.max(kept_until) + TOLD)
        {
            let what = format!("call {call} has given k{} back", lock.key);
            return Some(("a full server takes back what is given back", what));
        }
        None
    }

    fn look_at(&mut self, now: u64, lock: &Stored, quiet: u64) -> Option<Broken> {
        let mut holders = lock.room.holders.iter();
        if let Some(broken) = holders.find_map(|holder| self.look_at_stuck(now, lock, *holder)) {
            return Some(broken);
        }
        if self.is_used(now, lock) {
            self.keys.entry(lock.key).or_default().used = now;
        }
        if let Some(broken) = self.look_at_holders(now, lock, quiet) {
            return Some(broken);
        }
        if self.is_shared(lock.key) {
            self.look_at_room(now, lock, quiet)
        } else {
            self.look_at_alone(now, lock, quiet)
        }
    }

    /// Each of those that have it knows of it, and is there.
    fn look_at_holders(&mut self, now: u64, lock: &Stored, quiet: u64) -> Option<Broken> {
        let holders: BTreeSet<_> = lock.room.holders.iter().map(|call| self.current(*call)).collect();
        let astray: Vec<_> = holders.iter().copied().filter(|call| self.is_astray(*call, now)).collect();
        let key = self.keys.entry(lock.key).or_default();
        let before = std::mem::replace(&mut key.holders, holders);
        let since = |call: CallId| key.astray.get(&call).copied().unwrap_or(now);
        key.astray = astray.into_iter().map(|call| (call, since(call))).collect();
        if !self.is_even || !self.hands_over || self.clock_goes_back || self.comes_late {
            return None;
        }
        let key = self.keys.get(&lock.key)?;
        if let Some(call) = key.holders.difference(&before).find(|call| self.was_gone(**call)) {
            return Some(("no waiter that has gone gets the lock", format!("call {call}, k{}", lock.key)));
        }
        let quiet = if quiet > 0 { quiet + SETTLES } else { 0 };
        let (call, _) = key
            .astray
            .iter()
            .find(|(_, since)| now.saturating_sub(quiet.max(**since)) > TOLD + self.messages())?;
        Some(("the owner of a lock knows of it", format!("call {call}, k{}", lock.key)))
    }

    /// The server has granted a lock to these waiters, each at its time. One that has had the lock
    /// without a request, as its process has passed it on, leaves the queue with the release.
    #[must_use]
    pub fn look_at_grants(&self, grants: &[(CallId, u64)]) -> Option<Broken> {
        if !self.are_all_released {
            return None;
        }
        let has_had_it = |call: CallId, granted: u64| {
            self.calls.get(&call).is_some_and(|known| {
                // The time of a server is a few microseconds ahead when scripts ask for it often.
                let has_left = matches!(known.phase, Phase::Ended { at, .. } if at + MILLISECOND < granted);
                has_left && known.has_been_inside
            })
        };
        let (call, _) = grants.iter().find(|(call, granted)| has_had_it(*call, *granted))?;
        Some(("a caller that has had the lock is granted it no more", format!("call {call}")))
    }

    /// A waiter enters at once when there is room for it, and for the one in front of all.
    fn look_at_room(&mut self, now: u64, lock: &Stored, quiet: u64) -> Option<Broken> {
        let is_told = !lock.is_deserted && !lock.is_unwatched;
        let kinds: BTreeSet<_> = (0..self.plan.calls.len()).map(|call| self.want(call)).collect();
        let left = lock.waiters.iter().copied().find(|call| self.has_left(*call));
        let key = self.keys.entry(lock.key).or_default();
        key.was_foreign = lock.is_foreign || lock.room.is_free() && key.was_foreign;
        key.is_deserted = lock.is_deserted;
        for want in kinds {
            if lock.room.is_for(want) && is_told && !key.was_foreign {
                key.room_since.entry(want).or_insert(now);
            } else {
                key.room_since.remove(&want);
            }
        }
        if !self.is_even || !self.hands_over || self.clock_goes_back {
            return None;
        }
        let key = self.keys.get(&lock.key)?;
        let quiet = if quiet > 0 { quiet + SETTLES } else { 0 };
        let calm = key.changed.max(quiet).max(key.uncertain_until);
        if let Some(call) = left.filter(|_| !self.comes_late)
            && now.saturating_sub(calm) > TOLD + self.messages()
        {
            return Some((
                "a caller that has left has no place in the queue",
                format!("call {call}, k{}", lock.key),
            ));
        }
        let (waiter, _) = self.calls.iter().find(|(call, known)| {
            let since = key.room_since.get(&self.want(**call));
            known.phase == Phase::Waiting
                && self.only_key(**call) == Some(lock.key)
                && runs(known.process)
                && since.is_some_and(|since| {
                    now.saturating_sub(calm.max(known.began).max(*since)) > PROMPT + self.messages()
                })
        })?;
        Some((
            "a lock is handed over at once",
            format!("call {waiter} waits beside k{}, which has room", lock.key),
        ))
    }

    fn look_at_alone(&mut self, now: u64, lock: &Stored, quiet: u64) -> Option<Broken> {
        let first = lock.room.holders.first().copied();
        let holder = first.map(|call| self.current(call));
        let known = self.keys.get(&lock.key);
        let (last_holder, was_marked) = match holder {
            Some(call) => (Some(call), lock.is_marked),
            None => known.map_or((None, false), |key| (key.last_holder, key.was_marked)),
        };
        // A release finds the first waiter that is there, behind as many dead ones as there may be:
        // not that of a newcomer which has found no key, and so does not know of them.
        let was_foreign = lock.is_foreign || holder.is_none() && known.is_some_and(|key| key.was_foreign);
        let is_released = was_marked
            && !was_foreign
            && last_holder.and_then(|call| self.calls.get(&call)).is_some_and(has_released);
        let is_excused = (lock.is_deserted || was_foreign && lock.is_unwatched) && !is_released;
        let before = self.keys.get(&lock.key).and_then(|key| key.last_holder);
        let is_new = |call: &CallId| before != Some(*call);
        let waits_for_itself = first.is_some_and(|holder| lock.waiters.contains(&holder));
        let left = lock.waiters.iter().copied().find(|call| self.has_left(*call));
        let stopped = holder.filter(is_new).and_then(|call| {
            let process = self.calls.get(&call)?.process;
            Some((process, World::here().frozen_since(process)?, call))
        });
        let is_forced = self.is_forced(lock.key);
        let key = self.keys.entry(lock.key).or_default();
        let claim = stopped.filter(|(_, since, _)| *since <= key.looked_at);
        key.looked_at = now;
        key.claims.extend(claim);
        let one_too_many = claim.filter(|(process, since, _)| {
            key.claims.range((*process, *since, CallId::MIN)..=(*process, *since, CallId::MAX)).count() > 1
        });
        (key.last_holder, key.was_marked, key.is_deserted) = (last_holder, was_marked, lock.is_deserted);
        key.was_foreign = was_foreign;
        key.waits_for_itself_since =
            if waits_for_itself { key.waits_for_itself_since.or(Some(now)) } else { None };
        key.over_since = lock.is_over.map(|ago| key.over_since.unwrap_or(now - ago * MILLISECOND));
        if !self.is_even || !self.hands_over || self.clock_goes_back {
            return None;
        }
        let (over_since, key_changed) = (key.over_since, key.changed);
        let uncertain_until = key.uncertain_until;
        if let Some((_, _, call)) = one_too_many.filter(|_| now > uncertain_until && !is_forced) {
            return Some(("a stopped process costs one claim", format!("call {call}, k{}", lock.key)));
        }
        let waits_for_itself = key.waits_for_itself_since;
        let quiet = if quiet > 0 { quiet + SETTLES } else { 0 };
        let calm = key.changed.max(quiet).max(key.uncertain_until);
        let limit = PROMPT + self.messages();
        if let Some(since) = waits_for_itself
            && !self.comes_late
            && now.saturating_sub(since.max(quiet)) > TOLD + self.messages()
        {
            return Some(("no caller waits for itself", format!("k{}", lock.key)));
        }
        if let Some(call) = left.filter(|_| !self.comes_late)
            && now.saturating_sub(calm) > TOLD + self.messages()
        {
            let what = format!("call {call}, k{}", lock.key);
            return Some(("a caller that has left has no place in the queue", what));
        }
        let over = over_since?;
        let mut waiters = self.calls.iter().filter(|(call, known)| {
            known.phase == Phase::Waiting
                && self.only_key(**call) == Some(lock.key)
                && runs(known.process)
                && now > over.max(key_changed).max(known.began) + DESERTED + self.messages()
        });
        if let Some((waiter, _)) = waiters.next().filter(|_| self.is_only_deserted) {
            let what = format!("call {waiter} waits beside k{}", lock.key);
            return Some(("dead waiters in front keep nobody from a free lock", what));
        }
        let since = over.max(calm);
        let mut waiters = self.calls.iter().filter(|(call, known)| {
            known.phase == Phase::Waiting
                && self.only_key(**call) == Some(lock.key)
                && runs(known.process)
                // One that asks later than that gives it to the first waiter.
                && (!is_excused || known.began > over && self.asks(**call))
                && now.saturating_sub(since.max(known.began)) > limit
        });
        let (waiter, _) = waiters.next()?;
        Some(("a lock is handed over at once", format!("call {waiter} waits beside k{}", lock.key)))
    }

    /// An operator takes the lock away with a call, which hands it to the next waiter before a
    /// claim is over.
    fn is_forced(&self, number: u8) -> bool {
        self.plan
            .calls
            .iter()
            .any(|call| matches!(call.what, What::ForceRelease(key) | What::Revoke(key) if key == number))
    }

    /// In a cohort, only the first waiter does.
    fn asks(&self, call: CallId) -> bool {
        let process = self.plan.calls.get(call).and_then(|call| self.plan.processes.get(call.process));
        process.is_some_and(|process| process.cohort == 0)
    }

    /// The server knew at the last look that the waiter has gone.
    fn was_gone(&self, call: CallId) -> bool {
        let known = self.calls.get(&call);
        known.is_some_and(|known| known.phase == Phase::Waiting && self.gone.contains(&known.process))
    }

    /// It has left, and so has the lock that it had: followers give their places back with it.
    fn has_left(&self, call: CallId) -> bool {
        let Some(Known { process, began, phase: Phase::Ended { at, .. }, .. }) = self.calls.get(&call) else {
            return false;
        };
        let pauses = self.hold(call).is_some_and(|hold| hold.leads == Some(BodyEnds::Fails));
        if pauses || self.is_forbidden(*began, *at) {
            return false;
        }
        let key = self.only_key(call);
        let is_inside = |other: (&CallId, &Known)| {
            let is_inside = matches!(other.1.phase, Phase::Inside { .. });
            is_inside && other.1.process == *process && self.only_key(*other.0) == key
        };
        runs(*process) && key.is_some() && !self.calls.iter().any(is_inside)
    }

    /// A command was forbidden meanwhile. A script may have failed behind it, with a place in the
    /// queue for a caller that gave up at once; and a process that connects then works without
    /// queues, also for a caller that has a place. Such a place gets the lock in its turn, and its
    /// process returns it.
    fn is_forbidden(&self, from: u64, until: u64) -> bool {
        self.plan.faults.iter().any(|(at, fault)| {
            let Fault::Forbid(_, _, length) = fault else { return false };
            at * MILLISECOND <= until && from <= (at + length) * MILLISECOND
        })
    }

    /// The lock has a caller that waits for it, or has left.
    fn is_astray(&self, call: CallId, now: u64) -> bool {
        let (Some(known), Some(_)) = (self.calls.get(&call), self.only_key(call)) else { return false };
        if !runs(known.process) {
            return false;
        }
        match known.phase {
            Phase::Waiting => true,
            Phase::Inside { .. } => false,
            // A cohort hands it over under the token of the first.
            Phase::Ended { at, kept_until } => {
                let in_cohorts = self.plan.processes.iter().any(|process| process.cohort > 0);
                !in_cohorts && now > at.max(kept_until)
            }
        }
    }
}

/// Its release has looked for the next waiter: that of a lock which is kept lets the key expire.
fn has_released(known: &Known) -> bool {
    matches!(known.phase, Phase::Ended { at, kept_until } if kept_until <= at) && runs(known.process)
}

fn runs(process: ProcessId) -> bool {
    let world = World::here();
    world.is_running(process) && !world.is_dead(process)
}

/// It keeps its lock for as long as it is inside, and gives it back then.
fn is_released(call: &Call) -> bool {
    let What::Hold(hold) = &call.what else { return true };
    hold.renew
        && hold.extend.is_empty()
        && hold.max_hold.is_none()
        && hold.gives.is_none()
        && hold.leads.is_none()
        && hold.blocks == 0
        && !hold.forks
}

/// How many processes stop for good, if nothing else goes wrong. One that is killed has no claims:
/// its connections end. With a grant, the next two processes learn when its lease ends: of
/// three, all that know it may have stopped or died.
fn stopped(plan: &Plan) -> Option<u64> {
    let gone = plan.faults.iter().map(|(_, fault)| match fault {
        Fault::Freeze(process, _) | Fault::PowerOff(process) => Some((*process, true)),
        Fault::Kill(process) => Some((*process, false)),
        _ => None,
    });
    let gone = gone.collect::<Option<BTreeSet<_>>>().filter(|gone| gone.len() <= 2)?;
    if plan.calls.iter().any(|call| matches!(call.what, What::ForceRelease(_) | What::Revoke(_))) {
        return None;
    }
    let stop = gone.iter().filter(|(_, stops)| *stops).count();
    u64::try_from(stop).ok().filter(|stop| *stop > 0)
}

/// No place is given back before its time.
fn keeps_rates(plan: &Plan) -> bool {
    let ends_or_stops =
        |fault: &Fault| matches!(fault, Fault::Kill(_) | Fault::PowerOff(_) | Fault::Freeze(..));
    matches!(plan.topology, Topology::One(_))
        && plan.faults.iter().all(|(_, fault)| ends_or_stops(fault))
        && plan.processes.iter().all(|process| process.fast == 0)
        && !plan.calls.iter().any(|call| matches!(call.what, What::ForceRelease(_) | What::Revoke(_)))
        && !plan.sets_permits()
}

/// How long a renewal takes behind all requests that may be in flight, if the only server is slow
/// and nothing else is wrong.
fn answers_within(plan: &Plan) -> Option<u64> {
    /// So many requests are in flight at most, unless a connection has answered many more quickly
    /// before.
    const WINDOW: usize = 256;
    /// Bytes of a request.
    const LONGEST: u64 = 320;
    let costs = plan.faults.iter().map(|(_, fault)| match fault {
        Fault::SlowServer(_, cost, _) => Some(*cost),
        _ => None,
    });
    let cost = costs.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    let requests = u64::try_from(WINDOW.min(2 * plan.calls.len())).ok()?;
    let is_one = matches!(plan.topology, Topology::One(_)) && plan.latency.late == 0;
    is_one.then_some(requests * LONGEST * cost * 1_000 + 100 * MILLISECOND)
}
