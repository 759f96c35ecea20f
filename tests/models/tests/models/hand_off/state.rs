//! The clients, the messages between them and the server, and what the properties look at.

use super::rules::{Bounds, Mistake};
use super::server::{Holder, Lock, Owner};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Request {
    /// A plain `SET NX PX`.
    Set,
    Join,
    Again,
    /// A plain delete, if the value is exactly the token.
    Delete,
    Release,
    Renew,
    /// The body has ended, and the lock is kept for the rest of its `min_hold`.
    Keep,
    /// Only in [`Mistake::CountsFenceLater`].
    Fence,
}

/// Times are in ticks. A message that carries a time of the server tells its reader how much of it
/// is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Answer {
    Set,
    /// To a [`Request::Set`]: the lock has a value. `by_itself`: this client's, by an earlier
    /// request.
    Taken {
        by_itself: bool,
    },
    Held {
        lasts: u8,
    },
    Busy {
        left: u8,
        is_stranger: bool,
    },
    /// The lock is released, or kept for its `min_hold`, or was not the client's, which has left
    /// the queue.
    Released,
    NotDeleted,
    Renewed,
    NotRenewed,
    /// Only in [`Mistake::CountsFenceLater`].
    Counted,
    /// Pushed, to a waiter: the lock is its own since then.
    Granted {
        age: u8,
    },
    /// Pushed, to a waiter: the lease in front of it ends then.
    Next {
        left: u8,
    },
    /// Pushed, to a waiter: the lock was left free.
    Free,
    /// Pushed, to the waiters of a process: they have no place any more.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase {
    Idle,
    /// The first ask is under way.
    Asking,
    /// A join or again is under way.
    Joining,
    /// In the queue, until a push or the timer.
    Asleep,
    /// The client has a lease.
    Inside,
    /// The lease is over, and the client has not noticed yet.
    Overdue,
    Releasing,
    Done,
    Dead,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// So many may be inside while it is; 0 for any number.
    pub(super) number: u8,
    /// For how many of them it counts.
    pub(super) weight: u8,
    /// Ticks until its lease ends.
    pub(super) lease: u8,
    /// Ticks until it asks again.
    pub(super) timer: u8,
    /// Ticks since it sent the request whose answer is open.
    pub(super) age: u8,
    pub(super) renewing: bool,
    /// It has sent a join, so it may stand in the queue.
    pub(super) joined: bool,
    /// It has a connection, as far as it knows.
    pub(super) up: bool,
    /// The server does not know yet that the connection before has ended.
    pub(super) ghost: bool,
    /// Its connection broke once.
    pub(super) cut: bool,
    /// A push to it was lost.
    pub(super) missed: bool,
    pub(super) frozen: bool,
    /// It is of the process that has several.
    pub(super) of_one: bool,
    /// It was let in while it was frozen.
    pub(super) claims: bool,
    /// Its lock was taken away from it.
    pub(super) robbed: bool,
    pub(super) wants_fence: bool,
    /// Its lock is kept for a `min_hold`.
    pub(super) keeps: bool,
    /// The order in which the server gave the lock away; 0 for never.
    pub(super) turn: u8,
    /// Its fencing token, or 0.
    pub(super) fence: u8,
    /// On their way to the server.
    pub(super) requests: Vec<Request>,
    /// On their way to the server, on the connection before, and in any order with `requests`.
    pub(super) strays: Vec<Request>,
    /// On their way to the client.
    pub(super) answers: Vec<Answer>,
}

impl Client {
    pub(super) const fn new(number: u8, wants_fence: bool, of_one: bool) -> Self {
        Self {
            phase: Phase::Idle,
            number,
            weight: 1,
            lease: 0,
            timer: 0,
            age: 0,
            renewing: false,
            joined: false,
            up: true,
            ghost: false,
            cut: false,
            missed: false,
            frozen: false,
            of_one,
            claims: false,
            robbed: false,
            wants_fence,
            keeps: false,
            turn: 0,
            fence: 0,
            requests: Vec::new(),
            strays: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, request: Request, bounds: &Bounds) {
        if !self.up {
            return;
        }
        if matches!(request, Request::Set | Request::Join | Request::Again | Request::Renew) {
            self.age = 0;
        }
        self.joined |= matches!(request, Request::Join | Request::Again);
        if bounds.has(Mistake::Overtakes) && matches!(request, Request::Delete | Request::Release) {
            self.requests.insert(0, request);
        } else {
            self.requests.push(request);
        }
    }

    pub(super) fn tell(&mut self, answer: Answer) {
        if self.up {
            self.answers.push(answer);
        }
    }

    /// The server finds a connection that listens to the client's inbox.
    pub(super) fn listens(&self) -> bool {
        self.up || self.ghost
    }

    /// It reads its answers and keeps its times.
    pub(super) fn runs(&self) -> bool {
        self.up && !self.frozen
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Joining | Phase::Asleep)
    }

