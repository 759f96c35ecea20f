//! Redlock: a lock on several independent nodes. Who has the votes of a quorum has the lock.
//! <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>
//!
//! To the table it is a line like any other: a request comes in, is put to all nodes at once, and is answered once, as
//! soon as the answers decide it. A node that is silent costs nothing as long as a quorum is well. What an attempt
//! that failed has got is given back on all nodes, also on those that did not answer.
//!
//! There is no queue here: one queue for each node could hand a lock to several waiters. Waiters are woken by changes.

mod fence_estimate;
mod member;
mod member_waker;
mod quorum_call;
#[cfg(test)]
mod scenarios;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::link::{Link, News};
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::protocol::{Action, Disconnected, Id, Refusal, Reply, Request};
use crate::engine::redis::server_identity::Voters;
use crate::engine::settings::EngineSettings;
use crate::engine::timers::Timers;
use crate::telemetry;
use fence_estimate::Wish;
use member::Member;
use quorum_call::{Ballot, Verdict};

/// Of requests whose answer nobody waits for.
const NOBODY: Id = 0;

/// Locks of whose change not enough members have told are forgotten beyond this: it is a hint, and who waits looks from
/// time to time anyway.
const MOST_CHANGES: usize = 10_000;

/// What a node may tell before the next one has its turn.
const TURN: usize = 64;

pub(crate) struct Quorum {
    members: Vec<Member>,
    voters: Arc<Voters>,
    /// How many of them are a quorum.
    needed: usize,
    settings: EngineSettings,
    ballots: HashMap<Id, Ballot>,
    /// In which ballot an attempt asks for its lock.
    asking: HashMap<Id, Id>,
    last_id: Id,
    timers: Timers,
    wish: Wish,
    /// How long the answers of the nearest quorum take.
    round_trip: Duration,
    /// Which members have told of a change of a lock, a bit each.
    changes: HashMap<Arc<str>, u64>,
    connected: bool,
    /// When a quorum of members is there, and the others are not waited for any longer.
    begins_at: Option<Moment>,
    news: VecDeque<News>,
}

impl Quorum {
    pub(super) fn new(links: Vec<Link>, voters: Arc<Voters>, settings: EngineSettings) -> Self {
        let members: Vec<Member> = links.into_iter().map(Member::new).collect();
        Self {
            needed: members.len() / 2 + 1,
            members,
            voters,
            settings,
            ballots: HashMap::new(),
            asking: HashMap::new(),
            last_id: NOBODY,
            timers: Timers::default(),
            wish: Wish::new(Moment::now()),
            round_trip: Duration::ZERO,
            changes: HashMap::new(),
            connected: false,
            begins_at: None,
            news: VecDeque::new(),
        }
    }

    /// How many requests a quorum of members has room for; one that is away needs none.
    pub(super) fn room(&self) -> usize {
        let mut rooms: Vec<usize> = self.members.iter().map(Member::room).collect();
        rooms.sort_unstable_by_key(|room| Reverse(*room));
        rooms.get(self.needed - 1).copied().unwrap_or(0)
    }

