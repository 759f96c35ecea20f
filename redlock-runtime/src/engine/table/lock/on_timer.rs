//! Timers: each rings for something.

use super::held::HeldTimer;
use super::waiting::WaitTimer;
use super::{Attempt, Lock};
use crate::engine::protocol::Id;
use crate::engine::table::context::Context;
use crate::ground::outcome::LostReason;

impl Lock {
    /// The timer of this attempt rings.
    pub(crate) fn on_timer(&mut self, cx: &mut Context, id: Id) {
        self.meet_timer(cx, id);
        match self.attempt(id) {
            Some(Attempt::Waiting(waiting)) => match waiting.rings_for(cx.now) {
                Some(WaitTimer::GivesUp) => self.give_up(cx, id),
                Some(WaitTimer::Report) => self.report_wait(cx, id),
                Some(WaitTimer::Ask) => self.ask(cx, id),
                None => self.schedule(cx, id),
            },
            Some(Attempt::Held(held)) => match held.rings_for(cx.now) {
                // Its body may have run until now, when the key has expired.
                Some(HeldTimer::Closed) => self.lose(cx, id, LostReason::ManagerClosed, false),
                Some(HeldTimer::Expired) => {
                    // It may have reached its `max_hold`.
                    held.lease().check(cx.now);
                    self.lose(cx, id, LostReason::Expired, true);
                }
                Some(HeldTimer::LateChange) => {
                    held.answer_late_changes(cx.now, cx.trouble.as_ref());
                    self.schedule(cx, id);
                }
                Some(HeldTimer::NoReservation) => self.end_reservation(cx, id, false),
                Some(HeldTimer::FirstLook) => {
                    held.take_first_look();
                    self.watch(cx, id);
                    self.schedule(cx, id);
                }
                Some(HeldTimer::Renew) => self.renew(cx, id),
                None => self.schedule(cx, id),
            },
            Some(Attempt::Releasing(releasing)) => {
                let step = releasing.tick(cx.now, cx.trouble.as_ref());
                self.go_on_releasing(cx, id, step);
            }
            None => {}
        }
    }
}
