//! What a test does to a node in memory: it takes locks away, holds them for other callers, and
//! breaks the node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Inbox, MemoryLock, MemoryNode, Replies};
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::host::HashMap;
use crate::base::limit::Limit;
use crate::base::owner::Origin;
use crate::base::span::Span;
use crate::base::token::{self, Token, TokenSource};
use crate::engine::protocol::{
    Action, ConnectionEvent, Disconnected, Id, Inspection, Kind, Mode, Refusal, Releases, Reply, Request,
    Verdict,
};

/// The ttl that another holder renews all the time.
const TTL: Duration = Duration::from_secs(30);

/// The process of other holders: none has this number.
const ELSEWHERE: u32 = 0;

const UNREACHABLE: &str = "Connection refused: the test has made the node unreachable";

/// All managers of the node share them.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<NodeFaults>>);

#[derive(Default)]
struct NodeFaults {
    is_unreachable: bool,
    /// The words with which the node refuses each request.
    refusal: Option<Arc<str>>,
    /// How long a request and its reply take together.
    latency: Duration,
    /// The inboxes of the connections.
    inboxes: Vec<Inbox>,
    /// The locks that other holders renew, and their tokens.
    elsewhere: Vec<(Arc<str>, Token)>,
}

impl Faults {
    #[expect(clippy::unnecessary_wraps, reason = "without the feature there are none")]
    pub(super) fn none() -> Option<Self> {
        Some(Self::default())
    }

    pub(super) fn renew_elsewhere(&self, locks: &mut HashMap<Arc<str>, MemoryLock>, now: Moment) {
        for (name, token) in &self.state().elsewhere {
            let Some(lock) = locks.get_mut(name) else { continue };
            let alone = lock.holder.as_mut().filter(|holder| holder.token == *token);
            let beside_others = lock.inside.get_mut(token).map(|member| &mut member.expires);
            if let Some(expires) = alone.map(|holder| &mut holder.expires).or(beside_others) {
                *expires = now.after(TTL);
            }
        }
    }

    pub(super) fn is_reachable(&self) -> bool {
        !self.state().is_unreachable
    }

    pub(super) async fn connect(&self, timeout: Duration, inbox: &Inbox) -> Result<(), Disconnected> {
        let latency = self.state().latency;
        if !latency.is_zero() {
            sleep(latency.min(timeout)).await;
        }
        let mut state = self.state();
        if state.is_unreachable {
            return Err(Disconnected::passing(UNREACHABLE));
        }
        if latency > timeout {
            return Err(Disconnected::passing(format!("Redis did not answer within {}", Span(timeout))));
        }
        state.inboxes.retain(|inbox| !inbox.is_closed());
        state.inboxes.push(inbox.clone());
        Ok(())
    }

    pub(super) fn submit(&self, node: &MemoryNode, requests: &[(Id, Request)], inbox: &Inbox) -> Replies {
        let latency = self.state().latency;
        if latency.is_zero() {
            return Box::pin(std::future::ready(self.reply(node, requests, inbox)));
        }
        let (faults, node, requests, inbox) = (self.clone(), node.clone(), requests.to_vec(), inbox.clone());
        // The node executes them half way.
        let sent = Instant::now();
        let (arrived, answered) = (sleep_until(sent + latency / 2), sleep_until(sent + latency));
        Box::pin(async move {
            arrived.await;
            let replies = faults.reply(&node, &requests, &inbox);
            answered.await;
            replies
        })
    }

    fn reply(
        &self,
        node: &MemoryNode,
        requests: &[(Id, Request)],
        inbox: &Inbox,
    ) -> Result<Vec<Reply>, Disconnected> {
        let (is_unreachable, refusal) = {
            let state = self.state();
            (state.is_unreachable, state.refusal.clone())
        };
        if is_unreachable {
            return Err(Disconnected::passing(UNREACHABLE));
        }
        let refused = |words: &Arc<str>| Reply::Refused(Refusal::Permanent(Arc::clone(words)));
        Ok(match &refusal {
            Some(words) => requests.iter().map(|_| refused(words)).collect(),
            None => node.execute_all(node.clock.now(), requests, inbox),
        })
    }

