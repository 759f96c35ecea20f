//! Clients of all kinds for one key: one that must be alone, readers, and those with permits.
//!
//! Each names how many it allows inside, itself included. It enters when fewer are inside than it
//! and each of them allows, in the order of one queue.
//!
//! In the model: the server with the lock, who is inside, the queue and the open connections; up to
//! four clients, each with one attempt and one connection. Requests of a client arrive in order, and
//! so do the answers and the pushes to it. Time passes in ticks: a claim lasts one, a ttl three, the
//! grace one. A client that must be alone asks by a plain `SET NX` first. At any moment a call is
//! cancelled, a body ends, a lease is renewed. As often as [`Bounds`] allows, a process is killed or
//! frozen, a connection breaks, a push is lost, an operator deletes the lock, a client of another
//! kind takes it.
//!
//! There are two kinds of runs, as with the hand-off: in a prompt one, messages arrive within the
//! tick, and no waiter that runs sleeps beside room.
//!
//! Left out, and why:
//! - Several waiters of one process, and that they leave the queue with a lease of it that ends: the
//!   scripts do that before anything else, and are tried by hand and at random.
//! - More than 250 that enter in one call: the next one asks at once.
//! - How much longer than needed a key lasts: only that it lasts long enough counts.
//! - The drift of clocks, a Cluster, several keys: as with the hand-off.
//! - Clients that know no counted locks: a lock that one of them grants is held alone.
//!
//! Found: the mistakes of [`Mistake`], but for the last three.

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

mod runs;
mod server;
mod state;
mod steps;

use stateright::{Model, Property};

use server::Server;
use state::{Client, GRACE, Lock, Phase, State};
use steps::Action;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// One whose lease is over is still counted.
    ExpiryStaysCounted,
    /// The least limit stays when the one that had it has left.
    LimitSticks,
    /// Only the limit of the newcomer counts.
    LimitOfCallerOnly,
    /// The key lasts as long as the lease of the last one to enter.
    KeyEndsWithTheLastToEnter,
    /// A renewal does not make the key last longer.
    RenewalLeavesTheKey,
    NoGrace,
    NewcomerPassesQueue,
    /// A dead waiter in front is not passed over while several are inside.
    DeadHeadStays,
    GrantLastsTtl,
    AgainLastsTtl,
    /// A release of one that is not inside any more lowers a count.
    ReleaseLowersCounter,
    ReleaseDeletesTheKey,
    /// A grant is counted from its receipt.
    GrantFromReceipt,
    PhaseKeepsOldFence,
    NoHint,
    /// One waiter is told, not two.
    TellsOne,
    /// One that leaves tells nobody that there may be room earlier.
    LeavingTellsNobody,
    /// One call lets one in. The next one is told that there is room, and asks: this costs a command
    /// and a round trip each. So do the two below; counts of commands hold them.
    LetsInOne,
    /// A waiter that gives up lets nobody in.
    LeavingLetsNobodyIn,
    /// Needs a request that arrives late, behind a later one of its own: the hand-off has these.
    AgainShortens,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accident {
    Crash,
    Cut,
    Freeze,
    LostPush,
    Deletion,
    Stranger,
}

/// What happens in a run.
#[derive(Clone, Debug)]
struct Bounds {
    limits: Vec<u8>,
    accidents: u8,
    kinds: Vec<Accident>,
    /// Messages arrive within the tick.
    prompt: bool,
    /// A waiter asks after so many ticks at most; 0: only when it was told.
    poll: u8,
    renews: bool,
    cancels: bool,
    /// For how many ticks a waiter may sleep beside room.
    idle: u8,
}

struct Counted {
    bounds: Bounds,
    server: Server,
}

const EXCLUSIVE: &str = "no more are inside than each of them allows";
const FENCED: &str = "a later holder has a larger fencing token, or the same with those beside it";
const IN_ORDER: &str = "nobody passes one that has waited for longer";
const PROMPT: &str = "the first waiter that runs does not sleep beside room";
const ONE_CLAIM: &str = "one that never answers its grant costs a claim";
const NOTHING_LEFT: &str = "nobody that is done is inside or waits, and no key is left";
const KEY_LASTS: &str = "the key outlives each holder";

