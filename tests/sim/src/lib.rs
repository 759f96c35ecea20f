//! The simulated fleet: processes, servers, the network and the time between them, in one thread,
//! from one seed.
//!
//! ```text
//! cargo run --release -p redlocked-sim --example simulate -- --hours 8                what it has seen, and the first violation
//! cargo run --release -p redlocked-sim --example simulate -- --seed 42 --shrink       one schedule, as short as it gets, traced
//! cargo run --release -p redlocked-sim --example simulate -- --about full-server      plans about one matter: `plan/stuck.rs`
//! cargo run --release -p redlocked-sim --example mutants                              puts each known defect back, and looks
//! ```
//!
//! | real | simulated |
//! | --- | --- |
//! | requests, guards, the lock table, the event loop, where it runs and who moves it, all transports, and the bytes that they exchange | sockets, clocks, threads, random numbers: [`world`] |
//! | the scripts, in Lua 5.1 | the servers around them, held against real ones by `tests/like_real_servers`: [`server`] |
//! | tokio's tasks, timers and channels | callers, and what goes wrong: [`plan`], [`callers`], [`faults`], [`groups`] |
//!
//! What must hold is in [`oracle`], and for a fleet that nothing disturbs in [`promises`] and
//! [`commands`]. What attempts have met in the lock table, and what never, is in [`coverage`]. A
//! schedule is a [`plan`], drawn from its seed; a plan that violates a property becomes shorter by
//! [`shrink`].
//!
//! **What it cannot find:**
//!
//! - What two threads do to each other between two instructions: all is one thread. The hand-over
//!   of the loop between blocked callers and its own thread (`engine/runner/fallback_runtime.rs`) does not
//!   run here, and neither do sync callers, whose thread would be that of everything else.
//! - What happens within a millisecond: tokio's clock moves in such steps. The order within one is
//!   drawn from the seed.
//! - Bugs of the servers themselves, and of sockets: TLS, unix sockets, DNS, keep-alive.
//! - A loss of locks that is known too late: after a flush, a restart without data, a failover or a
//!   jump of the server's clock, two callers may be inside until the holder learns of it, and the
//!   simulation does not measure how long that takes.
//! - What a forked child destroys: the simulated one looks at its parent's memory, and asks through
//!   it, but has no copy of it to drop.
//! - Changing passwords, several sentinels, a Cluster that moves a slot key by key, and a server
//!   that evicts keys by itself. What an eviction does to a lock or a queue, a plan does by
//!   deleting it.

pub mod callers;
pub mod commands;
pub mod coverage;
pub mod exits;
pub mod faults;
pub mod forks;
pub mod groups;
pub mod leads;
pub mod mutants;
pub mod once;
pub mod oracle;
pub mod plan;
pub mod promises;
pub mod room;
pub mod run;
pub mod server;
pub mod shrink;
pub mod tickets;
pub mod ticks;
pub mod world;
