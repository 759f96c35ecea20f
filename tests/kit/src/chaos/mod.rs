//! Chaos: processes that take locks while they are frozen, killed, cut off and deceived; and a
//! checker of all they did.
//!
//! `tests/chaos` runs it for seconds and shows that the checker finds each mistake made on purpose;
//! `examples/chaos` runs it for hours.
//!
//! | question | module |
//! | --- | --- |
//! | What do the clients do? | [`workload`]: worker processes and their callers, and a foreign client on the same keys |
//! | What goes wrong? | [`environment`]: one server, a quorum, a Cluster, and the proxies in front of them |
//! | Was a promise broken? | [`checker`]: overlaps, fencing tokens, stale writes, liveness, late calls |
//! | When does each step happen? | [`run`]: starts, freezes and kills workers, injects faults at random, collects the reports |
//! | Which faults were injected? | [`event_log`]: the injected faults; [`random`]: the random numbers that a seed repeats |

pub mod checker;
pub mod environment;
pub mod event_log;
pub mod random;
pub mod run;
pub mod workload;
