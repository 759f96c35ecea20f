//! `redlocked`: looks at the locks of [redlocked](https://docs.rs/redlocked) on Redis, takes them
//! away, and runs any program under one. `redlocked --help` describes every command.

mod alive;
mod args;
#[cfg(unix)]
mod diary;
mod doctor;
mod elsewhere;
mod exit;
mod leader;
mod list;
mod lock_text;
mod manual;
mod once;
mod output;
mod permits;
mod release;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod screen;
#[cfg(feature = "serve")]
mod serve;
mod server;
mod show;
mod stderr;
mod table;
mod tick;
#[cfg(unix)]
mod top;
mod wait;
mod waiting;

#[cfg(unix)]
use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command, OnceCommand, TickCommand};
use crate::exit::Failure;

fn main() -> ExitCode {
    // Only `run` calls these: no part of the command line that is described to people.
    #[cfg(unix)]
    match std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str) {
        Some(run::watchdog::COMMAND) => return end(run::watchdog::watchdog()),
        Some(run::gate::COMMAND) => return end(run::gate::gate()),
        _ => {}
    }
    match Args::try_parse() {
        Ok(args) => end(command(args)),
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // Nothing is left to do where the help cannot be printed.
            let _ = error.print();
            ExitCode::from(code)
        }
    }
}

fn end(outcome: Result<u8, Failure>) -> ExitCode {
    let code = outcome.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            stderr::fail(&failure.message);
        }
        failure.code
    });
    ExitCode::from(code)
}

fn command(args: Args) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = args.server;
        match args.command {
            Command::List(args) => list::list(&server, &args).await,
            Command::Show(args) => {
                show::show(&server.connect_to_read().await?, &server.prefix()?, &args).await
            }
            #[cfg(unix)]
            Command::Top(args) => top::top(&server.connect_to_read().await?, &server.prefix()?, &args).await,
            #[cfg(unix)]
            Command::Watch(args) => diary::watch(&server.connect_to_read().await?, &args).await,
            Command::Ping => doctor::ping(&server.connect_to_read().await?).await,
            Command::Doctor(args) => doctor::doctor(&server, &args).await,
            Command::Leader(args) => {
                leader::leader(&server.connect_to_read().await?, &server.prefix()?, &args).await
            }
            Command::Resign(args) => leader::resign(&server.connect().await?, &server.prefix()?, &args).await,
            Command::Once(OnceCommand::Show(args)) => {
                once::show(&server.connect_to_read().await?, &server.prefix()?, &args).await
            }
            Command::Once(OnceCommand::Clear(args)) => {
                once::clear(&server.connect().await?, &server.prefix()?, &args).await
            }
            Command::Tick(TickCommand::Show(args)) => {
                tick::show(&server.connect_to_read().await?, &server.prefix()?, &args).await
            }
            Command::Tick(TickCommand::Clear(args)) => {
                tick::clear(&server.connect().await?, &server.prefix()?, &args).await
            }
            Command::Permits(args) if args.permits.is_none() && !args.clear => {
                permits::show(&server.connect_to_read().await?, &args.key).await
            }
            Command::Permits(args) => permits::set(&server.connect().await?, &args).await,
            Command::Wait(args) => {
                wait::wait(&server.connect_to_read().await?, &server.prefix()?, &args).await
            }
            Command::Release(args) => {
                release::release(&server.connect().await?, &server.prefix()?, &args).await
            }
            #[cfg(unix)]
            Command::Run(args) => run::run(&server, args).await,
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::serve(&server, &args).await,
            Command::Completions(args) => manual::completions(&args),
            Command::Man(args) => manual::man(&args),
        }
    })
}
