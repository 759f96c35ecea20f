//! What happens, one thing after the other.

use super::state::{Answer, CLAIM, CLIENTS, Client, GRACE, Lock, Phase, Request, STRANGER, State, TTL};
use super::{Accident, Counted, Mistake, Server};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Tick,
    /// Of a client.
    Of(u8, Step),
    Delete,
    StrangerTakes,
    StrangerLeaves,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Begin,
    /// The server executes its next request.
    Serve,
    /// Or one of its broken connection.
    ServeLate,
    /// It reads its next answer.
    Read,
    /// Its body ends.
    End,
    Renew,
    Cancel,
    /// Its timer is over.
    Ask,
    /// Its lease is over.
    Stop,
    /// Without a connection it waits for no answer to its release.
    GiveUp,
    Crash,
    Cut,
    /// The server notices that its connection is broken.
    Notice,
    Reconnect,
    Freeze,
    Thaw,
    LosePush,
}

const STEPS: [Step; 17] = [
    Step::Begin,
    Step::Serve,
    Step::ServeLate,
    Step::Read,
    Step::End,
    Step::Renew,
    Step::Cancel,
    Step::Ask,
    Step::Stop,
    Step::GiveUp,
    Step::Crash,
    Step::Cut,
    Step::Notice,
    Step::Reconnect,
    Step::Freeze,
    Step::Thaw,
    Step::LosePush,
];

pub(super) fn actions(state: &State) -> impl Iterator<Item = Action> {
    let has_ended = |client: &Client| client.phase == Phase::Done && client.is_calm();
    let goes_on = (0..).zip(&state.clients).filter(move |(_, client)| !has_ended(client));
    let ids: Vec<u8> = goes_on.map(|(id, _)| id).collect();
    let of_clients = ids.into_iter().flat_map(|id| STEPS.map(|step| Action::Of(id, step)));
    [Action::Tick, Action::Delete, Action::StrangerTakes, Action::StrangerLeaves]
        .into_iter()
        .chain(of_clients)
}

impl Counted {
    fn spend(&self, state: &mut State, accident: Accident) -> Option<()> {
        if !self.bounds.kinds.contains(&accident) {
            return None;
        }
        state.accidents = state.accidents.checked_sub(1)?;
        Some(())
    }

