//! Once per tick: replicas whose timers fire a little early and a little late, and a server that names
//! the tick of each call, keeps the record of the last one, and hands the lock on.
//!
//! In the model: one server with the lock, the record and its clock; two replicas, each of which calls
//! once for each of two ticks, a little early or a little late. A request may arrive as late as it likes,
//! and its reply may be lost once, so that it is sent again. A busy lock makes a caller wait, without a
//! limit; a release grants the lock to one that waits. Once, a caller is killed, loses its lock while it
//! runs, fails, or leaves before its body begins. What it has sent before may arrive after that.
//!
//! Left out, without losing an order of events:
//! - The lease, and the order of the queue: the lock of a dead holder, or of one whose release is late,
//!   ends at any moment, and a release grants it to one of the waiters. The model of the hand-off has both.
//! - A clock of the server that jumps, and calls where one tick ends and the next one begins: the scripts are tested with
//!   them.
//! - A caller that waits for a moment where the tick may be given back: it asks again, as any other that waits.
//!
//! Found: the mistakes of [`Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

use stateright::{Model, Property};

use crate::{finds, holds};

/// An attempt: replica 0 for tick 1 and 2, then replica 1.
type Caller = usize;
type Time = u8;

/// A tick lasts so long.
const TICK: Time = 4;
const CALLERS: Caller = 4;
/// The last call was before, and a request for it may arrive later.
const END: Time = 3 * TICK;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missed {
    Skip,
    Retry,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The server names the last full tick, also for a call that is a little early for the next one.
    Floor,
    /// The server names the tick of the arrival.
    NamesLate,
    /// A waiter that asks again is for the tick of then.
    WaiterNamesAnew,
    /// A tick that is retried is over with the grant.
    RetryRecordsAtGrant,
    /// A tick that is skipped is over with the release.
    SkipRecordsAtRelease,
    /// A waiter that is granted the lock runs without a look at the record.
    RunsOnGrant,
    /// A release ends the tick whoever has the lock.
    RecordsWithoutTheLock,
    /// A caller that leaves opens the tick of another one, too.
    UndoesAnyRecord,
    /// A caller whose reply was lost finds its own record.
    IsTakenByItself,
    /// A later tick that is over says nothing about this one.
    ComparesNoLaterTick,
}

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Does {
    Idle,
    /// Its request is on its way. `named`: as an earlier answer has told.
    Asks {
        named: Option<Time>,
    },
    /// The lock is its own, and the reply on its way.
    Granted {
        tick: Time,
    },
    Waits {
        tick: Time,
    },
    /// The server has granted it the lock by a push.
    Pushed {
        tick: Time,
    },
    Runs {
        tick: Time,
    },
    /// Its release is on its way.
    Releases {
        tick: Time,
        effect: Effect,
    },
    Ended,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Effect {
    None,
    Record,
    Undo,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    now: Time,
    lock: Option<Caller>,
    /// The last tick, and who has run it; nobody where it is still to be run.
    record: Option<(Time, Option<Caller>)>,
    callers: [Does; CALLERS],
    /// Bodies that have begun, and that have ended well, for each tick.
    begun: [u8; 2],
    well: [u8; 2],
    /// A body has begun for another tick than that of its call.
    is_of_another: bool,
    has_lost_a_reply: bool,
    has_accident: bool,
    /// A waiter has run what a killed one has left.
    took_over: bool,
    /// A caller has run the tick that another one has given back.
    is_given_back: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Pass,
    Call(Caller),
    /// The request arrives; its reply is lost.
    Arrive(Caller, bool),
    Receive(Caller),
    AskAgain(Caller),
    EndBody(Caller, bool),
    Release(Caller),
    /// Without a reply, or with it: its body has not begun.
    Leave(Caller),
    Kill(Caller),
    /// Its lease is over: its body is stopped.
    LoseLock(Caller),
    /// The lease of a dead holder is over, or of one whose release is late.
    Expire,
}

struct Ticks {
    /// How far the timers of the two replicas are from the full tick.
    off: [i8; 2],
    missed: Missed,
    mistake: Option<Mistake>,
}

const AT_MOST_ONCE: &str = "a body begins at most once for a tick that is skipped";
const ITS_OWN: &str = "a body is for the tick of its call";
const NOT_MISSED: &str =
    "without an accident a tick is run once, if its requests come before the next one is run";
const RETRIED: &str = "what a killed runner leaves is run by those that are left";
const OVER: &str = "a tick that is retried is over when a body has ended well";

fn tick_of(caller: Caller) -> Time {
    if caller.is_multiple_of(2) { 1 } else { 2 }
}

impl Ticks {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn due(&self, caller: Caller) -> Time {
        (TICK * tick_of(caller)).saturating_add_signed(self.off[caller / 2])
    }

    /// The tick of a call at this time.
    fn named(&self, at: Time) -> Time {
        if self.has(Mistake::Floor) { at / TICK } else { (at + TICK / 4) / TICK }
    }

    fn records_at_grant(&self) -> bool {
        match self.missed {
            Missed::Skip => !self.has(Mistake::SkipRecordsAtRelease),
            Missed::Retry => self.has(Mistake::RetryRecordsAtGrant),
        }
    }

    fn is_taken(&self, state: &State, caller: Caller, tick: Time) -> bool {
        state.record.is_some_and(|(last, by)| {
            let is_open = by.is_none() || by == Some(caller) && !self.has(Mistake::IsTakenByItself);
            last > tick && !self.has(Mistake::ComparesNoLaterTick) || last == tick && !is_open
        })
    }

    /// What the server makes of a request.
    fn arrive(&self, state: &mut State, caller: Caller, named: Option<Time>) -> Does {
        let is_late = self.has(Mistake::NamesLate) || named.is_some() && self.has(Mistake::WaiterNamesAnew);
        let asked = if is_late { state.now } else { self.due(caller) };
        let tick = named.filter(|_| !is_late).unwrap_or_else(|| self.named(asked));
        if self.is_taken(state, caller, tick) {
            if state.lock == Some(caller) {
                state.lock = None;
                self.grant(state);
            }
            return Does::Ended;
        }
        if state.lock.is_some_and(|holder| holder != caller) {
            return Does::Waits { tick };
        }
        state.lock = Some(caller);
        state.is_given_back |= state.record == Some((tick, None));
        if self.records_at_grant() {
            state.record = Some((tick, Some(caller)));
        }
        Does::Granted { tick }
    }

    /// A free lock goes to one that waits.
    fn grant(&self, state: &mut State) {
        let waits = |does: &Does| matches!(does, Does::Waits { .. });
        if let Some(next) = state.callers.iter().position(waits)
            && let Does::Waits { tick } = state.callers[next]
        {
            state.lock = Some(next);
            state.callers[next] = Does::Pushed { tick };
            if self.has(Mistake::RunsOnGrant) {
                Self::begin(state, next, tick);
            }
        }
    }

    fn begin(state: &mut State, caller: Caller, tick: Time) {
        state.callers[caller] = Does::Runs { tick };
        state.is_of_another |= tick != tick_of(caller);
        state.took_over |= state.callers.contains(&Does::Dead);
        if let Some(begun) = state.begun.get_mut(usize::from(tick).wrapping_sub(1)) {
            *begun += 1;
        }
    }

    fn release(&self, state: &mut State, caller: Caller, tick: Time, effect: Effect) {
        let is_held = state.lock == Some(caller);
        let by = state.record.and_then(|(_, by)| by);
        match effect {
            Effect::Record if is_held || self.has(Mistake::RecordsWithoutTheLock) => {
                state.record = Some((tick, Some(caller)));
            }
            Effect::Undo if by == Some(caller) || by.is_some() && self.has(Mistake::UndoesAnyRecord) => {
                state.record = state.record.map(|(last, _)| (last, None));
            }
            _ => {}
        }
        if is_held {
            state.lock = None;
            self.grant(state);
        }
    }
}

impl Model for Ticks {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            lock: None,
            record: None,
            callers: [Does::Idle; CALLERS],
            begun: [0; 2],
            well: [0; 2],
            is_of_another: false,
            has_lost_a_reply: false,
            has_accident: false,
            took_over: false,
            is_given_back: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_due = |caller: Caller| state.callers[caller] == Does::Idle && self.due(caller) == state.now;
        if state.now < END && !(0..CALLERS).any(is_due) {
            actions.push(Action::Pass);
        }
        let may_fail = !state.has_accident;
        for caller in 0..CALLERS {
            match state.callers[caller] {
                Does::Idle if is_due(caller) => actions.push(Action::Call(caller)),
                Does::Idle | Does::Ended | Does::Dead => {}
                Does::Asks { .. } => {
                    actions.push(Action::Arrive(caller, false));
                    if !state.has_lost_a_reply {
                        actions.push(Action::Arrive(caller, true));
                    }
                }
                Does::Granted { .. } => {
                    actions.push(Action::Receive(caller));
                    actions.extend(may_fail.then_some(Action::Leave(caller)));
                }
                Does::Waits { .. } | Does::Pushed { .. } => actions.push(Action::AskAgain(caller)),
                Does::Runs { .. } => {
                    actions.push(Action::EndBody(caller, true));
                    if may_fail {
                        actions.extend([
                            Action::EndBody(caller, false),
                            Action::Kill(caller),
                            Action::LoseLock(caller),
                        ]);
                    }
                }
                Does::Releases { .. } => actions.push(Action::Release(caller)),
            }
        }
        let holds_on = |holder: Caller| matches!(state.callers[holder], Does::Dead | Does::Releases { .. });
        if state.lock.is_some_and(holds_on) {
            actions.push(Action::Expire);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Pass => state.now += 1,
            Action::Call(caller) => state.callers[caller] = Does::Asks { named: None },
            Action::Arrive(caller, is_lost) => {
                let Does::Asks { named } = state.callers[caller] else { return None };
                let does = self.arrive(&mut state, caller, named);
                // It asks again, over the next connection.
                state.callers[caller] = if is_lost { Does::Asks { named } } else { does };
                state.has_lost_a_reply |= is_lost;
            }
            Action::AskAgain(caller) => {
                let (Does::Waits { tick } | Does::Pushed { tick }) = state.callers[caller] else {
                    return None;
                };
                state.callers[caller] = self.arrive(&mut state, caller, Some(tick));
            }
            Action::Receive(caller) => {
                let Does::Granted { tick } = state.callers[caller] else { return None };
                Self::begin(&mut state, caller, tick);
            }
            Action::EndBody(caller, is_well) => {
                let Does::Runs { tick } = state.callers[caller] else { return None };
                state.has_accident |= !is_well;
                if is_well && let Some(well) = state.well.get_mut(usize::from(tick).wrapping_sub(1)) {
                    *well += 1;
                }
                let records = match self.missed {
                    Missed::Retry => is_well && !self.has(Mistake::RetryRecordsAtGrant),
                    Missed::Skip => self.has(Mistake::SkipRecordsAtRelease),
                };
                let effect = if records { Effect::Record } else { Effect::None };
                state.callers[caller] = Does::Releases { tick, effect };
            }
            Action::Release(caller) => {
                let Does::Releases { tick, effect } = state.callers[caller] else { return None };
                state.callers[caller] = Does::Ended;
                self.release(&mut state, caller, tick, effect);
            }
            Action::Leave(caller) => {
                let Does::Granted { tick } = state.callers[caller] else { return None };
                state.has_accident = true;
                let effect = if self.records_at_grant() { Effect::Undo } else { Effect::None };
                state.callers[caller] = Does::Releases { tick, effect };
            }
            Action::Kill(caller) => {
                state.has_accident = true;
                state.callers[caller] = Does::Dead;
            }
            Action::LoseLock(caller) => {
                let Does::Runs { tick } = state.callers[caller] else { return None };
                state.has_accident = true;
                state.lock = None;
                // Stopped in the middle; its release says nothing of its tick.
                let says = self.missed == Missed::Retry && self.has(Mistake::RecordsWithoutTheLock);
                let effect = if says { Effect::Record } else { Effect::None };
                state.callers[caller] = Does::Releases { tick, effect };
                self.grant(&mut state);
            }
            Action::Expire => {
                state.has_accident = true;
                state.lock = None;
                self.grant(&mut state);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn is_over(state: &State) -> bool {
            state.callers.iter().all(|does| matches!(does, Does::Ended | Does::Dead))
        }
        let mut properties = vec![
            Property::always(AT_MOST_ONCE, |model: &Self, state: &State| {
                model.missed == Missed::Retry || state.begun.iter().all(|begun| *begun <= 1)
            }),
            Property::always(ITS_OWN, |_, state: &State| !state.is_of_another),
            Property::always(NOT_MISSED, |_, state: &State| {
                let is_run = state.begun[0] <= 1 && state.begun[1] == 1;
                !is_over(state) || state.has_accident || is_run
            }),
            // At most one of the two callers of a tick has died.
            Property::always(RETRIED, |model: &Self, state: &State| {
                let is_killed = state.callers.contains(&Does::Dead);
                let later = state.record.map_or(0, |(last, _)| last);
                model.missed == Missed::Skip
                    || !is_over(state)
                    || !is_killed
                    || (1..=2).all(|tick| state.well[tick - 1] > 0 || usize::from(later) > tick)
            }),
            Property::always(OVER, |model: &Self, state: &State| {
                let last = state.record.and_then(|(last, by)| by.map(|_| usize::from(last)));
                let is_well = last
                    .is_none_or(|last| state.well.get(last.wrapping_sub(1)).is_some_and(|well| *well > 0));
                model.missed == Missed::Skip || is_well
            }),
            Property::sometimes("both ticks are run", |_, state: &State| state.begun == [1, 1]),
            Property::sometimes("a waiter is pushed the lock", |_, state: &State| {
                state.callers.iter().any(|does| matches!(does, Does::Pushed { .. }))
            }),
        ];
        if self.missed == Missed::Skip {
            properties.push(Property::sometimes("a tick that is given back is run", |_, state: &State| {
                state.is_given_back
            }));
        }
        if self.missed == Missed::Retry {
            properties
                .push(Property::sometimes("a waiter runs what a killed one left", |_, state: &State| {
                    state.took_over
                }));
        }
        properties
    }
}

#[test]
fn two_replicas_and_two_ticks() {
    for missed in [Missed::Skip, Missed::Retry] {
        for off in [[-1, 1], [1, -1], [0, 0], [-1, -1]] {
            holds(&format!("ticks, {missed:?}, {off:?}"), Ticks { off, missed, mistake: None });
        }
    }
}

#[test]
fn each_mistake_is_found() {
    use Mistake as M;
    for (mistake, missed, property) in [
        (M::Floor, Missed::Skip, ITS_OWN),
        (M::NamesLate, Missed::Skip, ITS_OWN),
        (M::WaiterNamesAnew, Missed::Retry, ITS_OWN),
        (M::RetryRecordsAtGrant, Missed::Retry, OVER),
        (M::SkipRecordsAtRelease, Missed::Skip, AT_MOST_ONCE),
        (M::RunsOnGrant, Missed::Retry, NOT_MISSED),
        (M::RecordsWithoutTheLock, Missed::Retry, OVER),
        (M::UndoesAnyRecord, Missed::Skip, AT_MOST_ONCE),
        (M::IsTakenByItself, Missed::Skip, NOT_MISSED),
        (M::ComparesNoLaterTick, Missed::Skip, AT_MOST_ONCE),
    ] {
        finds(
            &format!("ticks, {mistake:?}"),
            property,
            Ticks { off: [-1, 1], missed, mistake: Some(mistake) },
        );
    }
}
