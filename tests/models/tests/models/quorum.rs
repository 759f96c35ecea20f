//! The fencing tokens of a lock that is taken on several nodes.
//!
//! In the model: nodes, each with the lock and its clock of fencing tokens; attempts, each with a
//! token of its own. An attempt estimates a fencing token (which may be too low, or that of another
//! lock), and asks all nodes to vote. A node grants the lock if it is free, and accepts the
//! estimate if it is *above* its clock, which it then raises. A quorum of acceptances is enough:
//! one round. Else the attempt confirms, in a second round, one more than all numbers that it was
//! told, on the nodes that told it and still hold the lock for it. All locks of a node share its
//! clock.
//!
//! Left out, without losing an order of events:
//! - Time. A lock may expire at any moment, even in the middle of its own attempt: mutual exclusion
//!   is a matter of deadlines, and not claimed here. Only the next request sees an expiry, so that
//!   is when it happens.
//! - Release, which does to a node what expiry does.
//! - Clients. A client makes attempts one after the other; those of the model start in any order.
//! - Crashes, lost requests, lost replies. In the model no step has to happen: an attempt stops, a
//!   request never arrives, a reply is not among those that the attempt has heard.
//! - "No". It changes no state, and an attempt learns nothing from it.
//! - The identity of nodes: they are interchangeable.
//!
//! Found: the mistakes of [`Mistake`].

use stateright::{Model, Property};

use crate::{finds, holds};

type Fence = u8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A confirmation is not compared with the lock.
    ConfirmsAnyLock,
    /// A node accepts an estimate that equals its clock: an earlier lock may have that token.
    AcceptsEqual,
    /// One node that accepted is enough.
    MinorityAccepts,
    /// The second round takes the highest clock, not one more.
    NotAbove,
    /// A node that restarts without its data votes as if it had granted nothing.
    Forgets,
    /// A node that holds the lock for another attempt accepts an estimate.
    AcceptsWithoutLock,
    /// The second round also counts nodes whose clocks it has not heard.
    ConfirmsUnheard,
    /// A vote is sent again, on another connection, and both requests arrive.
    AsksTwice,
}

/// How far an attempt has come with one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Exchange {
    Idle,
    /// The request to vote is on its way.
    Asked {
        wish: Fence,
    },
    /// The node holds the lock for the attempt. `told`: the estimate if accepted, else a higher
    /// number, not below the clock.
    Voted {
        told: Fence,
    },
    /// The second round is on its way.
    Confirming {
        fence: Fence,
    },
    Confirmed,
    /// The attempt ignores further replies.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Node<const ATTEMPTS: usize> {
    /// The attempt that has the lock.
    lock: Option<usize>,
    clock: Fence,
    exchanges: [Exchange; ATTEMPTS],
}

impl<const ATTEMPTS: usize> Node<ATTEMPTS> {
    /// As `vote.lua`. `None`: another attempt has the lock.
    fn vote(&mut self, attempt: usize, wish: Fence, mistake: Option<Mistake>) -> Option<Exchange> {
        if self.lock.is_some_and(|holder| holder != attempt) {
            if mistake != Some(Mistake::AcceptsWithoutLock) || wish <= self.clock {
                return None;
            }
        } else {
            self.lock = Some(attempt);
        }
        let accepted = wish > self.clock || (mistake == Some(Mistake::AcceptsEqual) && wish == self.clock);
        let told = if accepted { wish } else { self.clock.max(wish + 1) };
        self.clock = self.clock.max(wish);
        Some(Exchange::Voted { told })
    }

