//! A first waiter that keeps out others with room: it is passed over if its process does not answer a hint within a claim,
//! and only then.
//!
//! The server has no field for the answer: whoever asks makes the queue last for its full time again, and the hint makes it
//! last for a claim less. So the life of the queue says whether the first waiter has asked since. The model shows that
//! this says the same as a list of what each caller has done.
//!
//! In the model: a lock that a reader holds; two writers in the queue, each of a process that may be stopped for a while or
//! for good; a reader with room behind them; another writer, whose requests touch the same queue. Each asks whenever it
//! likes. A waiter that was passed over asks again, behind the others.
//!
//! Left out, without losing an order of events: replies and pushes, because a caller may ask at any moment whatever it has
//! heard; the end of the queue, which is far away; several readers, each of which does what one does.
//!
//! Found: the mistakes of [`Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

use stateright::{Model, Property};

use crate::{finds, holds};

type Time = u8;
type Caller = usize;

/// The reader with room. The others are writers, of a process each.
const READER: Caller = 3;
const CALLERS: usize = 4;

const CLAIM: Time = 2;
const QUEUE_TTL: Time = 20;
/// The last moment.
const END: Time = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A hint leaves the life of the queue as it is.
    HintKeepsTheLife,
    /// A request of another process makes the queue last for its full time.
    OthersAnswer,
    /// A request of another process makes it look unanswered, whatever was there.
    OthersHideTheAnswer,
    /// The first waiter is passed over as soon as somebody asks behind the hint.
    WaitsForNoClaim,
    /// The hint that another waiter got counts for the one that is the first now.
    ComparesNoWaiter,
    /// One hint is all that a waiter gets.
    HintsOnce,
}

/// A hint: when, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Hint {
    since: Time,
    to: Caller,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    now: Time,
    queue: Vec<Caller>,
    queue_ends: Time,
    hint: Option<Hint>,
    is_inside: bool,
    /// What has happened: the last hint to the first waiter, and when each caller has asked last.
    hinted: Option<Hint>,
    asked: [Time; CALLERS],
    /// A waiter was passed over that had answered, or had no time to.
    is_wronged: bool,
    /// The reader stayed outside behind a waiter that had not answered.
    is_kept_out: bool,
    /// The reader stayed outside, and no hint is on its way that lets it in.
    is_forgotten: bool,
    has_passed_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Pass,
    Ask(Caller),
    /// The first waiter gives up.
    Leave,
}

struct Front {
    mistake: Option<Mistake>,
}

const KEEPS_ITS_PLACE: &str = "a first waiter that answers within a claim keeps its place";
const GETS_IN: &str = "behind one that has not answered, a caller with room enters";
const HAS_A_HINT: &str = "a caller with room that stays outside has sent a hint, at most a claim ago";
const PASSES_OVER: &str = "a first waiter is passed over";

impl Front {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The hint, and whether the life of the queue says that it was answered.
    fn find_hinted(state: &State, caller: Caller) -> Option<(Hint, bool)> {
        let hint = state.hint?;
        let left = state.queue_ends - state.now;
        let waited = state.now - hint.since;
        Some((hint, hint.to == caller || left > QUEUE_TTL - CLAIM / 2 - waited))
    }

    fn ask(&self, state: &mut State, caller: Caller) {
        let mut hinted = Self::find_hinted(state, caller);
        let has_room = caller == READER;
        if has_room {
            self.pass_over(state, &mut hinted);
            if state.queue.iter().all(|waiter| *waiter == READER) {
                state.queue.clear();
                state.is_inside = true;
                return;
            }
        }
        if !state.queue.contains(&caller) {
            state.queue.push(caller);
        }
        state.queue_ends = state.now + QUEUE_TTL;
        if let Some((hint, answers)) = hinted {
            let hides = self.has(Mistake::OthersHideTheAnswer) && hint.to != caller;
            if (!answers || hides) && !self.has(Mistake::OthersAnswer) {
                state.queue_ends = state.now + QUEUE_TTL - CLAIM - (state.now - hint.since);
            }
        }
        if has_room && state.queue[0] != READER {
            self.hint_first(state, hinted);
        }
    }

