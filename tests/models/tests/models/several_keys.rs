//! Calls for several keys of different kinds: each is inside with all of its keys or with none, no more hold a key than each
//! of them allows, and callers do not deadlock.
//!
//! In the model: three callers, each with keys that it shares and keys that it has alone; one queue for each key, first come,
//! first served; a call that takes one key after the other, those that it wants alone together; a caller that gives up while
//! it waits; a key that is lost while its caller waits for another one, or is inside.
//!
//! Left out, without losing an order of events: permits, which are between both kinds; requests and answers that are lost, which
//! are those of one key.
//!
//! Found: the mistakes of [`Mistake`].

use stateright::{Model, Property};

use crate::{finds, holds};

const KEYS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Kind {
    Shared,
    Alone,
}

use Kind::{Alone, Shared};

/// The keys of a caller, as it names them.
type List = &'static [(usize, Kind)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A caller takes its keys in the order of its list.
    InTheOrderOfTheList,
    /// It takes those first that it shares.
    SharedOnesFirst,
    /// It takes those behind a busy one, too.
    TakesTheOnesBehind,
    /// One that gives up keeps what it has.
    KeepsWhatItHas,
    /// One that has lost a key asks for that one alone again.
    KeepsTheLaterOnes,
    /// One that has lost a key while it waited goes on.
    OverlooksALoss,
    /// A key that is named twice is taken as it is named first.
    AsNamedFirst,
    /// One that shares a key enters beside one that has it alone.
    SharesWithAll,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// It asks for its next key.
    Asks,
    Waits,
    Inside,
    Gone,
}

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Key {
    holders: Vec<(usize, Kind)>,
    queue: Vec<(usize, Kind)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    keys: [Key; KEYS],
    stages: Vec<Stage>,
    /// The caller has lost a key, and has not begun again since.
    has_lost: Vec<bool>,
    has_begun_again: Vec<bool>,
    losses: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Ask(usize),
    GiveUp(usize),
    Leave(usize),
    Lose(usize, usize),
    BeginAgain(usize),
}

struct SeveralKeys {
    lists: &'static [List],
    /// A call takes one key, as in a Cluster whose slots have one each.
    one_by_one: bool,
    mistake: Option<Mistake>,
}

const ALLOWED: &str = "no more hold a key than each of them allows";
const ALL_OR_NONE: &str = "one that is inside has all of its keys";
const AS_STRICT: &str = "it has each key as it has named it, or more strictly";
const GOES_ON: &str = "not all wait for each other";
const NOTHING_IS_LEFT: &str = "nothing is left of one that has gone";
const SHARES: &str = "two share a key, and each has another one alone";
const BEGINS_AGAIN: &str = "one is inside that has begun again";

impl Key {
    fn is_allowed(&self) -> bool {
        self.holders.len() <= 1 || self.holders.iter().all(|(_, kind)| *kind == Shared)
    }

    fn has_room(&self, kind: Kind) -> bool {
        self.holders.is_empty() || kind == Shared && self.holders.iter().all(|(_, other)| *other == Shared)
    }

    fn is_held_by(&self, caller: usize) -> bool {
        self.holders.iter().any(|(holder, _)| *holder == caller)
    }
}

impl State {
    /// The waiters in front of each queue enter if there is room.
    fn settle(&mut self) {
        for key in &mut self.keys {
            while let Some((caller, kind)) = key.queue.first().copied()
                && key.has_room(kind)
            {
                key.queue.remove(0);
                key.holders.push((caller, kind));
                self.stages[caller] = Stage::Asks;
            }
        }
    }

    fn release(&mut self, caller: usize) {
        for key in &mut self.keys {
            key.holders.retain(|(holder, _)| *holder != caller);
        }
    }

    fn leave_queues(&mut self, caller: usize) {
        for key in &mut self.keys {
            key.queue.retain(|(waiter, _)| *waiter != caller);
        }
    }

    fn callers(&self) -> impl Iterator<Item = (usize, Stage)> {
        self.stages.iter().copied().enumerate()
    }

    fn has_all(&self, list: List, caller: usize) -> bool {
        list.iter().all(|(key, _)| self.keys[*key].is_held_by(caller))
    }
}

