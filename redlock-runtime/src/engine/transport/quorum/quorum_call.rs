//! One request, put to all nodes: what each has said, and what that comes to.
//!
//! No I/O and no clock. A verdict is given as soon as it cannot change any more, in either direction.

use std::sync::Arc;

use crate::clock::Moment;
use crate::engine::protocol::{Action, Found, Id, Refusal, Reply, Request};
use crate::error::Holder;

/// What is known of one node's answer.
#[derive(Clone, Debug)]
enum Answer {
    /// It may still come.
    Awaited,
    /// The node was not asked, or its answer will not come.
    Absent(Refusal),
    Said(Reply),
}

pub(super) struct Ballot {
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
    answers: Vec<Answer>,
}

/// What the answers come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Reply(Reply),
    /// A quorum has voted for us, and not every clock was below our wish: this one is above all of them, and has to be
    /// known to a quorum that still votes for us.
    Confirm {
        fence: u64,
    },
}

impl Ballot {
    pub(super) fn new(id: Id, request: Request, action: Action, sent: Moment, nodes: usize) -> Self {
        Self { id, request, action, sent, is_told: false, clock: 0, answers: vec![Answer::Awaited; nodes] }
    }

    /// The request that is put to each node.
    pub(super) fn question(&self) -> Request {
        Request { action: self.action, ..self.request.clone() }
    }

    pub(super) fn awaits(&self, node: usize) -> bool {
        matches!(self.answers.get(node), Some(Answer::Awaited))
    }

    pub(super) fn awaits_any(&self) -> bool {
        (0..self.answers.len()).any(|node| self.awaits(node))
    }

    pub(super) fn absent(&mut self, node: usize, reason: Arc<str>) {
        self.set(node, Answer::Absent(Refusal::Later(reason)));
    }

    pub(super) fn answer(&mut self, node: usize, reply: Reply) {
        if let Reply::Voted { clock } = reply {
            self.clock = self.clock.max(clock);
        }
        self.set(
            node,
            match reply {
                Reply::Refused(refusal) => Answer::Absent(refusal),
                reply => Answer::Said(reply),
            },
        );
    }

    fn set(&mut self, node: usize, answer: Answer) {
        if let Some(old) = self.answers.get_mut(node) {
            *old = answer;
        }
    }

    /// The second round: the nodes that have voted for us are asked to confirm.
    pub(super) fn confirm(&mut self, fence: u64) -> Vec<usize> {
        self.action = Action::Confirm { fence };
        let mut asked = Vec::new();
        for (node, answer) in self.answers.iter_mut().enumerate() {
            *answer = match answer {
                Answer::Said(Reply::Voted { .. }) => {
                    asked.push(node);
                    Answer::Awaited
                }
                Answer::Absent(refusal) => Answer::Absent(refusal.clone()),
                Answer::Said(_) | Answer::Awaited => Answer::Absent(Refusal::Later("it did not vote".into())),
            };
        }
        asked
    }

    /// `over`: no more answers are waited for.
    pub(super) fn verdict(&self, needed: usize, over: bool) -> Option<Verdict> {
        let tally = Tally {
            answers: &self.answers,
            needed,
            awaited: if over { 0 } else { self.count(|answer| matches!(answer, Answer::Awaited)) },
        };
        match self.action {
            Action::Vote { fence } => tally.vote(fence, self.clock),
            Action::Confirm { fence } => tally.confirm(fence),
            Action::Release => tally.release(),
            Action::Watch | Action::WatchHolder => tally.watch(),
            Action::Inspect | Action::ForceRelease => tally.found(),
            Action::List { .. } => tally.first(),
            Action::Mend { .. }
            | Action::Renew { .. }
            | Action::Keep
            | Action::Acquire(_)
            | Action::AcquireNext { .. }
            // Never put to the vote.
            | Action::Reserve { .. } => tally.renew(),
        }
    }

    fn count(&self, is: impl Fn(&Answer) -> bool) -> usize {
        self.answers.iter().filter(|answer| is(answer)).count()
    }
}

struct Tally<'a> {
    answers: &'a [Answer],
    needed: usize,
    awaited: usize,
}

