//! A body that runs once: callers of one key, a server with the lock and the record of the body.
//!
//! In the model: three callers. Each asks, waits, is granted the lock by a push or by its own request,
//! runs the body, and stores its result; a body may fail. Once, a caller is killed, or its lease ends and
//! it does not know.
//!
//! Left out, without losing an order of events:
//! - The order of the queue: a release grants the lock to any of those that wait, or to none. So
//!   the waiters that get the result, and those behind them, are the same here.
//! - Requests that are late: each is executed when it is sent, which may be at any moment.
//!
//! Found: the mistakes of [`Mistake`].

use stateright::{Model, Property};

use crate::{finds, holds};

type Caller = usize;
const CALLERS: Caller = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interrupted {
    Rerun,
    Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A caller looks with its first request alone.
    LooksOnce,
    /// A waiter that is granted the lock by a push runs without a look.
    RunsOnGrant,
    /// The lock is released in one step, and the result stored in the next.
    ReleasesFirst,
    /// A result is stored whoever has the lock.
    StoresWithoutComparing,
    /// A record that has begun counts as interrupted while its runner has the lock.
    TrustsTheRecord,
    /// A caller that gives the lock back forgets the record of another one.
    ForgetsAnyRecord,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Record {
    Started(Caller),
    Done(Caller),
}

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Does {
    Idle,
    Waits,
    /// The server has granted it the lock by a push.
    Pushed,
    Runs,
    /// Its body has ended well.
    Stores,
    /// With [`Mistake::ReleasesFirst`].
    HasReleased,
    /// It has returned the result of this one.
    Returned(Caller),
    /// It has returned an error.
    Failed,
    Dead,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    lock: Option<Caller>,
    record: Option<Record>,
    callers: [Does; CALLERS],
    /// Bodies that have begun, and that have failed.
    begun: u8,
    failed: u8,
    has_accident: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// It asks for the lock, for the first time or again. A release of it goes to this one.
    Asks(Caller, Option<Caller>),
    RunsOnGrant(Caller),
    Ends(Caller),
    Fails(Caller, Option<Caller>),
    Stores(Caller, Option<Caller>),
    Dies(Caller),
    /// Its lease ends, and it does not know; or it is dead.
    LeaseEnds(Caller),
}

struct Once {
    interrupted: Interrupted,
    mistake: Option<Mistake>,
}

impl Once {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn begins(state: &mut State, caller: Caller) {
        state.record = Some(Record::Started(caller));
        state.callers[caller] = Does::Runs;
        state.begun += 1;
    }

    /// The lock, if it is this caller's, goes to `next`, or is free.
    fn releases(state: &mut State, caller: Caller, next: Option<Caller>) {
        if state.lock != Some(caller) {
            return;
        }
        state.lock = next.filter(|next| state.callers[*next] == Does::Waits);
        if let Some(next) = state.lock {
            state.callers[next] = Does::Pushed;
        }
    }

    fn asks(&self, state: &mut State, caller: Caller, next: Option<Caller>) {
        let is_first = state.callers[caller] == Does::Idle;
        let looks = is_first || !self.has(Mistake::LooksOnce);
        if let Some(Record::Done(by)) = state.record
            && looks
        {
            state.callers[caller] = Does::Returned(by);
            Self::releases(state, caller, next);
            return;
        }
        let started_by_another = matches!(state.record, Some(Record::Started(by)) if by != caller);
        let is_interrupted = self.interrupted == Interrupted::Error && started_by_another;
        let is_held = state.lock.is_some_and(|holder| holder != caller);
        if is_held && !(self.has(Mistake::TrustsTheRecord) && is_interrupted) {
            state.callers[caller] = Does::Waits;
            return;
        }
        if is_interrupted {
            state.callers[caller] = Does::Failed;
            if self.has(Mistake::ForgetsAnyRecord) {
                state.record = None;
            }
            Self::releases(state, caller, next);
            return;
        }
        state.lock = Some(caller);
        Self::begins(state, caller);
    }
}

const ONE_RESULT: &str = "all that return have the same result";
const ONE_RUN: &str = "without an accident the body runs once";
const NOT_AGAIN: &str = "a body that was interrupted does not run again where that is an error";
const NOT_ALIVE: &str = "without an accident nobody takes it for interrupted";

impl Model for Once {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let callers = [Does::Idle; CALLERS];
        vec![State { lock: None, record: None, callers, begun: 0, failed: 0, has_accident: false }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for caller in 0..CALLERS {
            let nexts = (0..CALLERS).filter(|next| state.callers[*next] == Does::Waits && *next != caller);
            let nexts = || nexts.clone().map(Some).chain([None]);
            match state.callers[caller] {
                Does::Idle | Does::Waits => steps.extend(nexts().map(|next| Step::Asks(caller, next))),
                Does::Pushed if self.has(Mistake::RunsOnGrant) => steps.push(Step::RunsOnGrant(caller)),
                Does::Pushed => steps.extend(nexts().map(|next| Step::Asks(caller, next))),
                Does::Runs => {
                    steps.push(Step::Ends(caller));
                    if state.failed == 0 {
                        steps.extend(nexts().map(|next| Step::Fails(caller, next)));
                    }
                }
                Does::Stores | Does::HasReleased => {
                    steps.extend(nexts().map(|next| Step::Stores(caller, next)));
                }
                Does::Returned(_) | Does::Failed | Does::Dead => {}
            }
            let is_alive = !matches!(state.callers[caller], Does::Dead);
            if !state.has_accident && matches!(state.callers[caller], Does::Runs | Does::Stores) {
                steps.push(Step::Dies(caller));
            }
            if state.lock == Some(caller) && (!is_alive || !state.has_accident) {
                steps.push(Step::LeaseEnds(caller));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut state = state.clone();
        match step {
            Step::Asks(caller, next) => self.asks(&mut state, caller, next),
            Step::RunsOnGrant(caller) => Self::begins(&mut state, caller),
            Step::Ends(caller) => state.callers[caller] = Does::Stores,
            Step::Fails(caller, next) => {
                if state.lock == Some(caller) && state.record == Some(Record::Started(caller)) {
                    state.record = None;
                }
                state.callers[caller] = Does::Failed;
                state.failed += 1;
                Self::releases(&mut state, caller, next);
            }
            Step::Stores(caller, next) => {
                let compares = !self.has(Mistake::StoresWithoutComparing);
                let is_late = state.callers[caller] == Does::HasReleased;
                if !is_late && compares && state.lock != Some(caller) {
                    state.callers[caller] = Does::Failed;
                } else if !is_late && self.has(Mistake::ReleasesFirst) {
                    state.callers[caller] = Does::HasReleased;
                    Self::releases(&mut state, caller, next);
                } else {
                    state.record = Some(Record::Done(caller));
                    state.callers[caller] = Does::Returned(caller);
                    Self::releases(&mut state, caller, next);
                }
            }
            Step::Dies(caller) => {
                state.callers[caller] = Does::Dead;
                state.has_accident = true;
            }
            Step::LeaseEnds(_) => {
                state.has_accident = true;
                state.lock = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_RESULT, |_, state: &State| {
                let mut results = state.callers.iter().filter_map(|does| match does {
                    Does::Returned(by) => Some(*by),
                    _ => None,
                });
                let first = results.next();
                results.all(|by| Some(by) == first)
            }),
            Property::always(ONE_RUN, |_, state: &State| {
                state.has_accident || state.begun <= 1 + state.failed
            }),
            Property::always(NOT_AGAIN, |model: &Self, state: &State| {
                model.interrupted == Interrupted::Rerun || state.begun <= 1 + state.failed
            }),
            Property::always(NOT_ALIVE, |_, state: &State| {
                let failed = state.callers.iter().filter(|does| **does == Does::Failed).count();
                state.has_accident || failed <= usize::from(state.failed)
            }),
            Property::sometimes("a waiter that was granted the lock gets the result", |_, state: &State| {
                matches!(state.record, Some(Record::Done(_))) && state.callers.contains(&Does::Pushed)
            }),
            Property::sometimes("two get the result of the third", |_, state: &State| {
                state.callers.iter().all(|does| matches!(does, Does::Returned(_)))
            }),
        ]
    }
}

#[test]
fn three_callers() {
    for interrupted in [Interrupted::Rerun, Interrupted::Error] {
        holds(&format!("once, {interrupted:?}"), Once { interrupted, mistake: None });
    }
}

#[test]
fn each_mistake_is_found() {
    use Interrupted::{Error, Rerun};
    use Mistake as M;
    for (mistake, interrupted, property) in [
        (M::LooksOnce, Rerun, ONE_RUN),
        (M::RunsOnGrant, Rerun, ONE_RUN),
        (M::ReleasesFirst, Rerun, ONE_RUN),
        (M::StoresWithoutComparing, Rerun, ONE_RESULT),
        (M::TrustsTheRecord, Error, NOT_ALIVE),
        (M::ForgetsAnyRecord, Error, NOT_AGAIN),
    ] {
        let model = Once { interrupted, mistake: Some(mistake) };
        finds(&format!("once, {mistake:?}"), property, model);
    }
}