    fn state(&self) -> MutexGuard<'_, NodeFaults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryNode {
    fn change(&self, change: impl FnOnce(&mut NodeFaults)) {
        if let Some(faults) = &self.faults {
            change(&mut faults.state());
        }
    }

    pub(crate) fn set_unreachable(&self) {
        self.change(|state| {
            state.is_unreachable = true;
            for inbox in state.inboxes.drain(..) {
                // Its manager may have gone, here and below.
                let _ = inbox.send(ConnectionEvent::Closed("Redis closed the connection".into()));
            }
        });
    }

    pub(crate) fn set_latency(&self, latency: Duration) {
        self.change(|state| state.latency = latency);
    }

    pub(crate) fn refuse(&self, words: &str) {
        self.change(|state| state.refusal = Some(words.into()));
    }

    /// The node is as at its start, except for its locks.
    pub(crate) fn recover(&self) {
        self.change(|state| {
            (state.is_unreachable, state.refusal, state.latency) = (false, None, Duration::ZERO);
        });
    }

    /// From now on the time of the node is this, and goes on.
    pub(crate) fn set_time(&self, since_1970: Duration) {
        self.store().ticks.set_time(since_1970, self.clock.now());
    }

    /// As after `FLUSHALL`. Fencing tokens grow all the same: on a server they begin with its time.
    pub(crate) fn lose_data(&self) {
        let mut store = self.store();
        for (name, mut lock) in store.locks.drain() {
            lock.take_away(&name);
        }
        store.ticks.forget();
        store.records.lose_all();
        drop(store);
        self.change(|state| {
            state.elsewhere.clear();
            for inbox in &state.inboxes {
                let _ = inbox.send(ConnectionEvent::Changed(None));
            }
        });
    }

    pub(crate) fn inspect(&self, name: &Arc<str>) -> Option<Inspection> {
        self.ask(Action::Inspect, name, &Token::empty(), Duration::ZERO).found().ok().flatten()
    }

    /// As an operator of another process does it.
    pub(crate) fn force_release(&self, name: &Arc<str>) -> Option<Inspection> {
        self.ask(Action::ForceRelease, name, &Token::empty(), Duration::ZERO).found().ok().flatten()
    }

    /// As an operator of another process does it, who has seen this holder. True when it had the lock.
    pub(crate) fn release_from(&self, name: &Arc<str>, token: Token, release: Releases) -> bool {
        let request = Request::new(Action::Release, Arc::clone(name), token, Duration::ZERO);
        self.execute_here(&Request { release, ..request }) == Reply::Done
    }

    /// Takes the lock for another process, which renews it, or keeps it for this long.
    pub(crate) fn hold_elsewhere(
        &self,
        key: &Arc<str>,
        name: &Arc<str>,
        function: &str,
        limit: Limit,
        lasts: Option<Duration>,
    ) -> Result<Token, LockError> {
        let token = TokenSource::default()
            .token(ELSEWHERE, &Origin::Label(function.into()))
            .map_err(|error| LockError::unavailable(key, token::no_random(error)))?;
        let ttl = lasts.unwrap_or(TTL);
        let request = Request::new(Action::Acquire(Mode::OneTry), Arc::clone(name), token.clone(), ttl);
        match self.execute_here(&Request { kind: Kind::of_limit(limit), ..request }) {
            Reply::Acquire(Verdict::Busy { holder, .. }) => {
                return Err(LockError::Busy { key: Arc::clone(key), holder: holder.into() });
            }
            _ if lasts.is_none() => {
                self.change(|state| state.elsewhere.push((Arc::clone(name), token.clone())));
            }
            _ => {}
        }
        Ok(token)
    }

    pub(crate) fn release_elsewhere(&self, name: &Arc<str>, token: &Token) {
        self.change(|state| state.elsewhere.retain(|(_, other)| other != token));
        self.ask(Action::Release, name, token, Duration::ZERO);
    }

    /// The node executes it, in any state.
    fn ask(&self, action: Action, name: &Arc<str>, token: &Token, ttl: Duration) -> Reply {
        self.execute_here(&Request::new(action, Arc::clone(name), token.clone(), ttl))
    }

    fn execute_here(&self, request: &Request) -> Reply {
        let (inbox, _) = unbounded_channel();
        self.execute(request, &inbox, self.clock.now())
    }
}
