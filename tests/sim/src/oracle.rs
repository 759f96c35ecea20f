//! What must hold whatever happens, as seen from outside: in what callers get, and in what the
//! servers store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redlock_runtime::{LockError, LockGuard, Term};

use crate::commands::Commands;
use crate::promises::{Broken, Promises, Stored};
use crate::room::{Room, Want, allow};
use crate::world::{ProcessId, World};

const MILLISECOND: u64 = 1_000_000;

/// A claim: so long a lock may be free, or kept for a waiter that does not know of it.
const CLAIM: u64 = 1_000 * MILLISECOND;

/// What a waiter that has heard nothing may need on top: its poll, and the pause before the next
/// attempt to connect.
const POLL: u64 = 1_800 * MILLISECOND;

/// As [`POLL`], for a waiter with many others in front.
const LONGEST_POLL: u64 = 16_000 * MILLISECOND;

/// As [`POLL`], for a waiter with so many others in front: `docs/limits.md`.
pub(crate) fn poll_behind(in_front: usize) -> u64 {
    let in_front = u64::try_from(in_front).unwrap_or(u64::MAX);
    in_front.saturating_mul(450 * MILLISECOND).saturating_add(POLL).min(LONGEST_POLL)
}

/// So much later than its limit a caller may be back, where answers are not late. Where they may
/// be, the one that is under way at the limit is awaited for the `io_timeout` of its manager at
/// most.
const LATE: u64 = 250 * MILLISECOND;

/// The longest ttl in a plan, and the grace.
const LONGEST_TTL: u64 = 21_000 * MILLISECOND;

/// How long a lock may stay with a caller that has given it back, while all is well.
const RELEASED: u64 = 2_000 * MILLISECOND;

/// So long a manager may take to end that has no lock to give back.
const SHUT_DOWN: Duration = Duration::from_secs(2);

/// A lease that is renewed, or gets another ttl, changes between two looks.
const LOOK: u64 = 50 * MILLISECOND;

/// The number of a call in its plan.
pub type CallId = usize;

/// A property that was violated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The property, in a few words: the same for all that violate it.
    pub property: &'static str,
    /// Who, where and when.
    pub what: String,
}

/// What is known of a call.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the call")]
struct Known {
    process: ProcessId,
    keys: Vec<String>,
    want: Want,
    /// The keys that it has beside readers, whatever it wants of the others.
    shares: Vec<String>,
    began: u64,
    inherits: bool,
    phase: Phase,
    has_been_inside: bool,
    /// When the caller must be back, if its process runs all the time, and for how long that had
    /// not run when it began.
    limit: Option<(u64, u64)>,
    /// Up to then the key may stay taken after the end.
    kept_until: u64,
    is_told_late: bool,
    /// An operator may have taken its place away.
    is_revoked: bool,
}

impl Known {
    /// What it wants of one of its keys.
    fn want_of(&self, key: &str) -> Want {
        if self.shares.iter().any(|shared| shared == key) { Want::READER } else { self.want }
    }
}

impl Known {
    fn may_have_locks(&self) -> bool {
        match self.phase {
            Phase::Inside { .. } => true,
            // It has one of its keys, perhaps, and waits for the next.
            Phase::Waiting => self.keys.len() > 1,
            Phase::Ended { .. } | Phase::Pausing => false,
        }
    }
}

enum Phase {
    Waiting,
    Inside {
        since: u64,
        account: Account,
    },
    Ended {
        at: u64,
    },
    /// A candidate whose body has failed waits again after a while, which it alone knows.
    Pausing,
}

/// What a caller that is inside knows of it.
enum Account {
    Guard(Weak<LockGuard>),
    Term(Term),
    /// A body that runs once tells when its lease ends, until it is dropped.
    Body(Weak<AtomicU64>),
}

impl Account {
    /// What is left of its lease; `None` when that is over. To be asked in its process.
    fn left(&self) -> Option<Duration> {
        match self {
            Self::Guard(guard) => {
                guard.upgrade().filter(|guard| guard.is_held()).map(|guard| guard.remaining())
            }
            Self::Term(term) => term.is_leading().then(|| term.remaining()),
            Self::Body(ends) => {
                let left = ends.upgrade()?.load(Ordering::Relaxed).saturating_sub(World::here().now());
                (left > 0).then_some(Duration::from_nanos(left))
            }
        }
    }
}

/// How many permits an operator has set; `None` where those of the callers count.
struct CentralLimit {
    by: CallId,
    permits: Option<u32>,
    /// It may have counted from then on.
    began: u64,
    /// It has counted since then at the latest.
    done: Option<u64>,
    /// Another one counts since then.
    until: Option<u64>,
}

