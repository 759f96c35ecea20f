//! A lock with a fencing token that is taken without its script: `SET lock token NX PX ttl`, `INCR clock`
//! and `GET lock`, one behind the other, and what other clients send in between. In the place of
//! `INCR`, there may be the script that draws a number and raises a clock below the floor.
//!
//! In the model: one server with the lock, its clock of fencing tokens and its time; a caller that
//! asks by the three commands, and another one that asks by these, with or without that script, or by the script of the lock. The server executes one command
//! at a time, those of a connection in their order, and any number of others between two of them.
//! Who is refused, or whose number is none to trust, asks again by the script with the same token.
//! A caller leaves at any time, and its release follows on its connection; a connection breaks, and
//! its caller asks again over another. An operator takes the lock away. The server loses its data,
//! gets older data, or has no memory left for a number. Time passes in ticks, at any moment: a lease
//! lasts two.
//!
//! The time is above every number: each raise goes to the time, and a tick is sixteen numbers. So
//! data are lost only when a tick has passed since the last number, and no request is on its way that
//! was sent before the older data were younger than the floor: such losses go unnoticed, as the design
//! says of the floor.
//!
//! In a Cluster each slot has its clock, the lock's here, and the clock of another slot beside it,
//! which counts without a lock.
//!
//! Left out, without losing an order of events:
//! - The queue: who is refused has one try. The model of the hand-off has the queue.
//! - Lost requests and replies: in the model no step has to happen.
//! - What arrives over a connection that broke: the next one has the server close it first.
//!
//! Found: the mistakes of [`Mistake`].

use std::collections::VecDeque;

use stateright::{Model, Property};

use crate::{finds, holds};

const TTL: u8 = 2;
const LAST_TICK: u8 = 4;
/// Numbers in a tick.
const TICK: u8 = 16;
/// Below all times.
const LEAST: u8 = TICK;
/// So many ticks the floor is below the time.
const BELOW: u8 = 1;

/// Older data are of the first tick. From this one on, the floor is above them.
const OLDER_FROM: u8 = 1 + BELOW;

const CALLERS: usize = 2;
/// One of them may ask by a script at once.
const OTHER: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The number is drawn before the lock is taken.
    DrawsFirst,
    /// Nobody looks whether the lock was still held when the number was drawn.
    TrustsTheFirst,
    /// It looks whether the lock is held, and not by whom.
    LooksWhetherHeld,
    /// The lease counts from the answer.
    CountsFromReply,
    /// A number below the floor is as good as another.
    HasNoFloor,
    /// Only a clock that is missing is noticed.
    HasNoFloorButTheLeast,
    /// A number that was refused counts as a request of which the server has done nothing.
    RefusedIsNothing,
    /// The number comes from the clock of another slot.
    ClockOfAnotherSlot,
    /// A refused caller uses the number that it has drawn for nothing once it has the lock.
    KeepsNumber,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Command {
    Set,
    Incr,
    /// In its place.
    Draw,
    Get,
    Script,
    Release,
}

/// How a caller asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Plain,
    /// With a script that draws the number.
    Compared,
    Script,
}

