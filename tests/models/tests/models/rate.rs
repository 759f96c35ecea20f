//! Permits with a `min_hold`, and a `rate`: at most so many bodies start in any time of that length, whatever their
//! processes do. A caller of a `rate` leaves as soon as it has started, and its place lasts for the time of the rate.
//!
//! In the model: one server with the places of those that are inside and with a queue; callers, each of which starts one
//! body. A request may arrive as late as it likes, and so may its reply. A place that is free goes to the first waiter, for
//! a claim, at any moment. A caller may die with a place that it has, or is about to hear of.
//!
//! A place that is over stays in the set until the server looks at it for another caller: a renewal finds it until then.
//!
//! Left out, without losing an order of events:
//! - Clocks that run at different speeds: the lease stops short of the place for them, in `plain_fence.rs`, too.
//! - A lost reply: a caller that asks again has the same token, and its place only gets longer.
//! - Who wakes a waiter: here the server serves it at any moment.
//! - A caller that dies while it asks or waits: its place is that of one that dies when it has got it, or goes to nobody.
//!
//! Found: the mistakes of [`Mistake`].

use stateright::{Model, Property};

use crate::{finds, holds};

type Caller = usize;
type Time = u8;

const MIN_HOLD: Time = 3;
const TTL: Time = 2;
const CLAIM: Time = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The server keeps a place for the ttl, and not for the `min_hold` of a body that starts at its end.
    KeepsForTtl,
    /// A body starts on a push, whose place lasts for the claim.
    StartsOnClaim,
    /// A body starts although the renewal of its claim found no place.
    IgnoresLostClaim,
    /// `min_hold` counts from the request, and not from the start of the body.
    CountsFromRequest,
    /// The lease counts from the reply.
    LeaseFromReply,
    /// A body that ends gives its place back, or one under a rate that starts.
    ReleasesAtEnd,
    /// A body whose lease is over gives its place back.
    ReleasesWithLease,
    /// A renewal is for the ttl alone, and moves the end of the place back.
    RenewsForTtl,
}

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Does {
    Idle,
    /// Its request is on its way.
    Asks {
        sent: Time,
    },
    Waits,
    /// The server has granted it a place by a push.
    Pushed,
    /// The renewal of its claim is on its way.
    Claims {
        sent: Time,
    },
    /// The place is its own for the ttl, and the reply on its way.
    Granted {
        sent: Time,
    },
    Runs {
        sent: Time,
        start: Time,
    },
    /// What ends its place so much later than it arrives, or at once, is on its way.
    Leaves {
        rest: Time,
    },
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    now: Time,
    /// Until when the server keeps the place of each caller.
    places: Vec<Option<Time>>,
    queue: Vec<Caller>,
    callers: Vec<Does>,
    has_died: bool,
    starts: Vec<Option<Time>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Pass,
    Ask(Caller),
    Arrive(Caller),
    /// A free place goes to the first waiter.
    Serve,
    Claim(Caller),
    Receive(Caller),
    Renew(Caller),
    /// Its body ends, by itself or with its lease.
    End(Caller),
    Die(Caller),
}

struct Rate {
    permits: usize,
    callers: usize,
    /// The last moment.
    end: Time,
    /// Its callers hold nothing: they leave at their start, as under a `rate`.
    at_start: bool,
    mistake: Option<Mistake>,
}

const AT_MOST: &str = "no more bodies start in a min_hold than there are permits";
const ALL_START: &str = "each caller may have its turn";
const AFTER_DEATH: &str = "what a dead caller had comes back";

impl Rate {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// For how long the server keeps a place for a body that has not started, or for one that runs.
    fn lasts(&self) -> Time {
        if self.has(Mistake::KeepsForTtl) { TTL } else { TTL + MIN_HOLD }
    }

    /// Those whose places are over leave, as the server sees when it looks for another caller.
    fn has_room(&self, state: &mut State) -> bool {
        for place in &mut state.places {
            let _ = place.take_if(|ends| *ends <= state.now);
        }
        state.places.iter().flatten().count() < self.permits
    }

    fn arrive(&self, state: &mut State, caller: Caller) {
        state.callers[caller] = match state.callers[caller] {
            Does::Asks { sent } => {
                if self.has_room(state) && state.queue.is_empty() {
                    state.places[caller] = Some(state.now + self.lasts());
                    Does::Granted { sent }
                } else {
                    state.queue.push(caller);
                    Does::Waits
                }
            }
            Does::Claims { sent } => match &mut state.places[caller] {
                Some(ends) => {
                    *ends = (*ends).max(state.now + self.lasts());
                    Does::Granted { sent }
                }
                None if self.has(Mistake::IgnoresLostClaim) => Does::Granted { sent },
                // It asks again, behind the others.
                None => Does::Asks { sent: state.now },
            },
            Does::Leaves { rest } => {
                if let Some(ends) = &mut state.places[caller] {
                    *ends = state.now + rest;
                }
                Does::Ended
            }
            other => other,
        };
    }

    fn lease_ends(&self, sent: Time, now: Time) -> Time {
        if self.has(Mistake::LeaseFromReply) { now + TTL } else { sent + TTL }
    }

    /// How much longer the place lasts of a body that ends.
    fn rest(&self, state: &State, sent: Time, start: Time) -> Time {
        let is_lost = state.now >= self.lease_ends(sent, start);
        if self.has(Mistake::ReleasesAtEnd) || is_lost && self.has(Mistake::ReleasesWithLease) {
            return 0;
        }
        let from = if self.has(Mistake::CountsFromRequest) { sent } else { start };
        (from + MIN_HOLD).saturating_sub(state.now)
    }
}

