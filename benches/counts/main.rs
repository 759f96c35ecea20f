//! The instructions that a lock costs the client and the server, in each of the ways to use one,
//! counted by callgrind, beside the figures in `figures.txt`: a figure that has grown by more than
//! 2 % is red until the file is changed; 10 % where two runs of the same code differ.
//!
//! Behind a figure of the server stands how many times it is what is indispensable, which
//! `by_hand.rs` does, and how many times it should be at most. That ratio is compared with the one in
//! the file, too, so that a dearer lock is red with any server.
//!
//! ```text
//! cargo bench --bench counts -- [--write] [WAY]...
//! ```
//!
//! `--write` puts the figures of this run into the file, and those of the server into `BENCHMARKS.md`. Each figure is the difference between a
//! run with some locks and one with twice as many, each way in a process of its own, with a server
//! of its own that is counted as well: what starts and ends them is in neither. The caller takes
//! one step after the other, so each request meets a server that waits for it, and the order of
//! events is the same in each run. Instructions are not time; they are what one machine says like
//! another of its kind.
//!
//! Their number depends on the compiler, on the build of the server and on the processor, and the
//! file says which. With another server or processor, only ratios to what is written by hand, counted
//! in the same run, are compared with those in the file: they may grow by 5 %. A way with many tasks
//! may grow by 10 %, because the order of their events differs.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench talks to its user, and may panic"
)]

mod by_hand;
mod callgrind;
mod figures;
mod page;
mod ways;

use std::process::ExitCode;

use kit::{Arguments, or_usage};

use callgrind::count;
use figures::{Figures, Judged};
use ways::{BY_HAND, PING, WAYS, Way};

fn main() -> ExitCode {
    if ways::was_ordered() {
        return ExitCode::SUCCESS;
    }
    let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
    let usage = format!("usage: cargo bench --bench counts -- [--write] [WAY]...\nways: {}", names.join(" "));
    let (write, ways) = or_usage(read(Arguments::of_this_process()), &usage);
    callgrind::clear();
    let mut figures = Figures::read();
    let mut now = Figures::none_yet();
    let is_beside = |name: &str| ways.iter().any(|way| way.beside.is_some_and(|(beside, _)| beside == name));
    let is_wanted = |way: &Way| {
        [PING, BY_HAND].contains(&way.name)
            || ways.iter().any(|one| one.name == way.name)
            || is_beside(way.name)
    };
    // In their order: those by hand come first.
    for way in WAYS.iter().filter(|way| is_wanted(way)) {
        let counted = count(way);
        now.add(way.name, "client", counted.client);
        if let Some(server) = counted.server {
            let pings = way.pings * now.count(PING, "server").unwrap_or_default();
            now.add(way.name, "server", server.saturating_sub(pings));
        }
    }
    let judged = now.beside(&figures);
    println!("{judged}");
    if write {
        figures.take(now);
        figures.write();
        page::write(&figures);
        return ExitCode::SUCCESS;
    }
    if judged.have_grown() {
        println!("{}", Judged::ADVICE);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn read(mut arguments: Arguments) -> Result<(bool, Vec<&'static Way>), String> {
    // Cargo's own word.
    arguments.flag("--bench");
    let write = arguments.flag("--write");
    let mut ways = Vec::new();
    for name in arguments.names() {
        let way = WAYS.iter().find(|way| way.name == name);
        ways.push(way.ok_or(format!("`{name}` is neither an option nor a way"))?);
    }
    arguments.end()?;
    if ways.is_empty() {
        ways.extend(WAYS);
    }
    Ok((write, ways))
}