impl SeveralKeys {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The keys of the caller, each once, in the order in which it takes them.
    fn order(&self, caller: usize) -> Vec<(usize, Kind)> {
        let mut keys: Vec<(usize, Kind)> = Vec::new();
        for (key, kind) in self.lists[caller] {
            match keys.iter_mut().find(|(other, _)| other == key) {
                Some(_) if self.has(Mistake::AsNamedFirst) => {}
                Some((_, other)) => *other = (*other).max(*kind),
                None => keys.push((*key, *kind)),
            }
        }
        if self.has(Mistake::SharedOnesFirst) {
            keys.sort_by_key(|(key, kind)| (*kind, *key));
        } else if !self.has(Mistake::InTheOrderOfTheList) {
            keys.sort_unstable();
        }
        keys
    }

    /// One call: it takes the next key, and those behind it as long as it wants both alone.
    fn ask(&self, state: &mut State, caller: usize) {
        let order = self.order(caller);
        let missing = order.iter().filter(|(key, _)| !state.keys[*key].is_held_by(caller));
        let missing: Vec<_> = missing.copied().collect();
        let mut before = None;
        for (key, kind) in missing {
            if before.is_some_and(|before| before == Shared || kind == Shared || self.one_by_one) {
                return;
            }
            before = Some(kind);
            let its = &mut state.keys[key];
            let has_room = its.has_room(kind) || kind == Shared && self.has(Mistake::SharesWithAll);
            if has_room && its.queue.is_empty() {
                its.holders.push((caller, kind));
                continue;
            }
            if state.stages[caller] != Stage::Waits {
                its.queue.push((caller, kind));
                state.stages[caller] = Stage::Waits;
            }
            if !self.has(Mistake::TakesTheOnesBehind) {
                return;
            }
        }
        if state.stages[caller] == Stage::Asks && state.has_all(self.lists[caller], caller) {
            state.stages[caller] = Stage::Inside;
        }
    }
}

