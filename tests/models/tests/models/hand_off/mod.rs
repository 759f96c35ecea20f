//! One node, and the hand-off of a lock to its longest waiter.
//!
//! In the model: the node with the lock, its queue, and its open connections; clients, each with one attempt, one token,
//! one connection. Requests of a client arrive in order, and so do the answers and the grants that are pushed to it, each
//! after any time. At any moment a call is cancelled, a lease ends (by its body, or by its deadline), a client looks at
//! the lock again, a connection breaks, a process is killed; the node learns of a broken connection only later, and
//! requests on it may still arrive, even after requests of the next one. Then a lock can be left to a call that is done,
//! until it expires. That is the worst case, and the model shows it.
//!
//! Left out, and why:
//! - Time. What is left of it: the node's expiry comes after the end of the lease, and a client that reads a grant
//!   knows from the node's times whether that may have happened ([`Answer::Granted`]). When no message is under
//!   way, a lock without a holder expires.
//! - Frozen processes. In the model no step has to happen: a frozen client is one that does not read.
//! - Renewals and the claim. A renewal keeps the lock as long as the lease lasts; an unmade claim is an early expiry.
//! - Fencing tokens: each script that grants the lock counts up by one.
//! - The limit of 2,000 dead waiters that one call clears away: the call is repeated then.
//! - Hints (`next`, `free`): in the model a client asks again at any moment. Clients of other kinds.
//!
//! Found: the mistakes of [`Mistake`].

mod state;

use stateright::{Model, Property};

use crate::{finds, holds};
use state::{Answer, Client, Phase, Request, State};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A release does not compare the token.
    ReleasesAnyLock,
    /// A lease is counted from when its grant was read, not from when it was given.
    CountsFromReceipt,
    /// A newcomer takes a free lock, although another client waits.
    Barges,
    /// A client that finds a free lock with a queue only joins the queue.
    LeavesFree,
    /// A cancelled call leaves the queue, and keeps a lock that it has just been granted.
    OnlyLeaves,
    /// A waiter is granted the lock, although its connection has ended.
    GrantsToNobody,
    /// A client that asks again joins the queue again.
    JoinsAgain,
    /// A release overtakes its acquire, as on another connection.
    Overtakes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// The next client asks for the lock.
    Begin,
    /// The client asks again.
    Ask(usize),
    /// The node executes the client's first request.
    Serve(usize),
    /// The node executes the first request of a broken connection, and its answer is lost.
    Straggle(usize),
    /// The client reads its first answer. `late`: the lease would be over already, or nearly.
    Read {
        client: usize,
        late: bool,
    },
    /// The lease ends, by its body or its deadline.
    End(usize),
    /// The caller goes away, or its wait is over.
    Cancel(usize),
    /// The release gets no answer, and its key has expired by now.
    GiveUp(usize),
    /// The lock expires. Never before its lease has ended.
    Expire,
    Crash(usize),
    Cut(usize),
    /// The node learns that a connection has ended; requests that it has not read by then are lost.
    Notice(usize),
    Reconnect(usize),
}

struct HandOff {
    clients: usize,
    /// Broken connections and killed processes.
    accidents: u8,
    mistake: Option<Mistake>,
}

const EXCLUSIVE: &str = "at most one client has a lease";
const IN_ORDER: &str = "no waiter that listens is passed over";
const TO_SOMEBODY: &str = "a lock is handed to a client that listens";
const NOTHING_LEFT: &str =
    "a client that is done has neither the lock nor a place in the queue, unless its connection broke";
const ALL_SERVED: &str = "each remaining waiter gets the lock, and no key is left behind";

impl HandOff {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn read(&self, client: &mut Client, late: bool) -> Option<()> {
        if client.answers.is_empty() || !client.up {
            return None;
        }
        let answer = client.answers.remove(0);
        if late && !matches!(answer, Answer::Held { over: false } | Answer::Granted { over: false }) {
            return None;
        }
        client.phase = match (client.phase, answer) {
            (Phase::Waiting { .. }, Answer::Held { over }) => {
                if over || late {
                    // The next attempt has another token.
                    client.send(Request::Release, self.mistake);
                    Phase::Releasing
                } else {
                    Phase::Holding
                }
            }
            (Phase::Waiting { asked }, Answer::Granted { over }) => {
                if (over && !self.has(Mistake::CountsFromReceipt)) || late {
                    if !asked {
                        client.send(Request::Acquire, self.mistake);
                    }
                    Phase::Waiting { asked: true }
                } else {
                    Phase::Holding
                }
            }
            (Phase::Waiting { .. }, Answer::Busy) => Phase::Waiting { asked: false },
            (Phase::Releasing, Answer::Released) => Phase::Done,
            (Phase::Done, Answer::Granted { .. }) => {
                client.send(Request::Release, self.mistake);
                Phase::Done
            }
            // An answer that its own grant, or its own release, has overtaken.
            (phase, _) => phase,
        };
        Some(())
    }

