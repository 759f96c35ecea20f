//! The simulated fleet: processes, servers, the network and the time between them, in one thread, from one seed.

pub mod mutants;
pub mod server;
