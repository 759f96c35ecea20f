//! One request, put to all nodes: what each has said, and what that comes to.
//!
//! No I/O and no clock. A verdict is given as soon as it cannot change any more, in either direction.

use std::sync::Arc;

use crate::clock::Moment;
use crate::engine::protocol::{Action, Id, Inspection, Refusal, Reply, Request};
use crate::error::Holder;

/// What is known of one node's answer.
#[derive(Clone, Debug)]
enum NodeReply {
    /// It may still come.
    Awaited,
    /// The node was not asked, or its answer will not come.
    Absent(Refusal),
    Said(Reply),
}

pub(super) struct QuorumCall {
    /// Whose request it is.
    pub(super) id: Id,
    /// As it came.
    pub(super) request: Request,
    /// As it is put to the nodes.
    pub(super) action: Action,
    /// When the first node was asked.
    pub(super) sent: Moment,
    /// Its verdict has been told.
    pub(super) is_told: bool,
    /// The highest clock of fencing tokens that was told.
    clock: u64,
    answers: Vec<NodeReply>,
}

/// What the answers come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Reply(Reply),
    /// A quorum has voted for us, and not every clock was below our wish: this one is above all of them, and has to be
    /// known to a quorum that still votes for us.
    Confirm {
        fence: u64,
    },
}

impl QuorumCall {
    pub(super) fn new(id: Id, request: Request, action: Action, sent: Moment, nodes: usize) -> Self {
        Self { id, request, action, sent, is_told: false, clock: 0, answers: vec![NodeReply::Awaited; nodes] }
    }

    /// The request that is put to each node.
    pub(super) fn question(&self) -> Request {
        Request { action: self.action, ..self.request.clone() }
    }

    pub(super) fn awaits(&self, node: usize) -> bool {
        matches!(self.answers.get(node), Some(NodeReply::Awaited))
    }

    pub(super) fn awaits_any(&self) -> bool {
        (0..self.answers.len()).any(|node| self.awaits(node))
    }

    pub(super) fn absent(&mut self, node: usize, reason: Arc<str>) {
        self.set(node, NodeReply::Absent(Refusal::Transient(reason)));
    }

    pub(super) fn answer(&mut self, node: usize, reply: Reply) {
        if let Reply::Voted { clock } = reply {
            self.clock = self.clock.max(clock);
        }
        self.set(
            node,
            match reply {
                Reply::Refused(refusal) => NodeReply::Absent(refusal),
                reply => NodeReply::Said(reply),
            },
        );
    }

    fn set(&mut self, node: usize, answer: NodeReply) {
        if let Some(old) = self.answers.get_mut(node) {
            *old = answer;
        }
    }

    /// The second round: the nodes that have voted for us are asked to confirm.
    pub(super) fn confirm(&mut self, fence: u64) -> Vec<usize> {
        self.action = Action::RaiseFence { fence };
        let mut asked = Vec::new();
        for (node, answer) in self.answers.iter_mut().enumerate() {
            *answer = match answer {
                NodeReply::Said(Reply::Voted { .. }) => {
                    asked.push(node);
                    NodeReply::Awaited
                }
                NodeReply::Absent(refusal) => NodeReply::Absent(refusal.clone()),
                NodeReply::Said(_) | NodeReply::Awaited => {
                    NodeReply::Absent(Refusal::Transient("it did not vote".into()))
                }
            };
        }
        asked
    }

    /// `over`: no more answers are waited for.
    pub(super) fn outcome(&self, needed: usize, over: bool) -> Option<Outcome> {
        let tally = Tally {
            answers: &self.answers,
            needed,
            awaited: if over { 0 } else { self.count(|answer| matches!(answer, NodeReply::Awaited)) },
        };
        match self.action {
            Action::Vote { fence } => tally.vote(fence, self.clock),
            Action::RaiseFence { fence } => tally.confirm(fence),
            Action::Release => tally.release(),
            Action::Watch | Action::WatchHolder => tally.watch(),
            Action::Inspect | Action::ForceRelease => tally.found(),
            Action::List { .. } => tally.first(),
            Action::Repair { .. }
            | Action::Renew { .. }
            | Action::ExpireLater
            | Action::Acquire(_)
            | Action::AcquireNext { .. }
            // Never put to the vote.
            | Action::Reserve { .. } => tally.renew(),
        }
    }

    fn count(&self, is: impl Fn(&NodeReply) -> bool) -> usize {
        self.answers.iter().filter(|answer| is(answer)).count()
    }
}