    fn serve(
        &self,
        state: &mut State,
        at: usize,
        of: fn(&mut Client) -> &mut Vec<Request>,
    ) -> Option<Answer> {
        let requests = of(&mut state.clients[at]);
        if requests.is_empty() {
            return None;
        }
        match requests.remove(0) {
            Request::Acquire => return Some(state.acquire(at, self.mistake)),
            Request::Release => state.release(at, self.mistake),
            Request::Leave => state.queue.retain(|waiter| *waiter != at),
        }
        Some(Answer::Released)
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Begin => {
                let client = state.clients.iter_mut().find(|client| client.phase == Phase::Idle)?;
                client.phase = Phase::Waiting { asked: true };
                client.send(Request::Acquire, self.mistake);
            }
            Action::Ask(at) => {
                let client = &mut state.clients[at];
                if client.phase != (Phase::Waiting { asked: false }) || !client.up {
                    return None;
                }
                client.phase = Phase::Waiting { asked: true };
                client.send(Request::Acquire, self.mistake);
            }
            Action::Serve(at) => {
                let answer = self.serve(state, at, |client| &mut client.requests)?;
                state.clients[at].tell(answer);
            }
            Action::Straggle(at) => {
                self.serve(state, at, |client| &mut client.strays)?;
            }
            Action::Read { client, late } => self.read(&mut state.clients[client], late)?,
            Action::End(at) | Action::Cancel(at) => {
                let client = &mut state.clients[at];
                let cancelled = action == Action::Cancel(at);
                let is_there = if cancelled { client.is_waiting() } else { client.phase == Phase::Holding };
                if !is_there {
                    return None;
                }
                client.phase = Phase::Releasing;
                let leaves = cancelled && self.has(Mistake::OnlyLeaves);
                client.send(if leaves { Request::Leave } else { Request::Release }, self.mistake);
            }
            Action::GiveUp(at) => {
                let client = &mut state.clients[at];
                if client.phase != Phase::Releasing || client.up || state.lock == Some(at) {
                    return None;
                }
                client.phase = Phase::Done;
            }
            Action::Expire => {
                if state.clients[state.lock?].phase == Phase::Holding {
                    return None;
                }
                state.expire();
            }
            Action::Crash(at) | Action::Cut(at) => {
                state.accidents = state.accidents.checked_sub(1)?;
                let client = &mut state.clients[at];
                if !client.up || matches!(client.phase, Phase::Idle | Phase::Dead) {
                    return None;
                }
                if let Action::Crash(_) = action {
                    client.phase = Phase::Dead;
                }
                client.up = false;
                client.ghost = true;
                client.cut = true;
                client.strays.append(&mut client.requests);
                client.answers.clear();
            }
            Action::Notice(at) => {
                let client = &mut state.clients[at];
                if !client.ghost {
                    return None;
                }
                client.ghost = false;
                client.strays.clear();
            }
            Action::Reconnect(at) => {
                let client = &mut state.clients[at];
                if client.up || client.phase == Phase::Dead {
                    return None;
                }
                client.up = true;
                match client.phase {
                    Phase::Waiting { .. } => client.phase = Phase::Waiting { asked: false },
                    Phase::Releasing => client.send(Request::Release, self.mistake),
                    _ => {}
                }
            }
        }
        Some(())
    }

    /// Whether, without further faults, every waiter is served, then a newcomer, and no lock or queue is left.
    fn comes_to_rest(&self, state: &State) -> bool {
        let mut state = state.clone();
        self.settle(&mut state);
        state.clients.push(Client { phase: Phase::Waiting { asked: false }, ..Client::new() });
        self.settle(&mut state);
        let is_done = |client: &Client| matches!(client.phase, Phase::Idle | Phase::Done | Phase::Dead);
        state.lock.is_none() && state.queue.is_empty() && state.clients.iter().all(is_done)
    }

    fn settle(&self, state: &mut State) {
        let clients = 0..state.clients.len();
        // Each round serves a client, or removes one from the queue.
        for _ in clients.clone() {
            for at in clients.clone() {
                let _ = self.step(state, Action::Ask(at));
            }
            while clients.clone().any(|at| {
                let read = Action::Read { client: at, late: false };
                [Action::Notice(at), Action::Reconnect(at), Action::Serve(at), read, Action::End(at)]
                    .into_iter()
                    .any(|action| self.step(state, action).is_some())
            }) {}
            let _ = self.step(state, Action::Expire);
        }
    }
}

