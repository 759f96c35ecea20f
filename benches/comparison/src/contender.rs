//! A contender: a way to run a body under a lock.

pub use kit::contender::{Body, Client, Clients, Outcome, TTL, blocking};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The bare commands. A lock that shares commands among its callers can be faster.
    Reference,
    Ours,
    /// A lock from a classic article.
    Article,
    Peer,
}

/// The workloads that a contender takes part in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// No waiters.
    Free,
    /// One task without waiters, and up to 50 waiters for one lock.
    Some,
    /// Only the flash sale: elsewhere it would equal another contender.
    Sale,
    /// Only where callers wait, for the same reason.
    Waiting,
    Everything,
}

pub struct Contender {
    pub name: &'static str,
    pub kind: Kind,
    pub part: Part,
    pub clients: Clients,
}

pub const REFERENCE: &str = "SET NX PX + compare-and-delete";
pub const PING: &str = "one PING";