    /// It is not alone inside.
    pub(super) fn is_counted(&self) -> bool {
        self.number != 1
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Done | Phase::Dead)
    }

    /// No message is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.requests.is_empty() && self.strays.is_empty() && self.answers.is_empty() && !self.ghost
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) lock: Option<Lock>,
    /// Those inside, in any order, while the lock is [`Owner::Counted`].
    pub(super) holders: Vec<Holder>,
    pub(super) queue: Vec<usize>,
    /// The client that was granted the lock last, while others wait. Only where a process has
    /// several clients.
    pub(super) claim: Option<usize>,
    /// Sorted: clients are interchangeable.
    pub(super) clients: Vec<Client>,
    /// How many may still happen.
    pub(super) accidents: u8,
    /// For how many ticks there was room for the first waiter while one that runs was asleep.
    pub(super) slept: u8,
    /// A lock with waiters was freed by an operator or a stranger, was left to strangers, or
    /// expired while its first two waiters did not run. Until it is marked again, newcomers may
    /// pass.
    pub(super) order_is_lost: bool,
    /// A client entered while another one, which listened, had waited for longer.
    pub(super) passed_over: bool,
    /// A newcomer took the lock by its first ask, although a waiter was awake.
    pub(super) newcomer_passed: bool,
    /// The lock was handed to a client that does not listen.
    pub(super) given_to_the_gone: bool,
    /// A process lost its places for the lock of a client that is done.
    pub(super) dropped_without_cause: bool,
    /// A process that stands still was granted the lock after a claim of it had ended.
    pub(super) claims_again: bool,
}

impl State {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let client = |at| {
            let number = bounds.numbers.get(at).copied().unwrap_or(1);
            let weight = bounds.weights.get(at).copied().unwrap_or(1);
            let client = Client::new(number, at > 0 || !bounds.without_fence, bounds.of_one.contains(&at));
            Client { weight, ..client }
        };
        Self {
            lock: None,
            holders: Vec::new(),
            queue: Vec::new(),
            claim: None,
            clients: (0..bounds.clients).map(client).collect(),
            accidents: bounds.accidents,
            slept: 0,
            order_is_lost: false,
            passed_over: false,
            newcomer_passed: false,
            given_to_the_gone: false,
            dropped_without_cause: false,
            claims_again: false,
        }
    }

    /// No message is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.clients.iter().all(Client::is_calm)
    }

    /// None of these has the lock, as soon as no message is on its way.
    pub(super) fn lock_is_not_of(&self, these: impl Fn(&Client) -> bool) -> bool {
        let is_one = |(at, client): (usize, &Client)| self.has_lock(at) && !client.keeps && these(client);
        !self.is_calm() || !self.clients.iter().enumerate().any(is_one)
    }

    /// None of these has a place in the queue, as soon as no message is on its way.
    pub(super) fn queue_has_none_of(&self, these: impl Fn(&Client) -> bool) -> bool {
        !self.is_calm() || !self.queue.iter().any(|waiter| these(&self.clients[*waiter]))
    }

    /// Names the same for what differs in names only: clients by their state, turns and fencing
    /// tokens by their rank.
    pub(super) fn normalize(&mut self) {
        let numbers: [fn(&mut Client) -> &mut u8; 2] =
            [|client| &mut client.turn, |client| &mut client.fence];
        for number in numbers {
            for rank in 1..u8::try_from(self.clients.len()).unwrap_or(u8::MAX) {
                let higher = self.clients.iter_mut().map(number).filter(|number| **number >= rank);
                let Some(gap) = higher.map(|number| *number - rank).min().filter(|gap| *gap > 0) else {
                    continue;
                };
                for number in self.clients.iter_mut().map(number).filter(|number| **number >= rank) {
                    *number -= gap;
                }
            }
        }
        let place = |at: usize| {
            let inside = self.holders.iter().find(|holder| holder.client == at);
            let inside = inside.map(|holder| (holder.left, holder.lets_end));
            let waits = self.queue.iter().position(|waiter| *waiter == at);
            (self.is_owner(at), self.claim == Some(at), inside, waits)
        };
        let key = |at: usize| (&self.clients[at], place(at));
        if (1..self.clients.len()).all(|at| key(at - 1) <= key(at)) {
            self.holders.sort_unstable_by_key(|holder| holder.client);
            return;
        }
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        order.sort_unstable_by_key(|at| key(*at));
        let renamed = |old: usize| order.iter().position(|at| *at == old).unwrap_or(old);
        if let Some(lock) = &mut self.lock
            && let Owner::Client(owner) = lock.owner
        {
            lock.owner = Owner::Client(renamed(owner));
        }
        self.queue = self.queue.iter().map(|waiter| renamed(*waiter)).collect();
        self.holders.iter_mut().for_each(|holder| holder.client = renamed(holder.client));
        self.holders.sort_unstable_by_key(|holder| holder.client);
        self.claim = self.claim.map(renamed);
        let old = |at: &usize| std::mem::replace(&mut self.clients[*at], Client::new(1, false, false));
        self.clients = order.iter().map(old).collect();
    }
}
