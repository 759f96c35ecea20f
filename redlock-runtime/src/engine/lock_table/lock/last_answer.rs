//! What the server has answered to a waiter last, and until when that counts.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Holder, InFront};
use crate::base::limit::Limit;
use crate::base::owner::Owner;

/// An answer of the server to a waiter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Nothing,
    /// Who holds it, since when, and for how long unless that one renews it. Without the rest of a
    /// [`Holder`]: thousands may wait.
    Busy {
        owner: Option<Owner>,
        granted: Option<NonZeroU64>,
        expires_in: Option<Duration>,
        inside: u32,
        limit: Option<Limit>,
        waiter: Option<Box<InFront>>,
    },
    Refused(Arc<str>),
}

/// The last one.
#[derive(Clone)]
pub(super) struct LastAnswer {
    answer: Answer,
    came: Moment,
}

impl LastAnswer {
    /// Nothing, since then.
    pub(super) fn none_since(started: Moment) -> Self {
        Self { answer: Answer::Nothing, came: started }
    }

    pub(super) fn get(&self) -> &Answer {
        &self.answer
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.answer == Answer::Nothing
    }

    pub(super) fn set_busy(&mut self, now: Moment, holder: Holder) {
        let Holder { owner, granted, expires_in, inside, limit, waiter, .. } = holder;
        self.answer = Answer::Busy { owner, granted, expires_in, inside, limit, waiter };
        self.came = now;
    }

    pub(super) fn set_refused(&mut self, now: Moment, reason: Arc<str>) {
        (self.answer, self.came) = (Answer::Refused(reason), now);
    }

    /// True unless the last answer was a refusal for this reason.
    pub(super) fn is_other_than(&self, reason: &Arc<str>) -> bool {
        !matches!(&self.answer, Answer::Refused(before) if before == reason)
    }

    /// A client without a queue holds the lock.
    pub(super) fn has_foreign_holder(&self) -> bool {
        matches!(&self.answer, Answer::Busy { owner: None, inside: 0, .. })
    }

    /// The waiter in front that this one does not pass.
    pub(super) fn kept_out_by(&self) -> Option<&InFront> {
        match &self.answer {
            Answer::Busy { waiter, .. } => waiter.as_deref(),
            Answer::Nothing | Answer::Refused(_) => None,
        }
    }

    fn heard(&self) -> Option<Moment> {
        (!self.is_nothing()).then_some(self.came)
    }

    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.heard() < other.heard()
    }

    /// This one, or another one for the same lock that came later.
    pub(super) fn later<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.is_older_than(other) { other } else { self }
    }
}

/// When a waiter gives up.
pub(super) struct WaitLimit {
    /// Near the limit: an answer that comes then is new enough to give up with. `None` without a
    /// limit.
    answers_count_from: Option<Moment>,
    /// The time to see whether there is such an answer, or, if it `awaits_answer`, to give up.
    due: Option<Moment>,
    /// The server was asked for such an answer.
    awaits_answer: bool,
}

impl WaitLimit {
    pub(super) fn new(answers_count_from: Option<Moment>) -> Self {
        Self { answers_count_from, due: answers_count_from, awaits_answer: false }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// True when this answer is new enough to give up with.
    pub(super) fn is_met_by(&self, answer: &LastAnswer) -> bool {
        answer.heard().zip(self.answers_count_from).is_some_and(|(came, from)| came >= from)
    }

    /// The `limit` is near. `asked_at`: when the server was asked for an answer that is new enough to
    /// give up with; `None` when it is not asked. Such an answer is `late` after that. True when the
    /// wait is over.
    pub(super) fn give_up(
        &mut self,
        now: Moment,
        limit: Option<Moment>,
        asked_at: Option<Moment>,
        late: Duration,
    ) -> bool {
        self.due = match asked_at {
            None => limit,
            Some(_) if self.awaits_answer => self.due,
            Some(asked_at) => limit.map(|limit| limit.max(asked_at.after(late))),
        };
        self.awaits_answer = asked_at.is_some();
        self.due.is_some_and(|at| at <= now)
    }
}
