//! `redlocked release`.

use std::io::{self, IsTerminal, Write};

use redlocked::LockManager;
use redlocked::inspect::LockInfo;

use crate::args::ReleaseArgs;
use crate::elsewhere::free;
use crate::exit::{CONFLICT, Failure, OK, USAGE};
use crate::lock_text::{caller, holder, lease_left, printable};

pub(crate) async fn release(locks: &LockManager, prefix: &str, args: &ReleaseArgs) -> Result<u8, Failure> {
    match take_away(locks, args).await? {
        Some(former) => {
            writeln!(io::stdout(), "released `{}`, which was held by {former}", printable(&args.key))?;
            Ok(OK)
        }
        None => Err(Failure::new(CONFLICT, free(locks, prefix, &args.key).await)),
    }
}

/// Returns who held it; `None` when it is free.
async fn take_away(locks: &LockManager, args: &ReleaseArgs) -> Result<Option<String>, Failure> {
    let key = printable(&args.key);
    if !args.yes {
        must_have_a_terminal()?;
        let Some(asked) = locks.inspect(&args.key).await? else { return Ok(None) };
        if !is_confirmed(&asked)? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not released")));
        }
        // A person takes time to answer, and answered for this holder. One of another kind has no
        // token to take the lock from, and of many holders not all were shown.
        let all_were_shown =
            usize::try_from(asked.inside()).is_ok_and(|inside| inside == asked.holders().len());
        if all_were_shown && locks.force_release_from(&asked).await? {
            return Ok(Some(holder(&asked)));
        }
        let Some(lock) = locks.inspect(&args.key).await? else { return Ok(None) };
        if !lock.has_same_holder(&asked) {
            let message = format!("`{key}` was not released: by now {} holds it", holder(&lock));
            return Err(Failure::new(CONFLICT, message));
        }
    }
    let former = locks.force_release(&args.key).await?;
    Ok(former.map(|former| {
        let holders = former.inside().map(|inside| format!("{inside} callers at once"));
        holders.unwrap_or_else(|| caller(former.name(), former.function()))
    }))
}

fn is_confirmed(lock: &LockInfo) -> io::Result<bool> {
    let (key, holder, left) = (printable(lock.key()), holder(lock), lease_left(lock));
    let waiters = lock.waiters();
    says_yes(&format!("`{key}` is held by {holder}, lease left {left}, {waiters} waiting. Take it away?"))
}

/// An error where nobody can be asked.
pub(crate) fn must_have_a_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(USAGE, "there is no terminal to ask on: give --yes"))
}

/// Asks on the terminal.
pub(crate) fn says_yes(question: &str) -> io::Result<bool> {
    let mut err = io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
