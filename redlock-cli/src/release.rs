//! `redlocked release`.

use std::io::{self, IsTerminal, Write};

use redlocked::LockManager;

use crate::args::ReleaseArgs;
use crate::exit::{CONFLICT, Failure, OK, USAGE};
use crate::lock_text::{LockText, OTHER_CLIENT, printable};

pub(crate) async fn release(locks: &LockManager, args: &ReleaseArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    let free = || Failure::new(CONFLICT, format!("`{key}` is free"));
    if !args.yes {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(Failure::new(USAGE, "there is no terminal to ask on: give --yes"));
        }
        let info = locks.inspect(&args.key).await?.ok_or_else(free)?;
        let asked = LockText { key: args.key.clone(), info };
        if !is_confirmed(&asked)? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not released")));
        }
        // A person takes time to answer, and answered for this holder.
        let info = locks.inspect(&args.key).await?.ok_or_else(free)?;
        if info.holder().name() != asked.info.holder().name() {
            let holder = info.holder().name().unwrap_or(OTHER_CLIENT);
            return Err(Failure::new(
                CONFLICT,
                format!("`{key}` was not released: by now {holder} holds it"),
            ));
        }
    }
    let holder = locks.force_release(&args.key).await?.ok_or_else(free)?;
    let holder = holder.name().unwrap_or(OTHER_CLIENT);
    writeln!(io::stdout(), "released `{key}`, which was held by {holder}")?;
    Ok(OK)
}

fn is_confirmed(lock: &LockText) -> io::Result<bool> {
    let (key, holder, left) = (lock.key(), lock.holder(), lock.lease_left());
    let waiters = lock.info.waiters();
    let mut err = io::stderr();
    write!(err, "`{key}` is held by {holder}, lease left {left}, {waiters} waiting. Take it away? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