    fn pass_over(&self, state: &mut State, hinted: &mut Option<(Hint, bool)>) {
        let (Some((hint, false)), Some(first)) = (*hinted, state.queue.first().copied()) else { return };
        let is_due = state.now - hint.since >= CLAIM || self.has(Mistake::WaitsForNoClaim);
        if !is_due || first != hint.to && !self.has(Mistake::ComparesNoWaiter) {
            return;
        }
        state.is_wronged |= !state.is_silent(first);
        state.has_passed_over = true;
        state.queue.remove(0);
        (state.hint, state.hinted) = (None, None);
        *hinted = None;
    }

    fn hint_first(&self, state: &mut State, hinted: Option<(Hint, bool)>) {
        let first = state.queue[0];
        let is_old = |hint: Hint| state.now - hint.since >= CLAIM && !self.has(Mistake::HintsOnce);
        if hinted.is_none_or(|(hint, _)| hint.to != first || is_old(hint)) {
            let hint = Hint { since: state.now, to: first };
            (state.hint, state.hinted) = (Some(hint), Some(hint));
            if !self.has(Mistake::HintKeepsTheLife) {
                state.queue_ends = state.now + QUEUE_TTL - CLAIM;
            }
        }
    }
}

impl State {
    /// The waiter got a hint a claim ago, or before, and has not asked since.
    fn is_silent(&self, waiter: Caller) -> bool {
        self.hinted.is_some_and(|hint| {
            hint.to == waiter && self.now - hint.since >= CLAIM && self.asked[waiter] <= hint.since
        })
    }
}

impl Model for Front {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            queue: vec![0, 1],
            queue_ends: QUEUE_TTL,
            hint: None,
            is_inside: false,
            hinted: None,
            asked: [0; CALLERS],
            is_wronged: false,
            is_kept_out: false,
            is_forgotten: false,
            has_passed_over: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_inside {
            return;
        }
        if state.now < END {
            actions.push(Action::Pass);
        }
        actions.extend((0..CALLERS).map(Action::Ask));
        if state.queue.first().is_some_and(|first| *first != READER) {
            actions.push(Action::Leave);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Pass => state.now += 1,
            Action::Leave => {
                state.queue.remove(0);
            }
            Action::Ask(caller) => {
                let first = last.queue.first().copied();
                let is_behind_a_silent_one = first.is_some_and(|first| last.is_silent(first));
                self.ask(&mut state, caller);
                // A request that comes with the hint is no answer to it.
                let is_hinted_now =
                    last.hinted.is_some_and(|hint| hint.to == caller && hint.since == last.now);
                state.asked[caller] =
                    if is_hinted_now { last.now + 1 } else { last.now.max(last.asked[caller]) };
                if caller == READER && !state.is_inside {
                    let first_now = state.queue.first().copied();
                    state.is_kept_out |= is_behind_a_silent_one && first == first_now;
                    state.is_forgotten |= state.queue[0] != READER
                        && !state
                            .hinted
                            .is_some_and(|hint| Some(hint.to) == first_now && state.now - hint.since < CLAIM);
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEEPS_ITS_PLACE, |_, state: &State| !state.is_wronged),
            Property::always(GETS_IN, |_, state: &State| !state.is_kept_out),
            Property::always(HAS_A_HINT, |_, state: &State| !state.is_forgotten),
            Property::sometimes(PASSES_OVER, |_, state: &State| state.has_passed_over && state.is_inside),
        ]
    }
}

#[test]
fn a_first_waiter_is_passed_over_only_if_it_does_not_answer() {
    holds("a first waiter that keeps out others", Front { mistake: None });
}

#[test]
fn each_mistake_with_the_first_waiter_is_found() {
    for (mistake, property) in [
        (Mistake::HintKeepsTheLife, GETS_IN),
        (Mistake::OthersAnswer, GETS_IN),
        (Mistake::OthersHideTheAnswer, KEEPS_ITS_PLACE),
        (Mistake::WaitsForNoClaim, KEEPS_ITS_PLACE),
        (Mistake::ComparesNoWaiter, KEEPS_ITS_PLACE),
        (Mistake::HintsOnce, HAS_A_HINT),
    ] {
        finds(&format!("{mistake:?}"), property, Front { mistake: Some(mistake) });
    }
}
