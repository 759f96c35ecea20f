//! A holder that has a lock alone, and has it beside others from then on: nobody else has it alone in between, its requests
//! are right whichever of both the server knows, and nothing is left of it in the end.
//!
//! In the model: the holder, its renewals, its downgrade, which it repeats, and its release, which it repeats until it is
//! answered; a connection that breaks at any moment, behind which the server executes what was sent before, late or never, and
//! no answer comes; another writer and a reader, which take the lock when the server gives it, and leave at any moment;
//! the lease of the holder, which ends.
//!
//! Requests arrive in any order, and so do answers: that is more than a connection does, and what may happen with two of them.
//!
//! Left out, without losing an order of events: the queue, because the reader and the other writer take what is free at any
//! moment; several readers, each of which does what one does; a lock that was passed on, which is downgraded once the server
//! knows its holder.
//!
//! Found: the mistakes of [`Mistake`].

#![allow(clippy::struct_excessive_bools, reason = "a state is made of facts")]

use stateright::{Model, Property};

use crate::{finds, holds};

type Time = u8;

/// The server keeps a lease for so long. Its holder counts on one less.
const TTL: Time = 3;
/// The last moment.
const END: Time = 4;
/// So many requests are sent at most, and so many are under way at a time.
const SENT: u8 = 5;
const UNDER_WAY: usize = 3;

/// The fencing token of the holder.
const TOKEN: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The server releases the lock, and lets the holder in beside others as the next one that asks.
    InTwoSteps,
    /// A downgrade that is executed late finds a free lock, and takes it.
    TakesAFreeLock,
    /// It finds the lock of another writer, and shares that.
    SharesTheLockOfAnother,
    /// A repeated one does not find the lock that the first one has shared.
    KnowsOneKind,
    /// It draws another fencing token.
    DrawsAnotherToken,
    /// While it is unanswered, renewals are those of one that has the lock alone.
    RenewsAlone,
    /// Without an answer, the lock counts as held alone again.
    ForgetsTheDoubt,
    /// While it is unanswered, the release is that of one that has the lock alone.
    ReleasesAlone,
    /// What was sent before the downgrade, and finds a shared lock, counts as a loss.
    BelievesOldAnswers,
    /// The lock counts as shared when the downgrade is sent.
    ReadsTooSoon,
    /// An answer to a downgrade moves the end of the lease, counted from its arrival.
    CountsFromTheAnswer,
}

/// What the holder sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum What {
    RenewAlone,
    /// Finds a lock that is held alone, too.
    RenewShared,
    Downgrade,
    ReleaseAlone,
    ReleaseShared,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Request {
    what: What,
    sent: Time,
    /// Its connection broke: nobody receives the answer.
    is_old: bool,
    /// It was sent before the call.
    is_before: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Answer {
    to: Request,
    was_held: bool,
}

/// Who has the lock, as the server knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Server {
    /// The holder has it alone, until then.
    alone: Option<Time>,
    /// The holder has it beside others, until then.
    shared: Option<Time>,
    has_reader: bool,
    has_writer: bool,
    /// The fencing token of those that are inside together.
    phase: u8,
    clock: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Writes,
    /// It has called, and waits.
    Waits,
    Reads,
    Releases,
    Gone,
    Lost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    now: Time,
    server: Server,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    sent: u8,
    stage: Stage,
    lease_ends: Time,
    /// A downgrade is under way over this connection.
    asks: bool,
    /// One was sent, and its outcome is not known.
    in_doubt: bool,
    release_asks: bool,
    /// It was told of a loss while the server had it.
    is_wronged: bool,
    /// A renewal behind the call has not found the lock that the server had.
    is_missed: bool,
    has_repeated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Pass,
    Cut,
    Call,
    Send(What),
    Execute(usize),
    Lose(usize),
    Hear(usize),
    Release,
    ReaderEnters,
    ReaderLeaves,
    WriterEnters,
    WriterLeaves,
}

struct Downgrades {
    mistake: Option<Mistake>,
}