impl Rate {
    /// The body starts now.
    fn start(&self, state: &mut State, caller: Caller, sent: Time) {
        let start = state.now;
        state.starts[caller] = Some(start);
        state.callers[caller] = if self.at_start {
            Does::Leaves { rest: self.rest(state, sent, start) }
        } else {
            Does::Runs { sent, start }
        };
    }
}

impl Model for Rate {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            places: vec![None; self.callers],
            queue: Vec::new(),
            callers: vec![Does::Idle; self.callers],
            has_died: false,
            starts: vec![None; self.callers],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.end {
            actions.push(Action::Pass);
        }
        if !state.queue.is_empty() {
            actions.push(Action::Serve);
        }
        for (caller, does) in state.callers.iter().enumerate() {
            match does {
                Does::Idle => actions.push(Action::Ask(caller)),
                // What was sent at its start may be lost with its process.
                Does::Leaves { .. } if self.at_start => {
                    actions.extend([Action::Arrive(caller), Action::Die(caller)]);
                }
                Does::Asks { .. } | Does::Claims { .. } | Does::Leaves { .. } => {
                    actions.push(Action::Arrive(caller));
                }
                Does::Pushed => actions.extend([Action::Claim(caller), Action::Die(caller)]),
                Does::Granted { .. } => actions.extend([Action::Receive(caller), Action::Die(caller)]),
                Does::Runs { .. } => {
                    actions.extend([Action::Renew(caller), Action::End(caller), Action::Die(caller)]);
                }
                Does::Waits | Does::Ended => {}
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.now;
        match action {
            Action::Pass => state.now += 1,
            Action::Ask(caller) => state.callers[caller] = Does::Asks { sent: now },
            Action::Arrive(caller) => self.arrive(&mut state, caller),
            Action::Serve => {
                if !self.has_room(&mut state) {
                    return None;
                }
                let next = state.queue.remove(0);
                state.places[next] = Some(now + CLAIM);
                state.callers[next] = Does::Pushed;
            }
            Action::Claim(caller) if self.has(Mistake::StartsOnClaim) => {
                self.start(&mut state, caller, now);
            }
            Action::Claim(caller) => state.callers[caller] = Does::Claims { sent: now },
            Action::Receive(caller) => {
                let Does::Granted { sent } = state.callers[caller] else { return None };
                if now < self.lease_ends(sent, now) {
                    self.start(&mut state, caller, sent);
                } else {
                    // Its body never ran.
                    state.callers[caller] = Does::Leaves { rest: 0 };
                }
            }
            Action::Renew(caller) => {
                let Does::Runs { start, .. } = state.callers[caller] else { return None };
                let is_kept = now >= start + MIN_HOLD;
                if let Some(ends) = &mut state.places[caller] {
                    *ends = match self.mistake {
                        Some(Mistake::RenewsForTtl) => now + TTL,
                        // Behind its `min_hold`.
                        _ if is_kept => (*ends).max(now + TTL),
                        _ => (*ends).max(now + self.lasts()),
                    };
                }
            }
            Action::End(caller) => {
                let Does::Runs { sent, start } = state.callers[caller] else { return None };
                state.callers[caller] = Does::Leaves { rest: self.rest(&state, sent, start) };
            }
            Action::Die(caller) => {
                state.callers[caller] = Does::Ended;
                state.has_died = true;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(AT_MOST, |model: &Self, state: &State| {
                let mut starts: Vec<Time> = state.starts.iter().flatten().copied().collect();
                starts.sort_unstable();
                let others = starts.iter().skip(model.permits);
                starts.iter().zip(others).all(|(first, one_too_many)| one_too_many - first >= MIN_HOLD)
            }),
            Property::sometimes(ALL_START, |_, state: &State| state.starts.iter().all(Option::is_some)),
            Property::sometimes(AFTER_DEATH, |_, state: &State| {
                state.has_died && state.starts.iter().all(Option::is_some)
            }),
        ]
    }
}

#[test]
fn no_more_bodies_start_in_a_min_hold_than_there_are_permits() {
    for (permits, callers, end) in [(1, 3, 7), (2, 3, 5)] {
        holds(
            &format!("{permits} permits, {callers} callers"),
            Rate { permits, callers, end, at_start: false, mistake: None },
        );
    }
}

#[test]
fn no_more_bodies_start_than_their_rate_allows() {
    for (permits, callers, end) in [(1, 3, 7), (2, 3, 5)] {
        holds(
            &format!("a rate of {permits}, {callers} callers"),
            Rate { permits, callers, end, at_start: true, mistake: None },
        );
    }
}

#[test]
fn each_mistake_with_the_rate_is_found() {
    for at_start in [false, true] {
        for mistake in [
            Mistake::KeepsForTtl,
            Mistake::StartsOnClaim,
            Mistake::IgnoresLostClaim,
            Mistake::CountsFromRequest,
            Mistake::LeaseFromReply,
            Mistake::ReleasesAtEnd,
        ] {
            let model = Rate { permits: 1, callers: 3, end: 7, at_start, mistake: Some(mistake) };
            finds(&format!("{mistake:?}, {at_start}"), AT_MOST, model);
        }
    }
    // Only what is held is renewed, or lost.
    for mistake in [Mistake::ReleasesWithLease, Mistake::RenewsForTtl] {
        let model = Rate { permits: 1, callers: 3, end: 7, at_start: false, mistake: Some(mistake) };
        finds(&format!("{mistake:?}"), AT_MOST, model);
    }
}