impl Model for SeveralKeys {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let callers = self.lists.len();
        vec![State {
            keys: [(); KEYS].map(|()| Key::default()),
            stages: vec![Stage::Asks; callers],
            has_lost: vec![false; callers],
            has_begun_again: vec![false; callers],
            losses: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (caller, stage) in state.stages.iter().enumerate() {
            let sees_loss = state.has_lost[caller] && !self.has(Mistake::OverlooksALoss);
            match stage {
                Stage::Asks | Stage::Waits if sees_loss => actions.push(Action::BeginAgain(caller)),
                Stage::Asks => actions.push(Action::Ask(caller)),
                Stage::Waits => actions.push(Action::GiveUp(caller)),
                Stage::Inside => actions.push(Action::Leave(caller)),
                Stage::Gone => {}
            }
            let has = |key: &usize| state.keys[*key].is_held_by(caller);
            if state.losses < 2 && *stage != Stage::Gone {
                actions.extend((0..KEYS).filter(has).map(|key| Action::Lose(caller, key)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(caller) if self.has(Mistake::OverlooksALoss) && state.has_lost[caller] => {
                // The keys that it has lost count as held.
                state.stages[caller] = Stage::Inside;
            }
            Action::Ask(caller) => self.ask(&mut state, caller),
            Action::GiveUp(caller) => {
                state.leave_queues(caller);
                if !self.has(Mistake::KeepsWhatItHas) {
                    state.release(caller);
                }
                state.stages[caller] = Stage::Gone;
            }
            Action::Leave(caller) => {
                state.release(caller);
                state.stages[caller] = Stage::Gone;
            }
            Action::Lose(caller, key) => {
                state.keys[key].holders.retain(|(holder, _)| *holder != caller);
                (state.has_lost[caller], state.losses) = (true, state.losses + 1);
            }
            Action::BeginAgain(caller) => {
                state.leave_queues(caller);
                if !self.has(Mistake::KeepsTheLaterOnes) {
                    state.release(caller);
                }
                (state.has_lost[caller], state.has_begun_again[caller]) = (false, true);
                state.stages[caller] = Stage::Asks;
            }
        }
        state.settle();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALLOWED, |_, state: &State| state.keys.iter().all(Key::is_allowed)),
            Property::always(ALL_OR_NONE, |model: &Self, state: &State| {
                state.callers().all(|(caller, stage)| {
                    let is_inside = stage == Stage::Inside && !state.has_lost[caller];
                    let overlooks = model.has(Mistake::OverlooksALoss) && stage == Stage::Inside;
                    !(is_inside || overlooks) || state.has_all(model.lists[caller], caller)
                })
            }),
            Property::always(AS_STRICT, |model: &Self, state: &State| {
                let is_as_strict = |caller: usize, key: usize, kind: Kind| {
                    state.keys[key].holders.iter().all(|(holder, its)| *holder != caller || *its >= kind)
                };
                state.callers().all(|(caller, _)| {
                    model.lists[caller].iter().all(|(key, kind)| is_as_strict(caller, *key, *kind))
                })
            }),
            Property::always(GOES_ON, |_, state: &State| {
                let goes_on = |(caller, stage)| match stage {
                    Stage::Asks | Stage::Inside => true,
                    Stage::Waits => state.has_lost[caller],
                    Stage::Gone => false,
                };
                state.callers().all(|(_, stage)| stage == Stage::Gone) || state.callers().any(goes_on)
            }),
            Property::always(NOTHING_IS_LEFT, |_, state: &State| {
                let is_left = |caller: usize| {
                    let of_caller = |(other, _): &(usize, Kind)| *other == caller;
                    state.keys.iter().any(|key| key.holders.iter().chain(&key.queue).any(of_caller))
                };
                state.callers().all(|(caller, stage)| stage != Stage::Gone || !is_left(caller))
            }),
            Property::sometimes(SHARES, |_, state: &State| {
                let inside = state.callers().filter(|(_, stage)| *stage == Stage::Inside).count();
                let alone = |key: &&Key| key.holders.iter().any(|(_, kind)| *kind == Alone);
                inside == 2
                    && state.keys.iter().any(|key| key.holders.len() == 2)
                    && state.keys.iter().filter(alone).count() == 2
            }),
            Property::sometimes(BEGINS_AGAIN, |_, state: &State| {
                state.callers().any(|(caller, stage)| {
                    stage == Stage::Inside && state.has_begun_again[caller] && !state.has_lost[caller]
                })
            }),
        ]
    }
}

/// Two that share a key and have another one alone, and one that wants what each of them has in the other way.
const CROSSWISE: &[List] = &[
    &[(1, Shared), (0, Alone)],
    &[(1, Shared), (2, Alone)],
    &[(2, Shared), (0, Alone), (1, Alone), (1, Shared)],
];

/// All keys alone, in all directions.
const IN_A_CIRCLE: &[List] =
    &[&[(0, Alone), (1, Alone)], &[(1, Alone), (2, Alone)], &[(2, Alone), (0, Alone)]];

/// One that names a key twice, first as one that it shares.
const CROSSWISE_NAMED_TWICE: &[List] = &[&[(0, Shared), (0, Alone)], &[(0, Shared), (1, Alone)]];

/// Two that want both keys, behind one of each.
const BEHIND_OTHERS: &[List] =
    &[&[(0, Alone)], &[(1, Alone)], &[(0, Alone), (1, Alone)], &[(0, Alone), (1, Alone)]];

/// One that waits for the last of its keys.
const BEHIND_THE_LAST: &[List] =
    &[&[(0, Alone), (1, Shared), (2, Alone)], &[(0, Alone), (1, Alone)], &[(2, Alone)]];

#[test]
fn keys_of_different_kinds_are_held_together_or_not_at_all() {
    for one_by_one in [false, true] {
        holds("keys of different kinds", SeveralKeys { lists: CROSSWISE, one_by_one, mistake: None });
    }
}

#[test]
fn each_mistake_about_several_keys_is_found() {
    for (mistake, lists, property) in [
        (Mistake::InTheOrderOfTheList, IN_A_CIRCLE, GOES_ON),
        (Mistake::InTheOrderOfTheList, CROSSWISE, GOES_ON),
        (Mistake::SharedOnesFirst, CROSSWISE, GOES_ON),
        (Mistake::TakesTheOnesBehind, BEHIND_OTHERS, GOES_ON),
        (Mistake::KeepsWhatItHas, CROSSWISE, NOTHING_IS_LEFT),
        (Mistake::KeepsTheLaterOnes, BEHIND_THE_LAST, GOES_ON),
        (Mistake::OverlooksALoss, CROSSWISE, ALL_OR_NONE),
        (Mistake::AsNamedFirst, CROSSWISE_NAMED_TWICE, AS_STRICT),
        (Mistake::SharesWithAll, CROSSWISE, ALLOWED),
    ] {
        // A call for one key has none behind it.
        let one_by_one = mistake != Mistake::TakesTheOnesBehind;
        let model = SeveralKeys { lists, one_by_one, mistake: Some(mistake) };
        finds(&format!("{mistake:?}"), property, model);
    }
}
