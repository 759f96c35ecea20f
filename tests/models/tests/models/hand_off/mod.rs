//! One server, and the hand-off of a lock to its longest waiter.
//!
//! The value of a lock is a token, with a mark while clients wait for it. So a lock without waiters
//! is taken by a plain `SET NX` and released by a plain delete, and a marked one goes through the
//! scripts. The rules are in [`rules`].
//!
//! Each client names how many may be inside while it is: one, a number, or any; and for how many it counts. One that is alone has
//! the lock as above. Those that are inside together are a set in which each has an end of its own;
//! the key lasts longer than all of them, and has no mark. All wait in one queue.
//!
//! In the model: the server with the lock, its queue, and its open connections; clients, each with
//! one attempt, one token, one connection. Requests of a client arrive in order, and so do the
//! answers and the pushes to it. Time passes in ticks: a claim lasts one, a ttl three, the grace
//! one. At any moment a call is cancelled, a body ends, a lease is renewed, a lock is kept for its
//! `min_hold` or left free for clients of another kind. As often as [`Bounds`] allows, a connection
//! breaks, a process is killed or frozen, the server restarts, an operator deletes the lock or its
//! queue, a client of another kind takes the lock. The server learns of a broken connection only
//! later, and requests on it may still arrive, even after requests of the next one. Then a lock can
//! be left to a call that is done, until it expires. That is the worst case, and the model shows
//! it.
//!
//! There are two kinds of runs. In a prompt one, messages arrive within the tick, and no waiter
//! that runs may sleep beside a free lock, although waiters are only told and do not poll. With any
//! delay, each state without messages must be one from which a prompt server serves every waiter.
//!
//! Left out, and why:
//! - The drift of clocks. A lease is shorter than its ttl by what two clocks may differ.
//! - The limit of 2,000 dead waiters that one call clears away: the call is repeated then.
//! - Calls with one try, which do not wait: for the server they are clients that cancel.
//! - The short ways of the scripts of a counted lock: they do the same where nobody waits.
//! - More than 250 clients that one call lets in: the next one then asks at once, and goes on.
//! - The third of a ttl that the key of a counted lock has to spare, so that it changes seldom.
//! - Several keys, a quorum, a Cluster, cohorts: they add requests, and no new order of those for
//!   one lock.
//! - Tracking: a client that learns of a change earlier only asks, or stops, earlier.
//! - A server that forgets its clock of fencing tokens: `fence.lua` raises it to the server's time.
//!
//! Found: the mistakes of [`rules::Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

mod client;
mod faults;
mod kinds;
mod mistakes;
mod rules;
mod runs;
mod server;
mod state;
mod steps;

use stateright::{Model, Property};

use rules::Bounds;
use server::{CLAIM, GRACE, Owner, TTL};
use state::{Answer, Client, Phase, State};
use steps::Action;

struct HandOff(Bounds);

const EXCLUSIVE: &str = "each client inside allows those with it, but for one whose lock was taken away";
const FENCED: &str = "a later holder has the higher fencing token, or the same if several may be inside";
const SERVED: &str = "a waiter that runs does not sleep while there is room for the first one";
const ALL_SERVED: &str = "each remaining waiter gets the lock, and no lock is left behind";
const IN_ORDER: &str = "a script passes over no waiter that listens";
const FIRST_COME: &str = "a newcomer passes no waiter that is awake";
const TO_A_LISTENER: &str = "a lock is handed to a client that listens";
const NOTHING_LEFT: &str =
    "a client that is done has neither the lock nor a place in the queue, unless its connection broke";
const NO_PLACE: &str = "a client that is inside has no place in the queue, unless its connection broke";
const NOT_ITS_OWN: &str = "a waiter that runs does not sleep on its own lock";
const STRANGERS: &str = "a stranger's value gets no mark";
const ONE_CLAIM: &str = "a process that stands still has one claim";
const WITH_CAUSE: &str = "a process whose client has its answer keeps its places";
const A_CLAIM: &str = "a client that was let in while it stood still is inside for a claim at most";
const OUTLIVES: &str = "the key of a counted lock outlives its holders by the grace";
const NOT_EMPTY: &str = "a counted lock has a holder";

impl HandOff {
    /// Whether, without further faults, every waiter is served, then a newcomer, and no lock is
    /// left. A queue of dead waiters may be left: it expires.
    fn comes_to_rest(&self, state: &State) -> bool {
        let mut state = state.clone();
        self.settle(&mut state);
        state.clients.push(Client::new(1, true, false));
        self.settle(&mut state);
        state.lock.is_none() && state.clients.iter().all(Client::has_ended)
    }

