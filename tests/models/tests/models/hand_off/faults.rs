//! What goes wrong: processes, connections and the server, and what operators and clients of
//! another kind do.

use super::rules::{Accident, Bounds};
use super::server::{Lock, Owner, TTL};
use super::state::{Answer, Client, Phase, State};
use super::steps::Action;

impl State {
    fn spend(&mut self, accident: Accident, bounds: &Bounds) -> Option<()> {
        if !bounds.kinds.contains(&accident) {
            return None;
        }
        self.accidents = self.accidents.checked_sub(1)?;
        Some(())
    }

    /// The lock is taken away from its holders.
    fn rob(&mut self) -> Option<Lock> {
        let lock = self.lock.take()?;
        if let Owner::Client(owner) = lock.owner {
            self.clients[owner].robbed = true;
        }
        for holder in std::mem::take(&mut self.holders) {
            self.clients[holder.client].robbed = true;
        }
        Some(lock)
    }

    pub(super) fn go_wrong(&mut self, action: Action, bounds: &Bounds) -> Option<()> {
        match action {
            Action::Crash(at) => {
                self.spend(Accident::Crash, bounds)?;
                let client = &mut self.clients[at];
                client.break_connection()?;
                client.die();
            }
            Action::Cut(at) => {
                self.spend(Accident::Cut, bounds)?;
                self.clients[at].break_connection()?;
            }
            Action::Freeze(at) => {
                self.spend(Accident::Freeze, bounds)?;
                if self.clients[at].frozen || self.clients[at].has_ended() {
                    return None;
                }
                self.of_process(at).for_each(|client| client.frozen = true);
            }
            Action::DeleteLock => {
                self.spend(Accident::DeleteLock, bounds)?;
                self.rob()?;
                self.order_is_lost = true;
            }
            Action::LosePush(at) => {
                self.spend(Accident::LosePush, bounds)?;
                let is_push = |answer: &Answer| {
                    matches!(
                        answer,
                        Answer::Granted { .. } | Answer::Next { .. } | Answer::Free | Answer::Gone
                    )
                };
                let client = &mut self.clients[at];
                let first = client.answers.iter().position(is_push)?;
                client.answers.remove(first);
                client.missed = true;
            }
            Action::DeleteQueue => {
                self.spend(Accident::DeleteQueue, bounds)?;
                if self.queue.is_empty() {
                    return None;
                }
                self.queue.clear();
            }
            Action::Flush => {
                self.spend(Accident::Flush, bounds)?;
                if self.rob().is_none() && self.queue.is_empty() {
                    return None;
                }
                self.order_is_lost = true;
                self.queue.clear();
            }
            Action::ForceRelease => {
                self.spend(Accident::ForceRelease, bounds)?;
                let was_in_grace = self.is_in_grace(bounds);
                self.rob()?;
                self.force_release(was_in_grace, bounds);
            }
            Action::Restart { older } => {
                self.spend(if older { Accident::RestartOlder } else { Accident::Restart }, bounds)?;
                for client in &mut self.clients {
                    if !matches!(client.phase, Phase::Idle | Phase::Dead) {
                        client.lose_connection();
                    }
                    client.end_ghost();
                }
                if older {
                    self.queue.clear();
                    if let Some(lock) = &mut self.lock {
                        lock.marked = false;
                    }
                }
            }
            Action::StrangerTakes => {
                self.spend(Accident::Stranger, bounds)?;
                if self.lock.is_some() {
                    return None;
                }
                self.lock = Some(Lock { owner: Owner::Stranger, marked: false, expires_in: TTL });
                self.slept = 0;
            }
            Action::StrangerReleases => {
                // It compares its value. A marked one is left to expire.
                if self.lock.is_none_or(|lock| lock.owner != Owner::Stranger || lock.marked) {
                    return None;
                }
                self.lock = None;
                self.order_is_lost = true;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Client {
    /// The server may go on to execute what was sent.
    fn break_connection(&mut self) -> Option<()> {
        if !self.up || matches!(self.phase, Phase::Idle | Phase::Dead) {
            return None;
        }
        self.ghost = true;
        let requests = std::mem::take(&mut self.requests);
        self.strays.extend(requests);
        self.lose_connection();
        Some(())
    }

    fn lose_connection(&mut self) {
        self.up = false;
        self.cut = true;
        self.renewing = false;
        self.requests.clear();
        self.answers.clear();
    }

    pub(super) fn end_ghost(&mut self) {
        self.ghost = false;
        self.strays.clear();
    }

    fn die(&mut self) {
        self.phase = Phase::Dead;
        (self.lease, self.timer, self.age, self.frozen) = (0, 0, 0, false);
    }
}
