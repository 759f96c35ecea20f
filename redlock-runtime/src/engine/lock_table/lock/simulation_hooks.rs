//! Tells a simulation what attempts meet, and in which states, so that it knows what it has never
//! seen. Compiled out unless the simulation is on: elsewhere there is no world, as the compiler
//! knows by its type.

use super::attempts::{Attempt, Attempts};
use super::held::HeldTimer;
use super::waiting::{Awaits, WaitTimer};
use crate::base::host;
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, Id, Push, PushKind, Refusal, Reply, Verdict};

impl Attempts {
    /// An event for this attempt, before it changes anything.
    pub(crate) fn meet(&mut self, id: Id, event: &'static str) {
        if let Some(world) = host::world() {
            world.met(self.state_of(id), event, "");
        }
    }

    pub(super) fn meet_reply(&mut self, id: Id, action: Action, reply: &Reply) {
        if let Some(world) = host::world()
            && name_of(action) != "operator"
        {
            world.met(self.state_of(id), name_of(action), reply_name(reply));
        }
    }

    pub(super) fn meet_push(&mut self, cx: &Context, push: &Push) {
        if let Some(world) = host::world() {
            let state = cx.attempts.expecting(&push.token).map_or("gone", |id| self.state_of(id));
            let event = match push.kind {
                PushKind::Granted { .. } => "granted",
                PushKind::Next { .. } => "next",
                PushKind::LeftFree => "left free",
                PushKind::TakenAway => "taken away",
                PushKind::PlaceLost => "place lost",
                PushKind::Done => "done",
                PushKind::Revoked => "revoked",
            };
            world.met(state, "push", event);
        }
    }

    /// Its timer rings.
    pub(super) fn meet_timer(&mut self, cx: &Context, id: Id) {
        let Some(world) = host::world() else { return };
        let what = match self.attempt(id) {
            Some(Attempt::Waiting(waiting)) => match waiting.due_timer(cx.now) {
                Some(WaitTimer::GivesUp) => "wait over",
                Some(WaitTimer::Report) => "long wait",
                Some(WaitTimer::Ask) => "ask",
                None => return,
            },
            Some(Attempt::Held(held)) => match held.due_timer(cx.now) {
                Some(HeldTimer::Closed) => "closed",
                Some(HeldTimer::Expired) => "expired",
                Some(HeldTimer::NoReservation) => "no reservation",
                Some(HeldTimer::Downgrade) => "downgrade",
                Some(HeldTimer::LateChange | HeldTimer::Look | HeldTimer::Renew) => "renew",
                None => return,
            },
            Some(Attempt::Releasing(_)) => "again",
            None => return,
        };
        world.met(self.state_of(id), "timer", what);
    }

    fn state_of(&mut self, id: Id) -> &'static str {
        match self.attempt(id) {
            None => "gone",
            Some(Attempt::Held(held)) if held.awaits_reservation() => "handing over",
            Some(Attempt::Held(_)) => "held",
            Some(Attempt::Releasing(_)) => "releasing",
            Some(Attempt::Waiting(waiting)) => match waiting.awaits {
                Awaits::LocalTurn => "behind another",
                Awaits::ServerTurn => "queued",
                Awaits::Reply { .. } => "asking",
                Awaits::Retry { .. } => "pausing",
                Awaits::Connection => "unconnected",
            },
        }
    }
}

fn name_of(action: Action) -> &'static str {
    match action {
        Action::Acquire(_) | Action::AcquireNext { .. } => "acquire",
        Action::Renew { .. } | Action::Repair { .. } => "renew",
        Action::Release | Action::ExpireLater => "release",
        Action::Reserve { .. } => "reserve",
        Action::Draw => "draw",
        Action::Downgrade { .. } => "downgrade",
        Action::Redeem => "redeem",
        Action::Announce => "announce",
        Action::Watch | Action::WatchHolder => "watch",
        Action::Vote { .. } | Action::RaiseFence { .. } => "vote",
        Action::Inspect
        | Action::Leader
        | Action::WatchLeader
        | Action::LastTick
        | Action::ClearTick
        | Action::SetPermits { .. }
        | Action::Permits
        | Action::ForceRelease
        | Action::TakeAway
        | Action::Record
        | Action::ClearRecord
        | Action::List { .. }
        | Action::Ping { .. } => "operator",
    }
}

fn reply_name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Acquire(Verdict::Granted { .. }) => "granted",
        Reply::Acquire(Verdict::Claimed { .. }) => "claimed",
        Reply::Acquire(Verdict::Busy { place: Some(_), .. }) => "busy, queued",
        Reply::Acquire(Verdict::Busy { place: None, .. }) => "busy",
        Reply::Acquire(Verdict::QueueFull { .. }) => "queue full",
        Reply::Acquire(Verdict::Skipped) => "skipped",
        Reply::Acquire(Verdict::NoTicket { .. }) => "no ticket",
        Reply::Acquire(Verdict::OfTick { verdict, .. }) => match **verdict {
            Verdict::Granted { .. } => "granted for a tick",
            Verdict::Claimed { .. } => "claimed for a tick",
            Verdict::TickTaken { .. } => "tick taken",
            _ => "busy for a tick",
        },
        Reply::Acquire(Verdict::TickTaken { .. } | Verdict::TickUnknown { .. }) => "tick taken",
        Reply::Acquire(Verdict::NotRun { .. }) => "not run",
        Reply::Voted { .. } => "voted",
        Reply::Reserved { .. } => "reserved",
        Reply::Done => "done",
        Reply::HeldFor { .. } => "held",
        Reply::NotHeld => "not held",
        Reply::Free => "free",
        Reply::Found(_)
        | Reply::Recorded(_)
        | Reply::Permits(_)
        | Reply::Page { .. }
        | Reply::LastTick(_) => "found",
        Reply::Refused(Refusal::NoScript) => "no script",
        Reply::Refused(Refusal::Unfinished) => "unfinished",
        Reply::Refused(Refusal::Contended) => "contended",
        Reply::Refused(Refusal::NoFence | Refusal::NoLook) => "no fence",
        Reply::Refused(Refusal::Transient(_)) => "refused for now",
        Reply::Refused(Refusal::OutcomeUnknown(_)) => "outcome unknown",
        Reply::Refused(Refusal::Moved(_)) => "moved",
        Reply::Refused(Refusal::Permanent(_)) => "refused",
    }
}