    /// `None` when it cannot happen.
    pub(super) fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => self.tick(state)?,
            Action::Of(id, step) => self.step_of(state, id, step)?,
            Action::Delete => {
                if state.lock == Lock::Free {
                    return None;
                }
                self.spend(state, Accident::Deletion)?;
                (state.lock, state.lasts) = (Lock::Free, 0);
                (state.has_vanished, state.was_deleted) = (true, true);
            }
            Action::StrangerTakes => {
                if state.lock != Lock::Free {
                    return None;
                }
                self.spend(state, Accident::Stranger)?;
                state.lock = Lock::Alone { owner: STRANGER, marked: false };
                (state.lasts, state.inside) = (TTL, [None; CLIENTS]);
                state.has_vanished = !state.queue.is_empty();
            }
            Action::StrangerLeaves => {
                if !matches!(state.lock, Lock::Alone { owner: STRANGER, .. }) {
                    return None;
                }
                (state.lock, state.lasts) = (Lock::Free, 0);
                state.has_vanished = !state.queue.is_empty();
            }
        }
        Some(())
    }

    fn step_of(&self, state: &mut State, id: u8, step: Step) -> Option<()> {
        let prompt = self.bounds.prompt;
        match step {
            Step::Serve => {
                let client = state.client(id);
                if client.requests.is_empty() {
                    return None;
                }
                let request = client.requests.remove(0);
                let answer = self.server.execute(state, id, request, prompt);
                state.tell(id, answer);
            }
            Step::ServeLate => {
                let client = state.client(id);
                if client.late.is_empty() {
                    return None;
                }
                let request = client.late.remove(0);
                self.server.execute(state, id, request, prompt);
            }
            Step::Crash | Step::Cut => {
                let client = state.client(id);
                if !client.connected || matches!(client.phase, Phase::Idle | Phase::Dead) {
                    return None;
                }
                self.spend(state, if step == Step::Crash { Accident::Crash } else { Accident::Cut })?;
                let client = state.client(id);
                if step == Step::Crash {
                    client.phase = Phase::Dead;
                    (client.lease, client.timer, client.frozen) = (0, 0, false);
                }
                (client.connected, client.ghost, client.was_cut, client.renewing) =
                    (false, true, true, false);
                let sent = std::mem::take(&mut client.requests);
                client.late.extend(sent);
                client.answers.clear();
            }
            Step::Freeze => {
                let client = state.client(id);
                if client.frozen || matches!(client.phase, Phase::Idle | Phase::Dead | Phase::Done) {
                    return None;
                }
                self.spend(state, Accident::Freeze)?;
                state.client(id).frozen = true;
            }
            Step::LosePush => {
                let is_push =
                    |answer: &Answer| matches!(answer, Answer::Granted { .. } | Answer::Next { .. });
                let at = state.client(id).answers.iter().position(is_push)?;
                self.spend(state, Accident::LostPush)?;
                state.client(id).answers.remove(at);
            }
            _ => return self.step_of_client(state.client(id), step),
        }
        Some(())
    }

    /// What concerns nobody else.
    fn step_of_client(&self, client: &mut Client, step: Step) -> Option<()> {
        let runs = !client.frozen;
        let may = match step {
            Step::Begin => client.phase == Phase::Idle,
            Step::Read => {
                client.connected && runs && client.phase != Phase::Dead && !client.answers.is_empty()
            }
            Step::End => runs && client.phase == Phase::Inside,
            Step::Renew => {
                self.bounds.renews
                    && runs
                    && client.phase == Phase::Inside
                    && !client.renewing
                    && client.connected
                    && client.requests.is_empty()
            }
            Step::Cancel => {
                self.bounds.cancels
                    && runs
                    && matches!(client.phase, Phase::Setting | Phase::Asking | Phase::Sleeping)
            }
            Step::Ask => client.phase == Phase::Sleeping && client.timer == 0 && client.connected && runs,
            Step::Stop => client.phase == Phase::Over && client.connected && runs,
            Step::GiveUp => client.phase == Phase::Leaving && !client.connected,
            Step::Notice => client.ghost,
            Step::Reconnect => {
                !client.connected && runs && !matches!(client.phase, Phase::Dead | Phase::Done)
            }
            Step::Thaw => client.frozen,
            _ => false,
        };
        if !may {
            return None;
        }
        match step {
            Step::Begin if client.limit == 1 => {
                client.phase = Phase::Setting;
                client.send(Request::Set);
            }
            Step::Begin => {
                client.phase = Phase::Asking;
                client.send(Request::Join);
            }
            Step::Read => {
                let answer = client.answers.remove(0);
                self.read(client, answer);
            }
            Step::Renew => {
                client.renewing = true;
                client.send(Request::Renew);
            }
            Step::End | Step::Cancel | Step::Stop => leave(client),
            Step::Ask => {
                client.phase = Phase::Asking;
                client.send(Request::Again);
            }
            Step::GiveUp => client.phase = Phase::Done,
            Step::Notice => forget_connection(client),
            Step::Reconnect => {
                forget_connection(client);
                client.connected = true;
                match client.phase {
                    Phase::Setting => {
                        client.phase = Phase::Asking;
                        client.send(Request::Join);
                    }
                    Phase::Asking | Phase::Sleeping => {
                        client.phase = Phase::Asking;
                        client.send(Request::Again);
                    }
                    Phase::Leaving => client.send(Request::Leave),
                    _ => {}
                }
            }
            Step::Thaw => client.frozen = false,
            _ => {}
        }
        Some(())
    }

    fn read(&self, client: &mut Client, answer: Answer) {
        let age = client.age;
        match (client.phase, answer) {
            (Phase::Setting, Answer::Set) => hold(client, TTL.saturating_sub(age)),
            (Phase::Setting, Answer::Taken) => {
                client.phase = Phase::Asking;
                client.send(Request::Join);
            }
            (Phase::Asking, Answer::Inside { lasts }) => hold(client, lasts.saturating_sub(age)),
            (Phase::Asking, Answer::Busy { left }) => {
                client.phase = Phase::Sleeping;
                let left = left.max(1);
                client.timer = if self.bounds.poll > 0 { left.min(self.bounds.poll) } else { left };
            }
            (Phase::Sleeping | Phase::Asking, Answer::Granted { age }) => {
                let from_receipt = self.server.0 == Some(Mistake::GrantFromReceipt);
                let left = if from_receipt { CLAIM } else { CLAIM.saturating_sub(age) };
                if left > 0 {
                    hold(client, left);
                } else if client.phase == Phase::Sleeping {
                    client.phase = Phase::Asking;
                    client.send(Request::Again);
                }
            }
            (Phase::Sleeping, Answer::Next { left }) => client.timer = client.timer.min(left),
            (Phase::Done, Answer::Granted { .. }) => client.send(Request::Leave),
            (Phase::Inside, Answer::Renewed) => {
                client.renewing = false;
                client.lease = client.lease.max(TTL.saturating_sub(age));
            }
            (Phase::Inside, Answer::NotInside) => leave(client),
            (Phase::Leaving, Answer::Left) => client.phase = Phase::Done,
            _ => {}
        }
    }

    /// In a prompt run, time passes only when all that can happen at once has happened.
    fn tick(&self, state: &mut State) -> Option<()> {
        if self.bounds.prompt {
            let is_idle = |client: &Client| {
                let has_asked = !(client.phase == Phase::Sleeping && client.timer == 0);
                let is_away = client.phase == Phase::Dead || client.frozen;
                let rests = client.answers.is_empty() && has_asked && client.phase != Phase::Over;
                !client.connected || client.requests.is_empty() && (is_away || rests)
            };
            if !state.clients.iter().all(is_idle) {
                return None;
            }
            state.idle = if Self::sleeps_beside_room(state) { (state.idle + 1).min(5) } else { 0 };
        }
        for client in &mut state.clients {
            tick_of(client);
        }
        for left in state.inside.iter_mut().flatten() {
            *left = left.saturating_sub(1);
        }
        for (id, client) in (0..).zip(&mut state.clients) {
            if client.silent > 0 {
                let is_inside = match state.lock {
                    Lock::Alone { owner, marked } => {
                        owner == id && state.lasts > 1 + if marked { GRACE } else { 0 }
                    }
                    _ => state.inside[usize::from(id)].is_some_and(|left| left > 0),
                };
                client.silent = if is_inside { (client.silent + 1).min(5) } else { 0 };
            }
        }
        if state.lock != Lock::Free {
            state.lasts = state.lasts.saturating_sub(1);
            if state.lasts == 0 {
                let is_strangers = matches!(state.lock, Lock::Alone { owner: STRANGER, .. });
                (state.lock, state.inside) = (Lock::Free, [None; CLIENTS]);
                // In its grace, a waiter that runs has asked.
                let has_waiter = state.queue.iter().any(|id| state.clients[usize::from(*id)].is_waiting());
                let in_grace = self.bounds.prompt && has_waiter && !is_strangers;
                state.has_vanished |= !state.queue.is_empty() && !in_grace;
            }
        }
        Some(())
    }

    /// With those whose leases last, as a server without a mistake counts.
    fn sleeps_beside_room(state: &State) -> bool {
        let mut now = state.clone();
        for left in &mut now.inside {
            *left = left.filter(|left| *left > 0);
        }
        let client = |id: &u8| &state.clients[usize::from(*id)];
        let runs = |id: &&u8| {
            let client = client(id);
            client.connected && client.phase == Phase::Sleeping && !client.frozen
        };
        let Some(at) = state.queue.iter().position(|id| runs(&id)) else {
            return false;
        };
        let is_behind_a_stuck_one = state.queue.iter().take(at).any(|id| client(id).listens());
        !is_behind_a_stuck_one && Server(None).has_room(&now, client(&state.queue[at]).limit)
    }
}

fn leave(client: &mut Client) {
    client.phase = Phase::Leaving;
    client.lease = 0;
    client.send(Request::Leave);
}

fn hold(client: &mut Client, lease: u8) {
    if lease == 0 {
        leave(client);
        return;
    }
    client.phase = Phase::Inside;
    (client.lease, client.renewing) = (lease, false);
}

fn forget_connection(client: &mut Client) {
    client.ghost = false;
    client.late.clear();
}

fn tick_of(client: &mut Client) {
    client.timer = client.timer.saturating_sub(1);
    let is_asking = matches!(client.phase, Phase::Setting | Phase::Asking) || client.renewing;
    client.age = if is_asking { (client.age + 1).min(TTL) } else { 0 };
    if client.lease > 0 {
        client.lease -= 1;
        if client.lease == 0 && client.phase == Phase::Inside {
            (client.phase, client.renewing) = (Phase::Over, false);
        }
    }
    for answer in &mut client.answers {
        match answer {
            Answer::Granted { age } => *age = (*age + 1).min(CLAIM),
            Answer::Busy { left } | Answer::Next { left } => *left = left.saturating_sub(1),
            _ => {}
        }
    }
}
