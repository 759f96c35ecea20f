//! Chaos: processes that take locks while they are frozen, killed, cut off and deceived; and a checker of what they did.
//!
//! `tests/chaos` runs it for seconds and shows that each mistake made on purpose is found; `examples/chaos` runs it for
//! hours.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`driver`], [`ground`] | the run: starts workers and looks at them; what it needs of the servers below |
//! | [`one_server`], [`nodes`], [`shards`] | the three grounds: one server, a quorum, a Cluster; what is done to each |
//! | [`company`], [`worker`], [`caller`], [`crowd`], [`visit`], [`ticker`] | the processes, their roles, and what a task of one does |
//! | [`stranger`] | a client of another kind on the same keys |
//! | [`history`], [`checker`], [`liveness`], [`calls`] | what the processes said, and whether it may be so |
//! | [`ways`], [`deeds`], [`dice`] | the network between, the list of what was done, the random numbers |

pub mod caller;
pub mod calls;
pub mod checker;
pub mod company;
pub mod crowd;
pub mod deeds;
pub mod dice;
pub mod driver;
pub mod ground;
pub mod history;
pub mod liveness;
pub mod nodes;
pub mod one_server;
pub mod shards;
pub mod stranger;
pub mod ticker;
pub mod visit;
pub mod ways;
pub mod worker;