/// What a server stores of a lock.
pub struct Seen {
    /// The name of the key, without the prefix.
    pub key: String,
    /// Who has it, and for whom there is room.
    pub room: Room,
    /// The first two waiters belong to dead processes: no other waiter is notified when to ask.
    pub is_deserted: bool,
}

/// Judges a run.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own about the run")]
#[derive(Default)]
pub struct Oracle {
    calls: BTreeMap<CallId, Known>,
    /// By key: its last fencing token, and the call that had it.
    fences: BTreeMap<String, (u64, CallId)>,
    /// The keys that a caller has had alone since then.
    is_phase_over: BTreeSet<String>,
    /// By key and what a caller wants: since when there is room for it.
    room_since: BTreeMap<(String, Want), u64>,
    /// By key and call that has it: since when.
    held_since: BTreeMap<(String, CallId), u64>,
    /// By key: when it may have been lost.
    lost_at: BTreeMap<String, u64>,
    /// By key: when the first waiters were last seen to be dead.
    deserted_at: BTreeMap<String, u64>,
    /// By key: when its waiters have asked since its queue was deleted.
    uncertain_until: BTreeMap<String, u64>,
    /// By how much clocks of processes have gone ahead, in microseconds.
    ahead: u64,
    /// In a quorum, fencing tokens follow the clocks of processes, and a node that has forgotten
    /// its clock starts at its time: so much smaller they may be then.
    forgotten: u64,
    /// By key: the central limits that were set, each for as long as it may have counted.
    limits: BTreeMap<String, Vec<CentralLimit>>,
    /// By key: how many clients are taking it away, or may be.
    being_lost: BTreeMap<String, u32>,
    /// By call that is inside: when its guard was last looked at, and what was left of its lease.
    left: BTreeMap<CallId, (u64, u64)>,
    /// By process: when something last went wrong around it.
    disturbed_at: BTreeMap<ProcessId, u64>,
    /// Once for each of its servers that it does not reach.
    cut_off: Vec<ProcessId>,
    /// When it reached one again.
    joined_at: BTreeMap<ProcessId, u64>,
    /// Processes that have ended by themselves: what their other tasks had, or had asked for, stays for its ttl.
    exited: BTreeSet<ProcessId>,
    /// What holds where nothing is wrong.
    promises: Option<Promises>,
    /// What locks may cost.
    commands: Option<Commands>,
    /// The first violation.
    violation: Option<Violation>,
    /// Clients give connections up by themselves, because answers are so late, and a request may
    /// arrive after that.
    pub has_late_requests: bool,
    /// So much longer than usual an answer is awaited at most.
    pub late_answers: Duration,
    /// The servers tell of no change: a holder learns of a loss by its next renewal, and others of
    /// its process wait until then.
    pub learns_by_renewals: bool,
    /// A lock is on a quorum of nodes, and is lost for its release when one of these has forgotten
    /// it.
    pub votes: bool,
    /// Nothing but refusals goes wrong, so no request arrives late.
    pub only_refuses: bool,
    /// A server forbids what a queue needs: a process that connects then takes locks past their
    /// queues, and releases them so, until it finds out that the rule is gone.
    pub passes_queues: bool,
    /// A server's clock has jumped: what it grants after a loss of its data may be smaller.
    pub clock_has_jumped: bool,
    /// How many locks were held.
    pub holds: u64,
}

impl Oracle {
    /// Judges a run by these promises, too.
    #[must_use]
    pub fn with(promises: Promises, commands: Option<Commands>) -> Self {
        Self { promises: Some(promises), commands, ..Self::default() }
    }

    /// A server refuses commands of ours from now on, or does so no more.
    pub fn refuses(&mut self, refuses: bool) {
        if let Some(commands) = &mut self.commands {
            commands.refuses(refuses);
        }
    }

    /// The only server has executed so many commands for locks, over so many connections.
    pub fn look_at_costs(&mut self, executed: u64, connections: u64) {
        let broken = self.commands.as_mut().and_then(|commands| commands.look(executed, connections));
        self.broken(broken);
        let broken = self.promises.as_ref().and_then(|promises| promises.keeps_connections(connections));
        self.broken(broken);
    }

    /// The only server has granted a lock to these waiters, each at its time.
    pub fn look_at_grants(&mut self, grants: &[(CallId, u64)]) {
        let broken = self.promises.as_ref().and_then(|promises| promises.look_at_grants(grants));
        self.broken(broken);
    }

