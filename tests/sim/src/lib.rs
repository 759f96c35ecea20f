//! The simulated fleet: processes, servers, the network and the time between them, in one thread, from one seed.

pub mod callers;
pub mod faults;
pub mod groups;
pub mod mutants;
pub mod oracle;
pub mod plan;
pub mod promises;
pub mod run;
pub mod server;
pub mod shrink;
pub mod world;