impl Tally<'_> {
    fn said(&self) -> impl Iterator<Item = &Reply> {
        self.answers.iter().filter_map(|answer| match answer {
            Answer::Said(reply) => Some(reply),
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

    fn vote(&self, fence: u64, highest: u64) -> Option<Verdict> {
        let votes = self.count(|reply| matches!(reply, Reply::Voted { .. }));
        // Where the clock was below our wish, it is our wish now, while the lock is ours: as good as confirmed.
        if self.count(|reply| *reply == Reply::Voted { clock: fence }) >= self.needed {
            return Some(Verdict::Reply(Reply::Held { fence }));
        }
        if votes >= self.needed {
            return Some(Verdict::Confirm { fence: highest.max(fence).saturating_add(1) });
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
        Some(Verdict::Reply(Reply::Busy { holder, place: None }))
    }

    fn confirm(&self, fence: u64) -> Option<Verdict> {
        let confirmed = self.count(|reply| *reply == Reply::Done);
        if confirmed >= self.needed {
            return Some(Verdict::Reply(Reply::Held { fence }));
        }
        (confirmed + self.awaited < self.needed).then(|| self.refused())
    }

    fn renew(&self) -> Option<Verdict> {
        let renewed = self.count(|reply| *reply == Reply::Done);
        if renewed >= self.needed {
            return Some(Verdict::Reply(Reply::Done));
        }
        if self.is_refuted_by(self.count(|reply| matches!(reply, Reply::NotMine | Reply::Nobodys))) {
            return Some(Verdict::Reply(Reply::NotMine));
        }
        (renewed + self.awaited < self.needed).then(|| self.refused())
    }

    fn release(&self) -> Option<Verdict> {
        let released = self.count(|reply| *reply == Reply::Done);
        if released >= self.needed {
            return Some(Verdict::Reply(Reply::Done));
        }
        if self.is_refuted_by(self.count(|reply| *reply == Reply::NotMine)) {
            return Some(Verdict::Reply(Reply::NotMine));
        }
        // What a silent node still has is owed to it; nothing says that the lock was lost.
        (self.awaited == 0).then(|| if released > 0 { Verdict::Reply(Reply::Done) } else { self.refused() })
    }

    fn watch(&self) -> Option<Verdict> {
        let mine = self.count(|reply| *reply == Reply::Done);
        if mine >= self.needed {
            return Some(Verdict::Reply(Reply::Done));
        }
        if self.awaited > 0 {
            return None;
        }
        let others = self.count(|reply| *reply == Reply::NotMine);
        let nobodys = self.count(|reply| *reply == Reply::Nobodys);
        Some(if others >= self.needed {
            Verdict::Reply(Reply::NotMine)
        } else if self.is_refuted_by(others + nobodys) {
            Verdict::Reply(Reply::Nobodys)
        } else {
            self.refused()
        })
    }

    fn found(&self) -> Option<Verdict> {
        if self.awaited > 0 {
            return None;
        }
        let found: Vec<&Option<Found>> = self
            .said()
            .filter_map(|reply| match reply {
                Reply::Found(found) => Some(found),
                _ => None,
            })
            .collect();
        if found.len() < self.needed {
            return Some(self.refused());
        }
        let name = |found: &Option<Found>| found.as_ref().map(|(holder, _)| holder.name.clone());
        let is_majority = |it: &&&Option<Found>| {
            found.iter().filter(|other| name(other) == name(it)).count() >= self.needed
        };
        let agreed = found.iter().filter(|found| found.is_some()).find(is_majority);
        Some(Verdict::Reply(Reply::Found(agreed.and_then(|found| (*found).clone()))))
    }

    fn first(&self) -> Option<Verdict> {
        match self.said().next() {
            Some(reply) => Some(Verdict::Reply(reply.clone())),
            None => (self.awaited == 0).then(|| self.refused()),
        }
    }

    /// Too few answers, and why.
    fn refused(&self) -> Verdict {
        let mut reasons: Vec<Arc<str>> = Vec::new();
        let mut for_good = 0;
        for answer in self.answers {
            let reason: Arc<str> = match answer {
                Answer::Said(_) => continue,
                Answer::Awaited => "a node did not answer in time".into(),
                Answer::Absent(refusal) => {
                    for_good += usize::from(matches!(refusal, Refusal::Never(_) | Refusal::Elsewhere(_)));
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
        Verdict::Reply(Reply::Refused(if self.is_refuted_by(for_good) {
            Refusal::Never(reason.into())
        } else {
            Refusal::Later(reason.into())
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
    fn verdict(action: Action, replies: [Option<Reply>; 5]) -> Option<Verdict> {
        judge(action, replies, false)
    }

    fn judge(action: Action, replies: [Option<Reply>; 5], over: bool) -> Option<Verdict> {
        let ttl = Duration::from_secs(1);
        let request = Request { action, name: "k".into(), token: Token::nobodys(), ttl };
        let mut ballot = Ballot::new(1, request, action, Moment::now(), 5);
        for (node, reply) in replies.into_iter().enumerate() {
            if let Some(reply) = reply {
                ballot.answer(node, reply);
            }
        }
        ballot.verdict(3, over)
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn voted(clock: u64) -> Option<Reply> {
        Some(Reply::Voted { clock })
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn busy(name: &str) -> Option<Reply> {
        let holder = Holder { name: Some(name.into()), free_in: None };
        Some(Reply::Busy { holder, place: None })
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside `None`")]
    fn down() -> Option<Reply> {
        Some(Reply::Refused(Refusal::Later("down".into())))
    }

    const MEND: Action = Action::Mend { shortens: false };
    const VOTE: Action = Action::Vote { fence: FENCE };

    #[test]
    fn the_third_vote_of_five_decides() {
        assert_eq!(verdict(VOTE, [voted(FENCE), voted(FENCE), None, None, None]), None);
        assert_eq!(
            verdict(VOTE, [voted(FENCE), None, voted(FENCE), None, voted(FENCE)]),
            Some(Verdict::Reply(Reply::Held { fence: FENCE }))
        );
    }

    #[test]
    fn a_clock_that_was_ahead_takes_a_second_round() {
        assert_eq!(
            verdict(VOTE, [voted(FENCE), voted(FENCE + 7), voted(FENCE), None, None]),
            Some(Verdict::Confirm { fence: FENCE + 8 })
        );
    }

    #[test]
    fn the_third_refusal_of_five_decides_and_names_the_holder() {
        assert_eq!(verdict(VOTE, [busy("a"), busy("a"), None, voted(FENCE), None]), None);
        let decided = verdict(VOTE, [busy("a"), busy("b"), busy("b"), voted(FENCE), None]);
        assert!(
            matches!(&decided, Some(Verdict::Reply(Reply::Busy { holder, .. })) if holder.name() == Some("b")),
            "{decided:?}"
        );
    }

    #[test]
    fn nodes_that_are_down_are_never_reported_as_busy() {
        let decided = verdict(VOTE, [busy("a"), down(), down(), down(), voted(FENCE)]);
        assert!(matches!(decided, Some(Verdict::Reply(Reply::Refused(Refusal::Later(_))))), "{decided:?}");
        let decided = judge(VOTE, [voted(FENCE), voted(FENCE), None, None, None], true);
        assert!(matches!(decided, Some(Verdict::Reply(Reply::Refused(Refusal::Later(_))))), "{decided:?}");
        // The two that are awaited would be a quorum with it, and can no longer be one for us.
        let decided = verdict(VOTE, [busy("a"), down(), down(), None, None]);
        assert!(matches!(decided, Some(Verdict::Reply(Reply::Busy { .. }))), "{decided:?}");
    }

    #[test]
    fn a_renewal_counts_only_nodes_that_compared() {
        let done = || Some(Reply::Done);
        let nobodys = || Some(Reply::Nobodys);
        assert_eq!(
            verdict(MEND, [done(), done(), nobodys(), nobodys(), done()]),
            Some(Verdict::Reply(Reply::Done))
        );
        assert_eq!(
            verdict(MEND, [done(), done(), nobodys(), nobodys(), Some(Reply::NotMine)]),
            Some(Verdict::Reply(Reply::NotMine))
        );
        assert!(matches!(
            verdict(MEND, [done(), done(), nobodys(), down(), down()]),
            Some(Verdict::Reply(Reply::Refused(Refusal::Later(_))))
        ));
    }

    #[test]
    fn a_release_that_a_majority_did_not_contradict_was_one() {
        let (done, not_mine) = (|| Some(Reply::Done), || Some(Reply::NotMine));
        assert_eq!(verdict(Action::Release, [done(), done(), None, None, None]), None);
        assert_eq!(
            judge(Action::Release, [done(), down(), down(), not_mine(), None], true),
            Some(Verdict::Reply(Reply::Done))
        );
        assert_eq!(
            verdict(Action::Release, [not_mine(), not_mine(), not_mine(), done(), None]),
            Some(Verdict::Reply(Reply::NotMine))
        );
        assert!(matches!(
            verdict(Action::Release, [down(), down(), down(), down(), down()]),
            Some(Verdict::Reply(Reply::Refused(_)))
        ));
    }

    #[test]
    fn the_second_round_asks_only_who_voted() {
        let ttl = Duration::from_secs(1);
        let request = Request { action: VOTE, name: "k".into(), token: Token::nobodys(), ttl };
        let mut ballot = Ballot::new(1, request, VOTE, Moment::now(), 5);
        for (node, clock) in [(0, FENCE), (2, FENCE + 3), (4, FENCE)] {
            ballot.answer(node, Reply::Voted { clock });
        }
        assert_eq!(ballot.verdict(3, false), Some(Verdict::Confirm { fence: FENCE + 4 }));
        assert_eq!(ballot.confirm(FENCE + 4), [0, 2, 4]);
        ballot.answer(0, Reply::Done);
        // A late vote is no confirmation.
        ballot.answer(1, Reply::Voted { clock: FENCE });
        assert_eq!(ballot.verdict(3, false), None);
        ballot.answer(2, Reply::Done);
        ballot.answer(4, Reply::Done);
        assert_eq!(ballot.verdict(3, false), Some(Verdict::Reply(Reply::Held { fence: FENCE + 4 })));
    }
}
