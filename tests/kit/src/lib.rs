//! Code that the tests, the benches, the comparison with the peers and `examples/chaos` share. Not
//! published.
//!
//! | you need | take |
//! | --- | --- |
//! | a Redis server: fresh, durable, with a password, or one for all tests of the process | [`RedisServer`] |
//! | PostgreSQL, MariaDB, MySQL | [`DatabaseServer`] |
//! | several: a Cluster, independent servers, a primary with its sentinels | [`RedisCluster`], [`Quorum`], [`SentinelGroup`] |
//! | servers that speak TLS, and the authority behind their certificates | [`TlsServer`], [`tls_cluster`], [`Authority`] |
//! | a network that holds replies back, adds some, cuts connections or leads elsewhere | [`Proxy`] |
//! | one that delivers a request when its client has long gone | [`LateProxy`] |
//! | one that delivers one part of a batch long before the rest | [`StallingProxy`] |
//! | one with a round trip as long as you like | [`DelayProxy`] |
//! | a script that is broken on purpose, or a reply that is not true | [`Rewriter`] |
//! | a caller in a process of its own, to kill and freeze | [`Worker`] |
//! | a manager, the keys of its held locks, what its ping says, a runtime of one thread, a call that is dropped after some polls or before its reply | [`connect`], [`listed`], [`trouble`], [`runtime`], [`polled`], [`dropped_before_its_reply`] |
//! | to wait for a condition, with a limit | [`eventually`], [`within`], [`LIMIT`] |
//! | to leave out what the version of the server cannot do, and to tell it | [`skipped`], [`RedisServer::known_rules`] |
//! | a name that no other test uses, a free port | [`unique`], [`free_port`] |
//! | the requests that clients send to a server, counted | [`RedisServer::requests`] |
//! | processes under chaos, and the checker of their holds | [`chaos`] |
//! | the contenders of a bench: ours, by hand, over a quorum, by publish and subscribe | [`contender`], [`bare`], [`bare_quorum`], [`wake`] |
//! | what they do: locks that no other caller wants, a flash sale, a server of another version | [`load`], [`sale`], [`second_server`] |
//! | a client and its server on one core, or on two | [`Cores`] |
//! | the command line of a program, each word of which is known | [`Arguments`], [`no_arguments`] |
//! | a library of another language, in a fixed version | [`install`] |
//! | medians, tables, processor time, the memory of a lock | [`figures`], [`weight`] |
//!
//! Every server listens on a free loopback port and ends with its value: tests run side by side,
//! and leave nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::new_without_default,
    reason = "a test may panic, and a bench talks to its user"
)]

mod arguments;
pub mod bare;
pub mod bare_quorum;
mod calls;
#[cfg(unix)]
pub mod chaos;
mod cluster;
pub mod contender;
mod cores;
mod database;
mod delay;
pub mod figures;
pub mod install;
mod late;
pub mod load;
mod names;
mod proxy;
mod quorum;
mod requests;
mod rewriter;
pub mod sale;
mod second_server;
mod sentinel;
mod server;
mod stalling;
mod tls;
mod wait;
pub mod wake;
pub mod weight;
#[cfg(unix)]
mod worker;

pub use arguments::{Arguments, no_arguments, no_bench_arguments, or_usage, second_server_argument};
pub use calls::{
    connect, connect_to, dropped_before_its_reply, listed, next_leader, polled, runtime, trouble,
};
pub use cluster::{RedisCluster, owns};
pub use cores::Cores;
pub use database::DatabaseServer;
pub use delay::DelayProxy;
pub use late::LateProxy;
#[cfg(target_os = "linux")]
pub use names::keeps_alive;
pub use names::{free_port, unique};
pub use proxy::Proxy;
pub use quorum::Quorum;
pub use requests::Requests;
pub use rewriter::Rewriter;
pub use second_server::second_server;
pub use sentinel::{MASTER, SentinelGroup, sentinel};
pub use server::RedisServer;
pub use stalling::StallingProxy;
pub use tls::{Authority, TlsServer, tls_cluster, trusting};
pub use wait::{LIMIT, SECOND, eventually, skipped, within};
#[cfg(unix)]
pub use worker::{Job, Line, Worker, between, listen, now, say};