impl Model for HandOff {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: None,
            queue: Vec::new(),
            clients: vec![Client::new(); self.clients],
            accidents: self.accidents,
            passed_over: false,
            given_to_nobody: false,
        }]
    }

    /// Leaves out some impossible actions; [`HandOff::step`] decides.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Begin, Action::Expire]);
        for (at, client) in state.clients.iter().enumerate() {
            match client.phase {
                Phase::Waiting { .. } => actions.extend([Action::Ask(at), Action::Cancel(at)]),
                Phase::Holding => actions.push(Action::End(at)),
                Phase::Releasing => actions.push(Action::GiveUp(at)),
                Phase::Idle | Phase::Done | Phase::Dead => {}
            }
            if !client.answers.is_empty() {
                actions.extend([false, true].map(|late| Action::Read { client: at, late }));
            }
            if !client.requests.is_empty() {
                actions.push(Action::Serve(at));
            }
            if client.ghost {
                actions.extend([Action::Straggle(at), Action::Notice(at)]);
            }
            if !client.up && client.phase != Phase::Dead {
                actions.push(Action::Reconnect(at));
            } else if state.accidents > 0 {
                actions.extend([Action::Crash(at), Action::Cut(at)]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, action)?;
        if let Some(holder) = state.lock.filter(|_| state.lock != last.lock) {
            let mut longer = last.queue.iter().take_while(|waiter| **waiter != holder);
            state.passed_over |= longer.any(|waiter| last.clients[*waiter].listens());
            state.given_to_nobody |= !last.clients[holder].listens();
        }
        state.sort();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                state.clients.iter().filter(|client| client.phase == Phase::Holding).count() <= 1
            }),
            Property::always(IN_ORDER, |_, state: &State| !state.passed_over),
            Property::always(TO_SOMEBODY, |_, state: &State| !state.given_to_nobody),
            Property::always(NOTHING_LEFT, |_, state: &State| {
                !state.clients.iter().all(Client::is_calm)
                    || state.lock.iter().chain(&state.queue).all(|at| {
                        let client = &state.clients[*at];
                        client.phase != Phase::Done || client.cut
                    })
            }),
            // In every state, messages under way can arrive: it is enough to check the states without any.
            Property::always(ALL_SERVED, |model: &Self, state: &State| {
                !state.clients.iter().all(Client::is_calm) || model.comes_to_rest(state)
            }),
            Property::sometimes("a grant is on its way", |_, state: &State| {
                state.clients.iter().any(|client| client.answers.contains(&Answer::Granted { over: false }))
            }),
            Property::sometimes("a waiter sleeps over its grant", |_, state: &State| {
                state.clients.iter().any(|client| client.answers.contains(&Answer::Granted { over: true }))
            }),
            Property::sometimes("a waiter that is gone stands in the queue", |_, state: &State| {
                state.queue.iter().any(|waiter| !state.clients[*waiter].listens())
            }),
            Property::sometimes(
                "a late request leaves the lock to a call that is done",
                |_, state: &State| {
                    state.lock.is_some_and(|holder| state.clients[holder].phase == Phase::Done)
                        && state.clients.iter().all(|client| client.up && client.is_calm())
                },
            ),
            Property::sometimes("all have been served", |_, state: &State| {
                state.clients.iter().all(|client| client.phase == Phase::Done)
            }),
        ]
    }
}

#[test]
fn three_clients_and_an_accident() {
    holds("hand-off, 3 clients and an accident", HandOff { clients: 3, accidents: 1, mistake: None });
}

#[test]
fn two_clients_and_three_accidents() {
    holds("hand-off, 2 clients and 3 accidents", HandOff { clients: 2, accidents: 3, mistake: None });
}

#[test]
fn each_mistake_is_found() {
    for (mistake, property) in [
        (Mistake::ReleasesAnyLock, EXCLUSIVE),
        (Mistake::CountsFromReceipt, EXCLUSIVE),
        (Mistake::Barges, IN_ORDER),
        (Mistake::LeavesFree, ALL_SERVED),
        (Mistake::OnlyLeaves, NOTHING_LEFT),
        (Mistake::GrantsToNobody, TO_SOMEBODY),
        (Mistake::JoinsAgain, NOTHING_LEFT),
        (Mistake::Overtakes, NOTHING_LEFT),
    ] {
        let model = HandOff { clients: 3, accidents: 1, mistake: Some(mistake) };
        finds(&format!("hand-off, {mistake:?}"), property, model);
    }
}