const WRITES_ALONE: &str = "one that writes has the lock alone";
const NOBODY_BETWEEN: &str = "no other writer has the lock before the holder has left";
const READS: &str = "one that was told that it reads is inside";
const SAME_TOKEN: &str = "those that are inside with it have its fencing token";
const IS_TOLD_THE_TRUTH: &str = "one that the server knows is told of no loss";
const IS_RENEWED: &str = "a renewal behind the call finds the lock";
const NOTHING_IS_LEFT: &str = "nothing is left of one that has gone";
const IS_READ_BESIDE: &str = "a reader is beside one that was downgraded";
const IS_REPEATED: &str = "a downgrade is done whose first answer was lost";
const IS_FOLLOWED: &str = "another writer comes behind both";

impl Server {
    fn expire(&mut self, now: Time) {
        let is_over = |ends: &mut Time| *ends <= now;
        let _ = (self.alone.take_if(is_over), self.shared.take_if(is_over));
    }

    fn is_free(self) -> bool {
        self.alone.is_none() && self.shared.is_none() && !self.has_reader && !self.has_writer
    }

    fn has_holder(self) -> bool {
        self.alone.is_some() || self.shared.is_some()
    }
}

impl State {
    fn relies(&self) -> bool {
        self.now < self.lease_ends
    }

    fn has_it(&self) -> bool {
        matches!(self.stage, Stage::Writes | Stage::Waits | Stage::Reads)
    }

    fn may_be_shared(&self) -> bool {
        self.asks || self.in_doubt || self.stage == Stage::Reads
    }

    fn send(&mut self, what: What) {
        self.sent += 1;
        self.requests.push(Request {
            what,
            sent: self.now,
            is_old: false,
            is_before: self.stage == Stage::Writes,
        });
        self.requests.sort_unstable();
    }
}

impl Downgrades {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// True when the holder had the lock.
    fn execute(&self, server: &mut Server, now: Time, what: What) -> bool {
        let ends = now + TTL;
        match what {
            What::RenewAlone | What::RenewShared => {
                let shared = server.shared.as_mut().filter(|_| what == What::RenewShared);
                let found = server.alone.as_mut().or(shared);
                found.is_some_and(|its| {
                    *its = ends.max(*its);
                    true
                })
            }
            What::Downgrade => self.downgrade(server, ends),
            What::ReleaseAlone => server.alone.take().is_some(),
            What::ReleaseShared => server.alone.take().or(server.shared.take()).is_some(),
        }
    }

    fn downgrade(&self, server: &mut Server, ends: Time) -> bool {
        if server.shared.is_some() {
            server.shared = server.shared.max(Some(ends));
            return !self.has(Mistake::KnowsOneKind);
        }
        let is_free = server.is_free() && self.has(Mistake::TakesAFreeLock);
        let is_of_another = server.has_writer && self.has(Mistake::SharesTheLockOfAnother);
        if is_of_another {
            (server.has_writer, server.has_reader) = (false, true);
        } else if server.alone.is_none() && !is_free {
            return false;
        }
        if self.has(Mistake::InTwoSteps) {
            server.alone = None;
            return true;
        }
        (server.alone, server.shared) = (None, Some(ends));
        if self.has(Mistake::DrawsAnotherToken) {
            server.clock += 1;
        }
        server.phase = if self.has(Mistake::DrawsAnotherToken) { server.clock } else { TOKEN };
        true
    }