    fn broken(&mut self, broken: Option<Broken>) {
        if let Some((property, what)) = broken {
            self.violated(property, what);
        }
    }

    /// When something last went wrong around a process that lives.
    pub(crate) fn quiet_since_all(&self) -> u64 {
        let world = World::here();
        let alive = self.disturbed_at.iter().filter(|(process, _)| !world.is_dead(**process));
        alive.map(|(_, at)| *at).max().unwrap_or(0)
    }

    /// An operator has deleted this key or its queue: a waiter may sleep until its poll, as far
    /// behind as it was.
    pub fn set_uncertain(&mut self, number: u8) {
        self.uncertain_until.insert(crate::callers::key(number), World::here().now() + LONGEST_POLL);
        if let Some(promises) = &mut self.promises {
            promises.set_uncertain(number);
        }
    }

    /// A caller has lost its lock since the last look.
    pub fn loses(&mut self, call: CallId) {
        let quiet = self.quiet_since_all();
        let may_be_lost = self
            .calls
            .get(&call)
            .is_some_and(|known| known.keys.iter().any(|key| self.may_have_lost(key, known)));
        let broken = self.promises.as_mut().and_then(|promises| promises.loses(call, quiet, may_be_lost));
        self.broken(broken);
        self.check_lease(call, may_be_lost);
    }

    /// A lease that nobody takes away lasts as long as its guard says.
    fn check_lease(&mut self, call: CallId, may_be_lost: bool) {
        let now = World::here().now();
        let Some((looked, left)) = self.left.remove(&call) else { return };
        let process = self.calls.get(&call).map(|known| known.process);
        let quiet = process.and_then(|process| self.disturbed_at.get(&process)).copied().unwrap_or(0);
        if !may_be_lost && !self.clock_has_jumped && quiet < looked && now + 2 * LOOK < looked + left {
            let what = format!("call {call}, {} ms before", (looked + left - now) / MILLISECOND);
            self.violated("a lease lasts as long as its guard says", what);
        }
    }

    /// A release says, after so long, that the lock was lost before it. When it was asked for, this
    /// was left of the lease.
    pub fn says_lost(&mut self, call: CallId, after: Duration, left: Duration) {
        let Some(known) = self.calls.get(&call) else { return };
        let may_be_lost = known.keys.iter().any(|key| self.may_have_lost(key, known));
        // Its own clock may have gone ahead since then: by that one, the lease is over.
        let asked_at = World::here().now().saturating_sub(nanos(after));
        let is_disturbed = self.disturbed_at.get(&known.process).is_some_and(|at| *at >= asked_at);
        // Its clock may be quicker than that of the servers, and the release may have gone round
        // once more.
        if !may_be_lost && !is_disturbed && !self.votes && !self.clock_has_jumped && after < left / 2 {
            let what = format!("the release of call {call} says after {after:?} that the lock was lost");
            self.violated("an outcome says what was", what);
        }
    }

    /// Looks at what the only server stores, where nothing is wrong.
    pub fn look_at(&mut self, stored: &[Stored]) {
        let world = World::here();
        let left = |known: &Known| {
            let Phase::Inside { account, .. } = &known.phase else { return None };
            world.within(known.process, || account.left().map(nanos))
        };
        let left: BTreeMap<_, _> =
            self.calls.iter().filter_map(|(call, known)| Some((*call, left(known)?))).collect();
        let inside: BTreeSet<CallId> = left.keys().copied().collect();
        let insiders = self.promises.as_ref().map(Promises::insiders).unwrap_or_default();
        for call in insiders.into_iter().filter(|call| !inside.contains(call)) {
            self.loses(call);
        }
        let now = world.now();
        self.left = left.into_iter().map(|(call, left)| (call, (now, left))).collect();
        let quiet = self.quiet_since_all();
        let broken = self.promises.as_mut().and_then(|promises| promises.look(stored, &inside, quiet));
        self.broken(broken);
        let quiet = |call| self.calls.get(&call).map_or(0, |known: &Known| self.quiet_since(known));
        let broken = self.promises.as_ref().and_then(|promises| promises.are_kept_waiting(quiet));
        self.broken(broken);
        let broken = self.promises.as_mut().and_then(Promises::are_kept_out);
        self.broken(broken);
    }

    /// The first violation.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Notes a violation, unless there was one before.
    pub fn violated(&mut self, property: &'static str, what: String) {
        World::here().note(|| format!("VIOLATION: {property}: {what}"));
        self.violation.get_or_insert(Violation { property, what });
    }