/// The answers of the server to the three commands so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Answers {
    set: Option<Set>,
    /// `None` for a number that was refused.
    number: Option<u8>,
    is_held: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Set {
    Taken,
    Busy,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reply {
    Plain(Answers),
    Granted(u8),
    Busy,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Idle,
    Asks,
    Inside { fence: u8, ends: u8 },
    Left,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Caller {
    stage: Stage,
    /// Not executed yet.
    commands: VecDeque<Command>,
    answers: Answers,
    reply: Option<Reply>,
    sent: u8,
    floor: u8,
    /// The server may have given it the lock by an earlier request.
    may_have_it: bool,
    /// Drawn by its first request.
    number: u8,
    /// The number of the grant that it has last had.
    order: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lock {
    by: usize,
    ends: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    now: u8,
    lock: Option<Lock>,
    clock: u8,
    other_clock: u8,
    /// When a number was last drawn.
    drawn: u8,
    grants: u8,
    is_full: bool,
    /// The lock was taken away, or lost: its holder may not know yet.
    is_disturbed: bool,
    has_broken: bool,
    callers: [Caller; CALLERS],
    /// What the callers got that were inside: the order of the grant, and the fencing token.
    entered: Vec<(u8, u8)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Tick,
    Ask { by: usize, way: Way },
    Execute(usize),
    Hear(usize),
    Leave(usize),
    Break(usize),
    TakeAway,
    LoseAll,
    GetOlderData,
    Fill,
}

struct PlainFence(Option<Mistake>);

const EXCLUSIVE: &str = "at most one caller is inside, unless the lock was taken away from one";
const FENCED: &str = "a later holder has the larger fencing token";
const NOT_KEPT: &str = "no lock is left by a caller that is gone";

impl Caller {
    fn new() -> Self {
        Self {
            stage: Stage::Idle,
            commands: VecDeque::new(),
            answers: Answers::default(),
            reply: None,
            sent: 0,
            floor: 0,
            may_have_it: false,
            number: 0,
            order: 0,
        }
    }

    /// The floor that it has sent is above the older data.
    fn knows_of_later_numbers(&self) -> bool {
        self.commands.is_empty() || self.floor >= OLDER_FROM * TICK
    }

    fn is_inside(&self) -> bool {
        matches!(self.stage, Stage::Inside { .. })
    }

    fn ask(&mut self, now: u8, commands: &[Command]) {
        (self.stage, self.reply, self.answers) = (Stage::Asks, None, Answers::default());
        (self.sent, self.floor) = (now, TICK * (now - BELOW));
        self.commands.extend(commands);
    }

    fn leave(&mut self, releases: bool) {
        (self.stage, self.reply) = (Stage::Left, None);
        if releases {
            self.commands.push_back(Command::Release);
        }
    }
}

impl State {
    /// As `fence.lua`.
    fn next_fence(&mut self, floor: u8) -> u8 {
        self.clock += 1;
        if self.clock < floor.max(LEAST) {
            self.clock = self.clock.max(TICK * self.now);
        }
        self.drawn = self.now;
        self.clock
    }

    fn give_to(&mut self, by: usize) {
        self.lock = Some(Lock { by, ends: self.now + TTL });
        self.grants += 1;
        self.callers[by].order = self.grants;
    }

    /// Only in their order, and only the last one has an answer that its caller awaits.
    fn execute(&mut self, model: &PlainFence, by: usize) {
        let Some(command) = self.callers[by].commands.pop_front() else { return };
        let is_own = self.lock.is_some_and(|lock| lock.by == by);
        match command {
            Command::Set => {
                let set = match self.lock {
                    _ if self.is_full => Set::Refused,
                    Some(_) => Set::Busy,
                    None => {
                        self.give_to(by);
                        Set::Taken
                    }
                };
                self.callers[by].answers.set = Some(set);
            }
            Command::Incr | Command::Draw if self.is_full => {}
            Command::Draw => {
                let number = self.next_fence(self.callers[by].floor);
                self.callers[by].answers.number = Some(number);
            }
            Command::Incr => {
                self.drawn = self.now;
                let clock = if model.has(Mistake::ClockOfAnotherSlot) {
                    &mut self.other_clock
                } else {
                    &mut self.clock
                };
                *clock += 1;
                self.callers[by].answers.number = Some(*clock);
            }
            Command::Get => {
                self.callers[by].answers.is_held =
                    if model.has(Mistake::LooksWhetherHeld) { self.lock.is_some() } else { is_own };
            }
            Command::Script => {
                let reply = match self.lock {
                    _ if self.is_full => Reply::Refused,
                    Some(_) if !is_own => Reply::Busy,
                    _ => {
                        if is_own {
                            self.lock = Some(Lock { by, ends: self.now + TTL });
                        } else {
                            self.give_to(by);
                        }
                        Reply::Granted(self.next_fence(self.callers[by].floor))
                    }
                };
                self.answer(by, reply);
            }
            Command::Release => {
                if is_own {
                    self.lock = None;
                }
            }
        }
        let is_last = command == if model.has(Mistake::DrawsFirst) { Command::Set } else { Command::Get };
        if is_last {
            let mut answers = self.callers[by].answers;
            answers.is_held |= model.has(Mistake::DrawsFirst);
            self.answer(by, Reply::Plain(answers));
        }
    }

    fn answer(&mut self, by: usize, reply: Reply) {
        let caller = &mut self.callers[by];
        if caller.stage == Stage::Asks && caller.reply.is_none() {
            caller.reply = Some(reply);
        }
    }

    fn hear(&mut self, model: &PlainFence, by: usize) {
        let now = self.now;
        let caller = &mut self.callers[by];
        let Some(reply) = caller.reply.take() else { return };
        let floor = match model.0 {
            Some(Mistake::HasNoFloor) => 0,
            Some(Mistake::HasNoFloorButTheLeast) => LEAST,
            _ => caller.floor.max(LEAST),
        };
        let fence = match reply {
            Reply::Plain(Answers { set: Some(Set::Taken), number: None, .. })
                if model.has(Mistake::RefusedIsNothing) =>
            {
                return caller.leave(false);
            }
            Reply::Plain(Answers { set: Some(Set::Taken), number: Some(number), is_held })
                if number >= floor && (is_held || model.has(Mistake::TrustsTheFirst)) =>
            {
                number
            }
            Reply::Plain(Answers { set: set @ Some(Set::Taken | Set::Busy), number, .. }) => {
                caller.may_have_it |= set != Some(Set::Busy);
                caller.number = number.unwrap_or_default();
                caller.ask(now, &[Command::Script]);
                return;
            }
            Reply::Granted(_) if model.has(Mistake::KeepsNumber) && caller.number > 0 => caller.number,
            Reply::Granted(fence) => fence,
            Reply::Plain(_) | Reply::Busy | Reply::Refused => return caller.leave(caller.may_have_it),
        };
        let ends = if model.has(Mistake::CountsFromReply) { now } else { caller.sent } + TTL;
        if ends <= now {
            caller.leave(true);
            return;
        }
        caller.stage = Stage::Inside { fence, ends };
        let entered = (caller.order, fence);
        self.entered.push(entered);
        self.entered.sort_unstable();
    }
}

impl PlainFence {
    fn has(&self, mistake: Mistake) -> bool {
        self.0 == Some(mistake)
    }

    fn commands(&self, way: Way) -> &'static [Command] {
        match (way, self.0) {
            (Way::Script, _) => &[Command::Script],
            (Way::Plain, Some(Mistake::DrawsFirst)) => &[Command::Incr, Command::Set],
            (Way::Compared, Some(Mistake::DrawsFirst)) => &[Command::Draw, Command::Set],
            (Way::Plain, _) => &[Command::Set, Command::Incr, Command::Get],
            (Way::Compared, _) => &[Command::Set, Command::Draw, Command::Get],
        }
    }
}

impl Model for PlainFence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 1,
            lock: None,
            clock: TICK,
            other_clock: 3 * TICK,
            drawn: 0,
            grants: 0,
            is_full: false,
            is_disturbed: false,
            has_broken: false,
            callers: std::array::from_fn(|_| Caller::new()),
            entered: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < LAST_TICK {
            actions.push(Action::Tick);
        }
        for (by, caller) in state.callers.iter().enumerate() {
            if !caller.commands.is_empty() {
                actions.push(Action::Execute(by));
            }
            if caller.reply.is_some() {
                actions.push(Action::Hear(by));
            }
            match caller.stage {
                Stage::Idle => {
                    actions.push(Action::Ask { by, way: Way::Plain });
                    if by == OTHER {
                        actions.push(Action::Ask { by, way: Way::Compared });
                        actions.push(Action::Ask { by, way: Way::Script });
                    }
                }
                Stage::Asks | Stage::Inside { .. } => actions.push(Action::Leave(by)),
                Stage::Left => {}
            }
            if caller.stage == Stage::Asks && !state.has_broken {
                actions.push(Action::Break(by));
            }
        }
        // One disturbance is enough.
        if !state.is_disturbed && !state.is_full {
            if state.lock.is_some() {
                actions.push(Action::TakeAway);
            }
            if state.drawn < state.now {
                actions.push(Action::LoseAll);
                if state.callers.iter().all(Caller::knows_of_later_numbers) && state.now > OLDER_FROM {
                    actions.push(Action::GetOlderData);
                }
            }
            actions.push(Action::Fill);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.now;
        match action {
            Action::Tick => {
                state.now += 1;
                state.lock = state.lock.filter(|lock| lock.ends > state.now);
                for caller in &mut state.callers {
                    if matches!(caller.stage, Stage::Inside { ends, .. } if ends <= state.now) {
                        caller.leave(true);
                    }
                }
            }
            Action::Ask { by, way } => state.callers[by].ask(now, self.commands(way)),
            Action::Execute(by) => state.execute(self, by),
            Action::Hear(by) => state.hear(self, by),
            Action::Leave(by) => state.callers[by].leave(true),
            Action::Break(by) => {
                state.has_broken = true;
                state.callers[by].commands.clear();
                state.callers[by].may_have_it = true;
                state.callers[by].ask(now, &[Command::Script]);
            }
            Action::TakeAway => (state.lock, state.is_disturbed) = (None, true),
            Action::LoseAll => (state.lock, state.clock, state.is_disturbed) = (None, 0, true),
            Action::GetOlderData => (state.lock, state.clock, state.is_disturbed) = (None, LEAST, true),
            Action::Fill => state.is_full = true,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                state.is_disturbed || state.callers.iter().filter(|caller| caller.is_inside()).count() <= 1
            }),
            Property::always(FENCED, |_, state: &State| state.entered.is_sorted_by(|a, b| a.1 < b.1)),
            Property::always(NOT_KEPT, |_, state: &State| {
                state.lock.is_none_or(|lock| {
                    let caller = &state.callers[lock.by];
                    caller.stage != Stage::Left || !caller.commands.is_empty()
                })
            }),
            Property::sometimes("both are inside, one after the other", |_, state: &State| {
                state.entered.len() == CALLERS
            }),
            Property::sometimes("the script comes between two commands of a caller", |_, state: &State| {
                state.callers[0].commands.len() == 2 && state.callers[OTHER].order > 0
            }),
            Property::sometimes("a number is below the floor, and is raised", |_, state: &State| {
                state.entered.iter().any(|(_, fence)| *fence > OLDER_FROM * TICK)
            }),
        ]
    }
}

#[test]
fn a_caller_by_plain_commands_beside_one_by_these_or_by_the_script() {
    holds("plain fence", PlainFence(None));
}

#[test]
fn each_mistake_is_found() {
    use Mistake as M;
    for (mistake, property) in [
        (M::DrawsFirst, FENCED),
        (M::TrustsTheFirst, FENCED),
        (M::LooksWhetherHeld, FENCED),
        (M::CountsFromReply, EXCLUSIVE),
        (M::HasNoFloor, FENCED),
        (M::HasNoFloorButTheLeast, FENCED),
        (M::RefusedIsNothing, NOT_KEPT),
        (M::ClockOfAnotherSlot, FENCED),
        (M::KeepsNumber, FENCED),
    ] {
        finds(&format!("plain fence, {mistake:?}"), property, PlainFence(Some(mistake)));
    }
}
