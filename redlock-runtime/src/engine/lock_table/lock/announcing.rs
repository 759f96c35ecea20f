//! What a leader announces: who it is, its term, and since when it leads.
//!
//! The record is next to the lock on the server, and counts only while its token holds that lock.
//! So it may be out of date for a while, and no caller waits for it. The leader writes it at the
//! start of a term, after each renewal that finds it unwritten, and with each second renewal. It
//! expires soon after the lock of a leader that has vanished. Each write makes the observers of the
//! election read the record, which they do once in a TTL anyway. So the leader does not write it
//! with each renewal.

use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, Announcement, Id, Kind, Reply, Request};

/// Returns the age at which a renewal writes the record again. Renewals are a third of the TTL apart,
/// so each second renewal writes it.
fn again_after(ttl: Duration) -> Duration {
    ttl / 2
}

/// Returns how long the server keeps a record. A record that a renewal does not write again outlasts
/// the lease that this renewal starts.
fn lasts(ttl: Duration) -> Duration {
    ttl.saturating_add(ttl / 3 * 2)
}

/// The text that the holder of a lock announces.
pub(super) struct Announced {
    of: Id,
    text: Arc<str>,
    since: Moment,
    /// When it was last sent.
    sent: Moment,
    /// The server has confirmed that, under this token.
    written: Option<Token>,
}

impl Lock {
    /// The holder leads, and announces this; `None`: it steps down.
    pub(crate) fn announce(&mut self, cx: &mut Context, id: Id, text: Option<Arc<str>>) {
        let Some(held) = self.attempts.held_mut(id) else { return };
        let withdraws = held.request(Action::Announce);
        let Some(text) = text else {
            let was_announced = self.extras.take_announced().is_some_and(|announced| announced.of == id);
            if was_announced && cx.connection.is_up() && !cx.abilities.votes {
                cx.outbox.push((id, withdraws));
            }
            return;
        };
        held.set_led();
        self.extras.set_announced(Announced { of: id, text, since: cx.now, sent: cx.now, written: None });
        self.announce_if_due(cx, id);
    }

    /// Writes the record of the holder, unless the server has it.
    pub(super) fn announce_if_due(&mut self, cx: &mut Context, id: Id) {
        let Some(announced) = self.extras.announced().filter(|announced| announced.of == id) else { return };
        if !cx.connection.is_up() || cx.abilities.votes {
            return;
        }
        let Some(held) = self.attempts.held_mut(id) else { return };
        let (request, term) = (held.request(Action::Announce), held.lease.fence());
        let is_young = cx.now.since(announced.sent) < again_after(request.ttl);
        if !is_young || announced.written.as_ref() != Some(&request.token) {
            (announced.sent, announced.written) = (cx.now, None);
            let (text, led_for) = (Arc::clone(&announced.text), cx.now.since(announced.since));
            let lasts = lasts(request.ttl);
            let kind = Kind::Leader(Box::new(Announcement { term, led_for, lasts, text }));
            cx.outbox.push((id, Request { kind, ..request }));
        }
    }

    pub(super) fn on_announce_reply(&mut self, cx: &mut Context, id: Id, request: &Request, reply: &Reply) {
        match reply {
            Reply::Done if request.kind.announcement().is_some() => {
                if let Some(announced) = self.extras.announced().filter(|announced| announced.of == id) {
                    announced.written = Some(request.token.clone());
                }
            }
            Reply::Refused(refusal) if refusal.is_asked_again() => cx.outbox.push((id, request.clone())),
            // The next renewal finds the loss of the lock, or tries again.
            _ => {}
        }
    }

    /// Writes the record again with the next renewal: the next connection may lead to a server that
    /// does not have it.
    pub(crate) fn announce_again(&mut self) {
        if let Some(announced) = self.extras.announced() {
            announced.written = None;
        }
    }
}
