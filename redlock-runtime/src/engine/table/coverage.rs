//! Tells a simulation what attempts meet, and in which states, so that it knows what it has never seen. Elsewhere there is no
//! world to tell, as the compiler knows by the type: these calls do nothing, and it removes them.

use super::lock::waiting::Awaits;
use super::{Attempt, LockTable};
use crate::engine::protocol::{Action, Id, Push, PushKind, Refusal, Reply};
use crate::ground::clock::Moment;
use crate::ground::host;

impl LockTable {
    /// An event for this attempt, before it changes anything.
    pub(super) fn meets(&self, id: Id, event: &'static str) {
        if let Some(world) = host::world() {
            world.met(self.state_of(id), event, "");
        }
    }

    /// An event for all attempts.
    pub(super) fn all_meet(&self, event: &'static str) {
        if let Some(world) = host::world() {
            self.attempts.keys().for_each(|id| world.met(self.state_of(*id), event, ""));
        }
    }

    pub(super) fn meets_reply(&self, id: Id, action: Action, reply: &Reply) {
        if let Some(world) = host::world()
            && name_of(action) != "operator"
        {
            world.met(self.state_of(id), name_of(action), reply_name(reply));
        }
    }

    pub(super) fn meets_push(&self, push: &Push) {
        if let Some(world) = host::world() {
            let state = self.by_token.get(&push.token).map_or("gone", |id| self.state_of(*id));
            let event = match push.kind {
                PushKind::Granted { .. } => "granted",
                PushKind::Next { .. } => "next",
                PushKind::LeftFree => "left free",
                PushKind::TakenAway => "taken away",
                PushKind::PlaceLost => "place lost",
            };
            world.met(state, "push", event);
        }
    }

    /// Its timer rings.
    pub(super) fn meets_timer(&self, now: Moment, id: Id) {
        let Some(world) = host::world() else { return };
        let what = match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.is_over(now) => "wait over",
            Some(Attempt::Waiting(waiting)) if waiting.is_long(now) => "long wait",
            Some(Attempt::Waiting(_)) => "ask",
            Some(Attempt::Held(held)) if held.is_closed() => "closed",
            Some(Attempt::Held(held)) if held.lease.remaining(now).is_none() => "expired",
            Some(Attempt::Held(held)) if held.is_reservation_late(now) => "no reservation",
            Some(Attempt::Held(_)) => "renew",
            Some(Attempt::Releasing(_)) => "again",
            None => return,
        };
        world.met(self.state_of(id), "timer", what);
    }

    fn state_of(&self, id: Id) -> &'static str {
        match self.attempts.get(&id) {
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
        Action::Watch | Action::WatchHolder => "watch",
        Action::Vote { .. } | Action::RaiseFence { .. } => "vote",
        Action::Inspect
        | Action::ForceRelease
        | Action::TakeAway
        | Action::List { .. }
        | Action::Ping { .. } => "operator",
    }
}

fn reply_name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Granted { .. } => "granted",
        Reply::Claimed { .. } => "claimed",
        Reply::Busy { place: Some(_), .. } => "busy, queued",
        Reply::Busy { place: None, .. } => "busy",
        Reply::QueueFull { .. } => "queue full",
        Reply::Skipped => "skipped",
        Reply::Voted { .. } => "voted",
        Reply::Reserved { .. } => "reserved",
        Reply::Done => "done",
        Reply::HeldFor { .. } => "held",
        Reply::NotHeld => "not held",
        Reply::Free => "free",
        Reply::Found(_) | Reply::Page { .. } => "found",
        Reply::Refused(Refusal::NoScript) => "no script",
        Reply::Refused(Refusal::Unfinished) => "unfinished",
        Reply::Refused(Refusal::Contended) => "contended",
        Reply::Refused(Refusal::Transient(_)) => "refused for now",
        Reply::Refused(Refusal::OutcomeUnknown(_)) => "outcome unknown",
        Reply::Refused(Refusal::Moved(_)) => "moved",
        Reply::Refused(Refusal::Permanent(_)) => "refused",
    }
}