    fn hear(&self, state: &mut State, Answer { to, was_held }: Answer) {
        let has_it = state.has_it();
        match to.what {
            What::ReleaseAlone | What::ReleaseShared => {
                if state.stage == Stage::Releases {
                    state.stage = Stage::Gone;
                }
                return;
            }
            _ if !has_it => return,
            What::Downgrade => {
                (state.asks, state.has_repeated) = (false, state.in_doubt && was_held);
                if was_held {
                    (state.in_doubt, state.stage) = (false, Stage::Reads);
                    if self.has(Mistake::CountsFromTheAnswer) {
                        state.lease_ends = state.lease_ends.max(state.now + TTL);
                    }
                    return;
                }
            }
            What::RenewAlone | What::RenewShared if was_held => {
                if state.relies() {
                    state.lease_ends = state.lease_ends.max(to.sent + TTL - 1);
                }
                return;
            }
            // It may have been executed behind the downgrade.
            What::RenewAlone if state.may_be_shared() && !self.has(Mistake::BelievesOldAnswers) => return,
            What::RenewAlone | What::RenewShared => {}
        }
        state.is_wronged |= state.server.has_holder() && state.relies();
        state.stage = Stage::Lost;
    }

    fn renewal(&self, state: &State) -> What {
        let is_alone =
            !state.may_be_shared() || state.stage == Stage::Waits && self.has(Mistake::RenewsAlone);
        if is_alone { What::RenewAlone } else { What::RenewShared }
    }

    fn release(&self, state: &State) -> What {
        let is_alone =
            !state.may_be_shared() || state.stage == Stage::Waits && self.has(Mistake::ReleasesAlone);
        if is_alone { What::ReleaseAlone } else { What::ReleaseShared }
    }
}

