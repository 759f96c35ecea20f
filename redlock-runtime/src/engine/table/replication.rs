//! Granted locks that their callers get once enough replicas have them.

use std::sync::Arc;

use super::{Attempt, LockTable};
use crate::engine::command::AcquireOutcome;
use crate::engine::protocol::{Confirmation, Disconnected, Id, Unconfirmed};
use crate::ground::clock::Moment;
use crate::ground::error::LockError;
use crate::ground::outcome::LostReason;
use crate::ground::token::Token;

impl LockTable {
    /// The task that asks the replicas is a new one: what the last one has not answered is confirmed anew.
    pub(crate) fn confirm_again(&mut self) {
        for id in self.ids() {
            if let Some(Attempt::Held(held)) = self.attempts.get(&id)
                && held.deliver_to.is_some()
                && !self.unconfirmed.iter().any(|unconfirmed| unconfirmed.id == id)
            {
                // As for a caller without a limit: the replicas have the usual time again.
                let request = held.request(held.renewal());
                self.unconfirmed.push(Unconfirmed { id, request, gives_up_at: None });
            }
        }
    }

    /// The answer of the replicas about a lock that its caller does not have yet.
    pub(crate) fn confirmed(&mut self, now: Moment, id: Id, token: &Token, confirmation: Confirmation) {
        let Some(Attempt::Held(held)) = self.attempts.get_mut(&id) else {
            return;
        };
        let Some(caller) = held.deliver_to.take_if(|_| held.token == *token) else {
            return;
        };
        let wanted = self.settings.replicas;
        let key = Arc::clone(held.lease.key());
        let outcome = match confirmation {
            _ if held.lease.remaining(now).is_none() => held.lease.lost().into(),
            Confirmation::Reached(reached) if reached >= wanted => {
                AcquireOutcome::Held(Arc::clone(&held.lease), None)
            }
            Confirmation::Reached(reached) => LockError::NotReplicated { key, wanted, reached }.into(),
            Confirmation::NotHeld => {
                held.lease.end(LostReason::KeyChanged);
                held.lease.lost().into()
            }
            Confirmation::Unknown(Disconnected { reason, is_permanent }) => {
                let reason = format!("its replicas could not be asked: {reason}").into();
                Disconnected { reason, is_permanent }.error(Some(key)).into()
            }
        };
        let is_held = matches!(outcome, AcquireOutcome::Held(..));
        let has_guard = caller.send(outcome).is_ok() && is_held;
        if !has_guard {
            held.forget_min_hold();
            self.abandon(now, id);
        }
    }
}