    pub(super) fn send(&mut self, cx: &mut Context<'_>, now: Moment, requests: Vec<(Id, Request)>) {
        for (id, request) in requests {
            self.put(now, id, request);
        }
        self.flush(cx, now);
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let links = self.members.iter().filter_map(|member| member.link.due());
        links.chain(self.timers.next()).chain(self.begins_at).min()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<News> {
        loop {
            while let Some(id) = self.timers.pop(now) {
                self.settle(now, id, true);
            }
            for node in 0..self.members.len() {
                // One that has much to tell takes turns with the others, and with whoever calls.
                for turn in 0.. {
                    let Poll::Ready(news) = self.members[node].poll(cx, now) else { break };
                    self.hear(now, node, news);
                    if turn == TURN {
                        cx.waker().wake_by_ref();
                        break;
                    }
                }
            }
            self.begin(now);
            self.flush(cx, now);
            if let Some(news) = self.news.pop_front() {
                return Poll::Ready(news);
            }
            if self.timers.next().is_none_or(|due| due > now) {
                return Poll::Pending;
            }
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>, now: Moment) {
        for member in &mut self.members {
            member.flush(cx, now);
        }
    }

    /// Puts a request to all nodes.
    fn put(&mut self, now: Moment, id: Id, request: Request) {
        // A caller that has gone: nothing more may be asked for behind the release.
        let vote = match request.action {
            Action::Release | Action::Keep => self.withdraw(id),
            _ => None,
        };
        self.put_behind(now, id, request, vote);
    }

    /// `vote`: the ballot for the lock that is released; a node that has not been asked yet is not asked.
    fn put_behind(&mut self, now: Moment, id: Id, request: Request, vote: Option<Id>) {
        let action = match request.action {
            Action::Acquire(_) => Action::Vote { fence: self.wish.next(now) },
            Action::Renew { shortens, .. } => Action::Mend { shortens },
            action => action,
        };
        if let Action::Vote { .. } | Action::Mend { .. } | Action::Keep = action {
            self.settings.longest_ttl = self.settings.longest_ttl.max(request.ttl);
        }
        self.last_id += 1;
        let own_id = self.last_id;
        if let Action::Vote { .. } = action {
            self.asking.insert(id, own_id);
        }
        let mut ballot = Ballot::new(id, request, action, now, self.members.len());
        let question = ballot.question();
        for (node, member) in self.members.iter_mut().enumerate() {
            if vote.is_some_and(|vote| member.outbox.take_back(vote).is_some()) {
                ballot.answer(node, Reply::NotMine);
            } else if let Some(reason) = member.absence() {
                ballot.absent(node, Arc::clone(reason));
                if action == Action::Release {
                    member.owe(now, question.clone());
                }
            } else if let (Action::Vote { .. }, Some(reason)) =
                (action, member.abstention(now, self.settings.longest_ttl))
            {
                ballot.absent(node, reason);
            } else if let Some(question) = for_node(node, &question) {
                if let Action::Mend { .. } = action {
                    member.outbox.push_urgent((own_id, question));
                } else {
                    member.outbox.push((own_id, question));
                }
            } else {
                ballot.absent(node, "another node was asked".into());
            }
        }
        if let Action::Watch | Action::WatchHolder = action {
            self.changes.remove(&question.name);
        }
        let patience = match action {
            Action::Inspect | Action::ForceRelease | Action::List { .. } => self.settings.io_timeout,
            _ => self.patience(question.ttl),
        };
        self.timers.set(own_id, Some(now.after(patience)));
        self.ballots.insert(own_id, ballot);
        self.settle(now, own_id, false);
    }

    /// How long an answer is waited for that is not needed if the others agree: as the settings say, but long enough for
    /// a quorum that is far away, and never a large part of the lease.
    fn patience(&self, ttl: Duration) -> Duration {
        let EngineSettings { node_timeout, io_timeout, .. } = self.settings;
        node_timeout.max(2 * self.round_trip).min(io_timeout).min(ttl / 4)
    }

    /// A node that is farther away than a quorum of the others is not waited for because of that.
    fn measure(&mut self) {
        let mut round_trips: Vec<_> = self.members.iter().filter_map(Member::round_trip).collect();
        round_trips.sort_unstable();
        self.round_trip = round_trips.get(self.needed - 1).copied().unwrap_or_default();
    }

    /// Whatever comes of what `id` asks for, nobody wants it any more.
    fn withdraw(&mut self, id: Id) -> Option<Id> {
        let own_id = self.asking.remove(&id)?;
        self.ballots.remove(&own_id);
        self.timers.set(own_id, None);
        Some(own_id)
    }

    /// Ends a ballot that is decided. `over`: its time is up.
    fn settle(&mut self, now: Moment, own_id: Id, over: bool) {
        let Some(ballot) = self.ballots.get_mut(&own_id) else {
            return;
        };
        let Some(verdict) = ballot.verdict(self.needed, over) else {
            return;
        };
        let reply = match verdict {
            Verdict::Reply(reply) => reply,
            Verdict::Confirm { fence } => {
                self.wish.learn(now, fence);
                for node in ballot.confirm(fence) {
                    self.members[node].outbox.push((own_id, ballot.question()));
                }
                let ttl = ballot.request.ttl;
                self.timers.set(own_id, Some(now.after(self.patience(ttl))));
                return;
            }
        };
        let is_new = !std::mem::replace(&mut ballot.is_told, true);
        if ballot.action == Action::Release && ballot.awaits_any() && !over {
            // Decided, and still to be heard by the others: the engine does not end before.
            if is_new {
                let (id, request, sent) = (ballot.id, ballot.request.clone(), ballot.sent);
                self.tell(sent, id, request, reply);
            }
            return;
        }
        self.timers.set(own_id, None);
        let Some(ballot) = self.ballots.remove(&own_id) else {
            return;
        };
        let failed = match ballot.action {
            Action::Vote { .. } | Action::Confirm { .. } => {
                self.asking.remove(&ballot.id);
                !matches!(reply, Reply::Held { .. })
            }
            Action::Mend { .. } => reply == Reply::NotMine,
            _ => false,
        };
        if failed {
            self.give_back(now, own_id, &ballot.request);
        }
        let Ballot { id, request, sent, .. } = ballot;
        if is_new {
            let reply =
                next_page(self.passed_over(reply, request.action), request.action, self.members.len());
            self.tell(sent, id, request, reply);
        }
    }

    fn tell(&mut self, sent: Moment, id: Id, request: Request, reply: Reply) {
        if id != NOBODY {
            self.news.push_back(News::Replies { sent, replies: vec![(id, request, reply)] });
        }
    }

    /// A node that lists nothing is passed over while a quorum of others does: one of those knows each lock.
    fn passed_over(&self, reply: Reply, action: Action) -> Reply {
        let (Reply::Refused(Refusal::Later(_)), Action::List { cursor }) = (&reply, action) else {
            return reply;
        };
        let is_other = |node: usize| u64::try_from(node).is_ok_and(|node| node != cursor >> CURSOR_BITS);
        let others =
            self.members.iter().enumerate().filter(|(node, member)| is_other(*node) && member.is_up());
        if others.count() >= self.needed { Reply::Page { cursor: 0, names: Vec::new() } } else { reply }
    }

    /// On all nodes, also on those that did not answer: they may have heard.
    fn give_back(&mut self, now: Moment, own_id: Id, request: &Request) {
        let release = Request { action: Action::Release, ..request.clone() };
        self.put_behind(now, NOBODY, release, Some(own_id));
    }

    /// True when nothing is on the way to a node.
    pub(super) fn is_idle(&self) -> bool {
        self.ballots.is_empty() && !self.members.iter().any(Member::is_owed)
    }

    fn hear(&mut self, now: Moment, node: usize, news: News) {
        match news {
            News::Connected { abilities, standing } => {
                self.wish.learn(now, standing.clock);
                self.members[node].up(now, standing, abilities.watches);
                self.measure();
            }
            News::Unreachable(trouble) => {
                if self.members[node].absence() != Some(&trouble.reason) {
                    telemetry::unreachable(&trouble.reason);
                }
                self.voters.absent(node, &trouble.reason);
                self.members[node].unreachable(trouble.reason, trouble.turned_away);
                self.unreachable();
            }
            News::Broke { reason, unanswered } => {
                self.members[node].down(now, Arc::clone(&reason), unanswered);
                self.absent(now, node, &reason);
            }
            News::Replies { replies, .. } => {
                for (own_id, request, reply) in replies {
                    self.answer(now, node, own_id, request, reply);
                }
            }
            News::Changed(names) => self.changed(node, names),
            // Nobody waits in a queue of a node, and a lock is always at the same nodes.
            News::Notice(_) | News::Returned(_) | News::Abilities(_) => {}
        }
    }

    fn answer(&mut self, now: Moment, node: usize, own_id: Id, request: Request, reply: Reply) {
        if reply == Reply::Refused(Refusal::Unloaded) {
            if self.is_asked_again(node, own_id, &request) {
                self.members[node].outbox.push((own_id, request));
            }
            return;
        }
        if own_id == NOBODY {
            self.members[node].paid();
            // Nobody's, but the engine may wait for it to end.
            self.news.push_back(News::Replies { sent: now, replies: Vec::new() });
            return;
        }
        if let Reply::Voted { clock } = reply {
            self.wish.learn(now, clock);
        }
        // A vote that comes after the second round has begun is none.
        if let Some(ballot) = self.ballots.get_mut(&own_id)
            && discriminant(&ballot.action) == discriminant(&request.action)
        {
            ballot.answer(node, reply);
            self.settle(now, own_id, false);
        }
    }

    /// A node that has forgotten the script did nothing. What is sent again comes behind whatever was sent since: nothing
    /// that takes the lock may follow its release.
    fn is_asked_again(&self, node: usize, own_id: Id, request: &Request) -> bool {
        if request.action == Action::Release {
            return true;
        }
        let is_awaited = self.ballots.get(&own_id).is_some_and(|ballot| {
            ballot.awaits(node) && discriminant(&ballot.action) == discriminant(&request.action)
        });
        let is_released = self
            .ballots
            .values()
            .any(|ballot| ballot.action == Action::Release && ballot.request.token == request.token);
        is_awaited && !is_released
    }

    /// A node that has gone answers nothing any more.
    fn absent(&mut self, now: Moment, node: usize, reason: &Arc<str>) {
        let awaiting = self.ballots.iter().filter(|(_, ballot)| ballot.awaits(node));
        for own_id in awaiting.map(|(own_id, _)| *own_id).collect::<Vec<_>>() {
            if let Some(ballot) = self.ballots.get_mut(&own_id) {
                ballot.absent(node, Arc::clone(reason));
                self.settle(now, own_id, false);
            }
        }
    }

    /// The quorum is there once a quorum of nodes is, and the others are too, or are in trouble, or take too long. After
    /// that, it is each request that hears of absences.
    fn begin(&mut self, now: Moment) {
        let count = |is: fn(&Member) -> bool| self.members.iter().filter(|member| is(member)).count();
        let (up, in_trouble) = (count(Member::is_up), count(Member::is_in_trouble));
        if self.connected || up < self.needed || self.voters.refused().is_some() {
            self.begins_at = None;
            return;
        }
        let begins_at = *self.begins_at.get_or_insert(now.after(self.settings.node_timeout));
        if up + in_trouble < self.members.len() && now < begins_at {
            return;
        }
        self.connected = true;
        self.begins_at = None;
        let abilities =
            Abilities { hands_off: false, watches: count(Member::watches) >= self.needed, votes: true };
        self.news.push_back(News::Connected { abilities, standing: self.wish.standing() });
    }

    fn unreachable(&mut self) {
        if let Some(reason) = self.voters.refused().filter(|_| !self.connected) {
            // Not what whoever wrote the addresses down wanted.
            self.news.push_back(News::Unreachable(Disconnected { reason, turned_away: true }));
            return;
        }
        let troubles: Vec<&Member> = self.members.iter().filter(|member| member.is_in_trouble()).collect();
        if self.connected || troubles.len() <= self.members.len() - self.needed {
            return;
        }
        let away = troubles.iter().filter(|member| member.turned_away()).count();
        let reasons: Vec<&str> =
            troubles.iter().filter_map(|member| member.absence()).map(|reason| &**reason).collect();
        let (nodes, needed) = (self.members.len(), self.needed);
        let reason = format!("{needed} of {nodes} nodes are needed: {}", reasons.join("; ")).into();
        let turned_away = away > nodes - needed;
        self.news.push_back(News::Unreachable(Disconnected { reason, turned_away }));
    }

    /// One node's change is no change of the lock: only when so many have told that no quorum may be left.
    fn changed(&mut self, node: usize, names: Option<Vec<Arc<str>>>) {
        let Some(names) = names else {
            // A flush: rare enough to compare at once.
            self.news.push_back(News::Changed(None));
            return;
        };
        let enough = self.members.len() - self.needed + 1;
        let mut changed = Vec::new();
        for name in names {
            if self.changes.len() >= MOST_CHANGES {
                self.changes.clear();
            }
            let told = self.changes.entry(Arc::clone(&name)).or_default();
            *told |= 1 << node;
            if told.count_ones() as usize >= enough {
                self.changes.remove(&name);
                changed.push(name);
            }
        }
        if !changed.is_empty() {
            self.news.push_back(News::Changed(Some(changed)));
        }
    }
}

/// Names are listed node by node: a lock is on a quorum of them, so no single node knows all. The upper bits of the
/// cursor say which node.
const NODE_BITS: u32 = 6;
const CURSOR_BITS: u32 = u64::BITS - NODE_BITS;

/// More nodes than this are no quorum that anybody could want.
pub(crate) const MOST_NODES: usize = 1 << NODE_BITS;

fn for_node(node: usize, question: &Request) -> Option<Request> {
    let Action::List { cursor } = question.action else {
        return Some(question.clone());
    };
    let action = Action::List { cursor: cursor & (u64::MAX >> NODE_BITS) };
    (u64::try_from(node).ok()? == cursor >> CURSOR_BITS).then(|| Request { action, ..question.clone() })
}

fn next_page(reply: Reply, action: Action, nodes: usize) -> Reply {
    match (reply, action) {
        (Reply::Page { cursor, names }, Action::List { cursor: asked }) => {
            let node = asked >> CURSOR_BITS;
            let is_last = usize::try_from(node).is_ok_and(|node| node + 1 >= nodes);
            let cursor = match cursor {
                0 if is_last => 0,
                0 => (node + 1) << CURSOR_BITS,
                more => node << CURSOR_BITS | more,
            };
            Reply::Page { cursor, names }
        }
        (reply, _) => reply,
    }
}
