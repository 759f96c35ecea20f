//! The clients, the messages between them and the server, and the lock.

pub(super) const CLIENTS: usize = 4;

/// A client of another kind, as the owner of the lock.
pub(super) const STRANGER: u8 = 99;

pub(super) const TTL: u8 = 3;
pub(super) const CLAIM: u8 = 1;
pub(super) const GRACE: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Request {
    /// A plain `SET NX PX`, of an exclusive client.
    Set,
    Join,
    Again,
    Leave,
    Renew,
}

/// Times are in ticks. A message that carries a time of the server tells its reader how much of it
/// is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Answer {
    Set,
    /// To a [`Request::Set`]: the lock has a value.
    Taken,
    Inside {
        lasts: u8,
    },
    Busy {
        left: u8,
    },
    Left,
    Renewed,
    NotInside,
    /// Pushed: the waiter is inside since then.
    Granted {
        age: u8,
    },
    /// Pushed: there may be room for the waiter then.
    Next {
        left: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase {
    Idle,
    /// It has sent a plain `SET`.
    Setting,
    Asking,
    Sleeping,
    Inside,
    /// Its lease is over.
    Over,
    Leaving,
    Done,
    Dead,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Client {
    /// How many it allows inside, itself included; 0 for any number.
    pub(super) limit: u8,
    pub(super) phase: Phase,
    pub(super) lease: u8,
    pub(super) timer: u8,
    /// Since its last request that can take the lock was sent.
    pub(super) age: u8,
    pub(super) connected: bool,
    /// The server has not noticed that its connection is broken.
    pub(super) ghost: bool,
    pub(super) was_cut: bool,
    pub(super) frozen: bool,
    pub(super) renewing: bool,
    /// For how long it has had the lock since it was granted, and has said nothing. 0: it has.
    pub(super) silent: u8,
    /// In which order it was let in, and its fencing token: only their order counts.
    pub(super) entered: u8,
    pub(super) fence: u8,
    pub(super) requests: Vec<Request>,
    /// On a broken connection.
    pub(super) late: Vec<Request>,
    pub(super) answers: Vec<Answer>,
}

impl Client {
    pub(super) fn new(limit: Option<u8>) -> Self {
        Self {
            limit: limit.unwrap_or(0),
            phase: if limit.is_some() { Phase::Idle } else { Phase::Done },
            lease: 0,
            timer: 0,
            age: 0,
            connected: true,
            ghost: false,
            was_cut: false,
            frozen: false,
            renewing: false,
            silent: 0,
            entered: 0,
            fence: 0,
            requests: Vec::new(),
            late: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn listens(&self) -> bool {
        self.connected && self.phase != Phase::Dead || self.ghost
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.connected
            && !self.frozen
            && !self.was_cut
            && matches!(self.phase, Phase::Sleeping | Phase::Asking)
    }

    pub(super) fn is_calm(&self) -> bool {
        self.requests.is_empty()
            && self.late.is_empty()
            && self.answers.is_empty()
            && !self.ghost
            && !self.frozen
    }

    pub(super) fn send(&mut self, request: Request) {
        if self.connected {
            self.requests.push(request);
            if request != Request::Leave {
                self.age = 0;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Lock {
    Free,
    Alone { owner: u8, marked: bool },
    Together { limit: u8, fence: u8 },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) lock: Lock,
    /// How long its key lasts.
    pub(super) lasts: u8,
    /// What is left of the lease of each that has it together with others.
    pub(super) inside: [Option<u8>; CLIENTS],
    pub(super) queue: Vec<u8>,
    pub(super) clients: [Client; CLIENTS],
    pub(super) accidents: u8,
    /// For how long the first waiter that runs has slept beside room.
    pub(super) idle: u8,
    /// The key of the lock has vanished while clients wait: the next one may be any of them.
    pub(super) has_vanished: bool,
    /// An operator has deleted it.
    pub(super) was_deleted: bool,
    /// One has entered although another one had waited for longer.
    pub(super) has_passed: bool,
}

pub(super) fn least(one: u8, other: u8) -> u8 {
    match (one, other) {
        (0, _) => other,
        (_, 0) => one,
        _ => one.min(other),
    }
}

impl State {
    pub(super) fn client(&mut self, id: u8) -> &mut Client {
        &mut self.clients[usize::from(id)]
    }

    pub(super) fn limit(&self, id: u8) -> u8 {
        self.clients[usize::from(id)].limit
    }

    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.inside.iter().flatten().count()).unwrap_or(u8::MAX)
    }

    /// Of those inside.
    pub(super) fn least(&self) -> u8 {
        let inside = self.clients.iter().zip(self.inside).filter(|(_, left)| left.is_some());
        inside.fold(0, |limit, (client, _)| least(limit, client.limit))
    }

    pub(super) fn tell(&mut self, id: u8, answer: Answer) {
        let client = self.client(id);
        if !client.connected || client.phase == Phase::Dead {
            return;
        }
        // Two hints one behind the other are as the earlier one of both.
        match (client.answers.last_mut(), answer) {
            (Some(Answer::Next { left: before }), Answer::Next { left }) => *before = left.min(*before),
            _ => client.answers.push(answer),
        }
    }

    /// States that differ only in the names of the clients, or in numbers of which the order
    /// counts, are one.
    pub(super) fn canonical(mut self) -> Self {
        let mut orders: Vec<u8> = self.clients.iter().map(|client| client.entered).collect();
        let mut fences: Vec<u8> = self.clients.iter().map(|client| client.fence).collect();
        if let Lock::Together { fence, .. } = self.lock {
            fences.push(fence);
        }
        for numbers in [&mut orders, &mut fences] {
            numbers.push(0);
            numbers.sort_unstable();
            numbers.dedup();
        }
        let rank = |numbers: &[u8], number: u8| {
            u8::try_from(numbers.partition_point(|it| *it < number)).unwrap_or(0)
        };
        for client in &mut self.clients {
            client.entered = rank(&orders, client.entered);
            client.fence = rank(&fences, client.fence);
        }
        if let Lock::Together { fence, .. } = &mut self.lock {
            *fence = rank(&fences, *fence);
        }
        let mut order: Vec<usize> = (0..CLIENTS).collect();
        let owns = |id: usize| matches!(self.lock, Lock::Alone { owner, .. } if usize::from(owner) == id);
        let place = |id: usize| self.queue.iter().position(|it| usize::from(*it) == id);
        order.sort_by_key(|&id| (&self.clients[id], owns(id), self.inside[id], place(id)));
        let name =
            |id: u8| order.iter().position(|it| *it == usize::from(id)).and_then(|at| u8::try_from(at).ok());
        let queue = self.queue.iter().filter_map(|id| name(*id)).collect();
        let lock = match self.lock {
            Lock::Alone { owner, marked } => Lock::Alone { owner: name(owner).unwrap_or(STRANGER), marked },
            lock => lock,
        };
        let at = |at: usize| order.get(at).copied().unwrap_or(at);
        let clients = std::array::from_fn(|id| self.clients[at(id)].clone());
        let inside = std::array::from_fn(|id| self.inside[at(id)]);
        Self { lock, inside, queue, clients, ..self }
    }
}
