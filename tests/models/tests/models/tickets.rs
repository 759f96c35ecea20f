//! A lock that travels: its holder leaves it to a ticket, and one of those who have the ticket
//! redeems it.
//!
//! In the model: one server with the lock and its clock of fencing tokens; a giver, which holds the
//! lock; two redeemers with one and the same ticket; a waiter. A request is made only of what it does
//! to the lock. The giver renews, gives the lock away, and asks again when it has no reply. It leaves
//! before it has the ticket, or sends a release with its own token even after that. A redeemer asks,
//! gives up, runs and releases; the first one asks again, too, with the same token. Any message may arrive after any
//! other. Time passes in ticks, at any moment: a lease lasts two, a ticket three.
//!
//! Left out, without losing an order of events:
//! - Crashes, lost requests, lost replies. In the model no step has to happen.
//! - How the waiter is notified: it takes the lock in any state in which it is free. The model of
//!   the hand-off has its messages.
//! - Renewals by a redeemer and by the waiter: they carry a token that has the lock, as those of any
//!   holder.
//! - The drift of clocks. A lease is shorter than its ttl by what two clocks may differ.
//!
//! Found: the mistakes of [`Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

use stateright::{Model, Property};

use crate::{finds, holds};

/// Who may be inside: the giver, the redeemers, the waiter. Its number is its token, too.
type Caller = u8;
type Ticks = u8;

const GIVER: Caller = 0;
const REDEEMERS: [Caller; 2] = [1, 2];
const WAITER: Caller = 3;
/// What a redeemer adds to its token for its second try, by mistake.
const ANOTHER: Caller = 3;

