//! Calls of operators: inspect, list and force-release locks of any client, and ask whether the
//! server is well.
//!
//! A call that changes nothing is sent again over a new connection: a connection also ends when the
//! event loop moves to another runtime. A call that changes something is sent once, because its reply
//! would say of the second request what the first one has done. Without a connection, or without a
//! reply in time, a call fails.

use std::sync::{Arc, Weak};

use tokio::sync::{Notify, oneshot};

use super::context::Context;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::host::HashMap;
use crate::engine::command::{OperatorRequest, SHUT_DOWN};
use crate::engine::protocol::{Disconnected, Id, Reply, Request};

/// The calls that are not answered yet.
#[derive(Default)]
pub(super) struct OperatorCalls {
    calls: HashMap<Id, OperatorRequest>,
    /// Callers that pause, whatever the connection does.
    sleepers: HashMap<Id, oneshot::Sender<()>>,
    /// The observers that are notified when the leader may have changed, by the name of the lock.
    observers: HashMap<Arc<str>, Vec<Weak<Notify>>>,
}

impl OperatorCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.sleepers.is_empty()
    }

    pub(super) fn sleep(&mut self, cx: &mut Context, id: Id, until: Moment, caller: oneshot::Sender<()>) {
        cx.timers.set(id, Some(until));
        self.sleepers.insert(id, caller);
    }

    /// True when this timer was that of a caller that pauses.
    pub(super) fn wakes(&mut self, id: Id) -> bool {
        // A caller that has gone is not told.
        self.sleepers.remove(&id).map(|caller| caller.send(())).is_some()
    }

    pub(super) fn observe(&mut self, name: Arc<str>, observer: Weak<Notify>) {
        self.observers.retain(|_, observers| {
            observers.retain(|observer| observer.strong_count() > 0);
            !observers.is_empty()
        });
        self.observers.entry(name).or_default().push(observer);
    }

    /// Notifies the observers of a lock, or of all locks when there is no name.
    pub(super) fn tell_observers(&self, name: Option<&str>) {
        let told = self.observers.iter().filter(|(of, _)| name.is_none_or(|name| ***of == *name));
        for observer in told.flat_map(|(_, observers)| observers).filter_map(Weak::upgrade) {
            observer.notify_one();
        }
    }

    pub(super) fn has(&self, id: Id) -> bool {
        self.calls.contains_key(&id)
    }

    pub(super) fn ids(&self) -> Vec<Id> {
        self.calls.keys().copied().collect()
    }

    /// Sends the request of a call, if there is a connection. Returns the request, which may take a
    /// lock of this process away.
    pub(super) fn start(
        &mut self,
        cx: &mut Context,
        id: Id,
        call: OperatorRequest,
        is_closed: bool,
    ) -> Option<Request> {
        if is_closed {
            call.fail(|key| LockError::ManagerClosed { key, reason: SHUT_DOWN });
            return None;
        }
        if let Some(trouble) = cx.connection.trouble() {
            call.fail(|key| trouble.error(key));
            return None;
        }
        cx.timers.set(id, Some(call.by));
        self.calls.insert(id, call);
        self.send(cx, id)
    }

    pub(super) fn send(&self, cx: &mut Context, id: Id) -> Option<Request> {
        let request = self.calls.get(&id).filter(|_| cx.connection.is_up())?.request.clone();
        cx.outbox.push((id, request.clone()));
        Some(request)
    }

    /// Answers the caller, or sends the request again, which it returns.
    pub(super) fn on_reply(&mut self, cx: &mut Context, id: Id, reply: Reply) -> Option<Request> {
        if matches!(&reply, Reply::Refused(refusal) if refusal.is_asked_again()) {
            return self.send(cx, id);
        }
        cx.timers.set(id, None);
        self.calls.remove(&id)?.answer(reply);
        None
    }

    /// The connection broke: no reply will come over it.
    pub(super) fn disconnect(&mut self, cx: &mut Context, trouble: &Disconnected) {
        let ends = self.calls.iter().filter(|(_, call)| !call.outlives_connections());
        for id in ends.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.fail(cx, id, trouble);
        }
    }

    pub(super) fn fail(&mut self, cx: &mut Context, id: Id, trouble: &Disconnected) {
        if let Some(call) = self.calls.remove(&id) {
            cx.timers.set(id, None);
            call.fail(|key| trouble.error(key));
        }
    }
}