    /// As `confirm.lua`. `None`: the attempt does not have the lock.
    fn confirm(&mut self, attempt: usize, fence: Fence, mistake: Option<Mistake>) -> Option<Exchange> {
        if self.lock != Some(attempt) && mistake != Some(Mistake::ConfirmsAnyLock) {
            return None;
        }
        self.clock = self.clock.max(fence);
        Some(Exchange::Confirmed)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Attempt {
    Idle,
    /// `floor`: the highest fencing token that a lock had before this attempt started.
    Voting {
        wish: Fence,
        floor: Fence,
    },
    Confirming {
        wish: Fence,
        fence: Fence,
        floor: Fence,
    },
    Held,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State<const NODES: usize, const ATTEMPTS: usize> {
    /// Sorted: nodes are interchangeable.
    nodes: [Node<ATTEMPTS>; NODES],
    /// In the order of their start.
    attempts: [Attempt; ATTEMPTS],
    /// A bit for each fencing token that a lock ever had.
    given: u16,
    /// Two locks had the same fencing token.
    twice: bool,
    /// A lock had a lower fencing token than a lock before it.
    backwards: bool,
    /// A node has restarted without its data.
    forgot: bool,
}

impl<const NODES: usize, const ATTEMPTS: usize> State<NODES, ATTEMPTS> {
    /// The attempt has the lock: the caller gets its guard.
    fn hold(&mut self, attempt: usize, fence: Fence, floor: Fence) {
        self.twice |= self.given & 1 << fence != 0;
        self.backwards |= fence < floor;
        self.given |= 1 << fence;
        self.attempts[attempt] = Attempt::Held;
        for node in &mut self.nodes {
            let exchange = &mut node.exchanges[attempt];
            // Requests under way still arrive.
            if !matches!(exchange, Exchange::Asked { .. } | Exchange::Confirming { .. }) {
                *exchange = Exchange::Over;
            }
        }
    }

    fn count(&self, attempt: usize, counts: impl Fn(Exchange) -> bool) -> usize {
        self.nodes.iter().filter(|node| counts(node.exchanges[attempt])).count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// The next attempt asks all nodes to vote.
    Start { wish: Fence },
    /// Its request arrives at a node, whose lock expires just before, or does not.
    Vote { attempt: usize, node: usize, expired: bool },
    /// The attempt has heard these nodes, a bit each, and goes on.
    Decide { attempt: usize, heard: u8 },
    /// Its second round arrives at a node.
    Confirm { attempt: usize, node: usize },
    /// Another lock raises the node's clock.
    Rise { node: usize },
    /// The node has restarted without its data.
    Forget { node: usize },
    /// The request to vote arrives again.
    VoteAgain { attempt: usize, node: usize, expired: bool },
}

struct Quorum<const NODES: usize, const ATTEMPTS: usize> {
    /// An attempt estimates any of 1 to this.
    wishes: Fence,
    /// Other locks raise a clock up to this, at any moment.
    others: Fence,
    mistake: Option<Mistake>,
}

const UNIQUE: &str = "two locks have different fencing tokens";
const ORDERED: &str = "a lock that was asked for after another was held has the higher fencing token";

impl<const NODES: usize, const ATTEMPTS: usize> Quorum<NODES, ATTEMPTS> {
    const QUORUM: usize = NODES / 2 + 1;

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The attempt acts on the replies of these nodes. `None` if they are not enough.
    fn decide(&self, state: &mut State<NODES, ATTEMPTS>, attempt: usize, heard: u8) -> Option<()> {
        let Attempt::Voting { wish, floor } = state.attempts[attempt] else { return None };
        let (mut yes, mut accepting, mut highest) = (0, 0, wish);
        for (_, node) in state.nodes.iter().enumerate().filter(|(at, _)| heard & 1 << at != 0) {
            let Exchange::Voted { told } = node.exchanges[attempt] else { return None };
            yes += 1;
            accepting += usize::from(told == wish);
            highest = highest.max(told);
        }
        if yes < Self::QUORUM {
            return None;
        }
        if accepting >= if self.has(Mistake::MinorityAccepts) { 1 } else { Self::QUORUM } {
            state.hold(attempt, wish, floor);
            return Some(());
        }
        let fence = if self.has(Mistake::NotAbove) { highest } else { highest + 1 };
        state.attempts[attempt] = Attempt::Confirming { wish, fence, floor };
        for (at, node) in state.nodes.iter_mut().enumerate() {
            let exchange = &mut node.exchanges[attempt];
            if heard & 1 << at != 0
                || (self.has(Mistake::ConfirmsUnheard) && *exchange != (Exchange::Asked { wish }))
            {
                *exchange = Exchange::Confirming { fence };
            } else if let Exchange::Voted { .. } = exchange {
                *exchange = Exchange::Over;
            }
        }
        Some(())
    }
}

impl<const NODES: usize, const ATTEMPTS: usize> Model for Quorum<NODES, ATTEMPTS> {
    type State = State<NODES, ATTEMPTS>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![State {
            nodes: [Node { lock: None, clock: 0, exchanges: [Exchange::Idle; ATTEMPTS] }; NODES],
            attempts: [Attempt::Idle; ATTEMPTS],
            given: 0,
            twice: false,
            backwards: false,
            forgot: false,
        }]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        if state.attempts.contains(&Attempt::Idle) {
            actions.extend((1..=self.wishes).map(|wish| Action::Start { wish }));
        }
        for attempt in 0..ATTEMPTS {
            if let Attempt::Voting { .. } = state.attempts[attempt] {
                actions.extend((0..1 << NODES).map(|heard| Action::Decide { attempt, heard }));
            }
            for (node, at) in state.nodes.iter().enumerate() {
                // An expiry matters only where the lock would refuse the request.
                let expired = at.lock.is_some_and(|holder| holder != attempt);
                match at.exchanges[attempt] {
                    Exchange::Asked { .. } => {
                        actions.push(Action::Vote { attempt, node, expired });
                        if expired && self.has(Mistake::AcceptsWithoutLock) {
                            actions.push(Action::Vote { attempt, node, expired: false });
                        }
                    }
                    Exchange::Confirming { .. } => {
                        actions.push(Action::Confirm { attempt, node });
                        if self.has(Mistake::AsksTwice) {
                            actions.push(Action::VoteAgain { attempt, node, expired });
                        }
                    }
                    _ => {}
                }
            }
        }
        actions.extend((0..NODES).map(|node| Action::Rise { node }));
        if self.has(Mistake::Forgets) && !state.forgot {
            actions.extend((0..NODES).map(|node| Action::Forget { node }));
        }
    }

    fn next_state(&self, last: &Self::State, action: Action) -> Option<Self::State> {
        let mut state = last.clone();
        match action {
            Action::Start { wish } => {
                let attempt = state.attempts.iter().position(|attempt| *attempt == Attempt::Idle)?;
                let floor = state.given.checked_ilog2().unwrap_or(0);
                state.attempts[attempt] = Attempt::Voting { wish, floor: Fence::try_from(floor).ok()? };
                for node in &mut state.nodes {
                    node.exchanges[attempt] = Exchange::Asked { wish };
                }
            }
            Action::Vote { attempt, node, expired } => {
                let at = &mut state.nodes[node];
                let Exchange::Asked { wish } = at.exchanges[attempt] else { return None };
                if expired {
                    at.lock = None;
                }
                let vote = at.vote(attempt, wish, self.mistake)?;
                let listens = matches!(state.attempts[attempt], Attempt::Voting { .. });
                at.exchanges[attempt] = if listens { vote } else { Exchange::Over };
            }
            Action::Decide { attempt, heard } => self.decide(&mut state, attempt, heard)?,
            Action::Confirm { attempt, node } => {
                let at = &mut state.nodes[node];
                let Exchange::Confirming { fence } = at.exchanges[attempt] else { return None };
                at.exchanges[attempt] = at.confirm(attempt, fence, self.mistake)?;
                if let Attempt::Confirming { floor, .. } = state.attempts[attempt] {
                    if state.count(attempt, |exchange| exchange == Exchange::Confirmed) == Self::QUORUM {
                        state.hold(attempt, fence, floor);
                    }
                } else {
                    at.exchanges[attempt] = Exchange::Over;
                }
            }
            Action::Rise { node } => {
                let clock = &mut state.nodes[node].clock;
                *clock = (*clock < self.others).then_some(*clock + 1)?;
            }
            Action::Forget { node } => {
                state.nodes[node].lock = None;
                state.nodes[node].clock = 0;
                state.forgot = true;
            }
            Action::VoteAgain { attempt, node, expired } => {
                let Attempt::Confirming { wish, .. } = state.attempts[attempt] else { return None };
                let at = &mut state.nodes[node];
                if expired {
                    at.lock = None;
                }
                at.vote(attempt, wish, self.mistake)?;
            }
        }
        state.nodes.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state: &Self::State| !state.twice),
            Property::always(ORDERED, |_, state: &Self::State| !state.backwards),
            Property::sometimes("a quorum accepts the estimate", |_, state: &Self::State| {
                (0..ATTEMPTS).any(|attempt| {
                    let Attempt::Voting { wish, .. } = state.attempts[attempt] else { return false };
                    state.count(attempt, |exchange| exchange == Exchange::Voted { told: wish })
                        >= Self::QUORUM
                })
            }),
            Property::sometimes("a lock is held after two rounds", |model: &Self, state: &Self::State| {
                state.given >> (model.wishes + 1) != 0
            }),
            Property::sometimes("all attempts have held the lock", |_, state: &Self::State| {
                state.attempts == [Attempt::Held; ATTEMPTS]
            }),
        ]
    }
}

fn correct<const NODES: usize, const ATTEMPTS: usize>(wishes: Fence, others: Fence) {
    let name = format!("quorum, {ATTEMPTS} attempts on {NODES} nodes");
    holds(&name, Quorum::<NODES, ATTEMPTS> { wishes, others, mistake: None });
}

#[test]
fn two_attempts_on_three_nodes() {
    correct::<3, 2>(4, 3);
}

#[test]
fn three_attempts_on_three_nodes() {
    correct::<3, 3>(2, 0);
}

#[test]
fn two_attempts_on_four_nodes() {
    correct::<4, 2>(3, 2);
}

#[test]
fn two_attempts_on_five_nodes() {
    correct::<5, 2>(3, 1);
}

#[test]
fn each_mistake_is_found() {
    use Mistake::{
        AcceptsEqual, AcceptsWithoutLock, AsksTwice, ConfirmsAnyLock, ConfirmsUnheard, Forgets,
        MinorityAccepts, NotAbove,
    };
    let same = [ConfirmsAnyLock, AcceptsEqual, NotAbove, AcceptsWithoutLock, ConfirmsUnheard, AsksTwice];
    let same = same.map(|mistake| (mistake, UNIQUE));
    let lower = [MinorityAccepts, Forgets].map(|mistake| (mistake, ORDERED));
    for (mistake, property) in same.into_iter().chain(lower) {
        let model = Quorum::<3, 2> { wishes: 3, others: 1, mistake: Some(mistake) };
        finds(&format!("quorum, {mistake:?}"), property, model);
    }
}
