//! A flash sale: 2,000 requests, 1,000 at a time, for 500 items, at three servers. Once without the
//! lock, which sells more than there is, and once with it.
//!
//! ```text
//! cargo run --example flash_sale                          # a redis-server from PATH, else memory://
//! cargo run --example flash_sale -- --redis redis://…     # or REDIS_URL=redis://…
//! ```
//!
//! Where to look: [`shop`] has the annotated handler, [`server`] serves it, [`crowd`] sends the
//! requests; [`stage`] starts everything and leaves nothing behind; [`report`] and [`lanes`] show
//! what happened.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

mod backend;
mod child;
mod crowd;
mod diary;
mod keeper;
mod lanes;
mod report;
mod server;
mod shop;
mod stage;
mod stock;

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use backend::Backend;
use crowd::Crowd;
use report::{Outcome, Report};
use shop::Sale;
use stage::Stage;

/// The error of every part of this program, which only prints it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

const ITEMS: u32 = 500;
const REQUESTS: usize = 2_000;
const AT_A_TIME: usize = 1_000;

const USAGE: &str = "usage: flash_sale [--redis URL]
With neither --redis nor REDIS_URL it starts a redis-server for itself; with none on PATH it runs on memory://.";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => sale(std::env::var("REDIS_URL").ok().filter(|url| !url.is_empty())).await,
        ["--redis", url] => sale(Some(url.to_owned())).await,
        // The other roles of this program, which it starts itself.
        [server::COMMAND, number] => server::run(number).await,
        [keeper::COMMAND] => keeper::run().await,
        ["--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("`{}` is not what it takes\n{USAGE}", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both sales, until Ctrl-C. All that was started is gone afterwards.
async fn sale(redis: Option<String>) -> Result<(), Failure> {
    let mut stage = Stage::new();
    let outcome = tokio::select! {
        biased;
        failure = stage::interrupted() => Err(failure),
        outcome = both_sales(&mut stage, redis) => outcome,
    };
    let cleared = stage.clear().await;
    let report = outcome?;
    writeln!(stdout(), "{report}")?;
    cleared?;
    report.verdict()
}

async fn both_sales(stage: &mut Stage, redis: Option<String>) -> Result<Report, Failure> {
    let backend = Backend::choose(stage, redis).await?;
    writeln!(stdout(), "{backend}")?;
    let at_a_time = crowd::room_for(AT_A_TIME);
    let servers = stage.open_shop(&backend).await?;
    writeln!(
        stdout(),
        "{REQUESTS} requests, {at_a_time} at a time, for {ITEMS} items, at {} servers in turn\n",
        servers.len()
    )?;

    let mut crowd = Crowd::gather(servers, at_a_time).await?;
    let mut outcomes = Vec::new();
    for sale in [Sale::Unlocked, Sale::Locked] {
        backend.put_on_sale(stage.sku(), ITEMS).await?;
        let before = backend.lock_commands().await;
        let purchases = crowd.rush(sale, stage.sku()).await?;
        let visits = crowd.diaries().await?;
        let after = backend.lock_commands().await;
        let commands = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        outcomes.push(Outcome { sale, purchases, visits, commands });
    }
    Ok(Report { outcomes })
}
