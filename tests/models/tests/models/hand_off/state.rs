//! The node, its clients, the messages between them, and the scripts on the node.

use super::Mistake;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Request {
    Acquire,
    Release,
    /// Only in [`Mistake::OnlyLeaves`].
    Leave,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Answer {
    /// To an acquire. `over`: the lock has expired since, as the time of its request tells.
    Held {
        over: bool,
    },
    Busy,
    Released,
    /// Pushed, to a waiter. `over`: the lock has expired since, as the node's times tell.
    Granted {
        over: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase {
    Idle,
    /// `asked`: an answer is under way.
    Waiting {
        asked: bool,
    },
    /// The client has a lease: it is inside.
    Holding,
    Releasing,
    Done,
    Dead,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// The client has a connection, as far as it knows.
    pub(super) up: bool,
    /// The node does not know yet that the connection before has ended.
    pub(super) ghost: bool,
    /// Its connection broke once.
    pub(super) cut: bool,
    /// On their way to the node.
    pub(super) requests: Vec<Request>,
    /// On their way to the node, on the connection before, and in any order with `requests`.
    pub(super) strays: Vec<Request>,
    /// On their way to the client.
    pub(super) answers: Vec<Answer>,
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Idle,
            up: true,
            ghost: false,
            cut: false,
            requests: Vec::new(),
            strays: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, request: Request, mistake: Option<Mistake>) {
        if self.up && mistake == Some(Mistake::Overtakes) && request == Request::Release {
            self.requests.insert(0, request);
        } else if self.up {
            self.requests.push(request);
        }
    }

    pub(super) fn tell(&mut self, answer: Answer) {
        if self.up {
            self.answers.push(answer);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// The node finds a connection that listens to the client's inbox.
    pub(super) fn listens(&self) -> bool {
        self.up || self.ghost
    }

    /// No message is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.requests.is_empty() && self.strays.is_empty() && self.answers.is_empty() && !self.ghost
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) lock: Option<usize>,
    pub(super) queue: Vec<usize>,
    /// Sorted: clients are interchangeable.
    pub(super) clients: Vec<Client>,
    /// How many faults may still happen.
    pub(super) accidents: u8,
    /// The lock was granted to a client while another one, which listened, had waited for longer.
    pub(super) passed_over: bool,
    /// The lock was handed to a client that does not listen.
    pub(super) given_to_nobody: bool,
}

impl State {
    pub(super) fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        let place = |at: usize| (self.lock == Some(at), self.queue.iter().position(|waiter| *waiter == at));
        order.sort_unstable_by_key(|at| (&self.clients[*at], place(*at)));
        let renamed = |old: usize| order.iter().position(|at| *at == old).unwrap_or(old);
        self.lock = self.lock.map(renamed);
        self.queue = self.queue.iter().map(|waiter| renamed(*waiter)).collect();
        self.clients =
            order.iter().map(|at| std::mem::replace(&mut self.clients[*at], Client::new())).collect();
    }
}

/// The scripts.
impl State {
    /// `acquire.lua`
    pub(super) fn acquire(&mut self, me: usize, mistake: Option<Mistake>) -> Answer {
        const HELD: Answer = Answer::Held { over: false };
        if self.lock == Some(me) {
            return HELD;
        }
        if self.lock.is_none() {
            if self.queue.is_empty() || mistake == Some(Mistake::Barges) {
                self.lock = Some(me);
                return HELD;
            }
            self.join(me, mistake);
            if mistake == Some(Mistake::LeavesFree) {
                return Answer::Busy;
            }
            if self.grant(me, mistake) {
                return if self.lock == Some(me) { HELD } else { Answer::Busy };
            }
            self.lock = Some(me);
            return HELD;
        }
        self.join(me, mistake);
        Answer::Busy
    }

    pub(super) fn join(&mut self, me: usize, mistake: Option<Mistake>) {
        if !self.queue.contains(&me) || (mistake == Some(Mistake::JoinsAgain) && self.queue.len() < 4) {
            self.queue.push(me);
        }
    }

    /// `grant.lua`. False when no waiter listens.
    pub(super) fn grant(&mut self, caller: usize, mistake: Option<Mistake>) -> bool {
        while !self.queue.is_empty() {
            let head = self.queue.remove(0);
            if head == caller {
                self.lock = Some(head);
                return true;
            }
            if self.clients[head].listens() || mistake == Some(Mistake::GrantsToNobody) {
                self.lock = Some(head);
                self.clients[head].tell(Answer::Granted { over: false });
                return true;
            }
        }
        false
    }

    /// `release.lua`
    pub(super) fn release(&mut self, me: usize, mistake: Option<Mistake>) {
        if self.lock != Some(me) && mistake != Some(Mistake::ReleasesAnyLock) {
            self.queue.retain(|waiter| *waiter != me);
        } else if !self.grant(me, mistake) {
            self.lock = None;
        }
    }

    /// The key expires.
    pub(super) fn expire(&mut self) {
        if let Some(holder) = self.lock.take() {
            for answer in &mut self.clients[holder].answers {
                if let Answer::Held { over } | Answer::Granted { over } = answer {
                    *over = true;
                }
            }
        }
    }
}
