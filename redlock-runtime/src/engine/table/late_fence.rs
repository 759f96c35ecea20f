//! Fencing tokens of locks that were taken without one, for nested calls that can see them.

use crate::ground::host::HashMap;
use tokio::sync::oneshot;

use super::{Attempt, LockTable};
use crate::engine::protocol::{Action, Id, Reply, Request};

/// The callers of each lock whose fencing token is being drawn. Dropped without an answer when there is none.
pub(super) type LateFences = HashMap<Id, Vec<oneshot::Sender<()>>>;

impl LockTable {
    /// Draws a fencing token for a held lock, unless it has one.
    pub(crate) fn fence(&mut self, id: Id, caller: oneshot::Sender<()>) {
        let Some(Attempt::Held(held)) = self.attempts.get(&id).filter(|_| self.connected) else {
            return;
        };
        if held.lease.fence() > 0 {
            let _ = caller.send(());
            return;
        }
        let callers = self.late_fences.entry(id).or_default();
        callers.push(caller);
        if callers.len() == 1 {
            self.outbox.push((id, Request { fenced: true, ..held.request(Action::Draw) }));
        }
    }

    pub(super) fn fence_reply(&mut self, id: Id, request: &Request, reply: &Reply) {
        if matches!(reply, Reply::Refused(refusal) if refusal.is_asked_again()) {
            self.outbox.push((id, request.clone()));
            return;
        }
        // It was executed after the server was told who has the lock.
        if *reply == Reply::NotHeld
            && let Some(Attempt::Held(held)) = self.attempts.get(&id)
            && held.token != request.token
        {
            self.outbox.push((id, Request { fenced: true, ..held.request(Action::Draw) }));
            return;
        }
        let callers = self.late_fences.remove(&id).unwrap_or_default();
        if let (Reply::Reserved { last }, Some(Attempt::Held(held))) = (reply, self.attempts.get(&id))
            && held.has(&request.token)
        {
            held.lease.set_fence(*last);
            for caller in callers {
                let _ = caller.send(());
            }
        }
    }
}
