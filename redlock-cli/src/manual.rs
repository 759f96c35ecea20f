//! `redlocked completions` and `redlocked man`: the command line, described to a shell and to
//! `man`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::exit::{Failure, OK, USAGE};

const NAME: &str = "redlocked";

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), NAME, &mut text);
    io::stdout().write_all(&text)?;
    Ok(OK)
}

pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    if let Some(folder) = &args.dir {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Args::command(), folder))
            .map_err(|error| {
                Failure::new(USAGE, format!("cannot write pages into {}: {error}", folder.display()))
            })?;
        return Ok(OK);
    }
    let mut described = Args::command();
    // Each page has the options of the whole program, too.
    described.build();
    let page = match &args.command {
        None => described,
        Some(name) => {
            let command = described.find_subcommand(name).cloned();
            let unknown = || Failure::new(USAGE, format!("there is no command `{name}`"));
            command.ok_or_else(unknown)?.display_name(format!("{NAME}-{name}"))
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    io::stdout().write_all(&text)?;
    Ok(OK)
}
