//! What can happen next.

use super::rules::{Bounds, Mistake};
use super::server::{CLAIM, Owner, TTL};
use super::state::{Answer, Client, Phase, Request, State};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// A client asks for the lock.
    Begin(usize),
    /// The server executes the client's first request.
    Serve(usize),
    /// A release that leaves the lock free for clients of another kind.
    LeaveFree(usize),
    /// The server executes the first request of a broken connection, and its answer is lost.
    Straggle(usize),
    /// The client reads its first answer.
    Read(usize),
    /// The body ends, or the client notices that its lease is over.
    End(usize),
    /// The body ends, and the lock is kept for the rest of its `min_hold`.
    Keep(usize),
    Renew(usize),
    /// The caller goes away, or its wait is over.
    Cancel(usize),
    /// The waiter's timer rings.
    Wake(usize),
    /// The release gets no answer, and its key has expired by now.
    GiveUp(usize),
    Reconnect(usize),
    /// The server learns that a connection has ended; requests that it has not read by then are
    /// lost.
    Notice(usize),
    Thaw(usize),
    Tick,
    Crash(usize),
    Cut(usize),
    Freeze(usize),
    LosePush(usize),
    DeleteLock,
    DeleteQueue,
    Flush,
    ForceRelease,
    Restart {
        older: bool,
    },
    StrangerTakes,
    StrangerReleases,
}

impl State {
    pub(super) fn step(&mut self, action: Action, bounds: &Bounds) -> Option<()> {
        match action {
            Action::Serve(at) => {
                let requests = &mut self.clients[at].requests;
                let request = (!requests.is_empty()).then(|| requests.remove(0))?;
                let answer = self.serve(at, request, bounds);
                self.clients[at].tell(answer);
            }
            Action::LeaveFree(at) => {
                let first = self.clients[at].requests.first();
                if !bounds.leaves_free || first != Some(&Request::Release) {
                    return None;
                }
                let answer = self.release_and_leave_free(at, bounds)?;
                self.clients[at].requests.remove(0);
                self.clients[at].tell(answer);
            }
            Action::Straggle(at) => {
                let strays = &mut self.clients[at].strays;
                let request = (!strays.is_empty()).then(|| strays.remove(0))?;
                let _ = self.serve(at, request, bounds);
            }
            Action::GiveUp(at) => {
                let client = &self.clients[at];
                if client.phase != Phase::Releasing || client.up || self.has_lock(at) {
                    return None;
                }
                self.clients[at].phase = Phase::Done;
            }
            Action::Tick => return self.tick(bounds),
            Action::Thaw(at) => {
                if !self.clients[at].frozen {
                    return None;
                }
                self.of_process(at).for_each(|client| (client.frozen, client.claims) = (false, false));
            }
            Action::Crash(_)
            | Action::Cut(_)
            | Action::Freeze(_)
            | Action::LosePush(_)
            | Action::DeleteLock
            | Action::DeleteQueue
            | Action::Flush
            | Action::ForceRelease
            | Action::Restart { .. }
            | Action::StrangerTakes
            | Action::StrangerReleases => self.go_wrong(action, bounds)?,
            Action::Begin(at)
            | Action::Read(at)
            | Action::End(at)
            | Action::Keep(at)
            | Action::Renew(at)
            | Action::Cancel(at)
            | Action::Wake(at)
            | Action::Reconnect(at)
            | Action::Notice(at) => self.clients[at].step(action, bounds)?,
        }
        Some(())
    }

    fn serve(&mut self, me: usize, request: Request, bounds: &Bounds) -> Answer {
        match request {
            Request::Set => self.set_if_free(me, bounds),
            Request::Join => self.join(me, false, bounds),
            Request::Again => self.join(me, true, bounds),
            Request::Delete => self.delete_if_unmarked(me, bounds),
            Request::Release => self.release(me, bounds),
            Request::Renew => self.renew(me, true, bounds),
            Request::Keep => self.renew(me, false, bounds),
            Request::Fence => self.fence(me),
        }
    }

    fn tick(&mut self, bounds: &Bounds) -> Option<()> {
        if bounds.prompt && self.clients.iter().any(Client::has_work) {
            return None;
        }
        self.slept = if bounds.prompt && self.leaves_room(bounds) { self.slept + 1 } else { 0 };
        for client in &mut self.clients {
            client.tick(bounds);
        }
        for holder in &mut self.holders {
            holder.left = holder.left.saturating_sub(1);
        }
        if let Some(lock) = &mut self.lock {
            lock.expires_in -= 1;
            if lock.expires_in == 0 {
                let runs = |waiter: &usize| self.clients[*waiter].runs();
                self.order_is_lost = lock.owner == Owner::Stranger || !self.queue.iter().take(2).any(runs);
                self.lock = None;
                self.holders.clear();
            }
        }
        Some(())
    }

