//! The clients: worker processes, each with its role, and a foreign client that takes the same
//! locks by hand.

pub mod bodies;
pub mod caller;
pub mod fleet;
pub mod foreign_client;
pub mod many_callers;
pub mod refused;
pub mod report;
pub mod shares;
pub mod ticker;
pub mod tickets;
pub mod worker;
