//! The central limit: an operator sets how many permits a key has, raises, lowers and clears the number, while callers with
//! other numbers hold permits, wait and leave.
//!
//! In the model: one server with the value of the lock, its holders, its queue and the central limit; callers with numbers and
//! weights of their own, also readers and an exclusive caller. They ask, wait, ask again, cancel, and leave, as often as they
//! like. A lease may end at any moment: its member stays among the holders until a script reads them.
//! The short way of a request is a way of its own: it trusts the value of the lock, and counts members whose lease is over.
//!
//! Left out, without losing an order of events:
//! - Messages that take a while: a script runs at one moment, and a caller asks, or an operator sets, at any moment.
//! - A lost reply: whoever repeats a call has the same token, and a second set changes nothing.
//! - Waiters that are dead, or do not answer: they leave the queue in the same place of the script as a waiter that takes more
//!   permits than there are.
//! - The end of an exclusive lease, which is not the concern of a set: the waiters know it, and ask. `hand_off/` has that.
//!
//! Found: the mistakes of [`Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

use stateright::{Model, Property};

use crate::{finds, holds};

type Caller = usize;
type Permits = u8;

/// What a caller gives: its number, 0 for a reader, 1 for an exclusive caller; and how many permits it takes.
type Own = (Permits, Permits);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A set writes the number, and admits nobody.
    RaiseAdmitsNobody,
    /// A set admits one waiter, and leaves the rest to the next release.
    RaiseAdmitsOne,
    /// A set admits waiters by the number that counted before.
    AdmitsByOldNumber,
    /// A clear removes the number, and admits nobody.
    ClearAdmitsNobody,
    /// A clear keeps the number.
    ClearKeeps,
    /// A set writes the number into the value of the lock, too, as the least limit of its holders.
    StaysInTheValue,
    /// The last holder that leaves takes the number with it.
    EndsWithTheLock,
    /// The short way beside others counts the number of the caller.
    ShortWayBesideOthers,
    /// The short way to a free lock does not compare the weight.
    ShortWayToAFreeLock,
    /// The short way takes the key of the queue for the key of the number.
    ShortWayPastTheQueue,
    /// A lower number takes the places of those that are too many.
    LoweringEvicts,
    /// The smaller number counts, the central one or the callers'.
    SmallerCounts,
    /// The larger number counts.
    LargerCounts,
    /// The number counts in place of the number of an exclusive caller.
    CountsForExclusive,
    /// The number counts for readers among themselves.
    CountsForReaders,
    /// A waiter that takes more permits than there are stays in front.
    HeavyStays,
    /// It leaves, and is not told.
    HeavyIsNotTold,
    /// A caller that takes several permits is refused where too many of them are taken.
    RefusesWithoutRoom,
    /// Waiters behind the front enter if they have room, and the front has none.
    PassesTheFront,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Does {
    Nothing,
    Waits,
    /// Its place in the queue is gone, and it was told.
    IsTold,
    /// It was refused, and gives back the place that it may have.
    IsRefused,
    Holds,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Holder {
    caller: Caller,
    is_over: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    central: Option<Permits>,
    /// The least limit of a holder, or of one that has left; 1 while one has several permits. 0 while the lock is free.
    least: Permits,
    holders: Vec<Holder>,
    queue: Vec<Caller>,
    callers: Vec<Does>,
    /// What the operator has set, as it knows it.
    wanted: Option<Permits>,
    is_too_many: bool,
    is_too_many_by_callers: bool,
    is_beside_exclusive: bool,
    is_left_waiting: bool,
    is_left_by_a_set: bool,
    is_robbed: bool,
    is_passed: bool,
    is_kept_out: bool,
    is_wronged: bool,
    /// What the last set did: for what is seen sometimes.
    admitted_by_set: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Ask(Caller),
    Cancel(Caller),
    Leave(Caller),
    /// Its lease ends.
    Expire(Caller),
    Set(Permits),
    Clear,
}

struct Central {
    own: Vec<Own>,
    mistake: Option<Mistake>,
}

const AT_MOST: &str = "whoever enters finds room within the number that is set";
const BY_CALLERS: &str = "without a number, whoever enters finds room within the numbers of the callers";
const ALONE: &str = "an exclusive caller is alone";
const SET_ADMITS: &str = "a set or a clear leaves no waiter in front beside room";
const ALL_ADMIT: &str = "no script that reads the queue leaves a waiter in front beside room";
const KEEPS_PLACE: &str = "a set takes nobody's place";
const NOT_PASSED: &str = "nobody passes a waiter in front";
const KEEPS_NOBODY_OUT: &str = "a waiter that takes more permits than there are keeps nobody out";
const IS_QUEUED: &str = "whoever waits is in the queue";
const IS_REFUSED_RIGHTLY: &str = "a caller is refused only where it takes more permits than there are";
const TWO_AT_ONCE: &str = "a set admits two waiters at once";
const OVER_A_LOWER_ONE: &str = "more are inside than a lower number allows";
const ABOVE_THEIR_NUMBERS: &str = "more are inside than their numbers allow";
const A_REFUSAL: &str = "a caller is refused";

/// The least of two limits, where 0 is any number.
fn least(one: Permits, other: Permits) -> Permits {
    if one == 0 || other != 0 && other < one { other } else { one }
}

impl Central {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn weight_of(&self, holders: &[Holder]) -> Permits {
        holders.iter().map(|holder| self.own[holder.caller].1).sum()
    }

    fn least_of(&self, holders: &[Holder]) -> Permits {
        holders.iter().fold(0, |so_far, holder| least(so_far, self.own[holder.caller].0))
    }

    /// An exclusive caller has the lock, whose value then is another one.
    fn is_exclusive(&self, state: &State) -> bool {
        self.least_of(&state.holders) == 1
    }

    /// How many may be inside if the callers demand this number, as the scripts know it.
    fn allowed(&self, number: Permits, central: Option<Permits>) -> Permits {
        match (central, number) {
            (None, _) => number,
            (Some(_), 0) if !self.has(Mistake::CountsForReaders) => number,
            (Some(_), 1) if !self.has(Mistake::CountsForExclusive) => number,
            (Some(central), _) if self.has(Mistake::SmallerCounts) => least(central, number),
            (Some(central), _) if self.has(Mistake::LargerCounts) => central.max(number),
            (Some(central), _) => central,
        }
    }

    fn has_room(&self, state: &State, caller: Caller, central: Option<Permits>) -> bool {
        let (number, weight) = self.own[caller];
        let most = self.allowed(least(number, self.least_of(&state.holders)), central);
        state.holders.is_empty() || most == 0 || self.weight_of(&state.holders) + weight <= most
    }

    /// The script reads the holders: those whose lease is over leave.
    fn read_holders(state: &mut State) {
        state.holders.retain(|holder| !holder.is_over);
    }

    fn admit(&self, state: &mut State, caller: Caller) {
        let (number, weight) = self.own[caller];
        let inside = if state.holders.is_empty() { 0 } else { state.least };
        state.least = if weight > 1 { 1 } else { least(inside, number) };
        state.holders.push(Holder { caller, is_over: false });
        state.holders.sort_unstable_by_key(|holder| (holder.caller, holder.is_over));
        state.queue.retain(|waiter| *waiter != caller);
        state.callers[caller] = Does::Holds;
    }

    /// Admits the waiters in front as long as there is room, `at_most` so many.
    fn admit_waiters(&self, state: &mut State, central: Option<Permits>, at_most: usize) {
        let (mut at, mut admitted) = (0, 0);
        while at < state.queue.len() && admitted < at_most {
            let next = state.queue[at];
            let (number, weight) = self.own[next];
            let is_heavy = weight > 1 && weight > self.allowed(number, central);
            if is_heavy && !self.has(Mistake::HeavyStays) {
                state.queue.remove(at);
                if !self.has(Mistake::HeavyIsNotTold) {
                    state.callers[next] = Does::IsTold;
                }
            } else if !is_heavy && self.has_room(state, next, central) {
                self.admit(state, next);
                admitted += 1;
            } else if self.has(Mistake::PassesTheFront) {
                at += 1;
            } else {
                break;
            }
        }
        if state.holders.is_empty() {
            self.is_free_now(state);
        }
    }

    fn is_free_now(&self, state: &mut State) {
        state.least = 0;
        if self.has(Mistake::EndsWithTheLock) {
            state.central = None;
        }
    }

    /// The short way of a first request. True when the caller has entered.
    fn short_way(&self, state: &mut State, caller: Caller) -> bool {
        let (number, weight) = self.own[caller];
        let takes_the_queue_for_it = self.has(Mistake::ShortWayPastTheQueue) && state.central.is_none();
        if !state.queue.is_empty() && !takes_the_queue_for_it {
            return false;
        }
        if state.holders.is_empty() {
            let is_heavy = weight > 1 && state.central.is_some_and(|central| weight > central);
            if !is_heavy || self.has(Mistake::ShortWayToAFreeLock) {
                self.admit(state, caller);
                return true;
            }
            return false;
        }
        // An exclusive lock has another value.
        if number == 1 || self.is_exclusive(state) {
            return false;
        }
        let central = state.central.filter(|_| !self.has(Mistake::ShortWayBesideOthers));
        let limit = central.unwrap_or(number);
        let has_room = if state.least == number && weight == 1 {
            number == 0 || state.holders.len() < usize::from(limit)
        } else {
            let has_same_number = state.holders.iter().all(|holder| self.own[holder.caller].0 == number);
            let may_be = number != 0 && (state.least == 1 || state.least == number) && has_same_number;
            may_be && self.weight_of(&state.holders) + weight <= limit
        };
        if has_room {
            self.admit(state, caller);
        }
        has_room
    }

    fn ask(&self, state: &mut State, caller: Caller) {
        let has_waited = state.callers[caller] == Does::Waits;
        if !has_waited && self.short_way(state, caller) {
            return;
        }
        Self::read_holders(state);
        let (number, weight) = self.own[caller];
        let most = self.allowed(number, state.central);
        let is_refused = weight > most && !self.has(Mistake::HeavyStays);
        let is_full = self.has(Mistake::RefusesWithoutRoom) && !self.has_room(state, caller, state.central);
        if weight > 1 && (is_refused || is_full) {
            state.is_wronged |= state.wanted.is_none_or(|wanted| weight <= wanted);
            state.callers[caller] = Does::IsRefused;
            return;
        }
        if !state.queue.contains(&caller) {
            state.queue.push(caller);
            state.callers[caller] = Does::Waits;
        }
        if !self.is_exclusive(state) {
            self.admit_waiters(state, state.central, usize::MAX);
        }
    }

    fn set(&self, state: &mut State, to: Option<Permits>) {
        let before = state.central;
        state.wanted = to;
        if to.is_some() || !self.has(Mistake::ClearKeeps) {
            state.central = to;
        }
        // A lock that is free, or held by an exclusive caller, has another value.
        if state.holders.is_empty() || self.is_exclusive(state) {
            return;
        }
        Self::read_holders(state);
        if self.has(Mistake::LoweringEvicts) {
            let most = to.unwrap_or(Permits::MAX);
            while self.weight_of(&state.holders) > most {
                let last = state.holders.pop();
                state.callers[last.map_or(0, |holder| holder.caller)] = Does::IsTold;
            }
        }
        if let (true, Some(to)) = (self.has(Mistake::StaysInTheValue) && !state.holders.is_empty(), to) {
            state.least = to;
        }
        let at_most = match self.mistake {
            Some(Mistake::RaiseAdmitsNobody) if to.is_some() => 0,
            Some(Mistake::ClearAdmitsNobody) if to.is_none() => 0,
            Some(Mistake::RaiseAdmitsOne) => 1,
            _ => usize::MAX,
        };
        let central = if self.has(Mistake::AdmitsByOldNumber) { before } else { state.central };
        self.admit_waiters(state, central, at_most);
    }

    /// What the design promises: whether so many permits may be inside together, `None` for any number.
    fn promised(&self, holders: &[Holder], wanted: Option<Permits>) -> Option<Permits> {
        let numbers = holders.iter().map(|holder| self.own[holder.caller].0);
        if numbers.clone().any(|number| number == 1) {
            return Some(1);
        }
        let least = numbers.filter(|number| *number > 0).min()?;
        Some(wanted.unwrap_or(least))
    }

    /// Judges what one script has done.
    fn judge(&self, before: &State, state: &mut State, action: Action) {
        let is_set = matches!(action, Action::Set(_) | Action::Clear);
        let is_inside = |of: &State, caller| of.callers[caller] == Does::Holds;
        let callers = 0..self.own.len();
        let new: Vec<Caller> =
            callers.clone().filter(|at| is_inside(state, *at) && !is_inside(before, *at)).collect();
        let holders: Vec<Holder> = state.holders.iter().filter(|holder| !holder.is_over).copied().collect();
        if !new.is_empty() {
            let is_too_many =
                self.promised(&holders, state.wanted).is_some_and(|most| self.weight_of(&holders) > most);
            let is_with_exclusive = self.least_of(&holders) == 1;
            state.is_beside_exclusive |= is_too_many && is_with_exclusive;
            state.is_too_many |= is_too_many && !is_with_exclusive && state.wanted.is_some();
            state.is_too_many_by_callers |= is_too_many && !is_with_exclusive && state.wanted.is_none();
        }
        // Whoever waited before, and waits on, was in front of those that came behind it.
        let place_of = |caller| before.queue.iter().position(|waiter| *waiter == caller);
        state.is_passed |= state.queue.iter().filter_map(|waiter| place_of(*waiter)).any(|its_place| {
            new.iter().any(|caller| place_of(*caller).is_none_or(|place| place > its_place))
        });
        state.is_robbed |= is_set && callers.clone().any(|at| is_inside(before, at) && !is_inside(state, at));
        state.admitted_by_set = if is_set { u8::try_from(new.len()).unwrap_or(u8::MAX) } else { 0 };
        let is_exclusive = self.is_exclusive(before);
        let is_read = match action {
            // A set does nothing to a lock that is free, or exclusive.
            Action::Set(_) | Action::Clear => !before.holders.is_empty() && !is_exclusive,
            // The caller that is refused gives back its place, and that call admits.
            Action::Ask(caller) => !is_exclusive && state.callers[caller] != Does::IsRefused,
            // A waiter that leaves an exclusive lock makes no room.
            Action::Cancel(caller) | Action::Leave(caller) => !is_exclusive || is_inside(before, caller),
            Action::Expire(_) => false,
        };
        let Some(&front) = state.queue.first().filter(|_| is_read) else { return };
        let (number, weight) = self.own[front];
        let is_heavy = number > 1 && weight > state.wanted.unwrap_or(number);
        let with_it: Vec<Holder> =
            holders.iter().copied().chain([Holder { caller: front, is_over: false }]).collect();
        let has_room =
            self.promised(&with_it, state.wanted).is_none_or(|most| self.weight_of(&with_it) <= most);
        state.is_kept_out |= is_heavy;
        state.is_left_by_a_set |= is_set && has_room;
        state.is_left_waiting |= has_room;
    }
}

impl Model for Central {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            central: None,
            least: 0,
            holders: Vec::new(),
            queue: Vec::new(),
            callers: vec![Does::Nothing; self.own.len()],
            wanted: None,
            is_too_many: false,
            is_too_many_by_callers: false,
            is_beside_exclusive: false,
            is_left_waiting: false,
            is_left_by_a_set: false,
            is_robbed: false,
            is_passed: false,
            is_kept_out: false,
            is_wronged: false,
            admitted_by_set: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (caller, does) in state.callers.iter().enumerate() {
            match does {
                Does::Nothing | Does::IsTold => actions.push(Action::Ask(caller)),
                Does::IsRefused => actions.push(Action::Cancel(caller)),
                Does::Waits => actions.extend([Action::Ask(caller), Action::Cancel(caller)]),
                Does::Holds => {
                    actions.push(Action::Leave(caller));
                    let is_exclusive = self.own[caller].0 == 1;
                    let has_one =
                        state.holders.iter().any(|holder| holder.caller == caller && holder.is_over);
                    if !is_exclusive && !has_one {
                        actions.push(Action::Expire(caller));
                    }
                }
            }
        }
        actions.extend((1..=4).filter(|to| state.wanted != Some(*to)).map(Action::Set));
        if state.wanted.is_some() {
            actions.push(Action::Clear);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(caller) => self.ask(&mut state, caller),
            Action::Cancel(caller) | Action::Leave(caller) => {
                state.holders.retain(|holder| holder.caller != caller || holder.is_over);
                state.queue.retain(|waiter| *waiter != caller);
                state.callers[caller] = Does::Nothing;
                if !self.is_exclusive(&state) {
                    Self::read_holders(&mut state);
                    self.admit_waiters(&mut state, last.central, usize::MAX);
                }
            }
            Action::Expire(caller) => {
                let its = state.holders.iter_mut().find(|its| its.caller == caller && !its.is_over)?;
                its.is_over = true;
                state.callers[caller] = Does::Nothing;
                state.holders.sort_unstable_by_key(|holder| (holder.caller, holder.is_over));
            }
            Action::Set(to) => self.set(&mut state, Some(to)),
            Action::Clear => self.set(&mut state, None),
        }
        self.judge(last, &mut state, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(AT_MOST, |_, state: &State| !state.is_too_many),
            Property::always(BY_CALLERS, |_, state: &State| !state.is_too_many_by_callers),
            Property::always(ALONE, |_, state: &State| !state.is_beside_exclusive),
            Property::always(SET_ADMITS, |_, state: &State| !state.is_left_by_a_set),
            Property::always(ALL_ADMIT, |_, state: &State| !state.is_left_waiting),
            Property::always(KEEPS_PLACE, |_, state: &State| !state.is_robbed),
            Property::always(NOT_PASSED, |_, state: &State| !state.is_passed),
            Property::always(KEEPS_NOBODY_OUT, |_, state: &State| !state.is_kept_out),
            Property::always(IS_QUEUED, |model: &Self, state: &State| {
                let is_queued = |caller| state.queue.contains(&caller);
                (0..model.own.len()).all(|at| state.callers[at] != Does::Waits || is_queued(at))
            }),
            Property::always(IS_REFUSED_RIGHTLY, |_, state: &State| !state.is_wronged),
            Property::sometimes(TWO_AT_ONCE, |_, state: &State| state.admitted_by_set >= 2),
            Property::sometimes(OVER_A_LOWER_ONE, |model: &Self, state: &State| {
                model
                    .promised(&state.holders, state.wanted)
                    .is_some_and(|most| state.wanted.is_some() && model.weight_of(&state.holders) > most)
            }),
            Property::sometimes(ABOVE_THEIR_NUMBERS, |model: &Self, state: &State| {
                let by_callers = model.promised(&state.holders, None);
                by_callers.is_some_and(|most| model.weight_of(&state.holders) > most)
            }),
            Property::sometimes(A_REFUSAL, |_, state: &State| state.callers.contains(&Does::IsRefused)),
        ]
    }
}

