//! The instructions that ten ways to use a lock cost the client and the server, counted by
//! callgrind, beside the figures in `figures.txt`: a figure that has grown by more than 2 % is red
//! until the file is changed.
//!
//! ```text
//! cargo bench --bench counts -- [--write] [WAY]...
//! ```
//!
//! `--write` puts the figures of this run into the file. Each figure is the difference between a
//! run with some locks and one with twice as many, each way in a process of its own, with a server
//! of its own that is counted as well: what starts and ends them is in neither. The caller takes
//! one step after the other, so each request meets a server that waits for it, and the order of
//! events is the same in each run. Instructions are not time; they are what one machine says like
//! another of its kind.
//!
//! Their number depends on the compiler, on the build of the server and on the processor, and the
//! file says which. With another server or processor, the ratio of a figure to that of a lock by
//! hand, counted in the same run, is compared with the ratio in the file: it may grow by 5 %.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench talks to its user, and may panic"
)]

mod callgrind;
mod figures;
mod ways;

use std::process::ExitCode;

use kit::{Arguments, or_usage};

use callgrind::count;
use figures::{Figures, Judged};
use ways::{BY_HAND, WAYS, Way};

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
    // The others are judged by it.
    let by_hand = WAYS.iter().find(|way| way.name == BY_HAND);
    for way in by_hand.into_iter().chain(ways.into_iter().filter(|way| way.name != BY_HAND)) {
        let counted = count(way);
        now.add(way.name, "client", counted.client);
        if let Some(server) = counted.server {
            now.add(way.name, "server", server);
        }
    }
    let judged = now.beside(&figures);
    println!("{judged}");
    if write {
        figures.take(now);
        figures.write();
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