    /// Leaves out some impossible actions; [`State::step`] decides.
    pub(super) fn actions(&self, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for (at, client) in self.clients.iter().enumerate() {
            match client.phase {
                Phase::Idle => {
                    if at == 0 || self.clients[at - 1] != *client {
                        actions.push(Action::Begin(at));
                    }
                    continue;
                }
                Phase::Asking | Phase::Joining => actions.push(Action::Cancel(at)),
                Phase::Asleep => actions.extend([Action::Cancel(at), Action::Wake(at)]),
                Phase::Inside => actions.extend([Action::End(at), Action::Keep(at), Action::Renew(at)]),
                Phase::Overdue => actions.push(Action::End(at)),
                Phase::Releasing => actions.push(Action::GiveUp(at)),
                Phase::Done | Phase::Dead => {}
            }
            if !client.requests.is_empty() {
                actions.extend([Action::Serve(at), Action::LeaveFree(at)]);
            }
            if !client.answers.is_empty() {
                actions.push(Action::Read(at));
            }
            if client.ghost {
                actions.extend([Action::Straggle(at), Action::Notice(at)]);
            }
            if client.frozen {
                actions.push(Action::Thaw(at));
            }
            if !client.up {
                actions.push(Action::Reconnect(at));
            }
            let has_rest = client.phase != Phase::Done || !client.is_calm();
            if self.accidents > 0 && has_rest {
                actions.extend([Action::Crash(at), Action::Cut(at), Action::Freeze(at)]);
                actions.push(Action::LosePush(at));
            }
        }
        if self.accidents > 0 {
            actions.extend([
                Action::DeleteLock,
                Action::DeleteQueue,
                Action::Flush,
                Action::ForceRelease,
                Action::Restart { older: false },
                Action::Restart { older: true },
                Action::StrangerTakes,
            ]);
        }
        actions.push(Action::StrangerReleases);
    }
}

impl Client {
    /// Something that it, or the server for it, does before time passes in a prompt run.
    fn has_work(&self) -> bool {
        if !self.up {
            return false;
        }
        let is_due = (self.phase == Phase::Asleep && self.timer == 0) || self.phase == Phase::Overdue;
        !self.requests.is_empty() || (!self.frozen && (!self.answers.is_empty() || is_due))
    }

    fn tick(&mut self, bounds: &Bounds) {
        self.timer = self.timer.saturating_sub(1);
        let is_open = matches!(self.phase, Phase::Asking | Phase::Joining) || self.renewing;
        self.age = if is_open { (self.age + 1).min(TTL) } else { 0 };
        if self.lease > 0 {
            self.lease -= 1;
            if self.lease == 0 {
                self.renewing = false;
                if self.phase == Phase::Inside {
                    self.phase = Phase::Overdue;
                }
            }
        }
        for answer in &mut self.answers {
            match answer {
                Answer::Granted { age } => *age = (*age + 1).min(CLAIM),
                Answer::Busy { left, .. } if !bounds.has(Mistake::CountsBusyFromReceipt) => {
                    *left = left.saturating_sub(1);
                }
                Answer::Next { left } if !bounds.has(Mistake::CountsNextFromReceipt) => {
                    *left = left.saturating_sub(1);
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, action: Action, bounds: &Bounds) -> Option<()> {
        let acts = !self.frozen && self.phase != Phase::Dead;
        match action {
            Action::Begin(_) if self.phase == Phase::Idle => {
                let (phase, request) = if self.is_counted() {
                    (Phase::Joining, Request::Join)
                } else {
                    (Phase::Asking, Request::Set)
                };
                self.phase = phase;
                self.send(request, bounds);
            }
            Action::Read(_) if acts && self.up && !self.answers.is_empty() => {
                let answer = self.answers.remove(0);
                self.read(answer, bounds);
            }
            Action::End(_) if acts && matches!(self.phase, Phase::Inside | Phase::Overdue) => {
                self.release(if self.is_counted() { Request::Release } else { Request::Delete }, bounds);
            }
            Action::Keep(_) if acts && bounds.min_hold && self.up && self.phase == Phase::Inside => {
                self.keeps = true;
                self.release(Request::Keep, bounds);
            }
            Action::Renew(_) if acts && bounds.renews && self.up && self.phase == Phase::Inside => {
                if self.renewing || !self.requests.is_empty() {
                    return None;
                }
                self.renewing = true;
                self.send(Request::Renew, bounds);
            }
            Action::Cancel(_) if acts && bounds.cancels && self.is_waiting() => {
                self.release(if self.joined { Request::Release } else { Request::Delete }, bounds);
            }
            Action::Wake(_) if acts && self.up && self.phase == Phase::Asleep && self.timer == 0 => {
                self.ask_again(bounds);
            }
            Action::Reconnect(_) if acts && !self.up && self.phase != Phase::Done => {
                self.reconnect(bounds);
            }
            Action::Notice(_) if self.ghost => self.end_ghost(),
            _ => return None,
        }
        Some(())
    }

    fn reconnect(&mut self, bounds: &Bounds) {
        if bounds.kills {
            self.end_ghost();
        }
        self.up = true;
        match self.phase {
            _ if bounds.has(Mistake::WaitsForLostAnswer) => {}
            Phase::Asking => self.send(Request::Set, bounds),
            Phase::Joining | Phase::Asleep => self.ask_again(bounds),
            Phase::Releasing => {
                self.release(if self.joined { Request::Release } else { Request::Delete }, bounds);
            }
            _ => {}
        }
    }
}