/// Callers with permits: one with a smaller number, two that take several.
fn permits() -> Vec<Own> {
    vec![(2, 1), (3, 2), (3, 1), (3, 1), (4, 3)]
}

/// Two readers, an exclusive caller, and two with permits.
fn kinds() -> Vec<Own> {
    vec![(0, 1), (1, 1), (3, 2), (0, 1), (2, 1)]
}

#[test]
fn a_central_limit_counts_from_its_set_on() {
    holds("a central limit, permits", Central { own: permits(), mistake: None });
    holds("a central limit, all kinds", Central { own: kinds(), mistake: None });
}

#[test]
fn each_mistake_with_the_central_limit_is_found() {
    for (mistake, property) in [
        (Mistake::RaiseAdmitsNobody, SET_ADMITS),
        (Mistake::RaiseAdmitsOne, SET_ADMITS),
        (Mistake::AdmitsByOldNumber, AT_MOST),
        (Mistake::ClearAdmitsNobody, SET_ADMITS),
        (Mistake::ClearKeeps, BY_CALLERS),
        (Mistake::StaysInTheValue, BY_CALLERS),
        (Mistake::EndsWithTheLock, AT_MOST),
        (Mistake::ShortWayBesideOthers, AT_MOST),
        (Mistake::ShortWayToAFreeLock, AT_MOST),
        (Mistake::ShortWayPastTheQueue, NOT_PASSED),
        (Mistake::LoweringEvicts, KEEPS_PLACE),
        (Mistake::SmallerCounts, ALL_ADMIT),
        (Mistake::LargerCounts, AT_MOST),
        (Mistake::HeavyStays, KEEPS_NOBODY_OUT),
        (Mistake::HeavyIsNotTold, IS_QUEUED),
        (Mistake::RefusesWithoutRoom, IS_REFUSED_RIGHTLY),
        (Mistake::PassesTheFront, NOT_PASSED),
    ] {
        finds(&format!("{mistake:?}"), property, Central { own: permits(), mistake: Some(mistake) });
    }
    for (mistake, property) in [(Mistake::CountsForExclusive, ALONE), (Mistake::CountsForReaders, ALL_ADMIT)]
    {
        finds(&format!("{mistake:?}"), property, Central { own: kinds(), mistake: Some(mistake) });
    }
}
