//! What the answers of the nodes decide: the outcome is known as soon as no further answer can
//! change it.
//!
//! Each kind of request has its own rule over the same counts: how many nodes have agreed,
//! disagreed, failed, and are still awaited. A rule answers `None` while an awaited node could turn
//! the outcome. The rules are pure functions, so the tests try each of them on all combinations
//! that matter.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::error::Holder;
use crate::engine::protocol::{Inspection, Refusal, Reply, Verdict};

/// The answer of one node, as far as it is known.
#[derive(Clone, Debug)]
pub(super) enum NodeReply {
    /// It may still come.
    Awaited,
    /// The node was not asked, or will not answer.
    Absent(Refusal),
    Said(Reply),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Reply(Reply),
    /// A quorum has voted for the caller, but some of its clocks were above the fencing token it
    /// asked for. This one is above all of them: a second round raises the clocks of a quorum to it
    /// while the lock is still the caller's.
    RaiseFence {
        fence: u64,
    },
    /// The second round of a force-release takes the lock away from this holder, or, where the
    /// nodes have several, from all.
    TakeAway(Option<Inspection>),
}

pub(super) struct Tally<'a> {
    pub(super) answers: &'a [NodeReply],
    /// How many nodes are a quorum.
    pub(super) needed: usize,
    /// How many answers may still come.
    pub(super) awaited: usize,
}

