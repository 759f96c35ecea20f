//! Calls of operators: inspect, list and force-release locks of any client, and ask whether the server is well.
//!
//! Each is sent once, but for the last, which a new connection sends again. Without a connection, or without a reply in
//! time, it fails.

use super::closing::SHUT_DOWN;
use super::{Attempt, LockTable};
use crate::engine::command::AdminCall;
use crate::engine::protocol::{Action, Disconnected, Id, Reply};
use crate::ground::clock::Moment;
use crate::ground::error::LockError;
use crate::ground::outcome::LostReason;

impl LockTable {
    pub(crate) fn call(&mut self, now: Moment, id: Id, call: AdminCall) {
        if self.closed {
            call.op.fail(LockError::ManagerClosed { key: call.key, reason: SHUT_DOWN });
            return;
        }
        if let Some(trouble) = &self.trouble {
            call.op.fail(trouble.error(call.key));
            return;
        }
        self.timers.set(id, Some(call.by));
        self.admin_calls.insert(id, call);
        self.send_admin_call(now, id);
    }

    pub(super) fn send_admin_call(&mut self, now: Moment, id: Id) {
        let Some(call) = self.admin_calls.get(&id).filter(|_| self.connected) else {
            return;
        };
        let request = call.op.request();
        self.outbox.push((id, request.clone()));
        // The server does not tell a client of a change that it made itself.
        let takes_from = |held: &Attempt| match (request.action, held) {
            (Action::ForceRelease, _) => true,
            (Action::Release, Attempt::Held(held)) => held.has(&request.token),
            _ => false,
        };
        if let Some(holder) = self.queues.holder(&request.name)
            && self.attempts.get(&holder).is_some_and(takes_from)
        {
            self.lost(now, holder, LostReason::ForceReleased, true);
        }
    }

    pub(super) fn admin_reply(&mut self, now: Moment, id: Id, reply: Reply) {
        let Some(AdminCall { key, op, by }) = self.admin_calls.remove(&id) else {
            return;
        };
        if matches!(&reply, Reply::Refused(refusal) if refusal.is_asked_again()) {
            self.admin_calls.insert(id, AdminCall { key, op, by });
            self.send_admin_call(now, id);
            return;
        }
        self.timers.set(id, None);
        if let Some(op) = op.answer(key.as_ref(), reply) {
            let by = if op.has_one_limit() { by } else { now.after(self.settings.io_timeout) };
            self.call(now, id, AdminCall { key, op, by });
        }
    }

    /// The connection broke: no reply will come over it.
    pub(super) fn fail_admin_calls_of_connection(&mut self, trouble: &Disconnected) {
        let ends = self.admin_calls.iter().filter(|(_, call)| !call.op.outlives_connections());
        for id in ends.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.fail_admin_call(id, trouble);
        }
    }

    pub(super) fn fail_admin_call(&mut self, id: Id, trouble: &Disconnected) {
        if let Some(AdminCall { key, op, .. }) = self.admin_calls.remove(&id) {
            self.timers.set(id, None);
            op.fail(trouble.error(key));
        }
    }
}