    fn settle(&self, state: &mut State) {
        let bounds = Bounds { prompt: true, ..self.0 };
        let last = state.clients.len() - 1;
        let _ = state.step(Action::Begin(last), &bounds);
        // Each client has the lock for a ttl and its grace at most.
        for _ in 0..=(usize::from(TTL) + 2) * state.clients.len() {
            while (0..=last).any(|at| {
                let due = [Action::Notice, Action::Thaw, Action::Reconnect, Action::Serve, Action::Read];
                let then = [Action::Wake, Action::End];
                due.iter().chain(&then).any(|action| state.step(action(at), &bounds).is_some())
            }) {}
            let _ = state.step(Action::Tick, &bounds);
        }
    }
}

impl Model for HandOff {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::new(&self.0);
        if self.0.queued {
            for at in 0..self.0.clients {
                for action in [Action::Begin, Action::Serve, Action::Read, Action::Serve, Action::Read] {
                    let _ = state.step(action(at), &self.0);
                }
            }
        }
        state.normalize();
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.actions(actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.step(action, &self.0)?;
        state.normalize();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                let is_inside = |client: &&Client| client.phase == Phase::Inside && !client.robbed;
                let inside = || state.clients.iter().filter(is_inside);
                let stranger = state.lock.is_some_and(|lock| lock.owner == Owner::Stranger);
                let taken = inside().map(|client| client.weight).sum::<u8>() + u8::from(stranger);
                let allows = |client: &Client| client.number == 0 || taken <= client.number;
                inside().all(allows) && (!stranger || taken == 1)
            }),
            Property::always(FENCED, |_, state: &State| {
                let fenced = || state.clients.iter().filter(|client| client.fence > 0);
                let is_behind = |a: &Client, b: &Client| {
                    a.fence < b.fence || a.fence == b.fence && a.is_counted() && b.is_counted()
                };
                fenced().all(|a| fenced().all(|b| a.turn >= b.turn || is_behind(a, b)))
            }),
            Property::always(SERVED, |model: &Self, state: &State| state.slept <= model.0.may_sleep),
            // In every state, messages under way can arrive: it is enough to check the states
            // without any.
            Property::always(ALL_SERVED, |model: &Self, state: &State| {
                model.0.prompt || !state.is_calm() || model.comes_to_rest(state)
            }),
            Property::always(IN_ORDER, |_, state: &State| !state.passed_over),
            Property::always(FIRST_COME, |_, state: &State| !state.newcomer_passed),
            Property::always(TO_A_LISTENER, |_, state: &State| !state.given_to_the_gone),
            Property::always(NOTHING_LEFT, |_, state: &State| {
                let is_done = |client: &Client| client.phase == Phase::Done && !client.cut;
                state.lock_is_not_of(is_done) && state.queue_has_none_of(is_done)
            }),
            Property::always(NO_PLACE, |_, state: &State| {
                state.queue_has_none_of(|client| {
                    client.phase == Phase::Inside && !client.cut && !client.robbed
                })
            }),
            Property::always(NOT_ITS_OWN, |model: &Self, state: &State| {
                state.lock_is_not_of(|client| {
                    let excused = client.robbed || client.missed || (client.cut && !model.0.kills);
                    client.phase == Phase::Asleep && client.runs() && !excused
                })
            }),
            Property::always(STRANGERS, |_, state: &State| {
                state.lock.is_none_or(|lock| lock.owner != Owner::Stranger || !lock.marked)
            }),
            Property::always(ONE_CLAIM, |_, state: &State| !state.claims_again),
            Property::always(WITH_CAUSE, |_, state: &State| !state.dropped_without_cause),
            Property::always(A_CLAIM, |_, state: &State| {
                let claims = |at: &usize| state.clients[*at].claims;
                (0..state.clients.len()).filter(claims).all(|at| state.lease_of(at) <= CLAIM)
            }),
            Property::always(OUTLIVES, |_, state: &State| {
                let holders = || state.holders.iter().filter(|holder| holder.left > 0);
                state.lock.is_none_or(|lock| holders().all(|holder| holder.left + GRACE <= lock.expires_in))
            }),
            Property::always(NOT_EMPTY, |_, state: &State| !state.is_counted() || !state.holders.is_empty()),
            Property::sometimes("a grant is on its way", |_, state: &State| {
                state.clients.iter().any(|client| client.answers.contains(&Answer::Granted { age: 0 }))
            }),
            Property::sometimes("a lock is marked, or several are inside", |_, state: &State| {
                state.lock.is_some_and(|lock| lock.marked) || state.holders.len() > 1
            }),
            Property::sometimes("all have been served", |_, state: &State| {
                state.clients.iter().all(|client| client.phase == Phase::Done)
            }),
        ]
    }
}
