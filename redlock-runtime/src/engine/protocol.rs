//! What the engine asks of a node, and what a node answers. The same for Redis and for `memory://`.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Holder;
use crate::token::Token;

/// One script call. Each is idempotent by token: a lost reply is answered by asking again.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) action: Action,
    /// The key on the server, with its prefix.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Take the lock if it is free, or if it is this token's already; then it expires after the ttl.
    Acquire { ttl: Duration },
    /// If the lock is this token's, it expires after the ttl.
    Renew { ttl: Duration },
    /// If the lock is this token's, it is free.
    Release,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Acquire: the lock is this token's. Renew: it still is. Release: it was, and is free.
    Done,
    /// Acquire: it is somebody else's.
    Busy(Holder),
    /// Renew, release: it is not this token's.
    NotMine,
    /// The server did not do it.
    Refused(Refusal),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server does not know the script yet: the same request again carries its source.
    Unloaded,
    /// Loading, failing over, busy with a script …: it passes.
    Later(Arc<str>),
    /// No permission, out of memory, a key of another type …: it stays until somebody acts.
    Never(Arc<str>),
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disconnected {
    pub(crate) reason: Arc<str>,
    /// The server answered and turned us away (wrong password …): waiting does not help.
    pub(crate) turned_away: bool,
}