impl Tally<'_> {
    fn said(&self) -> impl Iterator<Item = &Reply> {
        self.answers.iter().filter_map(|answer| match answer {
            NodeReply::Said(reply) => Some(reply),
            _ => None,
        })
    }

    fn count(&self, is: impl Fn(&Reply) -> bool) -> usize {
        self.said().filter(|reply| is(reply)).count()
    }

    /// True when so many nodes contradict that no quorum can agree.
    fn is_refuted_by(&self, against: usize) -> bool {
        against > self.answers.len() - self.needed
    }

    pub(super) fn vote(&self, fence: u64, highest: u64) -> Option<Outcome> {
        let votes = self.count(|reply| matches!(reply, Reply::Voted { .. }));
        // Where the clock was below the fencing token asked for, the vote has raised it.
        if self.count(|reply| *reply == Reply::Voted { clock: fence }) >= self.needed {
            return Some(Outcome::Reply(Reply::Acquire(Verdict::Granted { fence })));
        }
        if votes >= self.needed {
            return Some(Outcome::RaiseFence { fence: highest.max(fence).saturating_add(1) });
        }
        if votes + self.awaited >= self.needed {
            return None;
        }
        let busy = self.said().filter_map(|reply| match reply {
            Reply::Acquire(Verdict::Busy { holder, .. }) => Some(holder),
            _ => None,
        });
        let holders: Vec<&Holder> = busy.collect();
        // Few nodes are busy and many silent: Redis is down, and no other caller may hold the lock.
        if holders.is_empty() || votes + holders.len() + self.awaited < self.needed {
            return Some(self.refused());
        }
        let holder = most_frequent(&holders).cloned().unwrap_or_default();
        Some(Outcome::Reply(Reply::Acquire(Verdict::Busy { holder, place: None })))
    }

    pub(super) fn raise_fence(&self, fence: u64) -> Option<Outcome> {
        let raised = self.count(|reply| *reply == Reply::Done);
        if raised >= self.needed {
            return Some(Outcome::Reply(Reply::Acquire(Verdict::Granted { fence })));
        }
        (raised + self.awaited < self.needed).then(|| self.refused())
    }

    pub(super) fn renew(&self) -> Option<Outcome> {
        let renewed = self.count(|reply| *reply == Reply::Done);
        if renewed >= self.needed {
            return Some(Outcome::Reply(Reply::Done));
        }
        let others = self.count(|reply| *reply == Reply::NotHeld);
        let empty = self.count(|reply| *reply == Reply::Free);
        if self.is_refuted_by(others + empty) {
            return Some(Outcome::Reply(if others >= self.needed { Reply::NotHeld } else { Reply::Free }));
        }
        (renewed + self.awaited < self.needed).then(|| self.refused())
    }

    pub(super) fn release(&self) -> Option<Outcome> {
        let released = self.count(|reply| *reply == Reply::Done);
        if released >= self.needed {
            return Some(Outcome::Reply(Reply::Done));
        }
        if self.is_refuted_by(self.count(|reply| *reply == Reply::NotHeld)) {
            return Some(Outcome::Reply(Reply::NotHeld));
        }
        // A silent node is sent the release when it is back. Others may still find the lock taken,
        // and no answer says that it was lost.
        (self.awaited == 0).then(|| match self.refused() {
            Outcome::Reply(Reply::Refused(Refusal::Transient(reason))) if released > 0 => {
                Outcome::Reply(Reply::Refused(Refusal::OutcomeUnknown(reason)))
            }
            refused => refused,
        })
    }

    pub(super) fn watch(&self) -> Option<Outcome> {
        let mine: Vec<_> = self
            .said()
            .filter_map(|reply| match reply {
                Reply::HeldFor { left } => Some(Reverse(*left)),
                _ => None,
            })
            .collect();
        // With the end of this one, fewer nodes have it than are needed.
        if let Some(Reverse(left)) = nth_smallest(&mine, self.needed) {
            return Some(Outcome::Reply(Reply::HeldFor { left }));
        }
        if self.awaited > 0 {
            return None;
        }
        let others = self.count(|reply| *reply == Reply::NotHeld);
        let empty = self.count(|reply| *reply == Reply::Free);
        Some(if others >= self.needed {
            Outcome::Reply(Reply::NotHeld)
        } else if self.is_refuted_by(others + empty) {
            Outcome::Reply(Reply::Free)
        } else {
            self.refused()
        })
    }

    /// Returns what the nodes have found that have answered.
    fn found_by_nodes(&self) -> impl Iterator<Item = &Option<Inspection>> {
        self.said().filter_map(|reply| match reply {
            Reply::Found(found) => Some(found),
            _ => None,
        })
    }

    /// Returns what a quorum of nodes has: the same holder, or none.
    fn agreed(&self) -> Option<&Option<Inspection>> {
        let value = |found: &Option<Inspection>| found.as_ref().map(|found| found.value.clone());
        let is_quorum = |it: &&Option<Inspection>| {
            self.found_by_nodes().filter(|other| value(other) == value(it)).count() >= self.needed
        };
        // A node that was repaired does not know when it was granted.
        let granted = |found: &&Option<Inspection>| found.as_ref().and_then(|found| found.holder.granted);
        self.found_by_nodes().filter(is_quorum).min_by_key(|found| Reverse(granted(found)))
    }

    pub(super) fn found(&self) -> Option<Outcome> {
        if self.awaited > 0 {
            return None;
        }
        if self.found_by_nodes().count() < self.needed {
            return Some(self.refused());
        }
        Some(Outcome::Reply(Reply::Found(self.agreed().cloned().flatten())))
    }

    /// The first round of a force-release. A free lock stays as it is: what a few nodes have may be
    /// votes on their way.
    pub(super) fn look(&self) -> Option<Outcome> {
        match self.agreed() {
            Some(None) => Some(Outcome::Reply(Reply::Found(None))),
            Some(holder) => Some(Outcome::TakeAway(holder.clone())),
            None if self.awaited > 0 => None,
            None if self.found_by_nodes().count() < self.needed => Some(self.refused()),
            None => Some(Outcome::TakeAway(None)),
        }
    }

    /// The second round: the nodes that have answered do not have that value any more.
    pub(super) fn take_away(&self, holder: Option<&Inspection>) -> Option<Outcome> {
        let gone = self.count(|reply| matches!(reply, Reply::Done | Reply::NotHeld));
        if gone >= self.needed {
            return Some(Outcome::Reply(Reply::Found(holder.cloned())));
        }
        (gone + self.awaited < self.needed).then(|| self.refused())
    }

    pub(super) fn first(&self) -> Option<Outcome> {
        match self.said().next() {
            Some(reply) => Some(Outcome::Reply(reply.clone())),
            None => (self.awaited == 0).then(|| self.refused()),
        }
    }

    /// Too few nodes agreed: what each one said.
    fn refused(&self) -> Outcome {
        let mut said: Vec<(Arc<str>, usize)> = Vec::new();
        let mut permanent = 0;
        for answer in self.answers {
            let words: Arc<str> = match answer {
                NodeReply::Said(reply) => words(reply).into(),
                // The others have decided.
                NodeReply::Awaited if self.awaited > 0 => "its answer was not awaited".into(),
                NodeReply::Awaited => "no answer in time".into(),
                NodeReply::Absent(refusal) => {
                    permanent += usize::from(matches!(refusal, Refusal::Permanent(_) | Refusal::Moved(_)));
                    refusal.clone().words()
                }
            };
            match said.iter_mut().find(|(other, _)| *other == words) {
                Some((_, nodes)) => *nodes += 1,
                None => said.push((words, 1)),
            }
        }
        let said = said.iter().map(|(words, nodes)| match nodes {
            1 => format!("1 node: {words}"),
            nodes => format!("{nodes} nodes: {words}"),
        });
        let said = said.collect::<Vec<_>>().join("; ");
        let reason =
            format!("{} of {} nodes must agree, and did not ({said})", self.needed, self.answers.len());
        Outcome::Reply(Reply::Refused(if self.is_refuted_by(permanent) {
            Refusal::Permanent(reason.into())
        } else {
            Refusal::Transient(reason.into())
        }))
    }
}

/// The answer of one node, for an error.
fn words(reply: &Reply) -> &'static str {
    match reply {
        Reply::Voted { .. } => "it gave its vote",
        Reply::Acquire(Verdict::Busy { .. }) => "another caller has the lock",
        Reply::Done => "done",
        Reply::NotHeld => "it does not have the lock of this caller",
        Reply::Free => "the lock is free",
        _ => "it has answered",
    }
}

fn most_frequent<'a>(holders: &[&'a Holder]) -> Option<&'a Holder> {
    let frequency = |holder: &&Holder| holders.iter().filter(|other| other.owner == holder.owner).count();
    holders.iter().copied().max_by_key(|holder| (frequency(holder), holder.granted))
}

/// Counted from 1. Of a few: a sort is in the program once for each type, with 6 KiB.
pub(super) fn nth_smallest<T: Ord + Copy>(values: &[T], nth: usize) -> Option<T> {
    let is_nth = |value: &&T| {
        let less = values.iter().filter(|other| other < value).count();
        less < nth && nth <= values.iter().filter(|other| other <= value).count()
    };
    values.iter().find(is_nth).copied()
}