impl Counted {
    fn is_exclusive(state: &State) -> bool {
        let is_inside = |client: &&Client| client.phase == Phase::Inside && client.lease > 0;
        let inside: Vec<_> = state.clients.iter().filter(is_inside).collect();
        let strangers = usize::from(matches!(state.lock, Lock::Alone { owner: state::STRANGER, .. }));
        let allows =
            |client: &&Client| client.limit == 0 || inside.len() + strangers <= usize::from(client.limit);
        state.was_deleted || inside.iter().all(allows) && (strangers == 0 || inside.is_empty())
    }

    fn is_fenced(state: &State) -> bool {
        let is_before = |one: &Client, other: &Client| 0 < one.entered && one.entered < other.entered;
        let is_below = |one: &Client, other: &Client| {
            one.fence < other.fence || one.fence == other.fence && one.limit != 1 && other.limit != 1
        };
        let clients = &state.clients;
        clients.iter().all(|one| clients.iter().all(|other| !is_before(one, other) || is_below(one, other)))
    }

    fn is_calm(state: &State) -> bool {
        !state.was_deleted && state.clients.iter().all(Client::is_calm)
    }

    fn leaves_nothing(&self, state: &State) -> bool {
        let is_clean = |(id, client): (u8, &Client)| {
            let at = usize::from(id);
            let is_inside = match state.lock {
                Lock::Alone { owner, .. } => owner == id,
                Lock::Together { .. } => state.inside[at].is_some(),
                Lock::Free => false,
            };
            let sleeps_inside = state.inside[at].is_some_and(|left| left > 0)
                && client.phase == Phase::Sleeping
                && client.connected
                && state.accidents == self.bounds.accidents;
            let waits = state.queue.contains(&id) && matches!(client.phase, Phase::Done | Phase::Inside);
            client.was_cut || !(is_inside && (client.phase == Phase::Done || sleeps_inside) || waits)
        };
        let is_left =
            matches!(state.lock, Lock::Together { .. }) && state.count() == 0 && state.queue.is_empty();
        !Self::is_calm(state) || !is_left && (0..).zip(&state.clients).all(is_clean)
    }

    fn key_lasts(state: &State) -> bool {
        let last = state.inside.iter().copied().flatten().max().unwrap_or(0);
        !Self::is_calm(state)
            || !matches!(state.lock, Lock::Together { .. })
            || last <= state.lasts
            || last + GRACE <= state.lasts.max(GRACE)
    }
}

impl Model for Counted {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = |at: usize| Client::new(self.bounds.limits.get(at).copied());
        let state = State {
            lock: Lock::Free,
            lasts: 0,
            inside: [None; state::CLIENTS],
            queue: Vec::new(),
            clients: std::array::from_fn(client),
            accidents: self.bounds.accidents,
            idle: 0,
            has_vanished: false,
            was_deleted: false,
            has_passed: false,
        };
        vec![state.canonical()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(steps::actions(state));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, action)?;
        Some(state.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| Self::is_exclusive(state)),
            Property::always(FENCED, |_, state: &State| Self::is_fenced(state)),
            Property::always(IN_ORDER, |_, state: &State| !state.has_passed),
            Property::always(PROMPT, |model: &Self, state: &State| state.idle <= model.bounds.idle),
            Property::always(ONE_CLAIM, |model: &Self, state: &State| {
                let is_long = |client: &Client| client.silent > state::CLAIM + 1;
                !model.bounds.prompt || state.queue.is_empty() || !state.clients.iter().any(is_long)
            }),
            Property::always(NOTHING_LEFT, |model: &Self, state: &State| model.leaves_nothing(state)),
            Property::always(KEY_LASTS, |_, state: &State| Self::key_lasts(state)),
            Property::sometimes("all are done", |_, state: &State| {
                state.lock == Lock::Free && state.clients.iter().all(|client| client.phase == Phase::Done)
            }),
        ]
    }
}