impl Model for Downgrades {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = Server {
            alone: Some(TTL),
            shared: None,
            has_reader: false,
            has_writer: false,
            phase: 0,
            clock: TOKEN,
        };
        vec![State {
            now: 0,
            server,
            requests: Vec::new(),
            answers: Vec::new(),
            sent: 0,
            stage: Stage::Writes,
            lease_ends: TTL - 1,
            asks: false,
            in_doubt: false,
            release_asks: false,
            is_wronged: false,
            is_missed: false,
            has_repeated: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < END {
            actions.push(Action::Pass);
        }
        if !state.requests.iter().all(|request| request.is_old) || !state.answers.is_empty() {
            actions.push(Action::Cut);
        }
        if state.sent < SENT && state.requests.len() < UNDER_WAY {
            match state.stage {
                _ if state.has_it() && state.relies() => {
                    actions.push(Action::Send(self.renewal(state)));
                    if state.stage == Stage::Writes {
                        actions.push(Action::Call);
                    }
                    if state.stage == Stage::Waits && !state.asks {
                        actions.push(Action::Send(What::Downgrade));
                    }
                    actions.push(Action::Release);
                }
                Stage::Releases if !state.release_asks => actions.push(Action::Send(self.release(state))),
                _ => {}
            }
        }
        for at in 0..state.requests.len() {
            actions.push(Action::Execute(at));
            if state.requests[at].is_old {
                actions.push(Action::Lose(at));
            }
        }
        actions.extend((0..state.answers.len()).map(Action::Hear));
        let mut server = state.server;
        server.expire(state.now);
        if server.has_reader {
            actions.push(Action::ReaderLeaves);
        } else if server.alone.is_none() && !server.has_writer {
            actions.push(Action::ReaderEnters);
        }
        if server.has_writer {
            actions.push(Action::WriterLeaves);
        } else if server.is_free() {
            actions.push(Action::WriterEnters);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Pass => state.now += 1,
            Action::Cut => {
                for request in &mut state.requests {
                    request.is_old = true;
                }
                state.answers.clear();
                state.in_doubt |= state.asks && !self.has(Mistake::ForgetsTheDoubt);
                (state.asks, state.release_asks) = (false, false);
            }
            Action::Call | Action::Send(What::Downgrade) => {
                state.stage = if self.has(Mistake::ReadsTooSoon) { Stage::Reads } else { Stage::Waits };
                state.asks = true;
                state.send(What::Downgrade);
            }
            Action::Send(what) => {
                state.release_asks |= state.stage == Stage::Releases;
                state.send(what);
            }
            Action::Release => {
                let what = self.release(&state);
                if what == What::ReleaseShared {
                    // A release that is repeated is the same.
                    state.in_doubt = true;
                }
                (state.stage, state.release_asks) = (Stage::Releases, true);
                state.send(what);
            }
            Action::Execute(at) => {
                let request = state.requests.remove(at);
                state.server.expire(state.now);
                let was_held = self.execute(&mut state.server, state.now, request.what);
                let is_renewal = matches!(request.what, What::RenewAlone | What::RenewShared);
                state.is_missed |= is_renewal && !was_held && !request.is_before && state.server.has_holder();
                if !request.is_old {
                    state.answers.push(Answer { to: request, was_held });
                    state.answers.sort_unstable();
                }
            }
            Action::Lose(at) => {
                state.requests.remove(at);
            }
            Action::Hear(at) => {
                let answer = state.answers.remove(at);
                self.hear(&mut state, answer);
            }
            Action::ReaderEnters => {
                state.server.expire(state.now);
                if state.server.shared.is_none() {
                    state.server.clock += 1;
                    state.server.phase = state.server.clock;
                }
                state.server.has_reader = true;
            }
            Action::ReaderLeaves => state.server.has_reader = false,
            Action::WriterEnters => {
                state.server.expire(state.now);
                state.server.clock += 1;
                state.server.has_writer = true;
            }
            Action::WriterLeaves => state.server.has_writer = false,
        }
        Some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.server.clock < 5
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WRITES_ALONE, |_, state: &State| {
                let server = &state.server;
                let is_alone = server.alone.is_some() && !server.has_reader && !server.has_writer;
                state.stage != Stage::Writes || !state.relies() || is_alone
            }),
            Property::always(NOBODY_BETWEEN, |_, state: &State| {
                !state.has_it() || !state.relies() || !state.server.has_writer
            }),
            Property::always(READS, |_, state: &State| {
                state.stage != Stage::Reads || !state.relies() || state.server.shared.is_some()
            }),
            Property::always(SAME_TOKEN, |_, state: &State| {
                state.server.shared.is_none() || state.server.phase == TOKEN
            }),
            Property::always(IS_TOLD_THE_TRUTH, |_, state: &State| !state.is_wronged),
            Property::always(IS_RENEWED, |_, state: &State| !state.is_missed),
            Property::always(NOTHING_IS_LEFT, |_, state: &State| {
                let is_over = state.stage == Stage::Gone && state.requests.is_empty();
                !is_over || !state.server.has_holder()
            }),
            Property::sometimes(IS_READ_BESIDE, |_, state: &State| {
                state.stage == Stage::Reads && state.relies() && state.server.has_reader
            }),
            Property::sometimes(IS_REPEATED, |_, state: &State| {
                state.stage == Stage::Reads && state.has_repeated
            }),
            Property::sometimes(IS_FOLLOWED, |_, state: &State| {
                state.stage == Stage::Gone && state.server.has_writer && state.server.phase == TOKEN
            }),
        ]
    }
}

#[test]
fn no_other_writer_fits_between_a_write_and_the_read_behind_it() {
    holds("a lock that is downgraded", Downgrades { mistake: None });
}

#[test]
fn each_mistake_in_a_downgrade_is_found() {
    for (mistake, property) in [
        (Mistake::InTwoSteps, NOBODY_BETWEEN),
        (Mistake::TakesAFreeLock, NOTHING_IS_LEFT),
        (Mistake::SharesTheLockOfAnother, NOTHING_IS_LEFT),
        (Mistake::KnowsOneKind, IS_TOLD_THE_TRUTH),
        (Mistake::DrawsAnotherToken, SAME_TOKEN),
        (Mistake::RenewsAlone, IS_RENEWED),
        (Mistake::ForgetsTheDoubt, IS_TOLD_THE_TRUTH),
        (Mistake::ReleasesAlone, NOTHING_IS_LEFT),
        (Mistake::BelievesOldAnswers, IS_TOLD_THE_TRUTH),
        (Mistake::ReadsTooSoon, READS),
        (Mistake::CountsFromTheAnswer, NOBODY_BETWEEN),
    ] {
        finds(&format!("{mistake:?}"), property, Downgrades { mistake: Some(mistake) });
    }
}
