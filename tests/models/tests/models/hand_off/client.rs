//! What a client does with the answers and pushes that it reads.

use super::rules::{Bounds, Mistake};
use super::server::{CLAIM, TTL};
use super::state::{Answer, Client, Phase, Request};

impl Client {
    pub(super) fn read(&mut self, answer: Answer, bounds: &Bounds) {
        match (self.phase, answer) {
            (Phase::Asking | Phase::Joining, Answer::Set) => self.enter(TTL, self.age, bounds),
            (Phase::Asking, Answer::Taken { by_itself }) => {
                if by_itself && bounds.has(Mistake::CountsFromLatestSet) {
                    self.enter(TTL, self.age, bounds);
                } else {
                    self.phase = Phase::Joining;
                    self.send(Request::Join, bounds);
                }
            }
            // Only in `Mistake::WaiterSets`.
            (Phase::Joining, Answer::Taken { .. }) => self.sleep(1, bounds),
            (Phase::Joining, Answer::Held { lasts }) => self.enter(lasts, self.age, bounds),
            (Phase::Joining, Answer::Busy { left, is_stranger }) => {
                let trusts = !is_stranger || bounds.has(Mistake::TrustsStrangers);
                self.sleep(if trusts { left } else { left.min(1) }, bounds);
            }
            (Phase::Asleep | Phase::Joining, Answer::Granted { age }) => {
                let age = if bounds.has(Mistake::CountsGrantFromReceipt) { 0 } else { age };
                if age < CLAIM {
                    self.enter(CLAIM, age, bounds);
                } else if self.phase == Phase::Asleep {
                    self.ask_again(bounds);
                }
            }
            (Phase::Asleep, Answer::Next { left }) => self.timer = self.timer.min(left),
            (Phase::Asleep, Answer::Free) => self.timer = 0,
            (Phase::Asleep, Answer::Gone) => self.ask_again(bounds),
            (Phase::Done, Answer::Granted { .. }) => self.send(Request::Release, bounds),
            (Phase::Inside, Answer::Renewed) => {
                self.renewing = false;
                self.lease = self.lease.max(TTL.saturating_sub(self.age));
            }
            // An answer to an earlier again may still be open: that again may have joined the
            // queue.
            (Phase::Inside, Answer::NotRenewed) => {
                if self.joined && !bounds.has(Mistake::LossSendsNoRelease) {
                    self.release(Request::Release, bounds);
                } else {
                    (self.phase, self.lease) = (Phase::Done, 0);
                }
            }
            (Phase::Releasing, Answer::NotDeleted) => {
                if self.joined && bounds.has(Mistake::CancelOnlyDeletes) {
                    self.phase = Phase::Done;
                } else {
                    self.send(Request::Release, bounds);
                }
            }
            (Phase::Releasing, Answer::Released) => self.phase = Phase::Done,
            // An answer that a push, or the client's own release, has overtaken.
            _ => {}
        }
    }

    fn enter(&mut self, lasts: u8, age: u8, bounds: &Bounds) {
        if age >= lasts {
            let request = if self.joined { Request::Release } else { Request::Delete };
            return self.release(request, bounds);
        }
        (self.phase, self.lease, self.renewing) = (Phase::Inside, lasts - age, false);
        if self.wants_fence && bounds.has(Mistake::CountsFenceLater) {
            self.send(Request::Fence, bounds);
        }
    }

    fn sleep(&mut self, time: u8, bounds: &Bounds) {
        let polls = bounds.polls && !bounds.has(Mistake::DoesNotPoll);
        self.phase = Phase::Asleep;
        self.timer = if polls { time.min(1) } else { time };
    }

    pub(super) fn ask_again(&mut self, bounds: &Bounds) {
        self.phase = Phase::Joining;
        self.timer = 0;
        self.send(if bounds.has(Mistake::WaiterSets) { Request::Set } else { Request::Again }, bounds);
    }

    pub(super) fn release(&mut self, request: Request, bounds: &Bounds) {
        let only_deletes = request == Request::Release && bounds.has(Mistake::CancelOnlyDeletes);
        (self.phase, self.lease) = (Phase::Releasing, 0);
        self.send(if only_deletes { Request::Delete } else { request }, bounds);
    }
}
