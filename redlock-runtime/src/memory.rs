//! `memory://`: the same protocol inside one process, for unit tests of annotated functions and for the first
//! run. Everything above the node (engine, leases, renewals, queues) is the code that runs against Redis.
//!
//! Managers that are connected to the same name share their locks; `memory://` without a name is a name too.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::{Action, Reply, Request};
use crate::error::Holder;
use crate::token::{self, Token};

type Locks = Mutex<HashMap<Arc<str>, Lock>>;

struct Lock {
    token: Token,
    expires: Moment,
}

static BY_NAME: LazyLock<Mutex<HashMap<String, Weak<Locks>>>> = LazyLock::new(Mutex::default);

/// The locks of one name.
#[derive(Clone)]
pub(crate) struct MemoryNode(Arc<Locks>);

impl MemoryNode {
    /// The node of that name; it exists as long as a manager is connected to it.
    pub(crate) fn named(name: &str) -> Self {
        // A panic while one of these is locked leaves the map whole: every change is a single call.
        let mut by_name = BY_NAME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = by_name.get(name).and_then(Weak::upgrade) {
            return Self(locks);
        }
        let locks = Arc::new(Locks::default());
        by_name.retain(|_, locks| locks.strong_count() > 0);
        by_name.insert(name.to_owned(), Arc::downgrade(&locks));
        Self(locks)
    }

    /// What the scripts do, on a map instead of a keyspace.
    pub(crate) fn execute(&self, request: &Request, now: Moment) -> Reply {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.get(&request.name).is_some_and(|lock| lock.expires <= now) {
            locks.remove(&request.name);
        }
        let mine = locks.get(&request.name).map(|lock| lock.token == request.token);
        let held_for = |ttl: Duration| Lock { token: request.token.clone(), expires: now.after(ttl) };
        match (request.action, mine) {
            (Action::Acquire { ttl }, None | Some(true)) | (Action::Renew { ttl }, Some(true)) => {
                locks.insert(Arc::clone(&request.name), held_for(ttl));
                Reply::Done
            }
            (Action::Acquire { .. }, Some(false)) => Reply::Busy(match locks.get(&request.name) {
                Some(lock) => Holder {
                    name: token::owner_of(lock.token.value()).map(Arc::from),
                    free_in: Some(lock.expires.since(now)),
                },
                None => Holder::default(),
            }),
            (Action::Release, Some(true)) => {
                locks.remove(&request.name);
                Reply::Done
            }
            (Action::Renew { .. } | Action::Release, _) => Reply::NotMine,
        }
    }
}