const TTL: Ticks = 2;
const TICKET: Ticks = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// Who redeems a ticket takes the lock from anybody.
    RedeemsFromAnybody,
    /// A ticket whose lock is free takes it.
    RedeemsFreeLock,
    /// The lock keeps the token of the ticket when it is redeemed.
    KeepsToken,
    /// The fencing token of the holder before is good enough.
    DrawsNoFence,
    /// A redeemer that has no reply asks again with another token.
    AsksWithAnother,
    /// The lease of a redeemer is counted from the reply.
    CountsFromReply,
    /// A release is not compared with the lock.
    ReleasesAnyLock,
    /// The request of the giver is not compared with the lock.
    GivesAnyLock,
    /// The body that has given its lock away goes on as if it had it.
    RunsOn,
    /// The giver goes on with its renewals.
    RenewsOn,
    /// The lock is left to the ticket without an end.
    NeverEnds,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Message {
    Renew,
    /// *renew* with `exactly` and the time of the ticket.
    Give {
        again: bool,
    },
    Given,
    Release {
        token: Caller,
    },
    Redeem {
        by: Caller,
        again: bool,
    },
    Redeemed {
        by: Caller,
        again: bool,
        fence: u8,
    },
    NoTicket {
        by: Caller,
        again: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Giver {
    Holds,
    /// It has asked, and is not inside any more.
    Gives {
        again: bool,
    },
    /// The ticket is there.
    HasGiven,
    /// Without a ticket.
    Left,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Other {
    Idle,
    /// `age`: ticks since its last request, `TTL` at most.
    Asks {
        again: bool,
        age: Ticks,
    },
    Inside {
        left: Ticks,
    },
    Left,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lock {
    token: Caller,
    /// `None`: forever.
    left: Option<Ticks>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    lock: Option<Lock>,
    clock: u8,
    /// On their way, sorted.
    messages: Vec<Message>,
    giver: Giver,
    /// What is left of the giver's lease.
    giver_left: Ticks,
    has_renewed: bool,
    has_released: bool,
    redeemers: [Other; 2],
    waiter: Other,
    /// A bit for each redeemer that the server has given the lock.
    redeemed: u8,
    /// Ticks since the lock was left to the ticket.
    left_for: Option<Ticks>,
    /// The highest fencing token of those that were inside.
    highest: u8,
    /// A later holder had a fencing token that is not larger.
    backwards: bool,
    /// A redeemer was told that its ticket is used, and it was itself who has the lock.
    refused_by_itself: bool,
    /// The waiter came after a ticket that nobody redeemed.
    went_on: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Tick,
    Renew,
    Give,
    GiveAgain,
    ReleaseLate,
    Redeem(Caller),
    RedeemAgain(Caller),
    Leave(Caller),
    Take,
    Arrive(Message),
}

impl State {
    fn send(&mut self, message: Message) {
        if let Err(at) = self.messages.binary_search(&message) {
            self.messages.insert(at, message);
        }
    }

    fn next_fence(&mut self) -> u8 {
        self.clock += 1;
        self.clock
    }

    fn other(&mut self, caller: Caller) -> &mut Other {
        if caller == WAITER { &mut self.waiter } else { &mut self.redeemers[usize::from(caller) - 1] }
    }

    fn tick(&mut self) {
        self.giver_left = self.giver_left.saturating_sub(1);
        if self.giver == Giver::Holds && self.giver_left == 0 {
            self.giver = Giver::Left;
        }
        for other in self.redeemers.iter_mut().chain([&mut self.waiter]) {
            match other {
                Other::Inside { left: 1 } => *other = Other::Left,
                Other::Inside { left } => *left -= 1,
                Other::Asks { age, .. } => *age = TTL.min(*age + 1),
                Other::Idle | Other::Left => {}
            }
        }
        if let Some(Lock { left: Some(left), .. }) = &mut self.lock {
            *left -= 1;
            if *left == 0 {
                self.lock = None;
            }
        }
        self.left_for = self.left_for.map(|ticks| (ticks + 1).min(TICKET + TTL));
    }

    /// Drops the replies that nobody waits for: that to a first request is lost when its caller asks
    /// again.
    fn forget_unheard(&mut self) {
        let (giver, redeemers) = (self.giver, self.redeemers);
        self.messages.retain(|message| match *message {
            Message::Given => matches!(giver, Giver::Gives { .. }),
            Message::Redeemed { by, again, .. } | Message::NoTicket { by, again } => {
                matches!(redeemers[usize::from(by) - 1], Other::Asks { again: last, .. } if last == again)
            }
            _ => true,
        });
    }

    fn enters(&mut self, caller: Caller, left: Ticks, fence: u8) {
        self.backwards |= fence <= self.highest;
        self.highest = self.highest.max(fence);
        *self.other(caller) = Other::Inside { left };
    }
}

struct Tickets(Option<Mistake>);

const EXCLUSIVE: &str = "at most one caller is inside";
const FENCED: &str = "a later holder has the larger fencing token";
const ONCE: &str = "a ticket is redeemed at most once";
const ENDS: &str = "a ticket that nobody redeems ends with its time";
const BY_OTHERS: &str = "a ticket is used only by others";

impl Tickets {
    fn has(&self, mistake: Mistake) -> bool {
        self.0 == Some(mistake)
    }

    fn inside(&self, state: &State) -> usize {
        let has_lock = state.giver == Giver::Holds
            || self.has(Mistake::RunsOn) && matches!(state.giver, Giver::Gives { .. } | Giver::HasGiven);
        let others = state.redeemers.iter().chain([&state.waiter]);
        usize::from(has_lock && state.giver_left > 0)
            + others.filter(|other| matches!(other, Other::Inside { .. })).count()
    }

    fn token(&self, by: Caller, again: bool) -> Caller {
        if again && self.has(Mistake::AsksWithAnother) { by + ANOTHER } else { by }
    }

    /// As `redeem.lua`.
    fn redeem(&self, state: &mut State, by: Caller, again: bool) -> Message {
        let token = self.token(by, again);
        let left = match state.lock {
            None if !self.has(Mistake::RedeemsFreeLock) => return Message::NoTicket { by, again },
            Some(lock) if lock.token == token => lock.left,
            Some(lock) if lock.token != GIVER && !self.has(Mistake::RedeemsFromAnybody) => {
                state.refused_by_itself |= lock.token == by || lock.token == by + ANOTHER;
                return Message::NoTicket { by, again };
            }
            _ => Some(0),
        };
        let kept = if self.has(Mistake::KeepsToken) { GIVER } else { token };
        state.lock = Some(Lock { token: kept, left: left.map(|left| left.max(TTL)) });
        state.left_for = None;
        state.redeemed |= 1 << by;
        let fence = if self.has(Mistake::DrawsNoFence) { state.clock } else { state.next_fence() };
        Message::Redeemed { by, again, fence }
    }

    fn arrive(&self, state: &mut State, message: Message) {
        let is_givers = state.lock.is_some_and(|lock| lock.token == GIVER);
        match message {
            Message::Renew => {
                if let Some(Lock { left: Some(left), .. }) = state.lock.as_mut().filter(|_| is_givers) {
                    *left = TTL.max(*left);
                }
            }
            Message::Give { .. } => {
                if is_givers || self.has(Mistake::GivesAnyLock) {
                    let left = (!self.has(Mistake::NeverEnds)).then_some(TICKET);
                    state.lock = Some(Lock { token: GIVER, left });
                    state.left_for = Some(0);
                    state.send(Message::Given);
                }
            }
            Message::Given => state.giver = Giver::HasGiven,
            Message::Release { token } => {
                if self.has(Mistake::ReleasesAnyLock) || state.lock.is_some_and(|lock| lock.token == token) {
                    state.lock = None;
                }
            }
            Message::Redeem { by, again } => {
                let reply = self.redeem(state, by, again);
                state.send(reply);
            }
            Message::Redeemed { by, fence, .. } => {
                let Other::Asks { age, .. } = *state.other(by) else { return };
                let age = if self.has(Mistake::CountsFromReply) { 0 } else { age };
                if age < TTL {
                    state.enters(by, TTL - age, fence);
                } else {
                    *state.other(by) = Other::Left;
                    state.send(Message::Release { token: by });
                }
            }
            Message::NoTicket { by, .. } => *state.other(by) = Other::Left,
        }
    }
}

impl Model for Tickets {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: Some(Lock { token: GIVER, left: Some(TTL) }),
            clock: 1,
            messages: Vec::new(),
            giver: Giver::Holds,
            giver_left: TTL,
            has_renewed: false,
            has_released: false,
            redeemers: [Other::Idle; 2],
            waiter: Other::Idle,
            redeemed: 0,
            left_for: None,
            highest: 1,
            backwards: false,
            refused_by_itself: false,
            went_on: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        match state.giver {
            Giver::Holds => {
                actions.push(Action::Give);
                if !state.has_renewed {
                    actions.push(Action::Renew);
                }
            }
            Giver::Gives { again } => {
                actions.push(Action::Leave(GIVER));
                if !again {
                    actions.push(Action::GiveAgain);
                }
            }
            Giver::HasGiven if !state.has_released => actions.push(Action::ReleaseLate),
            Giver::HasGiven | Giver::Left => {}
        }
        if self.has(Mistake::RenewsOn) && state.giver == Giver::HasGiven {
            actions.push(Action::Renew);
        }
        for by in REDEEMERS {
            match state.redeemers[usize::from(by) - 1] {
                // The second comes after the first: they are alike.
                Other::Idle if state.giver == Giver::HasGiven => {
                    if by == REDEEMERS[0] || state.redeemers[0] != Other::Idle {
                        actions.push(Action::Redeem(by));
                    }
                }
                Other::Asks { again, .. } => {
                    actions.push(Action::Leave(by));
                    if !again && by == REDEEMERS[0] {
                        actions.push(Action::RedeemAgain(by));
                    }
                }
                Other::Inside { .. } => actions.push(Action::Leave(by)),
                Other::Idle | Other::Left => {}
            }
        }
        match state.waiter {
            Other::Idle if state.lock.is_none() => actions.push(Action::Take),
            Other::Inside { .. } => actions.push(Action::Leave(WAITER)),
            _ => {}
        }
        actions.extend(state.messages.iter().map(|message| Action::Arrive(*message)));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick(),
            Action::Renew => {
                state.has_renewed = true;
                state.send(Message::Renew);
            }
            Action::Give => {
                state.giver = Giver::Gives { again: false };
                state.send(Message::Give { again: false });
            }
            Action::GiveAgain => {
                state.giver = Giver::Gives { again: true };
                state.send(Message::Give { again: true });
            }
            Action::ReleaseLate => {
                state.has_released = true;
                state.send(Message::Release { token: GIVER });
            }
            Action::Redeem(by) => {
                *state.other(by) = Other::Asks { again: false, age: 0 };
                state.send(Message::Redeem { by, again: false });
            }
            Action::RedeemAgain(by) => {
                *state.other(by) = Other::Asks { again: true, age: 0 };
                state.send(Message::Redeem { by, again: true });
            }
            Action::Leave(GIVER) => {
                state.giver = Giver::Left;
                state.send(Message::Release { token: GIVER });
            }
            Action::Leave(caller) => {
                *state.other(caller) = Other::Left;
                state.send(Message::Release { token: caller });
            }
            Action::Take => {
                state.went_on |= state.left_for.is_some() && state.giver == Giver::HasGiven;
                state.lock = Some(Lock { token: WAITER, left: Some(TTL) });
                let fence = state.next_fence();
                state.enters(WAITER, TTL, fence);
            }
            Action::Arrive(message) => {
                state.messages.retain(|other| *other != message);
                self.arrive(&mut state, message);
            }
        }
        state.forget_unheard();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |model: &Self, state: &State| model.inside(state) <= 1),
            Property::always(FENCED, |_, state: &State| !state.backwards),
            Property::always(ONCE, |_, state: &State| state.redeemed.count_ones() <= 1),
            // A renewal that was on its way may come behind the request of the giver.
            Property::always(ENDS, |_, state: &State| {
                state.lock.is_none_or(|lock| {
                    lock.token != GIVER || state.left_for.is_none_or(|ticks| ticks < TICKET + TTL)
                })
            }),
            Property::always(BY_OTHERS, |_, state: &State| !state.refused_by_itself),
            Property::sometimes("a redeemer is inside", |_, state: &State| {
                matches!(state.redeemers[0], Other::Inside { .. })
            }),
            Property::sometimes("a lost reply is asked for again", |_, state: &State| {
                let again = Message::Redeem { by: REDEEMERS[0], again: true };
                state.redeemed != 0 && state.messages.contains(&again)
            }),
            Property::sometimes("the queue goes on behind a redeemer", |_, state: &State| {
                state.redeemed != 0 && matches!(state.waiter, Other::Inside { .. })
            }),
            Property::sometimes(
                "the queue goes on behind a ticket that nobody redeems",
                |_, state: &State| state.went_on && state.redeemed == 0,
            ),
        ]
    }
}

#[test]
fn a_giver_two_redeemers_and_a_waiter() {
    holds("tickets", Tickets(None));
}

#[test]
fn each_mistake_is_found() {
    use Mistake as M;
    for (mistake, property) in [
        (M::RedeemsFromAnybody, EXCLUSIVE),
        (M::RedeemsFreeLock, ONCE),
        (M::KeepsToken, ONCE),
        (M::DrawsNoFence, FENCED),
        (M::AsksWithAnother, BY_OTHERS),
        (M::CountsFromReply, EXCLUSIVE),
        (M::ReleasesAnyLock, EXCLUSIVE),
        (M::GivesAnyLock, ONCE),
        (M::RunsOn, EXCLUSIVE),
        (M::RenewsOn, ENDS),
        (M::NeverEnds, ENDS),
    ] {
        finds(&format!("tickets, {mistake:?}"), property, Tickets(Some(mistake)));
    }
}
