//! Chaos for as long as you like: processes that take the same few locks while they are frozen and
//! killed, and while the servers are stopped, killed, cut off and flushed; then crowds, bursts,
//! dropped calls, operators, and rights that come and go, one after the other; and a checker of all
//! that the processes did.
//!
//! ```text
//! cargo run --release --example chaos                                 # one server, for a minute
//! cargo run --release --example chaos -- --minutes 30 --nodes 5       # a quorum of five
//! cargo run --release --example chaos -- --nodes cluster --seed 42    # a Cluster; the same random choices each time
//! ```
//!
//! It starts its own servers, with a redis-server from PATH, on free loopback ports, and leaves
//! nothing behind. It ends with an error when it has found something. The faults and the checks are
//! in `tests/kit/src/chaos`; `tests/chaos` runs them for some seconds, and shows that each mistake
//! made on purpose is found. Here: the [`options`], the output ([`program`]), and an orderly end in
//! every case ([`keeper`]).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that is a program: it may panic, and talks to its user"
)]

#[cfg(unix)]
mod keeper;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod program;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    eprintln!("this needs a Unix: processes are stopped and go on");
    std::process::ExitCode::FAILURE
}