struct Tally<'a> {
    answers: &'a [NodeReply],
    needed: usize,
    awaited: usize,
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

    /// So many are against it that no quorum can be for it.
    fn is_refuted_by(&self, against: usize) -> bool {
        against > self.answers.len() - self.needed
    }

    fn vote(&self, fence: u64, highest: u64) -> Option<Outcome> {
        let votes = self.count(|reply| matches!(reply, Reply::Voted { .. }));
        // Where the clock was below our wish, it is our wish now, while the lock is ours: as good as confirmed.
        if self.count(|reply| *reply == Reply::Voted { clock: fence }) >= self.needed {
            return Some(Outcome::Reply(Reply::Granted { fence }));
        }
        if votes >= self.needed {
            return Some(Outcome::Confirm { fence: highest.max(fence).saturating_add(1) });
        }
        if votes + self.awaited >= self.needed {
            return None;
        }
        let busy = self.said().filter_map(|reply| match reply {
            Reply::Busy { holder, .. } => Some(holder),
            _ => None,
        });
        let holders: Vec<&Holder> = busy.collect();
        // A few nodes that are busy and many that are silent: Redis is down, somebody else may have nothing.
        if holders.is_empty() || votes + holders.len() + self.awaited < self.needed {
            return Some(self.refused());
        }
        let holder = most_frequent(&holders).cloned().unwrap_or_default();
        Some(Outcome::Reply(Reply::Busy { holder, place: None }))
    }

    fn confirm(&self, fence: u64) -> Option<Outcome> {
        let confirmed = self.count(|reply| *reply == Reply::Done);
        if confirmed >= self.needed {
            return Some(Outcome::Reply(Reply::Granted { fence }));
        }
        (confirmed + self.awaited < self.needed).then(|| self.refused())
    }

    fn renew(&self) -> Option<Outcome> {
        let renewed = self.count(|reply| *reply == Reply::Done);
        if renewed >= self.needed {
            return Some(Outcome::Reply(Reply::Done));
        }
        if self.is_refuted_by(self.count(|reply| matches!(reply, Reply::NotHeld | Reply::Free))) {
            return Some(Outcome::Reply(Reply::NotHeld));
        }
        (renewed + self.awaited < self.needed).then(|| self.refused())
    }

    fn release(&self) -> Option<Outcome> {
        let released = self.count(|reply| *reply == Reply::Done);
        if released >= self.needed {
            return Some(Outcome::Reply(Reply::Done));
        }
        if self.is_refuted_by(self.count(|reply| *reply == Reply::NotHeld)) {
            return Some(Outcome::Reply(Reply::NotHeld));
        }
        // What a silent node still has is owed to it; nothing says that the lock was lost.
        (self.awaited == 0).then(|| if released > 0 { Outcome::Reply(Reply::Done) } else { self.refused() })
    }

    fn watch(&self) -> Option<Outcome> {
        let mine = self.count(|reply| *reply == Reply::Done);
        if mine >= self.needed {
            return Some(Outcome::Reply(Reply::Done));
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

    fn found(&self) -> Option<Outcome> {
        if self.awaited > 0 {
            return None;
        }
        let found: Vec<&Option<Inspection>> = self
            .said()
            .filter_map(|reply| match reply {
                Reply::Found(found) => Some(found),
                _ => None,
            })
            .collect();
        if found.len() < self.needed {
            return Some(self.refused());
        }
        let name = |found: &Option<Inspection>| found.as_ref().map(|(holder, _)| holder.name.clone());
        let is_majority = |it: &&&Option<Inspection>| {
            found.iter().filter(|other| name(other) == name(it)).count() >= self.needed
        };
        let agreed = found.iter().filter(|found| found.is_some()).find(is_majority);
        Some(Outcome::Reply(Reply::Found(agreed.and_then(|found| (*found).clone()))))
    }

    fn first(&self) -> Option<Outcome> {
        match self.said().next() {
            Some(reply) => Some(Outcome::Reply(reply.clone())),
            None => (self.awaited == 0).then(|| self.refused()),
        }
    }

    /// Too few answers, and why.
    fn refused(&self) -> Outcome {
        let mut reasons: Vec<Arc<str>> = Vec::new();
        let mut for_good = 0;
        for answer in self.answers {
            let reason: Arc<str> = match answer {
                NodeReply::Said(_) => continue,
                NodeReply::Awaited => "a node did not answer in time".into(),
                NodeReply::Absent(refusal) => {
                    for_good += usize::from(matches!(refusal, Refusal::Permanent(_) | Refusal::Moved(_)));
                    refusal.clone().words()
                }
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let (answered, nodes) = (self.said().count(), self.answers.len());
        let reason = format!(
            "{answered} of {nodes} nodes answered, and {} are needed: {}",
            self.needed,
            reasons.join("; ")
        );
        Outcome::Reply(Reply::Refused(if self.is_refuted_by(for_good) {
            Refusal::Permanent(reason.into())
        } else {
            Refusal::Transient(reason.into())
        }))
    }
}

fn most_frequent<'a>(holders: &[&'a Holder]) -> Option<&'a Holder> {
    let frequency = |holder: &&Holder| holders.iter().filter(|other| other.name == holder.name).count();
    holders.iter().copied().max_by_key(|holder| frequency(holder))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::token::Token;

    const FENCE: u64 = 100;

    /// What five nodes come to when they have said this; `None` for one that is still awaited.
    fn outcome(action: Action, replies: [Option<Reply>; 5]) -> Option<Outcome> {
        judge(action, replies, false)
    }

    fn judge(action: Action, replies: [Option<Reply>; 5], over: bool) -> Option<Outcome> {
        let ttl = Duration::from_secs(1);
        let request = Request { action, name: "k".into(), token: Token::empty(), ttl };
        let mut call = QuorumCall::new(1, request, action, Moment::now(), 5);
        for (node, reply) in replies.into_iter().enumerate() {
            if let Some(reply) = reply {
                call.answer(node, reply);
            }
        }
        call.outcome(3, over)
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn voted(clock: u64) -> Option<Reply> {
        Some(Reply::Voted { clock })
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn busy(name: &str) -> Option<Reply> {
        let holder = Holder { name: Some(name.into()), expires_in: None };
        Some(Reply::Busy { holder, place: None })
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn down() -> Option<Reply> {
        Some(Reply::Refused(Refusal::Transient("down".into())))
    }

    const MEND: Action = Action::Repair { shortens: false };
    const VOTE: Action = Action::Vote { fence: FENCE };

    #[test]
    fn the_third_vote_of_five_decides() {
        assert_eq!(outcome(VOTE, [voted(FENCE), voted(FENCE), None, None, None]), None);
        assert_eq!(
            outcome(VOTE, [voted(FENCE), None, voted(FENCE), None, voted(FENCE)]),
            Some(Outcome::Reply(Reply::Granted { fence: FENCE }))
        );
    }

    #[test]
    fn a_clock_that_was_ahead_takes_a_second_round() {
        assert_eq!(
            outcome(VOTE, [voted(FENCE), voted(FENCE + 7), voted(FENCE), None, None]),
            Some(Outcome::Confirm { fence: FENCE + 8 })
        );
    }

    #[test]
    fn the_third_refusal_of_five_decides_and_names_the_holder() {
        assert_eq!(outcome(VOTE, [busy("a"), busy("a"), None, voted(FENCE), None]), None);
        let decided = outcome(VOTE, [busy("a"), busy("b"), busy("b"), voted(FENCE), None]);
        assert!(
            matches!(&decided, Some(Outcome::Reply(Reply::Busy { holder, .. })) if holder.name() == Some("b")),
            "{decided:?}"
        );
    }

    #[test]
    fn nodes_that_are_down_are_never_reported_as_busy() {
        let decided = outcome(VOTE, [busy("a"), down(), down(), down(), voted(FENCE)]);
        assert!(
            matches!(decided, Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))),
            "{decided:?}"
        );
        let decided = judge(VOTE, [voted(FENCE), voted(FENCE), None, None, None], true);
        assert!(
            matches!(decided, Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))),
            "{decided:?}"
        );
        // The two that are awaited would be a quorum with it, and can no longer be one for us.
        let decided = outcome(VOTE, [busy("a"), down(), down(), None, None]);
        assert!(matches!(decided, Some(Outcome::Reply(Reply::Busy { .. }))), "{decided:?}");
    }

    #[test]
    fn a_renewal_counts_only_nodes_that_compared() {
        let done = || Some(Reply::Done);
        let empty = || Some(Reply::Free);
        assert_eq!(
            outcome(MEND, [done(), done(), empty(), empty(), done()]),
            Some(Outcome::Reply(Reply::Done))
        );
        assert_eq!(
            outcome(MEND, [done(), done(), empty(), empty(), Some(Reply::NotHeld)]),
            Some(Outcome::Reply(Reply::NotHeld))
        );
        assert!(matches!(
            outcome(MEND, [done(), done(), empty(), down(), down()]),
            Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))
        ));
    }

    #[test]
    fn a_release_that_a_majority_did_not_contradict_was_one() {
        let (done, not_mine) = (|| Some(Reply::Done), || Some(Reply::NotHeld));
        assert_eq!(outcome(Action::Release, [done(), done(), None, None, None]), None);
        assert_eq!(
            judge(Action::Release, [done(), down(), down(), not_mine(), None], true),
            Some(Outcome::Reply(Reply::Done))
        );
        assert_eq!(
            outcome(Action::Release, [not_mine(), not_mine(), not_mine(), done(), None]),
            Some(Outcome::Reply(Reply::NotHeld))
        );
        assert!(matches!(
            outcome(Action::Release, [down(), down(), down(), down(), down()]),
            Some(Outcome::Reply(Reply::Refused(_)))
        ));
    }

    #[test]
    fn the_second_round_asks_only_who_voted() {
        let ttl = Duration::from_secs(1);
        let request = Request { action: VOTE, name: "k".into(), token: Token::empty(), ttl };
        let mut call = QuorumCall::new(1, request, VOTE, Moment::now(), 5);
        for (node, clock) in [(0, FENCE), (2, FENCE + 3), (4, FENCE)] {
            call.answer(node, Reply::Voted { clock });
        }
        assert_eq!(call.outcome(3, false), Some(Outcome::Confirm { fence: FENCE + 4 }));
        assert_eq!(call.confirm(FENCE + 4), [0, 2, 4]);
        call.answer(0, Reply::Done);
        // A late vote is no confirmation.
        call.answer(1, Reply::Voted { clock: FENCE });
        assert_eq!(call.outcome(3, false), None);
        call.answer(2, Reply::Done);
        call.answer(4, Reply::Done);
        assert_eq!(call.outcome(3, false), Some(Outcome::Reply(Reply::Granted { fence: FENCE + 4 })));
    }
}
