//! What few locks have beside their attempts.

use std::time::Duration;

use tokio::sync::oneshot;

use super::announcing::Announced;
use crate::base::clock::Moment;
use crate::engine::protocol::Id;

/// It is boxed because most locks have nothing here.
#[derive(Default)]
pub(crate) struct Extras(Option<Box<Extra>>);

#[derive(Default)]
struct Extra {
    /// The waiter whose long wait is reported.
    reported: Option<Id>,
    /// The waiters that have reached their limit and await a fresh answer of the server.
    awaiting_answer: Vec<Id>,
    /// The callers that wait for a fencing token, which is being drawn for this holder.
    draws: Vec<(Id, oneshot::Sender<()>)>,
    /// The text that the leader announces whose lock this is.
    announced: Option<Announced>,
    /// The time when a change of a lock that several have was last followed by a watch.
    watched: Option<Moment>,
}

impl Extras {
    /// The waiter whose long wait is reported, until its wait ends.
    pub(super) fn reported(&self) -> Option<Id> {
        self.0.as_ref()?.reported
    }

    pub(super) fn set_reported(&mut self, id: Option<Id>) {
        self.0.get_or_insert_default().reported = id;
    }

    /// This waiter awaits a fresh answer.
    pub(super) fn await_fresh_answer(&mut self, id: Id) {
        self.0.get_or_insert_default().awaiting_answer.push(id);
    }

    /// The waiters that await a fresh answer, which has come.
    pub(super) fn take_awaiting_answer(&mut self) -> Vec<Id> {
        self.0.as_mut().map(|extra| std::mem::take(&mut extra.awaiting_answer)).unwrap_or_default()
    }

    /// True when the fencing token must be drawn, which is not under way.
    pub(super) fn add_draw(&mut self, id: Id, caller: oneshot::Sender<()>) -> bool {
        let draws = &mut self.0.get_or_insert_default().draws;
        let is_new = draws.iter().all(|(other, _)| *other != id);
        draws.push((id, caller));
        is_new
    }

    pub(super) fn has_draws(&self, id: Id) -> bool {
        self.0.as_ref().is_some_and(|extra| extra.draws.iter().any(|(of, _)| *of == id))
    }

    pub(super) fn take_draws(&mut self, id: Id) -> Vec<oneshot::Sender<()>> {
        let draws = self.0.iter_mut().flat_map(|extra| extra.draws.extract_if(.., |(of, _)| *of == id));
        draws.map(|(_, caller)| caller).collect()
    }

    /// The connection broke: their callers get no answer.
    pub(super) fn drop_draws(&mut self) {
        self.0.iter_mut().for_each(|extra| extra.draws.clear());
    }

    pub(super) fn announced(&mut self) -> Option<&mut Announced> {
        self.0.as_mut()?.announced.as_mut()
    }

    pub(super) fn set_announced(&mut self, announced: Announced) {
        self.0.get_or_insert_default().announced = Some(announced);
    }

    pub(super) fn take_announced(&mut self) -> Option<Announced> {
        self.0.as_mut()?.announced.take()
    }

    /// True, once in this time, when a change of a lock that several have is to be followed by a watch.
    pub(super) fn may_watch_again(&mut self, now: Moment, pause: Duration) -> bool {
        let watched = &mut self.0.get_or_insert_default().watched;
        let may = watched.is_none_or(|at| at.after(pause) <= now);
        if may {
            *watched = Some(now);
        }
        may
    }
}
