//! The records of bodies that run once, with the effects of `acquire_once.lua` and `finish.lua`.

use std::time::Duration;

use super::{Arc, HashMap, MemoryLock, Moment, Request, Token, Verdict, token, wall_clock};
use crate::engine::protocol::{NotRun, Once, OnceRequest, Run, RunRecord};

/// By the name of the lock.
#[derive(Default)]
pub(super) struct Records {
    by_name: HashMap<Arc<str>, Record>,
    /// With more than so many, those that have expired are removed.
    purge_above: usize,
}

/// The record of one body, until it expires.
#[derive(Clone)]
struct Record {
    expires: Moment,
    runner: Token,
    known: RunRecord,
    /// The record of the result that could not be decoded, while the body runs again.
    before: Option<Box<Record>>,
}

impl Record {
    /// The one before it, as long as it lasts.
    fn before(&self, now: Moment) -> Option<&Self> {
        self.before.as_deref().filter(|before| before.expires > now)
    }

    /// The record of a result, of which nothing is done again yet.
    fn done(&self, now: Moment) -> Option<&Self> {
        if self.known.result.is_some() { Some(self) } else { self.before(now) }
    }
}

impl Records {
    fn get(&self, name: &Arc<str>, now: Moment) -> Option<&Record> {
        self.by_name.get(name).filter(|record| record.expires > now)
    }

    pub(super) fn known(&self, name: &Arc<str>, now: Moment) -> Option<RunRecord> {
        self.get(name, now).map(|record| record.known.clone())
    }

    /// The locks of which something is known.
    pub(super) fn names(&self, now: Moment) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.iter().filter(move |(_, record)| record.expires > now).map(|(name, _)| name)
    }

    /// True when something was known.
    pub(super) fn clear(&mut self, name: &Arc<str>, now: Moment) -> bool {
        self.by_name.remove(name).is_some_and(|record| record.expires > now)
    }

    /// As a server that has lost its data.
    #[cfg(feature = "testing")]
    pub(super) fn lose_all(&mut self) {
        self.by_name.clear();
    }

    /// Takes the lock, unless the body is done.
    pub(super) fn acquire(
        &mut self,
        request: &Request,
        of: &OnceRequest,
        lock: &mut MemoryLock,
        now: Moment,
        acquire: impl FnOnce(&mut MemoryLock) -> Verdict,
    ) -> Verdict {
        match self.look(request, &of.once, now) {
            Some(why) => Verdict::NotRun { why, kept: lock.keeps(&request.token) },
            None => self.begin(request, &of.once, acquire(lock), now),
        }
    }

    /// Why the body of this request does not run, whoever has the lock.
    fn look(&self, request: &Request, once: &Once, now: Moment) -> Option<NotRun> {
        let record = self.get(&request.name, now)?;
        if record.known.fingerprint != once.fingerprint {
            return Some(NotRun::Reused);
        }
        let result = record.done(now)?.known.result.clone()?;
        (once.ignores.as_ref() != Some(&result)).then_some(NotRun::Done(result))
    }

    /// A body begins whose request has taken its lock, unless one before it was interrupted.
    fn begin(&mut self, request: &Request, once: &Once, verdict: Verdict, now: Moment) -> Verdict {
        if !matches!(verdict, Verdict::Granted { .. } | Verdict::Claimed { .. }) {
            return verdict;
        }
        match self.get(&request.name, now) {
            Some(record) if record.runner == request.token => return verdict,
            Some(Record { known, .. }) if known.result.is_none() && !once.reruns => {
                let why = NotRun::Interrupted { owner: known.owner.clone(), since: known.since };
                return Verdict::NotRun { why, kept: true };
            }
            _ => {}
        }
        // Only a result that cannot be decoded has not been told.
        let before = self.get(&request.name, now).and_then(|record| record.done(now));
        let before = before.map(|before| Box::new(Record { before: None, ..before.clone() }));
        self.set(request, once, None, now);
        if let Some(record) = self.by_name.get_mut(&request.name) {
            record.expires = now.after(lasts_with_its_lock(once, request.ttl));
            record.before = before;
        }
        verdict
    }

    /// The record of a body that runs lasts for as long as its lock, and behind that for `once`.
    pub(super) fn prolong(&mut self, request: &Request, lock: &MemoryLock, now: Moment) {
        let (Some(of), Some(lock_ends)) = (request.kind.once(), lock.expires(&request.token)) else { return };
        if let Some(record) = self.by_name.get_mut(&request.name)
            && record.runner == request.token
            && record.known.result.is_none()
        {
            let ttl = request.ttl.max(lock_ends.since(now));
            record.expires = record.expires.max(now.after(lasts_with_its_lock(&of.once, ttl)));
        }
    }

    /// Stores what has become of a body, before its lock is released. True when the request was
    /// executed before.
    pub(super) fn finish(&mut self, request: &Request, lock: &mut MemoryLock, now: Moment) -> bool {
        let Some(of) = request.kind.once() else { return false };
        let record = self.get(&request.name, now);
        let is_its_own = record.is_some_and(|record| record.runner == request.token);
        let was_done = record.is_some_and(|record| record.known.result.is_some());
        if !lock.is(&request.token) {
            return request.has_result() && is_its_own && was_done;
        }
        match &of.run {
            Run::Done(result) => self.set(request, &of.once, Some(Arc::clone(result)), now),
            Run::Undone if is_its_own && !was_done => {
                let record = self.by_name.remove(&request.name);
                if let Some(before) = record.as_ref().and_then(|record| record.before(now)) {
                    self.by_name.insert(Arc::clone(&request.name), before.clone());
                }
            }
            Run::Undone | Run::Interrupted => {}
        }
        if was_done || request.has_result() {
            lock.notify_done(&request.name);
        }
        false
    }

    fn set(&mut self, request: &Request, once: &Once, result: Option<Arc<[u8]>>, now: Moment) {
        if self.by_name.len() > self.purge_above {
            self.by_name.retain(|_, record| record.expires > now);
            self.purge_above = 2 * self.by_name.len().max(32);
        }
        let (owner, fingerprint) = (token::owner_of(request.token.value()), once.fingerprint.clone());
        let known = RunRecord { since: wall_clock(), owner, fingerprint, result };
        let expires = now.after(once.lasts);
        let record = Record { expires, runner: request.token.clone(), known, before: None };
        self.by_name.insert(Arc::clone(&request.name), record);
    }
}

/// As the scripts count it, with the grace of the lock.
fn lasts_with_its_lock(once: &Once, ttl: Duration) -> Duration {
    once.lasts.saturating_add(ttl).saturating_add(Duration::from_millis(100))
}