    /// A caller asks for locks. `inherits`: another caller of its process may hand over its lease.
    pub fn begins(
        &mut self,
        call: CallId,
        process: ProcessId,
        keys: Vec<String>,
        wait: Option<Duration>,
        inherits: bool,
    ) {
        let world = World::here();
        let now = world.now();
        let late = nanos(self.late_answers);
        // A clock that is slow waits for longer.
        let limit = wait.map(|wait| now + nanos(wait) + nanos(wait) / 50 + LATE + late);
        let known = Known {
            process,
            keys,
            want: self.promises.as_ref().map_or(Want::ALONE, |promises| promises.want(call)),
            shares: self.promises.as_ref().map_or_else(Vec::new, |promises| promises.shares(call)),
            began: now,
            inherits,
            phase: Phase::Waiting,
            // A candidate begins again after each of its terms.
            has_been_inside: self.calls.get(&call).is_some_and(|known| known.has_been_inside),
            limit: limit.map(|limit| (limit, world.stopped_for(process))),
            kept_until: 0,
            is_revoked: false,
            is_told_late: false,
        };
        self.calls.insert(call, known);
        if let Some(promises) = &mut self.promises {
            promises.begins(call, process);
        }
        if let Some(commands) = &mut self.commands {
            commands.begins(call);
        }
    }

    /// A caller is inside.
    pub fn enters(&mut self, call: CallId, guard: &Arc<LockGuard>) {
        let account = Account::Guard(Arc::downgrade(guard));
        self.is_inside(call, account, guard.is_held(), |key| guard.fencing_token_of(key));
    }

    /// A caller lets others in beside it from now on, and nobody who wants the lock alone.
    pub fn downgrades(&mut self, call: CallId) {
        let Some(known) = self.calls.get_mut(&call) else { return };
        known.want = Want { allows: 0, takes: 1 };
        for key in &known.keys {
            // Those that enter beside it have its fencing token.
            if self.fences.get(key).is_some_and(|(_, other)| *other == call) {
                self.is_phase_over.remove(key);
            }
        }
    }

    /// A caller runs its body, which runs once, and tells when its lease ends.
    pub fn runs(&mut self, call: CallId, ends: &Arc<AtomicU64>, guard: &LockGuard) {
        let account = Account::Body(Arc::downgrade(ends));
        self.is_inside(call, account, guard.is_held(), |key| guard.fencing_token_of(key));
    }

    /// Something has gone wrong around that caller, or with its lock, since it has asked.
    #[must_use]
    pub fn has_met_an_accident(&self, call: CallId, key: &str) -> bool {
        let Some(known) = self.calls.get(&call) else { return true };
        let disturbed = self.disturbed_at.get(&known.process);
        World::here().is_dead(known.process)
            || disturbed.is_some_and(|at| *at >= known.began)
            || self.may_have_lost(key, known)
    }

    /// How long a caller may be told nothing, where so many ask, and each process but its own may be
    /// dead and cost a claim.
    pub(crate) fn longest_poll(&self, callers: usize) -> u64 {
        let processes: BTreeSet<_> = self.calls.values().map(|known| known.process).collect();
        poll_behind(callers) + processes.iter().map(|_| CLAIM).sum::<u64>()
    }

    /// The body of a candidate has failed.
    pub fn pauses(&mut self, call: CallId) {
        self.ends(call, Duration::ZERO);
        if let Some(known) = self.calls.get_mut(&call) {
            known.phase = Phase::Pausing;
        }
    }

    /// Other callers of its process wait for that lock, or have it.
    #[must_use]
    pub fn has_others(&self, call: CallId, process: ProcessId, key: &str) -> bool {
        self.calls.iter().any(|(other, known)| {
            *other != call
                && known.process == process
                && !matches!(known.phase, Phase::Ended { .. })
                && known.keys.iter().any(|theirs| theirs == key)
        })
    }

