//! How a key is locked, whichever it is: the numbers, their checks, and what is sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Moment;
use crate::engine::{Ask, Command, Id};
use crate::error::LockError;
use crate::key;
use crate::lease::{MAX_TTL_MS, MIN_TTL};
use crate::manager::LockManager;
use crate::nesting::{self, Hold};
use crate::request::{OnLost, Step};
use crate::token::{self, Token};

/// How each key is locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// `None`: for ever.
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) reentrant: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Some(Duration::ZERO),
            renew: true,
            max_hold: None,
            min_hold: None,
            on_lost: OnLost::default(),
            reentrant: false,
        }
    }
}

/// When an attempt began, and when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) started: Moment,
    /// A busy lock is an error at once.
    pub(crate) one_try: bool,
    /// `None`: waits for ever.
    pub(crate) gives_up_at: Option<Moment>,
}

impl Terms {
    /// The key, if it can be locked like this.
    pub(crate) fn check(&self, manager: &LockManager, key: String) -> Result<Arc<str>, LockError> {
        key::validate(manager.prefix(), &key)?;
        let key: Arc<str> = key.into();
        check_ttl(&key, self.ttl)?;
        check_hold(&key, self.min_hold, self.max_hold)?;
        Ok(key)
    }

    /// The lock that the caller holds itself, to join it.
    pub(crate) fn joins(&self, manager: &LockManager, key: &Arc<str>) -> Result<Option<Hold>, LockError> {
        let outer = nesting::held_here(manager.engine(), key);
        if outer.is_some() && !self.reentrant {
            return Err(LockError::Deadlock { key: Arc::clone(key) });
        }
        Ok(outer)
    }

    pub(crate) fn patience(&self, manager: &LockManager) -> Patience {
        let started = Moment::now();
        let one_try = self.wait == Some(Duration::ZERO);
        let limit = if one_try { Some(manager.io_timeout()) } else { self.wait };
        Patience { started, one_try, gives_up_at: limit.map(|limit| started.after(limit)) }
    }

    /// Registers the attempt and sends it off.
    pub(crate) fn ask(
        &self,
        manager: &LockManager,
        key: Arc<str>,
        patience: Patience,
    ) -> Result<Step, LockError> {
        let name = manager.name(&key);
        let (step, (id, ask, token)) = self.attempt(manager, key, name, patience, None)?;
        manager.engine().send(Command::Acquire { id, ask, token });
        Ok(step)
    }

    /// An attempt that is yet to be sent off, perhaps behind another one.
    pub(crate) fn attempt(
        &self,
        manager: &LockManager,
        key: Arc<str>,
        name: Arc<str>,
        patience: Patience,
        follows: Option<Id>,
    ) -> Result<(Step, (Id, Ask, Token)), LockError> {
        let token = Token::random().map_err(|error| LockError::unavailable(&key, token::no_random(error)))?;
        let (caller, outcome) = oneshot::channel();
        let ask = Ask {
            name,
            key,
            ttl: self.ttl,
            renew: self.renew,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            one_try: patience.one_try,
            follows,
            max_waiters: manager.max_waiters(),
            started: patience.started,
            gives_up_at: patience.gives_up_at,
            caller: Some(caller),
        };
        let engine = Arc::clone(manager.engine());
        let id = engine.new_id();
        let key = Arc::clone(&ask.key);
        Ok((Step::Asked { engine, id, key, outcome }, (id, ask, token)))
    }
}

pub(crate) fn check_ttl(key: &Arc<str>, ttl: Duration) -> Result<(), LockError> {
    if ttl >= MIN_TTL && ttl.as_millis() <= u128::from(MAX_TTL_MS) {
        return Ok(());
    }
    let reason = format!("a ttl of {ttl:?} is out of range; it must be at least 10 ms and below 2^53 ms");
    Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
}

fn check_hold(key: &Arc<str>, min: Option<Duration>, max: Option<Duration>) -> Result<(), LockError> {
    let reason = if max.is_some_and(|max| max < MIN_TTL) {
        "a `max_hold` must be at least 10 ms"
    } else if min.is_some_and(|min| min.as_millis() > u128::from(MAX_TTL_MS)) {
        "a `min_hold` must be below 2^53 ms"
    } else if min.zip(max).is_some_and(|(min, max)| min > max) {
        "`min_hold` is longer than `max_hold`"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
}