    /// True until the next body of that candidate.
    #[must_use]
    pub fn is_pausing(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|known| matches!(known.phase, Phase::Pausing))
    }

    /// The body of a candidate begins.
    pub fn leads(&mut self, call: CallId, term: &Term) {
        self.is_inside(call, Account::Term(term.clone()), term.is_leading(), |_| Some(term.fencing_token()));
    }

    /// The body of a candidate is at work.
    pub fn acts(&mut self, call: CallId, term: &Term) {
        if !term.is_leading() {
            self.violated(
                "a leader acts only in its term",
                format!("call {call}, term {}", term.fencing_token()),
            );
        }
        self.check_exclusion();
    }

    fn is_inside(
        &mut self,
        call: CallId,
        account: Account,
        is_held: bool,
        fence: impl Fn(&str) -> Option<u64>,
    ) {
        let now = World::here().now();
        self.holds += 1;
        if let Some(known) = self.calls.get_mut(&call) {
            known.phase = Phase::Inside { since: now, account };
            known.has_been_inside = true;
        }
        if let Some(commands) = &mut self.commands {
            commands.enters(call);
        }
        let is_taken_away = self.calls.get(&call).is_some_and(|known| {
            known.keys.iter().any(|key| self.lost_at.contains_key(key) || self.being_lost.contains_key(key))
        });
        let broken =
            self.promises.as_mut().and_then(|promises| promises.enters(call, is_held, is_taken_away));
        self.broken(broken);
        self.check_exclusion();
        if !is_held {
            return;
        }
        let wants = |known: &Known| {
            known.keys.iter().map(|key| (key.clone(), known.want_of(key).allows)).collect::<Vec<_>>()
        };
        for (key, allows) in self.calls.get(&call).map(wants).unwrap_or_default() {
            let is_phase_over = self.is_phase_over.remove(&key);
            if allows == 1 {
                self.is_phase_over.insert(key.clone());
            }
            let Some(fence) = fence(&key).filter(|fence| *fence > 0) else { continue };
            let before = self.fences.insert(key.clone(), (fence, call));
            // Older data may have those inside that had it then, and who joins them has their number:
            // `docs/limits.md`.
            if allows != 1
                && self.lost_at.contains_key(&key)
                && let Some(before) = before.filter(|(before, _)| *before >= fence)
            {
                self.fences.insert(key, before);
                continue;
            }
            // One of them may have lost it before it knew that it had it.
            let may_be_lost = self.calls.get(&call).is_some_and(|known| self.may_have_lost(&key, known));
            if let Some((before, other)) = before
                && before >= fence + self.forgotten
                // All that are inside together have one.
                && !(before == fence && allows != 1 && !is_phase_over)
                && !may_be_lost
                && !(self.clock_has_jumped && self.lost_at.contains_key(&key))
            {
                let what = format!("call {call} has {fence} for {key}, call {other} had {before} before");
                self.violated("fencing tokens grow", what);
            }
        }
    }

    /// A caller has given its locks back, has left, or was refused. The key may stay taken for so
    /// long.
    pub fn ends(&mut self, call: CallId, keeps: Duration) {
        let now = World::here().now();
        if let Some(promises) = &mut self.promises {
            promises.ends(call, nanos(keeps));
        }
        if let Some(commands) = &mut self.commands {
            commands.ends(call);
        }
        // Within a process, a lock is passed on under the token of its first holder, and ends with
        // its last.
        let last = self
            .calls
            .get(&call)
            .filter(|known| known.inherits && known.may_have_locks())
            .map(|known| (known.process, known.keys.clone()));
        for known in self.calls.values_mut() {
            if let (Some((process, keys)), Phase::Ended { at }) = (&last, &mut known.phase)
                && known.process == *process
                && known.keys.iter().any(|key| keys.contains(key))
            {
                *at = now;
                // A ticket may have the token of the first holder, too.
                known.kept_until = known.kept_until.max(now + nanos(keeps));
            }
        }
        if let Some(known) = self.calls.get_mut(&call) {
            known.phase = Phase::Ended { at: now };
            known.kept_until = known.kept_until.max(now + nanos(keeps));
        }
    }

    /// A tick of this lock was run twice, or is over and nobody has run it.
    pub fn tick(&mut self, key: &str, what: &str) {
        self.violated("a tick is run once", format!("{key}: {what}"));
    }

    /// Two calls have redeemed one ticket of this lock.
    pub fn redeemed_again(&mut self, key: &str, what: String) {
        // Older data may have the lock under the token of the ticket again.
        if !self.lost_at.contains_key(key) {
            self.violated("a ticket is redeemed once", what);
        }
    }

    /// A ticket of this lock is worth nothing, although nobody has redeemed it and its time is not
    /// over.
    pub fn ticket_is_lost(&mut self, key: &str, what: String) {
        let is_taken_away = self.lost_at.contains_key(key) || self.being_lost.contains_key(key);
        // Else one who has not heard so may have redeemed it.
        if !is_taken_away && !self.clock_has_jumped && self.disturbed_at.is_empty() && !self.has_late_requests
        {
            self.violated("a ticket is good for its time", what);
        }
    }

    /// A call has ended because others had its lock.
    pub fn on_refused(&mut self, call: CallId) {
        let quiet = self.calls.get(&call).map_or(0, |known| self.quiet_since(known));
        let broken = self.promises.as_ref().and_then(|promises| promises.is_refused(call, quiet));
        self.broken(broken);
    }

    /// The caller has given its lock back, and blocks its runtime.
    pub fn blocks(&mut self, call: CallId) {
        if let Some(promises) = &mut self.promises {
            promises.blocks(call);
        }
    }

    /// The manager of a process has shut down, which began then and took so long. One that never had a
    /// lock has nothing to give back. Behind a partition it waits for answers: a request of a waiter may
    /// have been granted.
    pub fn on_shut_down(
        &mut self,
        process: ProcessId,
        began: u64,
        took: Duration,
        error: Option<&LockError>,
    ) {
        let mut calls = self.calls.values().filter(|known| known.process == process);
        let has_held = calls.any(|known| known.has_been_inside);
        let has_been_cut_off =
            self.cut_off.contains(&process) || self.joined_at.get(&process) >= Some(&began);
        if has_held || has_been_cut_off {
            return;
        }
        if let Some(error) = error {
            self.violated("calls that were refused owe nothing", error.to_string());
        } else if took > SHUT_DOWN {
            self.violated("calls that were refused owe nothing", format!("shut down after {took:?}"));
        }
    }

    /// A process reaches one of its servers no longer.
    pub fn cut_off(&mut self, process: ProcessId) {
        self.cut_off.push(process);
    }

    /// And reaches it again.
    pub fn joined(&mut self, process: ProcessId) {
        if let Some(at) = self.cut_off.iter().position(|other| *other == process) {
            self.cut_off.swap_remove(at);
        }
        self.joined_at.insert(process, World::here().now());
    }

    /// Something goes wrong around these processes.
    pub fn disturbed(&mut self, process: ProcessId) {
        self.disturbed_at.insert(process, World::here().now());
    }

    /// A process ends by itself.
    pub fn exits(&mut self, process: ProcessId) {
        self.exited.insert(process);
    }

    /// The clock of a process goes ahead of all others.
    pub fn goes_ahead(&mut self, length: Duration) {
        self.ahead += nanos(length) / 1000;
    }

    /// A node of a quorum has lost its data: also what it has accepted from a process that was
    /// ahead.
    pub fn node_forgets(&mut self) {
        self.forgotten = self.ahead;
    }

    /// The lock may be gone.
    pub fn set_losable(&mut self, key: &str) {
        let now = World::here().now();
        self.lost_at.insert(key.to_owned(), now);
        if self.learns_by_renewals {
            let until = self.uncertain_until.entry(key.to_owned()).or_default();
            *until = (*until).max(now + LONGEST_TTL / 3);
        }
    }

    /// An operator takes the place of this caller away, and of no other.
    pub fn set_revoked(&mut self, call: CallId) {
        if let Some(known) = self.calls.get_mut(&call) {
            known.is_revoked = true;
        }
    }

    /// Another client is taking the lock away: it may be gone at any time until
    /// [`loss_ends`](Self::loss_ends).
    pub fn loss_begins(&mut self, key: &str) {
        *self.being_lost.entry(key.to_owned()).or_default() += 1;
    }

    /// One of those clients has its answer.
    pub fn loss_ends(&mut self, key: &str) {
        self.set_losable(key);
        if let Some(clients) = self.being_lost.get_mut(key) {
            *clients -= 1;
        }
    }

    /// An operator sets the central limit of a key: it may count from now on.
    pub fn limit_begins(&mut self, by: CallId, key: &str, permits: Option<u32>) {
        let began = World::here().now();
        let limit = CentralLimit { by, permits, began, done: None, until: None };
        self.limits.entry(key.to_owned()).or_default().push(limit);
    }

    /// It has its answer: those that were set before it began count no more. Of two calls at one instant, either may be
    /// the later one.
    pub fn limit_ends(&mut self, by: CallId, key: &str) {
        let now = World::here().now();
        let limits = self.limits.entry(key.to_owned()).or_default();
        let Some(began) = limits.iter().find(|limit| limit.by == by).map(|limit| limit.began) else { return };
        for limit in limits {
            if limit.by == by {
                limit.done = Some(now);
            } else if limit.done.is_some_and(|done| done < began) {
                limit.until = limit.until.or(Some(now));
            }
        }
    }

    /// The central limits that may have counted at a time of these.
    fn limits_within(&self, key: &str, from: u64, to: u64) -> impl Iterator<Item = Option<u32>> {
        let set = self.limits.get(key).map_or(&[][..], Vec::as_slice);
        let first = set.iter().filter_map(|limit| limit.done.map(|done| (limit, done)));
        // Before the first of them, none was set.
        let is_unset = first.map(|(_, done)| done).min().is_none_or(|done| from <= done);
        let counted = set
            .iter()
            .filter(move |limit| limit.began <= to && limit.until.is_none_or(|until| from <= until))
            .map(|limit| limit.permits);
        is_unset.then_some(None).into_iter().chain(counted)
    }

    /// True while a caller waits or is inside.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        let world = World::here();
        self.calls
            .values()
            .any(|known| !matches!(known.phase, Phase::Ended { .. }) && !world.is_dead(known.process))
    }

    /// Looks at everything; `seen` is what the only server stores, if it runs.
    pub fn look(&mut self, seen: Option<&[Seen]>, is_healthy: impl Fn(ProcessId) -> bool, slack: u64) {
        self.check_exclusion();
        self.check_limits();
        let world = World::here();
        let now = world.now();
        for process in self.calls.values().map(|known| known.process).collect::<Vec<_>>() {
            if !is_healthy(process) {
                self.disturbed_at.insert(process, now);
            }
        }
        match seen {
            Some(seen) => self.check_stored(now, seen, slack),
            None => self.room_since.clear(),
        }
    }

    /// Never more inside than each of them allows, by their own account. A central limit takes nobody's
    /// place away: there is one of them, the last that has entered, such that a limit which counted between
    /// its request and its entry allows all.
    fn check_exclusion(&mut self) {
        let world = World::here();
        let mut inside: BTreeMap<&str, Vec<(CallId, &Known, u64)>> = BTreeMap::new();
        for (call, known) in &self.calls {
            if let Phase::Inside { since, account } = &known.phase
                && !world.is_dead(known.process)
                && world.within(known.process, || account.left()).is_some()
            {
                for key in &known.keys {
                    inside.entry(key).or_default().push((*call, known, *since));
                }
            }
        }
        let mut found = None;
        for (key, mut holders) in inside {
            holders.retain(|(_, known, _)| !self.may_have_lost(key, known));
            holders.sort_by_key(|(_, _, since)| *since);
            let is_allowed = |permits| allow(holders.iter().map(|(_, known, _)| known.want_of(key)), permits);
            let mut within = holders.iter().flat_map(|(_, known, since)| {
                self.limits_within(key, known.began, *since).collect::<Vec<_>>()
            });
            if !holders.is_empty() && !within.any(is_allowed) {
                let calls: Vec<_> = holders.iter().map(|(call, ..)| call.to_string()).collect();
                found = Some(format!("calls {} are inside of {key}", calls.join(" and ")));
            }
        }
        if let Some(what) = found {
            self.violated("never more inside than each allows", what);
        }
    }

    /// As below, of a call.
    pub(crate) fn may_have_lost_lock(&self, call: CallId, key: &str) -> bool {
        self.calls.get(&call).is_none_or(|known| self.may_have_lost(key, known))
    }

    /// True when the lock may have gone before its holder, or the one that it has it from, learns
    /// of it.
    fn may_have_lost(&self, key: &str, holder: &Known) -> bool {
        let had_it = |lost: u64| {
            // One that had it when it was lost has handed it over since.
            self.calls.values().any(|known| {
                let is_over = matches!(known.phase, Phase::Ended { at } if at < lost);
                known.process == holder.process
                    && known.keys.iter().any(|other| other == key)
                    && known.began <= lost
                    && !is_over
            })
        };
        holder.is_revoked
            || self.being_lost.get(key).is_some_and(|clients| *clients > 0)
            || self
                .lost_at
                .get(key)
                .is_some_and(|lost| holder.began <= *lost || holder.inherits && had_it(*lost))
    }

    /// Every caller is back within its limit.
    fn check_limits(&mut self) {
        let world = World::here();
        let now = world.now();
        let mut late = None;
        for (call, known) in &mut self.calls {
            if let (Phase::Waiting, Some((limit, stopped))) = (&known.phase, known.limit)
                && !known.is_told_late
                && now > limit + (world.stopped_for(known.process) - stopped)
                && world.is_running(known.process)
            {
                known.is_told_late = true;
                late = Some(format!("call {call} still waits for {:?}", known.keys));
            }
        }
        if let Some(what) = late {
            self.violated("each caller is back within its limit", what);
        }
    }

    /// True when another caller of the process may have the lock under the token of the one before.
    fn is_passed_on(&self, process: ProcessId, key: &String) -> bool {
        self.calls
            .values()
            .any(|known| known.process == process && known.keys.contains(key) && known.may_have_locks())
    }

    /// How long a lock may be free beside a waiter of this process, where others have released it
    /// past its queue, in which the places of their callers that have gone are in front: it polls,
    /// and what that grants to one of these costs a claim, once for each process.
    fn passed(&self, process: ProcessId, key: &String) -> u64 {
        let of_key: Vec<_> = self.calls.values().filter(|known| known.keys.contains(key)).collect();
        let others: BTreeSet<_> =
            of_key.iter().map(|known| known.process).filter(|of| *of != process).collect();
        others.iter().map(|_| CLAIM + poll_behind(of_key.len())).sum()
    }

    fn quiet_since(&self, known: &Known) -> u64 {
        self.disturbed_at.get(&known.process).copied().unwrap_or(0).max(known.began)
    }

    /// Since when there is room for a caller, and for those of its process that came before, or these
    /// have gone: where the server has no queue, they ask first.
    fn has_room_since(&self, waiter: &Known, key: &str, rooms: &BTreeMap<Want, u64>) -> Option<u64> {
        let in_front = self.calls.values().filter(|known| {
            known.process == waiter.process
                && known.keys.iter().any(|other| other == key)
                && known.began <= waiter.began
        });
        let since = in_front.map(|known| match known.phase {
            Phase::Waiting => rooms.get(&known.want_of(key)).copied(),
            Phase::Inside { since, .. } => Some(since),
            Phase::Ended { at } => Some(at),
            Phase::Pausing => Some(0),
        });
        since.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn check_stored(&mut self, now: u64, seen: &[Seen], slack: u64) {
        let mut found = None;
        for lock in seen {
            let mut rooms = BTreeMap::new();
            for want in self.calls.values().map(|known| known.want_of(&lock.key)).collect::<BTreeSet<_>>() {
                let place = (lock.key.clone(), want);
                if lock.room.is_for(want) {
                    rooms.insert(want, *self.room_since.entry(place).or_insert(now));
                } else {
                    self.room_since.remove(&place);
                }
            }
            self.held_since.retain(|(key, call), _| *key != lock.key || lock.room.holders.contains(call));
            for call in &lock.room.holders {
                self.held_since.entry((lock.key.clone(), *call)).or_insert(now);
            }
            let uncertain = self.uncertain_until.get(&lock.key).copied().unwrap_or(0);
            // A request that removes dead waiters may be the one that lets its caller in. While its answer is under way,
            // another caller may still have room.
            let (poll, deserted_at) = if lock.is_deserted {
                self.deserted_at.insert(lock.key.clone(), now);
                (LONGEST_POLL, 0)
            } else {
                (POLL, self.deserted_at.get(&lock.key).copied().unwrap_or(0))
            };
            for (call, known) in &self.calls {
                if !known.keys.contains(&lock.key) {
                    continue;
                }
                let quiet = self.quiet_since(known);
                match known.phase {
                    // One of several keys may wait for another one.
                    Phase::Waiting if known.keys.len() == 1 => {
                        let passed =
                            if self.passes_queues { self.passed(known.process, &lock.key) } else { 0 };
                        let is_long = |since: u64| {
                            now.saturating_sub(since.max(uncertain).max(quiet).max(deserted_at))
                                > passed.max(CLAIM + poll) + slack
                        };
                        // First what is quickly seen.
                        if rooms.get(&known.want_of(&lock.key)).is_some_and(|since| is_long(*since))
                            && self.has_room_since(known, &lock.key, &rooms).is_some_and(is_long)
                        {
                            found = Some(("no waiter sleeps beside a lock with room", *call, &lock.key));
                        }
                    }
                    Phase::Ended { at }
                        if lock.room.holders.contains(call)
                            && !(known.inherits && self.is_passed_on(known.process, &lock.key)) =>
                    {
                        let held_since =
                            self.held_since.get(&(lock.key.clone(), *call)).copied().unwrap_or(0);
                        let mut since = at.max(quiet).max(known.kept_until);
                        // A request may arrive late, over a connection that has been given up: then
                        // the lease must end it. Or it leaves a place in the queue, which gets the
                        // lock behind all others there: then its process returns it.
                        let only_refuses = self.only_refuses && !self.exited.contains(&known.process);
                        if self.has_late_requests || quiet > known.began && !only_refuses {
                            since = held_since.max(since + LONGEST_TTL);
                        } else if self.passes_queues {
                            since = held_since.max(since);
                        }
                        if now.saturating_sub(since) > RELEASED + slack {
                            found = Some(("no lock without an owner", *call, &lock.key));
                        }
                    }
                    _ => {}
                }
            }
        }
        if let Some((property, call, key)) = found {
            let what = format!("call {call}, {key}");
            self.violated(property, what);
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
